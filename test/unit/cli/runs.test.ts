import { mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { exactly, lasting, relatively } from "#times.ts";
import { parseMoment } from "#cli/flags.ts";
import { decisionWords, stateOf, tookOf } from "#state/run-text.ts";
import { parseAspects, writeReport } from "#cli/show.ts";
import { noteOf, parseStates } from "#cli/runs.ts";
import { factsOf, possibilities } from "#sync/report.ts";
import { configurationFile } from "#cli/runner.ts";
import { chosenRun } from "#cli/known-runs.ts";
import type { RunRecord } from "#state/record.ts";
import { runOf, trippedLimit } from "../../support/runs.ts";

test("an empty ROLLCALL_CONFIG is none", () => {
  vi.stubEnv("ROLLCALL_CONFIG", "");
  expect([configurationFile(undefined), configurationFile("a.yaml")]).toEqual(["config/rollcall.yaml", "a.yaml"]);
  vi.stubEnv("ROLLCALL_CONFIG", "b.yaml");
  expect(configurationFile(undefined)).toBe("b.yaml");
  vi.unstubAllEnvs();
});

const run = (id: string, change: Partial<RunRecord> = {}): RunRecord =>
  runOf({ id, state: "applied", kept: true, ...change });

test("the duration of a run excludes the time it waited for approval", () => {
  const [startedAt, endedAt] = ["2026-11-21T10:12:35.000Z", "2026-11-21T18:12:35.000Z"];
  const stages = [
    { stage: "read", startedAt, milliseconds: 1_500 },
    { stage: "apply", startedAt: endedAt, milliseconds: 700 },
    { stage: "verify", startedAt: endedAt },
  ] as const;
  expect(tookOf({ stages, endedAt })).toBe(2_200);
  expect(tookOf({ stages })).toBeUndefined();
});

test("the list says who decided, and which limits they overrode", () => {
  const at = "2026-11-21T10:12:35.000Z";
  const approvedBy = (name: string, overrides?: "deletes"[]) =>
    ({ decision: "approved", at, by: { name, from: "command line" }, digest: "aa", overrides }) as const;
  const decisions = [approvedBy("ada", ["deletes"]), approvedBy("bob", ["deletes"])];
  expect(noteOf(run("1", { decisions }), 0)).toBe("approved by ada, bob; overriding deletes");
  expect(noteOf(run("1", { decisions: [approvedBy("ada")] }), 0)).toBe("approved by ada");
});

describe("a run is chosen", () => {
  const runs = [
    run("20261121-101235-4f9c2e", { state: "pending" }),
    run("20261121-101200-4fa000", { sync: "partners" }),
    run("20261120-000000-202611"),
    run("20261120-000000-4f9c2e-x"),
  ];

  test.each([
    ["20261121-101235-4f9c2e", 0],
    ["20261121-10123", 0],
    ["latest", 0],
    ["pending", 0],
    ["latest:partners", 1],
    ["latest:staff", 0],
    ["4fa", 1],
    // The beginning of an id goes before what follows the time in another.
    ["20261120-000000-2", 2],
    // A whole id goes before a longer one.
    ["20261120-000000-4f9c2e-x", 3],
  ])("by %s", (wanted, place) => {
    expect(chosenRun(runs, wanted)).toBe(runs[place]);
  });

  test("unless it could be several, or is none", () => {
    expect(() => chosenRun(runs, "20261121")).toThrow(
      "20261121 matches several runs: 20261121-101235-4f9c2e (staff), 20261121-101200-4fa000 (partners)",
    );
    expect(() => chosenRun(runs, "4f9c2e")).toThrow("matches several runs");
    expect(() =>
      chosenRun(
        Array.from({ length: 9 }, (_, at) => run(`2026-${at}`)),
        "2026",
      ),
    ).toThrow("and 4 more");
    expect(() => chosenRun(runs, "9")).toThrow("there is no run 9: `rollcall runs` lists the known runs");
    expect(() => chosenRun(runs, "")).toThrow('there is no run ""');
    expect(() => chosenRun(runs, "latest:\u202E")).toThrow(String.raw`no run of a sync called \u{202e}`);
    expect(() => chosenRun([run("1")], "pending")).toThrow("no run waits for approval");
    expect(() => chosenRun([{ ...run("1"), state: "held", heldBy: "limits" }], "pending")).toThrow(
      "no run waits for approval; 1 is held, and can be approved by its id",
    );
    expect(() => chosenRun([], "latest")).toThrow("there has been no run yet");
  });
});

test("moments and durations, for a person", () => {
  const now = Date.parse("2026-11-21T10:12:35.999Z");
  expect(exactly("2026-11-21T11:12:35.999+01:00")).toBe("2026-11-21 10:12:35Z");
  expect(relatively("2026-11-21T10:12:35.000Z", now)).toBe("just now");
  expect(relatively("2026-11-21T10:11:34.000Z", now)).toBe("1 minute ago");
  expect(relatively("2026-11-19T10:11:34.000Z", now)).toBe("2 days ago");
  expect(relatively("2026-11-22T09:12:37.000Z", now)).toBe("in 23 hours");
  expect([0, 449, 59_949, 59_950, 185_000, 7_380_000].map(lasting)).toEqual([
    "0.0 s",
    "0.4 s",
    "59.9 s",
    "1 min 0 s",
    "3 min 5 s",
    "2 h 3 min",
  ]);
});

test("flags say a moment, states and attributes", () => {
  expect(parseMoment("2026-11-21")).toBe(Date.parse("2026-11-21T00:00:00Z"));
  expect(parseMoment("2026-11-21 08:00")).toBe(Date.parse("2026-11-21T08:00:00Z"));
  expect(parseMoment("2026-11-21T08:00:10+01:00")).toBe(Date.parse("2026-11-21T07:00:10Z"));
  expect(Math.abs(Date.now() - 86_400_000 - parseMoment("24h"))).toBeLessThan(60_000);
  for (const wrong of ["yesterday", "2026-13-01", "0h", "5", "2026-11-21T25:00Z"]) {
    expect(() => parseMoment(wrong), wrong).toThrow("expected a duration like 24h");
  }
  expect(parseStates("pending, no-change", ["held"])).toEqual(["held", "pending", "no change"]);
  expect(parseAspects("mail, groups", ["displayName"])).toEqual(["displayName", "mail", "groups"]);
});

test("what a person can do about a run is what makes sense for it", () => {
  const commands = (rest: Partial<RunRecord>) => possibilities(run("r", rest));
  const limits = [trippedLimit(), trippedLimit({ of: "groups" }), trippedLimit({ limit: "updates", tripped: false })];
  expect(commands({ state: "pending" })).toEqual(["rollcall approve r", 'rollcall reject r --reason "…"']);
  expect(commands({ state: "held", heldBy: "limits", limits })?.[0]).toBe("rollcall approve r --override deletes");
  expect(commands({ state: "held", heldBy: "opinions" })).toEqual(["rollcall plan staff"]);
  expect(commands({ state: "failed", for: ["ada", "group:All of us"] })).toEqual([
    'rollcall plan staff --for ada --for "group:All of us"',
  ]);
  expect(commands({ state: "expired", undoes: "q" })).toEqual(["rollcall undo q"]);
  expect(commands({ state: "applied" })).toEqual(["rollcall undo r"]);
  expect(commands({ state: "applied", kept: false })).toEqual([]);
  expect(commands({ state: "rejected" })).toEqual([]);
});

test("what is known of a run is said in words", () => {
  const by = { name: "ada", from: "command line" };
  const decision = {
    decision: "approved",
    at: "2026-11-21T10:12:35.000Z",
    by,
    digest: "0",
    overrides: ["deletes"],
    selection: { only: ["create"], except: [{ kind: "user", name: "bob" }] },
    reason: "it is meant",
  } as const;
  expect(decisionWords(decision)).toBe(
    "approved by ada (command line); overriding deletes; only create; all but user bob; because: it is meant",
  );
  expect(stateOf(run("r", { state: "held", heldBy: "limits" }))).toBe("held by limits");
  const other = run("later", { undoes: "r", state: "failed" });
  const error = { message: "no", problems: ["one", "two"], advice: "stop" };
  const facts = factsOf(run("r", { cause: "demand", by, error, decisions: [decision] }), [other]);
  expect(Object.fromEntries(facts.map(({ label, lines }) => [label, lines]))).toMatchObject({
    state: ["applied and verified"],
    error: ["no", "  one", "  two"],
    cause: ["on demand by ada (command line)"],
    "undone by": ["run later, failed"],
    time: ["began 2026-11-21 10:12:35Z"],
  });
});

describe("a report is written to a file", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "rollcall-report-"));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  async function* parts(...texts: readonly (string | Error)[]): AsyncIterable<string> {
    for (const text of texts) {
      if (text instanceof Error) throw text;
      yield text;
    }
  }

  test("which is replaced as a whole, or stays as it was", async () => {
    const [file, other] = [join(folder, "report.html"), join(folder, "other.html")];
    await writeReport(file, parts("one", "two"));
    expect(await readFile(file, "utf8")).toBe("onetwo");
    await expect(writeReport(file, parts("three", new Error("broken")))).rejects.toThrow("broken");
    expect(await readFile(file, "utf8")).toBe("onetwo");
    for (const target of [file, join(folder, "missing")]) {
      await rm(other, { force: true });
      await symlink(target, other);
      await expect(writeReport(other, parts("four"))).rejects.toThrow(
        `the report cannot be written to ${other}: it is a symbolic link to ${target}; name that file, or remove the link`,
      );
    }
    expect(await readFile(file, "utf8")).toBe("onetwo");
    expect((await readdir(folder)).sort()).toEqual(["other.html", "report.html"]);
    // Whoever makes a link of the name meanwhile does not get the report either.
    const late = join(folder, "late.html");
    async function* slowly(): AsyncIterable<string> {
      yield "five";
      await symlink(file, late);
    }
    await writeReport(late, slowly());
    expect(await readFile(file, "utf8")).toBe("onetwo");
    expect(await readFile(late, "utf8")).toBe("five");
  });

  test("what is no ordinary file stays what it is", async () => {
    await writeReport("/dev/null", parts("gone"));
    expect((await stat("/dev/null")).isCharacterDevice()).toBe(true);
  });

  test("unless it cannot be", async () => {
    await writeFile(join(folder, "file"), "");
    for (const path of [join(folder, "missing", "report"), join(folder, "file", "report"), folder]) {
      await expect(writeReport(path, parts("x")), path).rejects.toThrow(`the report cannot be written to ${path}`);
    }
  });
});

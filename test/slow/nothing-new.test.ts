import { appendFile, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import csv from "#connectors/csv/index.ts";
import { exists } from "#files/disk.ts";
import { compileRules } from "#principals/compile.ts";
import { hasReadAll } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import type { Sync } from "#sync/sync.ts";
import { byHand, coordinated, directoryOf } from "../e2e/sync/coordinated.ts";
import type { Coordinated } from "../e2e/sync/coordinated.ts";
import { useStaff } from "../e2e/sync/staff.ts";
import { noteLines } from "#plan/note.ts";
import type { Note } from "#plan/note.ts";

// A run with nothing new in its sources and its target reads neither; one that reads the same again plans nothing.
const staff = useStaff();
const { people, folder, service } = staff;
const file = (): string => join(folder(), "people.csv");

let runs: Coordinated;
let rest: Partial<Sync>;
const fresh = { digest: "as configured" };

beforeEach(async () => {
  rest = fresh;
  await people("ada", "grace");
  runs = await coordinated(staff, { approval: "automatic" }, () => rest);
  await runs.run();
});

/** Whether the next run reads the source, and how it ends. */
async function next(): Promise<string> {
  const run = await runs.run();
  const hasRead = run.sources?.every(({ unchangedSince }) => unchangedSince === undefined);
  return `${hasRead === true ? "reads" : "reads nothing"}: ${run.state}`;
}

test("it says since when, and what the last one said; whatever is new is read", async () => {
  expect(await next()).toBe("reads: no change");
  const looked = await runs.run();
  expect(looked).toMatchObject({
    state: "no change",
    sources: [{ users: 2 }],
    counts: { users: { before: 3, after: 3 } },
  });
  expect(noteLines(looked.notes)).toEqual([
    expect.stringMatching(/^nothing has changed since .*; the sources were not read again$/),
  ]);
  expect(looked.stages.map(({ stage }) => stage)).toEqual(["read"]);
  expect(noteLines((await runs.run()).notes)).toEqual(noteLines(looked.notes));

  // The same bytes at another time.
  await utimes(file(), 1, 1);
  expect(await next()).toBe("reads nothing: no change");

  // Somebody changes the target.
  await byHand(service().url, { name: "ada", displayName: "Countess", principalTypeEnum: "LOCAL_USER" });
  expect(await next()).toBe("reads: applied");
  expect(await directoryOf(service().url)).not.toContain("Countess");
  expect(await next()).toBe("reads: no change");
  expect(await next()).toBe("reads nothing: no change");

  // Somebody changes the target, and back.
  await staff.create("local");
  await byHand(service().url, { name: "local", displayName: "other", principalTypeEnum: "LOCAL_USER" });
  expect(await next()).toBe("reads: no change");
  expect(await next()).toBe("reads nothing: no change");

  // The source.
  await appendFile(file(), "edith\n");
  expect(await next()).toBe("reads: applied");
  expect(await next()).toBe("reads: no change");
  expect(await next()).toBe("reads nothing: no change");

  // What the sync is configured to do.
  rest = { ...fresh, limits: { sources: {}, floor: 10, action: "hold", deletes: { percent: 20, per: "run" } } };
  expect(await next()).toBe("reads: no change");
  expect(await next()).toBe("reads nothing: no change");

  // A day later, whatever they say.
  runs.ahead(86_400_001);
  expect(await next()).toBe("reads: no change");
  expect(await next()).toBe("reads nothing: no change");
});

test("a file that is gone fails the run, and what comes back after that is read", async () => {
  expect(await next()).toBe("reads: no change");
  await writeFile(file(), "");
  expect((await runs.run()).error?.message).toContain("people.csv is empty");
  await people("ada", "grace");
  expect(await next()).toBe("reads nothing: no change");
});

test.each<[string, () => Partial<Sync>]>([
  ["somebody leaves later", () => ({ ...fresh, departures: { ...staff.syncOf().departures, after: 86_400_000 } })],
  [
    "rules ask for the time",
    () => ({
      ...fresh,
      rules: compileRules({ users: { name: "entry.login", displayName: "string(now().getFullYear())" } }),
    }),
  ],
  ["nothing identifies its configuration", () => ({ digest: undefined })],
  ["the target cannot say", () => ({ ...fresh, target: { ...staff.syncOf().target, isStill: undefined } })],
])("it reads where %s", async (_, change) => {
  rest = change();
  await people("ada");
  await runs.run();
  await runs.run();
  expect(await next()).toBe("reads: no change");
});

test("what was in doubt at the last read, and its warnings, are still there", async () => {
  await writeFile(file(), "login\nada\nada\ngrace");
  const read = await runs.run();
  expect(read).toMatchObject({ state: "no change", quarantined: 2 });
  const looked = await runs.run();
  expect(looked).toMatchObject({ state: "no change", quarantined: 2 });
  const news = expect.stringMatching(/^nothing has changed since/);
  const warning = expect.stringContaining("the last row has no line end");
  expect(noteLines(looked.notes)).toEqual([...noteLines(read.notes).slice(0, -1), news, warning]);
  const stored = ({ id }: RunRecord): Promise<boolean> =>
    exists(join(folder(), "daemon", "runs", id, "quarantined.parquet"));
  expect([await stored(read), await stored(looked), hasReadAll(looked)]).toEqual([true, false, false]);
});

/** The same people, with a column that no rule reads. */
async function exported(note: string, names: readonly string[] = ["ada", "grace"]): Promise<void> {
  await writeFile(file(), `login,note\n${names.map((name) => `${name},${note}\n`).join("")}`);
}

/** Of the next run, whether it plans, and how it ends. */
async function nextRead(): Promise<string> {
  const { notes, stages, state } = await runs.run();
  const isPlanned = stages.some(({ stage }) => stage === "plan");
  const has = (text: string): boolean => notes.some((note) => note.text.includes(text));
  expect(has("the sources were not read again") || has("the sources were read, and nothing was planned again")).toBe(
    !isPlanned,
  );
  return `${isPlanned ? "plans" : has("not read again") ? "reads nothing" : "plans nothing"}: ${state}`;
}

test("what is read and is the same to the rules is not planned again", async () => {
  await exported("1");
  expect(await nextRead()).toBe("plans: no change");
  await exported("2");
  const looked = await runs.run();
  expect(noteLines(looked.notes)).toEqual([
    expect.stringMatching(/^nothing has changed since .*; the sources were read, and nothing was planned again$/),
  ]);
  expect(looked).toMatchObject({
    state: "no change",
    sources: [{ users: 2 }],
    counts: { users: { before: 3, after: 3 } },
  });
  expect(looked.stages.map(({ stage }) => stage)).toEqual(["read"]);
  // Of the file that was read last.
  expect(await nextRead()).toBe("reads nothing: no change");
  await exported("3");
  expect(await nextRead()).toBe("plans nothing: no change");

  // Somebody changes the target.
  await byHand(service().url, { name: "ada", displayName: "Countess", principalTypeEnum: "LOCAL_USER" });
  await exported("4");
  expect(await nextRead()).toBe("plans: applied");
  await exported("5");
  expect(await nextRead()).toBe("plans: no change");
  await exported("6");
  expect(await nextRead()).toBe("plans nothing: no change");

  // Other records, others in their place, or the same ones in another order.
  await exported("7", ["ada", "grace", "edith"]);
  expect(await nextRead()).toBe("plans: applied");
  await exported("8", ["ada", "edith", "grace"]);
  expect(await nextRead()).toBe("plans: no change");
  await exported("9", ["ada", "edith", "grace"]);
  expect(await nextRead()).toBe("plans nothing: no change");
  await exported("10", ["ada", "edith"]);
  expect(await nextRead()).toBe("plans: applied");
  await exported("11", ["ada", "edith"]);
  expect(await nextRead()).toBe("plans: no change");

  // Rules that read more of it.
  const rules = compileRules({ users: { name: "entry.login", displayName: "entry.login", mail: "entry.note" } });
  rest = { digest: "with mail", rules };
  expect(await nextRead()).toBe("plans: applied");
  await exported("12", ["ada", "edith"]);
  expect(await nextRead()).toBe("plans: applied");
  expect(await directoryOf(service().url)).toContain('"mail":"12"');
});

test("what is read is planned once a day all the same, however often it was the same", async () => {
  await exported("1");
  expect(await nextRead()).toBe("plans: no change");
  runs.ahead(50_000_000);
  await exported("2");
  expect(await nextRead()).toBe("plans nothing: no change");
  runs.ahead(86_400_001);
  expect(await nextRead()).toBe("plans: no change");
  await exported("3");
  expect(await nextRead()).toBe("plans nothing: no change");
});

test("a source that is trusted for longer than a day is planned once a day, without being read", async () => {
  const sources = staff.syncOf().sources.map((each) => ({ ...each, fullReadEvery: 7 * 86_400_000 }));
  rest = { ...fresh, sources };
  expect(await next()).toBe("reads: no change");
  runs.ahead(2 * 86_400_000);
  expect((await runs.run()).stages.map(({ stage }) => stage)).toContain("plan");
  expect(await nextRead()).toBe("reads nothing: no change");
});

test("a source that cannot say whether anything is new is read, and compared", async () => {
  const [{ name, source } = { name: "", source: undefined }] = staff.syncOf().sources;
  if (source === undefined) throw new Error("no source");
  rest = { ...fresh, sources: [{ name, source: { ...source, version: undefined } }] };
  expect(await nextRead()).toBe("plans: no change");
  expect(await nextRead()).toBe("plans nothing: no change");
  expect(await nextRead()).toBe("plans nothing: no change");
  await appendFile(file(), "edith\n");
  expect(await nextRead()).toBe("plans: applied");
});

test("what is in doubt and read again is still there, and whoever warns now is heard", async () => {
  await writeFile(file(), "login,note\nada,1\nada,1\ngrace,1\n");
  const read = await runs.run();
  expect(read).toMatchObject({ state: "no change", quarantined: 2 });
  await writeFile(file(), "login,note\nada,2\nada,2\ngrace,2");
  const looked = await runs.run();
  const warning = expect.stringContaining("the last row has no line end");
  expect(looked).toMatchObject({ state: "no change", quarantined: 2 });
  expect(noteLines(looked.notes)).toEqual([
    ...noteLines(read.notes),
    expect.stringContaining("nothing was planned again"),
    warning,
  ]);
  expect(noteLines((await runs.run()).notes)).toEqual([
    ...noteLines(read.notes),
    expect.stringContaining("not read again"),
    warning,
  ]);
  const stored = ({ id }: RunRecord): Promise<boolean> =>
    exists(join(folder(), "daemon", "runs", id, "quarantined.parquet"));
  expect([await stored(read), await stored(looked), hasReadAll(looked)]).toEqual([true, false, false]);
});

test("whom another sync's sources have lost is taken over by the next run, though nothing else is new", async () => {
  const { syncOf, runIt } = staff;
  const { protection, departures } = syncOf();
  const own = (): Sync =>
    syncOf(
      {},
      {
        ...fresh,
        protection: { ...protection, others: ["partners"] },
        departures: { ...departures, after: 30 * 86_400_000 },
      },
    );
  const options = csv.options.parse({ users: { file: "partners.csv", id: "login" } });
  const partners = (): Sync =>
    syncOf(
      {},
      {
        ...fresh,
        name: "partners",
        sources: [{ name: "partners", source: csv.open(options, { name: "partners", folder: folder() }) }],
        protection: { ...protection, others: ["staff"] },
      },
    );
  const lines = async (): Promise<string> => {
    let notes: readonly Note[] = [];
    await runIt(partners(), true, {
      report: async (report) => {
        ({ notes } = report);
      },
    });
    return noteLines(notes).join("\n");
  };
  await writeFile(join(folder(), "partners.csv"), "login\nada\n");
  await lines();
  await lines();
  expect(await lines()).toMatch(/another sync owns the user[^]*the sources were not read again/);
  await people("grace");
  await runIt(own());
  expect(await lines()).not.toMatch(/another sync owns|not read again/);
  await lines();
  expect(await lines()).toContain("the sources were not read again");
});

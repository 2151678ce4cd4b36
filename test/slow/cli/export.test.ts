import { mkdir, readFile, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "csv-parse/sync";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { makeCompany, people } from "../../support/rollcall/company.ts";
import { group, startExporting, user } from "./exporting.ts";
import type { Exporting, Principal } from "./exporting.ts";
import { startGate } from "../../support/proxy.ts";
import type { Gate } from "../../support/proxy.ts";
import { rollcall } from "../../support/rollcall/command.ts";
import { startRollcall } from "../../support/rollcall/rollcall.ts";
import type { Ended } from "../../support/rollcall/rollcall.ts";

let exporting: Exporting;
afterEach(() => exporting.end());

const command = (name: string, ...rest: string[]): Promise<Ended> =>
  rollcall([name, "--config", exporting.company.config, ...rest]);

/** The requests of a load, as they go over the network. */
const startOfLoad = /^POST \S+\/public\/loads /;
const chunkOfLoad = /^POST \S+\/public\/loads\/[\w-]+ /;

/** Starts what there is to export, behind a gate that lets everything pass at first. */
async function startGated(): Promise<Gate> {
  exporting = await startExporting();
  const { company, service } = exporting;
  const gate = await startGate(service.url);
  onTestFinished(() => gate.close());
  await company.write("rollcall.yaml", (await readFile(company.config, "utf8")).replace(service.url, gate.url));
  return gate;
}

async function listed(kind: Principal["principalTypeEnum"]): Promise<Principal[]> {
  const principals = await exporting.list();
  return principals.filter(({ principalTypeEnum }) => principalTypeEnum === kind);
}

/** Everything that has gone wrong on the way of a text through CSV, somewhere. */
const awkward = [
  "=cmd|' /C calc'!A0",
  "+1",
  "-1",
  "@sum",
  "＝1",
  "'quoted'",
  'quo"te',
  '"',
  "comma, semi; tab",
  " spaces ",
  "\uFEFFmark",
  "日本 🎉",
  "e\u0301",
  "(null)",
  "NULL",
  "\\N",
  "a\\",
  "a > b",
];
/** What only a description may hold. */
const unruly = ["two\nlines", "\r\nthree\r\n", "\rcr", "\t=tab", "a\u0000b", "\n"];
const directory: readonly Principal[] = [
  ...awkward.map((name) => user(name, { displayName: name, description: name, mail: name, groupNames: [name, "all"] })),
  ...awkward.map((name) => group(name, { displayName: name, description: name, groupNames: ["all"] })),
  ...unruly.map((description, index) => user(`unruly ${index}`, { description })),
  user("name", { displayName: "display_name", mail: "mail", description: "description" }),
  user("unset"),
  user("empty", { description: "", mail: "" }),
  group("all"),
];

test("the tables hold what the service lists, whatever the texts are", async () => {
  exporting = await startExporting();
  await exporting.submit(directory);
  const { code, stdout, stderr } = await command("export");
  expect(code, stderr).toBe(0);
  expect(stdout).toMatch(/^staff: exported analytics to database directory \(.* s\)\n {2}users +28 rows\n/);
  expect(await readdir(join(exporting.company.folder, "data", "daemon", "work"))).toEqual([]);

  const users = (await listed("LOCAL_USER")).map((each) => [
    each.name,
    each.displayName,
    each.mail || null,
    each.description ?? null,
  ]);
  const groups = (await listed("LOCAL_GROUP")).map((each) => [each.name, each.displayName, each.description ?? null]);
  expect(users).toHaveLength(
    directory.filter(({ principalTypeEnum }) => principalTypeEnum === "LOCAL_USER").length + 1,
  );
  expect(await exporting.rows("users")).toEqual(users);
  expect(await exporting.rows("groups")).toEqual(groups);
  const memberships = (await exporting.list()).flatMap(({ name, principalTypeEnum, groupNames = [] }) =>
    groupNames.map((to) => JSON.stringify([principalTypeEnum === "LOCAL_USER" ? "user" : "group", name, to])),
  );
  expect(new Set((await exporting.rows("memberships")).map((row) => JSON.stringify(row)))).toEqual(
    new Set(memberships),
  );
  expect(memberships).toHaveLength(3 * awkward.length);
});

test("nested groups, in a circle too: who is in which group, how deep and through what", async () => {
  exporting = await startExporting();
  await exporting.submit([
    user("ann", { groupNames: ["berths"] }),
    user("bob", { groupNames: ["berths", "operations"] }),
    group("berths", { groupNames: ["planning", "berths"] }),
    group("planning", { groupNames: ["operations"] }),
    group("operations", { groupNames: ["planning"] }),
  ]);
  expect((await command("export", "staff")).code).toBe(0);
  expect(await exporting.rows("effective_memberships")).toEqual([
    ["ann", "berths", 1, "berths"],
    ["ann", "operations", 3, "berths > planning > operations"],
    ["ann", "planning", 2, "berths > planning"],
    ["bob", "berths", 1, "berths"],
    ["bob", "operations", 1, "operations"],
    ["bob", "planning", 2, "berths > planning"],
  ]);
});

test("an export replaces what the one before has put there", async () => {
  exporting = await startExporting();
  await exporting.submit([user("ann", { groupNames: ["a"] }), group("a")]);
  expect((await command("export")).code).toBe(0);
  await exporting.submit([user("bob")]);
  const { code, stdout } = await command("export", "--json");
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toEqual({
    exports: [
      {
        sync: "staff",
        target: "analytics",
        to: "database directory",
        seconds: expect.any(Number),
        tables: [
          { table: "users", rows: 2, seconds: expect.any(Number) },
          { table: "groups", rows: 2, seconds: expect.any(Number) },
          { table: "memberships", rows: 0, seconds: expect.any(Number) },
          { table: "effective_memberships", rows: 0, seconds: expect.any(Number) },
        ],
      },
    ],
  });
  expect((await exporting.rows("users")).map(([name]) => name)).toEqual(["admin", "bob"]);
  expect(await exporting.rows("memberships")).toEqual([]);
  expect(await exporting.rows("effective_memberships")).toEqual([]);
});

test("whoever reads while an export loads sees the rows of before or those of after", async () => {
  exporting = await startExporting({
    sql: { users: "SELECT count(*), min(display_name), max(display_name) FROM users WHERE name <> 'admin'" },
  });
  const generation = (name: string, size: number): Principal[] =>
    Array.from({ length: size }, (_, index) => user(`user ${index}`, { displayName: name }));
  await exporting.submit(generation("first", 8_000));
  expect((await command("export")).code).toBe(0);
  const sizes: Record<string, number> = { first: 8_000, second: 6_000, third: 10_000 };
  const seen = new Set<string>();
  for (const next of ["second", "third"]) {
    await exporting.submit(generation(next, sizes[next] ?? 0));
    const reading = new AbortController();
    const ended = command("export").finally(() => {
      reading.abort();
    });
    while (!reading.signal.aborted) {
      const [row] = await exporting.rows("users");
      const [count, least, most] = row ?? [];
      expect([count, least]).toEqual([sizes[String(most)], most]);
      seen.add(String(most));
    }
    expect((await ended).code).toBe(0);
  }
  expect([...seen]).toEqual(expect.arrayContaining(["first", "second"]));
  expect(await exporting.rows("users")).toEqual([[10_000, "third", "third"]]);
});

describe("a table that cannot be loaded", () => {
  const strict = (sql: string): string => sql.replace("mail VARCHAR,", "mail VARCHAR NOT NULL,");
  const administrator = user("admin", { displayName: "Administrator", mail: "root@example.com" });

  test("keeps what it had; the others are exported, and the failure says which did not arrive and why", async () => {
    exporting = await startExporting({ tables: strict });
    await exporting.submit([administrator, user("ann", { mail: "ann@example.com", groupNames: ["a"] }), group("a")]);
    expect((await command("export")).code).toBe(0);
    await exporting.submit([administrator, user("bob", { groupNames: ["b"] }), group("b")]);
    const { code, stdout, stderr } = await command("export");
    expect(code).toBe(1);
    expect(stderr).toContain(
      "staff: not exported to database directory: users (exported: groups, memberships, effective_memberships); the others are unchanged\n  users: ",
    );
    expect(stderr).toMatch(/column mail: /);
    expect(stdout).not.toContain("users");
    expect((await exporting.rows("users")).map(([name]) => name)).toEqual(["admin", "ann"]);
    expect((await exporting.rows("memberships")).map(([, name]) => name)).toEqual(["bob"]);
    const document = JSON.parse((await command("export", "--json")).stdout) as { exports: object[] };
    expect(document.exports).toMatchObject([
      {
        tables: [
          { table: "users", error: { message: expect.stringContaining("directory.users") } },
          { rows: 3 },
          { rows: 1 },
          { rows: 1 },
        ],
        error: { problems: [expect.stringMatching(/^users: /)] },
      },
    ]);
  });

  test("does not make the run fail: apply says so and ends with 1, and the next one makes up for it", async () => {
    exporting = await startExporting({ tables: strict });
    const applied = await command("apply");
    expect(applied.code).toBe(1);
    expect(applied.stdout).toContain("staff: applied and verified\n");
    expect(applied.stderr).toContain(
      "staff: the run succeeded, but its export failed: not exported to database directory: users (",
    );
    expect((await exporting.rows("memberships")).map(([, name]) => name)).toContain("grace");
    const again = await command("apply", "--json");
    expect(again.code).toBe(1);
    expect(JSON.parse(again.stdout).runs).toMatchObject([
      { outcome: "no change", export: { error: { advice: "fix" }, tables: [{ table: "users" }, {}, {}, {}] } },
    ]);
  });
});

test("a table that is not there is said so, with what makes it", async () => {
  exporting = await startExporting({ tables: () => "CREATE DATABASE IF NOT EXISTS directory;", sql: {} });
  const { code, stderr } = await command("export");
  expect(code).toBe(1);
  expect(stderr).toContain("(exported: none)");
  expect(stderr).toMatch(
    /users: .* there is no such table in the service; make it as config\/sample\/tables\.sql does/,
  );
});

test("after a run that was applied the tables hold what it made; a run without changes leaves them", async () => {
  exporting = await startExporting();
  const applied = await command("apply", "--json");
  expect(applied.code, applied.stderr).toBe(0);
  expect(JSON.parse(applied.stdout).runs).toMatchObject([
    { outcome: "applied", export: { tables: [{ rows: 4 }, { rows: 4 }, { rows: 5 }, { rows: 4 }] } },
  ]);
  expect(await exporting.rows("effective_memberships")).toEqual([
    ["ada", "engines", 1, "engines"],
    ["ada", "staff", 1, "staff"],
    ["grace", "staff", 1, "staff"],
    ["zoe", "staff", 1, "staff"],
  ]);
  expect(JSON.parse((await command("apply", "--json")).stdout).runs[0]).not.toHaveProperty("export");
  await exporting.company.write("people.csv", people.replace("Grace Hopper", "Grace B. M. Hopper"));
  expect((await command("plan")).stdout).not.toContain("exported");
  expect((await command("apply")).stdout).toContain("exported analytics to database directory");
  expect((await exporting.rows("users"))[2]).toEqual(["grace", "Grace B. M. Hopper", "grace@example.com", null]);
});

test("the daemon exports what it applied; what was stopped before it was exported, the next start exports", async () => {
  const gate = await startGated();
  const start = () => startRollcall(["start", "--only", "daemon", "--verbose", "--config", exporting.company.config]);
  const first = start();
  await first.wrote(
    "exported analytics to database directory: 4 users, 4 groups, 5 memberships, 4 effective_memberships",
  );
  first.process.kill("SIGTERM");
  expect((await first.ended).code).toBe(0);

  await exporting.company.write("people.csv", people.replace("Grace Hopper", "Grace B. M. Hopper"));
  const second = start();
  await second.wrote("its next slot is at");
  const stopped = gate.stopAt(startOfLoad);
  second.process.kill("SIGUSR1");
  await stopped;
  second.process.kill("SIGKILL");
  await second.ended;
  const third = start();
  await third.wrote("exported analytics");
  third.process.kill("SIGTERM");
  await third.ended;
  expect((await exporting.rows("users"))[2]?.[1]).toBe("Grace B. M. Hopper");
});

test("Ctrl-C ends an export: the table that was being loaded keeps what it had", async () => {
  const gate = await startGated();
  await exporting.submit([user("ada")]);
  const stopped = gate.stopAt(chunkOfLoad);
  const running = startRollcall(["export", "--verbose", "--config", exporting.company.config]);
  await stopped;
  running.process.kill("SIGINT");
  const { code, stdout, stderr } = await running.ended;
  expect(code, stdout).toBe(1);
  expect(stderr).toContain("cancelling the export");
  expect(stderr).toContain("(exported: none); the others are unchanged\n");
  expect(stderr).toContain("the load into directory.users was cancelled: the table is as it was\n  groups: left out\n");
  expect(await exporting.rows("users")).toEqual([]);
  expect(await readdir(join(exporting.company.folder, "data", "daemon", "work"))).toEqual([]);
});

describe("--to writes CSV files", () => {
  const options = { relax_quotes: false, bom: false } as const;

  test("that a spreadsheet can open: no value begins like a formula, and the mark of UTF-8 is there", async () => {
    exporting = await startExporting();
    await exporting.submit(directory);
    const { code, stdout, stderr } = await command("export", "--to", join(exporting.company.folder, "files"));
    expect(code, stderr).toBe(0);
    expect(stdout).toContain("  users ");
    const folder = join(exporting.company.folder, "files");
    expect((await readdir(folder)).sort()).toEqual([
      "effective_memberships.csv",
      "groups.csv",
      "memberships.csv",
      "users.csv",
    ]);
    for (const file of await readdir(folder)) {
      const text = await readFile(join(folder, file), "utf8");
      expect(text).toMatch(/^\uFEFF"/);
      const [header, ...records] = parse(text.slice(1), options);
      expect(header?.join()).toMatch(/name/);
      for (const value of records.flat()) expect(value).not.toMatch(/^[=+\-@\t\r\n＝＋－＠]/);
    }
    const users = parse(await readFile(join(folder, "users.csv"), "utf8"), { ...options, bom: true });
    expect(users.map(([name]) => name).slice(1)).toEqual(
      (await listed("LOCAL_USER")).map(({ name }) => (/^[=+\-@＝]/.test(name) ? `'${name}` : name)),
    );
    // Nothing went into the tables.
    expect(await exporting.rows("users")).toEqual([]);
  });

  test("with --raw exactly, for programs", async () => {
    exporting = await startExporting();
    await exporting.submit(directory);
    const folder = join(exporting.company.folder, "files");
    expect((await command("export", "--to", folder, "--raw")).code).toBe(0);
    const [header, ...users] = parse(await readFile(join(folder, "users.csv"), "utf8"), options);
    expect(header).toEqual(["name", "display_name", "mail", "description"]);
    expect(users).toEqual(
      (await listed("LOCAL_USER")).map((each) => [
        each.name,
        each.displayName,
        each.mail ?? "",
        each.description ?? "",
      ]),
    );
  });

  test("a header and nothing else where there is nothing; a folder that cannot be written to is said so", async () => {
    exporting = await startExporting();
    const folder = join(exporting.company.folder, "files");
    expect((await command("export", "--to", folder, "--raw")).code).toBe(0);
    expect(await readFile(join(folder, "memberships.csv"), "utf8")).toBe('"member_kind","member_name","group_name"\n');
    await writeFile(join(exporting.company.folder, "file"), "");
    const onFile = await command("export", "--to", join(exporting.company.folder, "file"));
    expect(onFile).toMatchObject({ code: 1, stderr: expect.stringMatching(/file cannot be made/) });
    const misspelled = join(exporting.company.folder, "exprots");
    expect(await command("export", "--to", join(misspelled, "today"))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`cannot be made: there is no folder ${misspelled}; make it first`),
    });
    await expect(stat(misspelled)).rejects.toThrow("ENOENT");
    const groups = join(folder, "groups.csv");
    await writeFile(groups, "id,name\n1,a\n");
    expect(await command("export", "--to", folder)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`${groups} was not written by an export, and would be replaced; choose another`),
    });
    expect(await readFile(groups, "utf8")).toBe("id,name\n1,a\n");
    await writeFile(groups, "");
    // As a spreadsheet saves it.
    await writeFile(join(folder, "users.csv"), "\uFEFFname;display_name;mail;description\r\nada;Ada;;\r\n");
    for (const style of [[], [], ["--raw"], []])
      expect((await command("export", "--to", folder, ...style)).code).toBe(0);
    expect((await command("export", "--to", "")).stderr).toContain("--to is empty: name a folder");
    await mkdir(join(exporting.company.folder, "taken", "users.csv"), { recursive: true });
    const taken = await command("export", "--to", join(exporting.company.folder, "taken"));
    expect(taken).toMatchObject({ code: 1, stderr: expect.stringMatching(/users\.csv cannot be written/) });
  });
});

test("wrong input says what to do", async () => {
  exporting = await startExporting();
  expect(await command("export", "--raw")).toMatchObject({ code: 1, stderr: expect.stringContaining("--to") });
  expect(await command("export", "stuff")).toMatchObject({ code: 1, stderr: expect.stringContaining("staff") });
  const without = await makeCompany();
  for (const sync of [[], ["staff"]])
    expect(await rollcall(["export", ...sync, "--config", without.config])).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/`export: \{ database: … \}`.*--to FOLDER/),
    });
  await without.remove();
});

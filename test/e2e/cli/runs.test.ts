import { readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { companyOfEachTest, people } from "../../support/rollcall/company.ts";

const company = companyOfEachTest();
const { command } = company;

async function shown(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await command(...args);
  expect(code, stderr + stdout).toBe(0);
  return stdout;
}

const daemon = (...path: readonly string[]): string => join(company.folder, "data/daemon", ...path);

/** Another mail for ada, no zoe any more, somebody new with awkward names, and engines without ada. */
const changed = people
  .replace("ada@example.com,active,staff;engines", "ada@example.org,active,staff")
  .replace(/^3,.*\n/m, "")
  .concat('5,=cmd(),<script>alert(1)</script>,"a\u202Eb@example.com",active,staff\n');

/** A first run that creates, one that changes, and one that finds nothing to do. */
async function threeRuns(): Promise<void> {
  await company.applied();
  await company.write("people.csv", changed);
  await company.applied();
  await company.applied();
}

test("runs are listed, the newest first; what they did is shown, chosen and written as a report", async () => {
  await threeRuns();
  const { runs } = JSON.parse(await shown("runs", "--json"));
  expect(runs).toMatchObject([
    { sync: "staff", target: "analytics", state: "no change" },
    { state: "applied", counts: { users: { create: 1, update: 1, delete: 1 } } },
    { state: "applied", counts: { users: { create: 3 }, groups: { create: 2 } } },
  ]);
  const [none, second, first] = runs;
  const table = await shown("runs", "staff");
  expect(table).toMatch(
    new RegExp(
      `^run .*\\n[- ]+\\n${none.id}  staff .* no change .*\\n${second.id} .* applied +users \\+1 ~1 −1 .*\\n${first.id} .* users \\+3, groups \\+2 .*\\n$`,
    ),
  );
  expect(JSON.parse(await shown("runs", "--json", "--state", "applied", "--limit", "1")).runs).toEqual([second]);
  expect(JSON.parse(await shown("runs", "--json", "--since", "2099-01-01")).runs).toEqual([]);

  expect(await shown("show", "latest")).toContain(`run ${none.id}: no change (4 users, `);
  const text = await shown("show", second.id.slice(-6));
  expect(text).toContain("state    applied and verified");
  expect(text).toMatch(/ {2}stages {3}read .*\n(?: {11}\w.*\n)* {11}verify /);
  expect(text).toContain("~ ada  mail: ada@example.com → ada@example.org  −engines\n");
  expect(text).toContain("− zoe  Zoë Ünal  −staff\n");
  expect(text).toContain(String.raw`+ "=cmd()"  <script>alert(1)</script> <a\u{202e}b@example.com>  +staff`);

  const chosen = JSON.parse(await shown("show", second.id, "--json", "--name", "a*", "--attribute", "groups"));
  expect(chosen.run).toEqual(second);
  expect(chosen.plan).toMatchObject({
    digest: second.digest,
    counts: second.counts,
    shown: { users: { create: 0, update: 1, delete: 0 }, membershipsAdded: 0, membershipsRemoved: 1 },
    changes: [{ action: "update", name: "ada", groupsRemoved: ["engines"] }],
  });
  const part = await shown("show", second.id, "--kind", "user", "--action", "delete,create");
  expect(part).toContain("Deleted users (1)");
  expect(part).not.toContain("Updated");
  expect(await shown("show", second.id, "--kind", "group")).toContain("no change matches");

  const file = join(company.folder, "report");
  for (const format of ["html", "markdown", "csv"]) {
    expect((await command("show", second.id, "--format", format, "--output", file)).stdout).toBe("");
    const report = await readFile(file, "utf8");
    expect(report).toBe(await shown("show", second.id, "--format", format));
    expect(report).not.toContain("\u202E");
    expect(report).toContain(format === "csv" ? `"user","'=cmd()","create","displayName",,"<script>` : "=cmd()");
    if (format === "html") expect(report).not.toContain("<script");
  }
  expect((await readdir(company.folder)).filter((name) => name.includes("report"))).toEqual(["report"]);
});

test("everything that happened to a name is told, the newest first", async () => {
  await threeRuns();
  const ada = JSON.parse(await shown("history", "ada", "--json"));
  expect(ada).toMatchObject({
    name: "ada",
    entries: [
      {
        state: "applied",
        applied: true,
        changes: [{ action: "update", attributes: [{ attribute: "mail" }], groupsRemoved: ["engines"] }],
      },
      { state: "applied", applied: true, changes: [{ action: "create", groupsAdded: ["engines", "staff"] }] },
    ],
    runs: 3,
  });
  const zoe = await shown("history", "zoe");
  expect(zoe).toMatch(/user deleted: − zoe .*\n.*\n {2}user created: \+ zoe /);
  expect(await shown("history", "staff", "--sync", "staff")).toContain("group created: + staff");
  const nobody = await command("history", "nobody");
  expect(nobody).toMatchObject({ code: 1, stderr: "" });
  expect(nobody.stdout).toContain("nothing was found about nobody: the changes of ");
  expect((await command("history", "ada", "--sync", "other")).stderr).toContain("no sync is called other");
});

test("who approved what is told with it; what waits is told as what waits", async () => {
  await company.configure((yaml) => `${yaml}    approval: required\n`);
  await command("apply");
  const [pending] = JSON.parse(await shown("runs", "--json", "--state", "pending")).runs;
  const waiting = await shown("show", "pending");
  expect(waiting).toMatch(/state +pending\n/);
  expect(waiting).toMatch(new RegExp(`rollcall approve --config \\S+ ${pending.id}\n`));
  expect(waiting).toMatch(/expires .*, in 23 hours\n/);
  expect(await shown("history", "ada")).toContain("user to be created: + ada");
  expect((await command("apply")).code).toBe(3);
  const again = await shown("show", "latest");
  expect(again).toContain(`by run ${pending.id}, which counts for both`);
  expect(again).toContain("+ ada");
  expect(await shown("runs")).toContain(`same as ${pending.id}`);
  expect((await command("approve", pending.id)).code).toBe(0);
  expect((await command("show", "pending")).stderr).toContain("no run waits for approval");
  expect(await shown("show", pending.id)).toMatch(/decisions +approved by .* \(command line\)/);
  expect(await shown("history", "ada")).toMatch(/user created: \+ ada .*\n {2}approved by /);
});

test("a run that could be several, or none, is not guessed", async () => {
  await threeRuns();
  const year = String(new Date().getUTCFullYear());
  expect((await command("show", year)).stderr).toMatch(
    new RegExp(`^rollcall: ${year} matches several runs: ${year}\\d{4}-\\d{6}-\\w+ \\(staff\\), `),
  );
  const unknown = await command("show", "nothing", "--json");
  expect(unknown.code).toBe(1);
  expect(JSON.parse(unknown.stdout).error.message).toContain("there is no run nothing");
  expect((await command("runs", "other")).stderr).toContain("no sync is called other: the configuration has staff");
});

test("changes that are no longer kept are not asked for; what is damaged is named", async () => {
  await threeRuns();
  const [, second, first] = JSON.parse(await shown("runs", "--json")).runs;
  await rm(daemon("runs", second.id), { recursive: true });
  expect(await shown("show", second.id)).toContain("the changes of this run are no longer stored");
  expect(JSON.parse(await shown("show", second.id, "--json")).plan).toMatchObject({
    counts: second.counts,
    changes: [],
  });
  expect(JSON.parse(await shown("history", "ada", "--json")).entries).toHaveLength(1);

  const changes = daemon("runs", first.id, "changes.parquet");
  await truncate(changes, 100);
  for (const args of [
    ["show", first.id],
    ["history", "ada"],
  ]) {
    const { code, stderr } = await command(...args);
    expect(code).toBe(1);
    expect(stderr).toContain(`the stored changes in ${changes} cannot be read`);
  }
  await writeFile(daemon("journal.json"), '{"version": 1, "runs": [');
  for (const args of [["runs"], ["show", "latest"], ["history", "ada"]]) {
    const { code, stderr } = await command(...args);
    expect(code).toBe(1);
    expect(stderr).toContain(`the journal ${daemon("journal.json")} is damaged`);
  }
});

test("beside a daemon, too", async () => {
  company.begin("start");
  await expect
    .poll(() => command("runs", "--json").then(({ stdout }) => JSON.parse(stdout).runs[0]?.state))
    .toBe("applied");
  expect(await shown("history", "ada")).toContain("user created: + ada");
  expect(await shown("show", "latest:staff")).toContain("applied and verified");
});

test("a mistake in rules, sources or targets hides nothing of what has happened; one in what says where that is, does", async () => {
  await company.applied();
  const commands = [["runs"], ["show", "latest"], ["history", "ada"], ["audit"], ["audit", "verify"]];
  await company.configure(
    (yaml) =>
      `${yaml.replace("name: entry.login", "name: entry.login +").replace("connector: csv", "connector: scv")}unknown: key\n`,
  );
  const refused = await command("plan");
  expect(refused.code).toBe(1);
  expect(refused.stderr).toMatch(/has 3 problems[^]*no connector is called scv[^]*users\.name[^]*unknown key/);
  for (const args of commands) expect(await command(...args), args.join(" ")).toMatchObject({ code: 0 });
  expect((await command("runs", "nobody")).stderr).toContain("no sync is called nobody: the configuration has staff");
  expect((await command("health")).stderr).toContain("neither a service nor a daemon is running");

  await company.configure((yaml) => `${yaml}daemon: { state: postgres, leese: 1s }\n`);
  for (const args of [...commands, ["health"]]) {
    const { code, stderr } = await command(...args);
    expect(code, args.join(" ")).toBe(1);
    expect(stderr).toContain("daemon.leese: unknown key");
    expect(stderr).toContain("daemon.state: postgres means the database of service.engine");
  }
});

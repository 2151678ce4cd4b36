import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { rollcall } from "../../support/rollcall/command.ts";
import { companyOfEachTest, people } from "../../support/rollcall/company.ts";

const company = companyOfEachTest();

const { command } = company;

describe("where no daemon runs, a command works by itself", () => {
  test("plan shows what would change and changes nothing; apply makes it so; then nothing is left", async () => {
    const planned = await command("plan");
    expect(planned.code, planned.stderr).toBe(2);
    expect(planned.stdout).toContain("zoe");
    expect(planned.stdout).not.toContain("Long Gone");
    expect((await command("plan")).stdout).toBe(planned.stdout);

    const applied = await command("apply");
    expect(applied.code, applied.stderr).toBe(0);
    expect(applied.stdout).toContain("staff: applied and verified");

    const after = await command("plan", "staff");
    expect(after.code, after.stderr).toBe(0);
    expect((await command("apply")).stdout).not.toContain("applied and verified");
  });

  test("a command whose reader has gone does its work to the end", async () => {
    const applying = company.begin("apply");
    applying.process.stdout.destroy();
    const applied = await applying.ended;
    expect(applied, applied.stderr).toMatchObject({ code: 0, stderr: "" });
    expect((await command("plan")).code).toBe(0);
    const helping = company.begin("--help");
    helping.process.stdout.destroy();
    expect(await helping.ended).toMatchObject({ code: 0, stderr: "" });
  });

  test("after an edit, the plan is exactly that edit", async () => {
    await company.applied();
    await company.write(
      "people.csv",
      people.replace("grace@example.com", "g.hopper@example.com").replace("active,staff;engines", "active,staff"),
    );
    const { code, stdout } = await command("plan", "--json");
    expect(code).toBe(2);
    const [run] = JSON.parse(stdout).runs;
    expect(run).toMatchObject({ sync: "staff", target: "analytics", outcome: "planned", warnings: [] });
    expect(run.plan.changes).toEqual([
      expect.objectContaining({
        action: "update",
        kind: "user",
        name: "ada",
        groupsRemoved: ["engines"],
        groupsAdded: [],
        attributes: [],
      }),
      expect.objectContaining({
        action: "update",
        kind: "user",
        name: "grace",
        attributes: [{ attribute: "mail", from: "grace@example.com", to: "g.hopper@example.com" }],
      }),
    ]);
  });

  test("who left the company is deleted, because the sync created them", async () => {
    await company.applied();
    await company.write("people.csv", people.replace("grace@example.com,active", "grace@example.com,left"));
    const { stdout } = await command("apply", "--json");
    const [run] = JSON.parse(stdout).runs;
    expect(run.outcome).toBe("applied");
    expect(run.plan.changes).toMatchObject([{ action: "delete", kind: "user", name: "grace" }]);
  });
});

describe("a failed read deletes nothing", () => {
  test("a broken row ends the run with file and line, and the target stays as it is", async () => {
    await company.applied();
    await company.write("people.csv", `${people}5,eve,Eve\n`);
    const applied = await command("apply");
    expect(applied.code).toBe(1);
    expect(applied.stderr).toMatch(/people\.csv:6/);
    await company.write("people.csv", people);
    expect((await command("plan")).code).toBe(0);
  });

  test("an empty file, and a missing one", async () => {
    await company.applied();
    await company.write("people.csv", "id,login,name,mail,status,groups\n");
    const empty = await command("apply");
    expect(empty.code).toBe(1);
    expect(empty.stderr).toContain("people.csv");
    await company.write("people.csv", people);
    expect((await command("plan")).code).toBe(0);
  });

  test("two records with one name are both quarantined, and the user they may be stays", async () => {
    await company.applied();
    await company.write("people.csv", `${people}5,grace,Another Grace,,active,\n`);
    const { code, stdout } = await command("plan");
    expect(code).toBe(0);
    expect(stdout).toContain("people.csv:3");
    expect(stdout).toContain("people.csv:6");
  });
});

describe("wrong input", () => {
  test("a typo in the configuration is named with file, line and column", async () => {
    await company.configure((yaml) =>
      yaml.replace("displayName: entry.name\n      mail", "displayNmae: entry.name\n      mail"),
    );
    const { code, stderr } = await command("plan");
    expect(code).toBe(1);
    expect(stderr).toMatch(/rollcall\.yaml:20:7: .*displayNmae.*did you mean "?displayName/);
  });

  test("an unknown sync, an unknown command, a missing configuration", async () => {
    const unknown = await command("plan", "stuff");
    expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining("staff") });
    expect(await rollcall(["plane"])).toMatchObject({ code: 1, stderr: expect.stringContaining("plan") });
    expect(await rollcall(["plan", "--config", "/nowhere/rollcall.yaml"])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("/nowhere/rollcall.yaml"),
    });
  });

  test.each([
    [["plan", "stuff"], "stuff"],
    [["plan", "--stuff"], "--stuff"],
    [["plane"], "did you mean plan?"],
  ])("with --json an error is a document too: %j", async ([name = "", ...rest], said) => {
    const { code, stdout, stderr } = await command(name, ...rest, "--json");
    expect(code).toBe(1);
    expect(stderr).toBe("");
    expect(JSON.parse(stdout).error).toMatchObject({
      message: expect.stringMatching(new RegExp(said, "i")),
      advice: "fix",
    });
  });

  test("options of every command may precede it", async () => {
    const { code, stdout } = await rollcall(["--config", company.config, "--json", "validate"]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ configuration: company.config, valid: true });
  });

  test.each([
    [["help", "plann"], /^unknown command 'plann'\s+\(Did you mean plan\?\)/],
    [[], /^no command/],
  ])("with --json, a missing or unknown command is an error in words: %j", async (words, said) => {
    const { code, stdout } = await rollcall([...words, "--json"]);
    expect(code).toBe(1);
    expect(JSON.parse(stdout).error.message).toMatch(said);
  });

  test.each([
    ["start", "data", /^rollcall: the daemon's folder, .*data\/daemon, cannot be made: a part of the path is a file/],
    [
      "plan",
      "data/daemon/work",
      /^staff: the folder of the workbenches, .*work, cannot be made: a file, .* has that name/,
    ],
    [
      "apply",
      "data/daemon/ledgers",
      /^staff: the folder of the ledgers, .*ledgers, cannot be made: a file, .* has that name/,
    ],
    ["apply", "data/daemon/ledgers/embedded.duckdb", /^staff: the ledger .*embedded\.duckdb cannot be read .*backup/],
    [
      "start",
      "data/service/service.duckdb",
      /^rollcall: the service's database .*service\.duckdb cannot be opened: .*backup/,
    ],
    [
      "plan",
      "data/service/service.duckdb",
      /^staff: the service's database .*service\.duckdb cannot be opened: .*backup/,
    ],
    ["plan", "data/daemon/ledgers/embedded.duckdb", /^staff: the ledger .*embedded\.duckdb cannot be read .*backup/],
  ])("%s where %s is something else", async (name, path, said) => {
    await mkdir(join(company.folder, dirname(path)), { recursive: true });
    await company.write(path, "something else");
    const { code, stdout, stderr } = await command(name);
    expect(code, stdout).toBe(1);
    expect(stderr).toMatch(said);
    expect(stderr).not.toContain(".ts:");
  });
});

test.each(["plan", "start"])("%s ends at once where the data folder cannot be made", async (name) => {
  // Node's own recursive mkdir never ends there.
  await company.configure((yaml) => yaml.replace("data: data", "data: /proc/nowhere/data"));
  const { code, stderr } = await command(name);
  expect(code).toBe(1);
  expect(stderr).toMatch(
    /folder.*, \/proc\/nowhere\/data\/[\w/]+, cannot be made: no folder can be created there \(ENOENT\)/,
  );
});

test("an attribute that no record has is pointed out: a rule that asks for it may mean another", async () => {
  await company.configure((yaml) => yaml.replace("mail: entry.mail", "mail: entry.mial"));
  for (const name of ["plan", "check"]) {
    const { code, stdout, stderr } = await command(name);
    expect(code).toBe(1);
    expect(stdout + stderr).toContain(
      'people.csv:1: no column gives entry.mial, which a rule reads; did you mean "mail"?; if the file may be without it, list it under optionalColumns',
    );
  }
  await company.configure((yaml) => yaml.replace("file: people.csv", "file: people.csv, optionalColumns: [mial]"));
  expect((await command("plan")).stdout).toContain("rule users.mail: entry.mial is set in no record");
});

test("check reads every source and logs in to every target", async () => {
  const good = await command("check", "--json");
  expect(good.code, good.stderr).toBe(0);
  expect(JSON.parse(good.stdout).checked).toMatchObject([
    {
      what: "source",
      name: "company",
      users: 4,
      groups: 2,
      samples: [expect.stringContaining("people.csv:2"), expect.anything(), expect.anything()],
    },
    {
      what: "sync",
      name: "staff",
      users: 3,
      groups: 2,
      excluded: 1,
      quarantined: 0,
      principals: [{ kind: "user", name: "ada", mail: "ada@example.com" }, { name: "grace" }, { name: "zoe" }],
      problems: [],
    },
    { what: "target", name: "analytics" },
  ]);
  await company.write("people.csv", people.replace("Ada Lovelace", ""));
  const doubtful = await command("check");
  expect(doubtful.code).toBe(0);
  expect(doubtful.stdout).toMatch(/sync staff: 2 users, 2 groups, 1 excluded, 1 quarantined/);
  expect(doubtful.stdout).toMatch(/people\.csv:2\): users\.displayName: gives null/);
  // Two records with one name: only all records together show it.
  await company.write("people.csv", `${people}5,grace,Another Grace,,active,\n`);
  expect((await command("check")).stdout).toMatch(
    /sync staff: 2 users, 2 groups, 1 excluded, 2 quarantined\n[^]*the name "grace" is shared by several records: 2 users/,
  );
  expect((await command("plan")).stdout).toContain("2 records quarantined");
  await company.write("groups.csv", "id;name\n");
  const bad = await command("check");
  expect(bad.code).toBe(1);
  expect(bad.stdout).toContain("groups.csv");
});

test("no secret of the configuration is ever shown", async () => {
  await company.write("people.csv", people.replace("Ada Lovelace", ""));
  for (const args of [["plan", "--json"], ["apply", "--verbose"], ["check"]]) {
    const { stdout, stderr } = await command(...args);
    expect(stdout + stderr).not.toMatch(/administrator-secret|initial-user-secret/);
  }
});

/** Has the company's source read by a connector of its own, which has this `read`. */
async function useConnector(read: string): Promise<void> {
  await company.write(
    "own.ts",
    `import { z } from ${JSON.stringify(import.meta.resolve("zod"))};
    export default { name: "own", options: z.strictObject({}), open: () => ({ ${read} }) };`,
  );
  await company.configure((yaml) => yaml.replace(/connector: csv[^]*?(?=^syncs)/m, "connector: ./own.ts\n"));
}

test("what a connector of one's own lets slip of a secret is not shown either", async () => {
  await useConnector(
    `async *read({ warn }) { warn("as initial-user-secret"); throw new Error("initial-user-secret was refused"); }`,
  );
  const { code, stdout, stderr } = await command("plan", "--verbose");
  expect(code, stdout + stderr).toBe(1);
  expect(stderr).toContain("*** was refused");
  expect(stdout + stderr).not.toContain("initial-user-secret");
});

test("a connector of one's own that does not listen to Ctrl-C is left behind at the second one", async () => {
  await useConnector(`async *read() {
    process.stderr.write("the read has begun\\n");
    await new Promise((resolve) => setTimeout(resolve, 2 ** 31 - 1));
  }`);
  const plan = company.begin("plan");
  await plan.wrote("the read has begun");
  plan.process.kill("SIGINT");
  await plan.wrote("cancelling (press Ctrl-C again not to wait)");
  plan.process.kill("SIGINT");
  const { signal, stderr } = await plan.ended;
  expect(signal).toBe("SIGKILL");
  expect(stderr).toContain("the work under way did not stop in time");
});

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { companyOfEachTest, people } from "../../support/rollcall/company.ts";
import { login, post } from "../../support/rollcall/service.ts";

const company = companyOfEachTest();

const explain = (name: string, ...rest: string[]) => company.command("explain", name, ...rest);

async function explained(name: string) {
  const { stdout, stderr } = await explain(name, "--json");
  const [explanation] = JSON.parse(stdout).explanations;
  expect(explanation.error, stderr).toBeUndefined();
  return explanation;
}

test("from the record to the plan: origin, attributes, rules, memberships and the ways to groups", async () => {
  const before = await explained("ADA@example.com");
  expect(before.records).toMatchObject([
    {
      source: "company",
      kind: "user",
      id: "1",
      verdict: "included",
      name: "ada",
      memberships: [
        { group: "engines", by: "member" },
        { group: "staff", by: "member" },
      ],
    },
  ]);
  expect(before.records[0].origin).toMatch(/people\.csv:2$/);
  expect(before.records[0].rules).toContainEqual({
    rule: "users.include",
    expression: 'entry.status == "active"',
    attributes: { status: "active" },
    value: true,
  });
  expect(before.outcomes).toMatchObject([
    { kind: "user", name: "ada", action: "create", groups: [["engines"], ["staff"]], ownedFrom: [] },
  ]);

  await company.command("apply");
  await company.write("people.csv", people.replace("active,staff;engines", "active,engines;nowhere"));
  const { code, stdout } = await explain("1");
  expect(code).toBe(0);
  expect(stdout).toMatch(/^record of company: user 1, .*people\.csv:2$/m);
  expect(stdout).toMatch(/member of nowhere: the record says so; left out: the source has no such group/);
  expect(stdout).toMatch(/^user ada: update, a record makes it/m);
  expect(stdout).toMatch(/this sync owns it, from company 1$/m);
  expect(stdout).toMatch(/^ {2}groups: −staff$/m);
  expect(stdout).toMatch(/^ {2}in engines → staff$/m);
});

test("who is not in scope, in doubt, or only in the target is explained too", async () => {
  expect(await explained("left")).toMatchObject({
    records: [{ verdict: "excluded", reason: "the rule users.include gives false" }],
    outcomes: [],
  });

  await company.command("apply");
  await company.write("people.csv", `${people.replace(/^2,.*\n/m, "")}5,zoe,Another Zoë,,active,\n`);
  const { records, outcomes } = await explained("zoe");
  expect(records).toMatchObject([
    { id: "3", verdict: "quarantined", reason: expect.stringContaining("people.csv:5") },
    { id: "5", verdict: "quarantined", reason: expect.stringContaining("people.csv:3") },
  ]);
  expect(outcomes).toMatchObject([
    { name: "zoe", action: "nothing", why: expect.stringMatching(/in doubt: .*the name "zoe"/) },
  ]);

  expect(await explained("grace")).toMatchObject({
    records: [],
    outcomes: [
      {
        action: "delete",
        why: "it has no record any more, and this sync owns it",
        actual: { displayName: "Grace Hopper" },
        ownedFrom: [{ source: "company", sourceId: "2" }],
      },
    ],
  });
  expect(await explained("admin")).toMatchObject({
    outcomes: [{ action: "nothing", why: "its name is protected: it is never touched" }],
  });
});

describe("what keeps a change waiting, since when, and what has it made", () => {
  const withoutZoe = people.replace("Zoë Ünal,,active", "Zoë Ünal,,left");
  const limited = (settings: string) => company.configure((yaml) => `${yaml}${settings}\n`);
  const waitsOf = async (name: string) => (await explained(name)).outcomes[0].waits;
  const run = company.command;

  test("a limit that holds the run: before a run has found it, and after", async () => {
    await limited("    limits: { deletes: 0 }");
    await run("apply");
    await company.write("people.csv", withoutZoe);
    const [early] = await waitsOf("zoe");
    expect(early).toMatchObject({ how: "held", limits: [{ limit: "deletes", value: 1, bound: 0 }] });
    expect(early).not.toHaveProperty("since");
    expect(early.next[1]).toMatch(/^rollcall apply staff --override deletes --digest [0-9a-f]{12}$/);
    expect(await waitsOf("grace")).toEqual([]);

    await run("apply");
    const { stdout } = await explain("zoe");
    const [, id = ""] =
      /^ {2}waits since \S+ \S+Z: held by the limit on deletions: the whole run waits\n {4}in run (\S+), which can be approved until \S+ \S+Z\n {4}deletes: 1 user, at most 0 \(as configured\)\n {4}(?:rollcall|node \S+) show --config \S+ \1\n {4}(?:rollcall|node \S+) approve --config \S+ \1 --override deletes\n$/m.exec(
        stdout,
      ) ?? [];
    expect(id, stdout).not.toBe("");
    const [wait] = await waitsOf("zoe");
    expect((await run(...wait.next[1].split(" ").slice(1))).code).toBe(0);
    expect((await run("explain", "zoe", "--json")).stdout).not.toContain('"how"');
  });

  test("a limit that leaves it out: since the first run that did, with the plan that has it", async () => {
    await limited("    limits: { deletes: 0, action: apply-the-rest }");
    await run("apply");
    await company.write("people.csv", withoutZoe.replace("Grace Hopper", "Admiral Hopper"));
    await run("apply");
    await run("apply");
    const { runs } = JSON.parse((await run("runs", "--json")).stdout);
    expect(runs).toMatchObject([{ waiting: ["deletes"] }, { waiting: ["deletes"] }, { waiting: [] }]);
    expect(await waitsOf("grace")).toEqual([]);
    const [wait] = await waitsOf("zoe");
    expect(wait).toMatchObject({ how: "left out", since: runs[1].startedAt, limits: [{ limit: "deletes" }] });
    expect(wait.next[0]).toBe("rollcall plan staff --override deletes");
    expect((await run(...wait.next[1].split(" ").slice(1))).code).toBe(0);
    expect(await explained("zoe")).toMatchObject({ outcomes: [] });
  });

  test("a pending approval and a planned undo", async () => {
    await limited("    approval: required\n    limits: { deletes: none }");
    await run("apply");
    await company.write("people.csv", withoutZoe);
    const [{ id }] = JSON.parse((await run("runs", "--json")).stdout).runs;
    // What would be planned now is another plan than the one that waits.
    const [planned] = await waitsOf("ada");
    expect(planned).toMatchObject({ how: "pending", limits: [], reason: "approval: required" });
    expect(planned).not.toHaveProperty("run");
    await company.write("people.csv", people);
    expect(await waitsOf("zoe")).toMatchObject([
      { how: "pending", run: id, next: [expect.anything(), `rollcall approve ${id}`] },
    ]);
    await run("approve", id);
    await run("undo", id);
    const [undoing] = JSON.parse((await run("runs", "--json")).stdout).runs;
    expect(await waitsOf("zoe")).toMatchObject([{ how: "pending", run: undoing.id, action: "delete" }]);
    expect((await explain("zoe")).stdout).toContain(`in run ${undoing.id}, which would delete it`);
  });
});

test("a user and a group of one name are explained and shown together, or one by its kind", async () => {
  await company.write("people.csv", `${people}5,staff,The Shared Account,,active,\n`);
  await company.command("apply");
  const kinds = async (name: string) => {
    const { records, outcomes } = await explained(name);
    return [records, outcomes].map((found: readonly { kind: string }[]) => found.map(({ kind }) => kind).sort());
  };
  expect(await kinds("staff")).toEqual([
    ["group", "user"],
    ["group", "user"],
  ]);
  expect(await kinds("group:staff")).toEqual([["group"], ["group"]]);
  expect(await kinds("user:staff")).toEqual([["user"], ["user"]]);
  const { stdout } = await company.command("history", "group:staff");
  expect(stdout).toContain("group created: + staff");
  expect(stdout).not.toContain("user created");
});

test("a name that nothing has gives those that are near, and fails", async () => {
  const { code, stdout } = await explain("gracie");
  expect(code).toBe(1);
  expect(stdout).toContain("staff → analytics: nothing is called gracie; similar names: grace");
  expect(stdout).not.toContain("history");
  const wrong = await explain("ada", "--sync", "stuff");
  expect(wrong.code).toBe(1);
  expect(wrong.stderr).toContain("no sync is called stuff");
});

test("a name is found however its characters are put together, and in whatever case, also where only the target has it", async () => {
  const decomposed = "Zoe\u0308 By Hand";
  const service = company.begin("start", "--only", "service");
  await service.wrote("listening on");
  const { url } = JSON.parse(await readFile(join(company.folder, "data", "service.json"), "utf8"));
  const account = { name: "admin", password: "administrator-secret" };
  const principals = [{ name: decomposed, displayName: "x", principalTypeEnum: "LOCAL_USER", password: "x" }];
  const form = { applyChanges: "true", remoteDeleted: "false", principals: JSON.stringify(principals) };
  await post(`${url}/tspublic/v1/user/sync`, form, { session: await login(url, account) });
  const found = { records: [], outcomes: [{ name: decomposed, action: "nothing" }] };
  expect(await explained("ZOË BY HAND")).toMatchObject(found);
  expect(await explained(decomposed)).toMatchObject(found);
});

test("whoever was deleted leads to the history, whether or not a record is left", async () => {
  await company.applied();
  const active = "2,grace,Grace Hopper,grace@example.com,active,staff";
  for (const rest of ["", active.replace("active", "left")]) {
    await company.write("people.csv", people.replace(active, rest).replaceAll("\n\n", "\n"));
    expect((await company.command("apply")).code).toBe(0);
    const { stdout } = await company.command("explain", "grace");
    const [, next = ""] = /the user grace was deleted by run \S+ at \S+: `.* (history --config \S+ grace)`\n$/.exec(
      stdout,
    ) ?? [stdout];
    expect(next, stdout).not.toBe("");
    expect((await company.command("history", "grace")).stdout).toContain("user deleted: − grace");
    await company.write("people.csv", people);
    expect((await company.command("apply")).code).toBe(0);
    expect((await company.command("explain", "grace")).stdout).not.toContain("was deleted by run");
  }
});

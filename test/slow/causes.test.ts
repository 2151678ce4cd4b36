import { readdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import type { Entry, Source } from "#connector.ts";
import { describeCause } from "#plan/causes.ts";
import type { Cause } from "#plan/causes.ts";
import { compileRules } from "#principals/compile.ts";
import type { Rules } from "#principals/rules.ts";
import type { Sync } from "#sync/sync.ts";
import { byHand, coordinated } from "../e2e/sync/coordinated.ts";
import { openMemory } from "../support/duckdb.ts";
import { call, login, post } from "../support/rollcall/service.ts";
import { useStaff } from "../e2e/sync/staff.ts";

/** The causes of plans, against a real service. */

const staff = useStaff();

interface Person {
  readonly ou: string;
  readonly department: string;
  readonly mail: string;
  readonly status: string;
  readonly login: string;
}

/** By id. */
let people: Map<string, Person>;
let members: Map<string, readonly string[]>;
let rules: Rules;
let settings: Readonly<Record<string, unknown>>;
let drift: Sync["drift"];
beforeEach(() => {
  people = new Map();
  drift = { policy: "revert", ignore: [] };
  members = new Map([
    ["Finance", ["p1", "p2", "p3"]],
    ["Everyone", []],
  ]);
  for (let n = 1; n <= 20; n++) {
    const ou = n <= 12 ? "Sales" : "Research";
    const login = `p${n}`;
    people.set(login, { ou, login, department: ou, mail: `${login}@example.com`, status: "active" });
  }
  rules = {
    users: {
      include: 'entry.status == "active"',
      name: "entry.login",
      displayName: 'entry.login + " of " + entry.dn',
      mail: "entry.mail",
      groups: '"dep-" + entry.department',
    },
    groups: { name: "entry.name", displayName: "entry.name" },
    staticGroups: [
      { name: "dep-Sales", displayName: "Sales", groups: [] },
      { name: "dep-Research", displayName: "Research", groups: [] },
      { name: "dep-Revenue", displayName: "Revenue", groups: [] },
    ],
  };
  settings = { syncs: { staff: { mail: "entry.mail" } } };
});

const source: Source = {
  async *read() {
    const users = [...people].map(([id, { ou, ...rest }]): Entry => {
      const dn = `uid=${rest.login},ou=${ou},dc=example,dc=com`;
      return { kind: "user", id, origin: dn, attributes: { dn, ...rest }, keys: [id], memberOf: [], members: [] };
    });
    const groups = [...members].map(([name, keys]): Entry => ({
      kind: "group",
      id: name,
      origin: name,
      attributes: { name },
      keys: [name],
      memberOf: [],
      members: keys.filter((key) => people.has(key)).map((key) => ({ key })),
    }));
    yield [...users, ...groups];
  },
};

const change = (id: string, part: Partial<Person>): void => {
  const person = people.get(id);
  if (person !== undefined) people.set(id, { ...person, ...part });
};

const partOfSync = (): Partial<Sync> => ({
  sources: [{ name: "corp", source }],
  rules: compileRules(rules),
  settings,
  drift,
  protection: { manage: "owned", makesGroups: true, users: ["admin"], groups: ["Administrator", "All"] },
  limits: { sources: {}, floor: 10, action: "hold" },
});

const described = (causes: readonly Cause[] = []): readonly string[] =>
  causes.map((cause) => `${cause.users + cause.groups} ${describeCause(cause)}`);

async function causes(apply = false): Promise<readonly string[]> {
  let found: readonly Cause[] = [];
  const sync = staff.syncOf({}, partOfSync());
  await staff.runIt(sync, apply, {
    report: async (report) => {
      found = report.causes ?? [];
    },
  });
  return described(found);
}

const apply = (): Promise<readonly string[]> => causes(true);

test("the first plan has nothing to compare with; then there is nothing to explain", async () => {
  expect(await apply()).toEqual([expect.stringMatching(/^25 /)]);
  expect(await causes()).toEqual([]);
});

test("what changed in the source, in the target and in the configuration is told apart", async () => {
  await apply();
  for (let n = 1; n <= 12; n++) change(`p${n}`, { ou: "Revenue" });
  people.delete("p20");
  people.delete("p19");
  change("p18", { status: "left" });
  people.set("p21", {
    ou: "Research",
    login: "p21",
    department: "Research",
    mail: "p21@example.com",
    status: "active",
  });
  await byHand(staff.syncOf().place, {
    name: "p13",
    displayName: "p13 of uid=p13,ou=Research,dc=example,dc=com",
    principalTypeEnum: "LOCAL_USER",
    mail: "mine@example.net",
    groupNames: ["dep-Research"],
  });
  members.set("Finance", ["p1", "p2", "p3", "p14", "p15"]);
  expect(await apply()).toEqual([
    '12 dn changed from "…ou=Sales…" to "…ou=Revenue…" (corp)',
    "2 gone from corp",
    "2 members of Finance changed in the source",
    "1 somebody changed the target: mail",
    "1 new in corp",
    '1 left the scope: status changed from "active" to "left" (corp)',
  ]);
});

test("who came or left together is named by what they have in common, with how many others have it", async () => {
  await apply();
  for (let n = 13; n <= 20; n++) people.delete(`p${n}`);
  people.delete("p1");
  for (const id of ["p21", "p22", "p23"])
    people.set(id, { ou: "Works", login: id, department: "Revenue", mail: `${id}@example.com`, status: "active" });
  expect(await causes()).toEqual([
    '8 gone from corp: all 8 below "ou=Research,dc=example,dc=com"',
    '3 new in corp: all 3 below "ou=Works,dc=example,dc=com"',
    "1 gone from corp",
  ]);
});

test("a renamed login is a rename, a moved department moves groups", async () => {
  await apply();
  change("p1", { login: "ada" });
  for (let n = 2; n <= 5; n++) change(`p${n}`, { department: "Revenue" });
  const found = await causes();
  expect(found).toContain('4 department changed from "Sales" to "Revenue" (corp)');
  expect(found.join("\n")).toContain("renamed: login changed");
  expect(found.join("\n")).not.toContain("somebody");
});

test("who left a group that the scope names, who is in one that it leaves out, and the group itself", async () => {
  rules = {
    users: { ...rules.users, onlyMembersOf: ["Fin*"], notMembersOf: ["Blocked"] },
    groups: { ...rules.groups, name: "entry.name", displayName: "entry.name", notBelow: ["Blocked"] },
    staticGroups: rules.staticGroups,
  };
  members.set("Finance", ["p1", "p2", "p3", "p4", "p5", "p6"]).set("Finland", ["p6"]).set("Blocked", []);
  const configured = (list: readonly string[]): object => ({ syncs: { staff: { users: { onlyMembersOf: list } } } });
  settings = { ...configured(["Fin*"]) };
  await apply();
  members.set("Finance", ["p4", "p5", "p7"]).set("Blocked", ["p5"]);
  expect(await causes()).toEqual([
    '3 left the scope: no longer in the group "Finance" (corp)',
    '1 came into scope: now in the group "Finance" (corp)',
    // p6 is still in Finland.
    "1 members of groups changed in the source",
    '1 left the scope: now in the group "Blocked" (corp)',
  ]);
  // The same people, because the list is another one.
  members.set("Finance", ["p1", "p2", "p3", "p4", "p5", "p6"]).set("Blocked", []);
  rules = { ...rules, users: { ...rules.users, onlyMembersOf: ["Finland"] } };
  settings = { ...configured(["Finland"]) };
  expect((await causes())[0]).toMatch(/^5 the configuration changed: /);
});

test("whoever is leaving later left the group that they left, whatever is applied meanwhile", async () => {
  rules = { ...rules, users: { ...rules.users, onlyMembersOf: ["Finance"] } };
  const { departures } = staff.syncOf();
  const at = async (days: number): Promise<readonly string[]> => {
    let found: readonly Cause[] = [];
    const sync = staff.syncOf({}, { ...partOfSync(), departures: { ...departures, after: 7 * 86_400_000 } });
    await staff.runIt(sync, true, {
      now: Date.UTC(2026, 0, days),
      report: async (report) => {
        found = report.causes ?? [];
      },
    });
    return described(found);
  };
  await at(1);
  members.set("Finance", ["p1", "p2"]);
  expect(await at(2)).toEqual([]);
  change("p1", { mail: "new@example.com" });
  expect(await at(3)).toEqual(['1 mail changed from "p1@example.com" to "new@example.com" (corp)']);
  expect(await at(10)).toEqual(['1 left the scope: no longer in the group "Finance" (corp)']);
});

test("a value may be any text that a source can have, also one that is not valid Unicode", async () => {
  rules = {
    users: {
      name: "entry.login",
      displayName: "entry.login",
      description: 'size(entry.department) > 8 ? "long" : "short"',
    },
  };
  const backslashes = String.raw`\\ud800 and \ud800`;
  change("p1", { department: "Sales" });
  await apply();
  change("p1", { department: `a \uD800 lone surrogate, ${backslashes}` });
  expect(await apply()).toEqual([
    `1 department changed from "Sales" to ${JSON.stringify(`a \uFFFD lone surrogate, ${backslashes}`)} (corp)`,
  ]);
  change("p1", { department: "Sales" });
  expect(await apply()).toEqual([expect.stringContaining('to "Sales"')]);
});

test("a changed rule is the configuration, not the people", async () => {
  await apply();
  rules = { ...rules, users: { ...rules.users, mail: 'replace(entry.mail, "example.com", "example.org")' } };
  settings = { syncs: { staff: { mail: "…" } } };
  expect(await apply()).toEqual(["20 the configuration changed: syncs.staff.mail"]);
  expect(await causes()).toEqual([]);
});

test("what is left out of an approval keeps its cause; an undone run is named as the cause of what it took back", async () => {
  const { run, approve, undo, find } = await coordinated(staff, {}, partOfSync);
  await approve((await run()).id);
  people.delete("p20");
  for (let n = 1; n <= 12; n++) change(`p${n}`, { ou: "Revenue" });
  const both = await run();
  expect(described(both.causes)).toEqual([
    '12 dn changed from "…ou=Sales…" to "…ou=Revenue…" (corp)',
    "1 gone from corp",
  ]);
  const [, gone] = both.causes ?? [];
  await expect(approve(both.id, { selection: { onlyCauses: ["c9"] } })).rejects.toThrow(
    `the run ${both.id} has no cause "c9"; it has c1, c2`,
  );
  const part = await approve(both.id, { selection: { exceptCauses: [gone?.id ?? ""] } });
  expect(part).toMatchObject({ state: "applied", counts: { users: { update: 12, delete: 0 } } });
  const rest = await run();
  expect(described(rest.causes)).toEqual(["1 gone from corp"]);
  await approve(rest.id, { selection: { onlyCauses: ["c1"] } });
  expect(await run()).toMatchObject({ state: "no change" });

  await approve((await undo(part.id)).id);
  const again = await run();
  // The undo takes back what came later, too.
  expect(described(again.causes)).toEqual(["13 left out of an earlier plan, or undone"]);
  expect(find(again.id)?.causes).toEqual(again.causes);
});

test("a change in the target is drift whether it was made by hand or takes something away", async () => {
  await apply();
  const url = staff.syncOf().place;
  await byHand(url, { name: "p1", displayName: "p1", principalTypeEnum: "LOCAL_USER", groupNames: ["Everyone"] });
  const found = await causes();
  expect(found).toEqual([
    "1 somebody changed the target: displayName",
    "1 somebody changed the target: mail",
    "1 somebody changed the target: memberships",
  ]);
});

describe("drift", () => {
  const url = (): string => staff.syncOf().place;
  interface Listed {
    readonly name: string;
    readonly mail?: string;
    readonly [field: string]: unknown;
  }
  const list = async (): Promise<Listed[]> => {
    const { text } = await call(`${url()}/tspublic/v1/user/list`, { session: await login(url()) });
    return (JSON.parse(text) as Listed[]).map(({ name, displayName, principalTypeEnum, groupNames, mail }) => ({
      name,
      displayName,
      principalTypeEnum,
      groupNames,
      ...(mail === undefined ? {} : { mail }),
    }));
  };
  const principal = async (name: string): Promise<Listed | undefined> =>
    (await list()).find((each) => each.name === name);
  const mailOf = async (name: string): Promise<string | undefined> => (await principal(name))?.mail;
  const remove = async (name: string): Promise<void> => {
    const rest = (await list()).filter((each) => each.name !== name);
    const form = { applyChanges: "true", remoteDeleted: "true", principals: JSON.stringify(rest) };
    const { status } = await post(`${url()}/tspublic/v1/user/sync`, form, { session: await login(url()) });
    expect(status).toBe(200);
  };
  const meddle = async (...names: readonly string[]): Promise<void> => {
    const there = names.map((name) => ({
      name,
      displayName: `${name} of uid=${name},ou=${people.get(name)?.ou},dc=example,dc=com`,
      principalTypeEnum: "LOCAL_USER",
      mail: "mine@example.net",
      groupNames: [`dep-${people.get(name)?.department}`],
    }));
    await byHand(url(), ...there);
  };

  test("that is left stays, run after run, until the source changes that value", async () => {
    drift = { policy: "leave", ignore: [] };
    await apply();
    await meddle("p13");
    expect(await apply()).toEqual([]);
    change("p13", { login: "p13", ou: "Works" });
    expect(await apply()).toEqual([
      '1 dn changed from "uid=p13,ou=Research,dc=example,dc=com" to "uid=p13,ou=Works,dc=example,dc=com" (corp)',
    ]);
    expect(await mailOf("p13")).toBe("mine@example.net");
    expect(await apply()).toEqual([]);
    change("p13", { mail: "new@example.com" });
    expect(await apply()).toEqual(['1 mail changed from "p13@example.com" to "new@example.com" (corp)']);
    expect(await mailOf("p13")).toBe("new@example.com");
    drift = { policy: "revert", ignore: [] };
    expect(await apply()).toEqual([]);
  });

  test("that is left includes who was deleted by hand, and memberships", async () => {
    drift = { policy: "leave", ignore: [] };
    await apply();
    await remove("p20");
    await byHand(url(), { ...(await principal("p1")), groupNames: ["Everyone", "Finance", "dep-Sales"] });
    expect(await apply()).toEqual([]);
    expect(await staff.users()).not.toContain("p20");
  });

  test("is not what a target at another address lacks", async () => {
    drift = { policy: "leave", ignore: [] };
    await apply();
    await remove("p20");
    const moved = staff.syncOf({}, { ...partOfSync(), place: "http://elsewhere.example" });
    const { outcome, counts } = await staff.runIt(moved, false);
    expect([outcome, counts.users.create]).toEqual(["planned", 1]);
    expect(await causes()).toEqual([]);
  });

  test("holds the run where it is to, until a person overrides that", async () => {
    drift = { policy: "hold", ignore: [] };
    await apply();
    await meddle("p13");
    await expect(apply()).rejects.toThrow("held by the limit on drift");
    expect(await mailOf("p13")).toBe("mine@example.net");
    const sync = staff.syncOf({}, partOfSync());
    expect(await staff.runIt(sync, true, { overrides: ["drift"] })).toMatchObject({ outcome: "applied" });
    expect(await mailOf("p13")).toBe("p13@example.com");
  });

  test("is still drift after a run for somebody else", async () => {
    await apply();
    await meddle("p13");
    people.set("p14", { ...(people.get("p14") as Person), mail: "new@example.com" });
    people.set("p15", { ...(people.get("p15") as Person), mail: "newer@example.com" });
    await staff.runIt(staff.syncOf({}, partOfSync()), true, { for: ["p14"] });
    expect([await mailOf("p13"), await mailOf("p14")]).toEqual(["mine@example.net", "new@example.com"]);
    expect((await apply()).toSorted()).toEqual([
      '1 mail changed from "p15@example.com" to "newer@example.com" (corp)',
      "1 somebody changed the target: mail",
    ]);
  });

  test("that is ignored stays, and only that", async () => {
    drift = { policy: "revert", ignore: ["users.p1?.mail", "users.p*4.mail"] };
    await apply();
    await meddle("p13", "p14");
    expect(await apply()).toEqual(["1 somebody changed the target: mail"]);
    expect([await mailOf("p13"), await mailOf("p14")]).toEqual(["p13@example.com", "mine@example.net"]);
  });
});

/** Replaces what is stored of the records by these columns of it. */
async function restore(columns: string): Promise<void> {
  const baselines = join(staff.folder(), "daemon", "baselines");
  const name = (await readdir(baselines, { recursive: true })).find((each) => each.endsWith("record.parquet")) ?? "";
  const [file, other] = [join(baselines, name), join(staff.folder(), "other")];
  const { connection, close } = await openMemory();
  await connection.run(`COPY (SELECT ${columns} FROM read_parquet('${file}')) TO '${other}' (FORMAT parquet)`);
  close();
  await rename(other, file);
}

test("what another release stored, and is not valid JSON, explains nothing", async () => {
  await apply();
  const invalid = String.raw`{"login":"\ud800","dn":"uid=p1"}`;
  await restore(`* REPLACE ('${invalid}' AS attributes)`);
  change("p1", { mail: "new@example.com" });
  for (let n = 13; n <= 20; n++) people.delete(`p${n}`);
  expect(await apply()).toEqual([expect.stringMatching(/^8 gone from corp: all 8 below/), "1 other"]);
});

test("what another release stored, with other columns, counts as nothing stored", async () => {
  await apply();
  await restore("* EXCLUDE (container)");
  people.delete("p20");
  expect(await apply()).toEqual([expect.stringMatching(/first run of this sync/)]);
  people.delete("p19");
  expect(await causes()).toEqual(["1 gone from corp"]);
});

test("without causes nothing of the records is stored", async () => {
  const sync = staff.syncOf({}, { ...partOfSync(), causes: false });
  await staff.runIt(sync);
  expect(await readdir(join(staff.folder(), "daemon"))).not.toContain("baselines");
});

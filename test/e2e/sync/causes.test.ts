import { beforeEach, expect, test } from "vitest";
import type { Entry, Source } from "#connector.ts";
import { describeCause } from "#plan/causes.ts";
import type { Cause } from "#plan/causes.ts";
import { compileRules } from "#principals/compile.ts";
import type { Rules } from "#principals/rules.ts";
import { byHand } from "./coordinated.ts";
import { useStaff } from "./staff.ts";

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
beforeEach(() => {
  people = new Map();
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

async function causes(apply = false): Promise<readonly string[]> {
  let found: readonly Cause[] = [];
  const sync = staff.syncOf(
    {},
    {
      sources: [{ name: "corp", source }],
      rules: compileRules(rules),
      settings,
      protection: { manage: "owned", makesGroups: true, users: ["admin"], groups: ["Administrator", "All"] },
      limits: { sources: {}, floor: 10, action: "hold" },
    },
  );
  await staff.runIt(sync, apply, {
    report: async (report) => {
      found = report.causes ?? [];
    },
  });
  return found.map((cause) => `${cause.users + cause.groups} ${describeCause(cause)}`);
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
    '12 dn changed from "ou=Sales" to "ou=Revenue" (corp)',
    "2 gone from corp",
    "2 members of Finance changed in the source",
    "1 somebody changed the target: mail",
    "1 new in corp",
    '1 left the scope: status changed from "active" to "left" (corp)',
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

test("a changed rule is the configuration, not the people", async () => {
  await apply();
  rules = { ...rules, users: { ...rules.users, mail: 'replace(entry.mail, "example.com", "example.org")' } };
  settings = { syncs: { staff: { mail: "…" } } };
  expect(await apply()).toEqual(["20 the configuration changed: syncs.staff.mail"]);
  expect(await causes()).toEqual([]);
});

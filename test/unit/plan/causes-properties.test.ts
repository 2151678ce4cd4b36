import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { serviceAttributes } from "#principals/attributes.ts";
import { describeCause, findCauses } from "#plan/causes.ts";
import type { Cause } from "#plan/causes.ts";
import { depart } from "#plan/departures.ts";
import { createPlan } from "#plan/diff.ts";
import { combine, freeze } from "#plan/protect.ts";
import { tablesOf } from "#plan/tables.ts";
import { assemble } from "#principals/assembly.ts";
import { compileRules } from "#principals/compile.ts";
import type { Entry } from "#principals/entry.ts";
import type { Rules } from "#principals/rules.ts";
import { filesIn } from "#state/folder/store.ts";
import { loadBaseline, storeBaseline } from "#sync/planning/baseline.ts";
import { refusingSlowJoins, useConnection } from "../../support/duckdb.ts";
import { cases } from "../../support/random.ts";

const tables = tablesOf(serviceAttributes);

const connection = useConnection();
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-causes-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

interface Person {
  login: string;
  ou: string;
  department: string;
  domain: string;
  status: string;
}
interface Company {
  readonly people: Map<string, Person>;
  readonly teams: Map<string, Set<string>>;
  /** Mail addresses that somebody changed in the target. */
  readonly meddled: Set<string>;
  description: string;
  readonly keys: string[];
}

const ous = ["Sales", "Research", "Works"];
const departments = ["D1", "D2", "D3"];

const rulesOf = ({ description }: Company): Rules => ({
  users: {
    include: 'entry.status == "active"',
    name: "entry.login",
    displayName: "entry.dn",
    mail: "entry.mail",
    description,
    groups: "entry.department",
  },
  groups: { name: "entry.name", displayName: "entry.name" },
  staticGroups: [...departments, "D4"].map((name) => ({ name, displayName: name, groups: [] })),
});

function entriesOf({ people, teams }: Company): Entry[] {
  const rest = { memberOf: [], members: [] };
  const users = [...people].map(([id, { login, ou, department, domain, status }]): Entry => {
    const dn = `uid=${id},ou=${ou},dc=example,dc=com`;
    const attributes = { dn, login, department, status, mail: `${id}@${domain}` };
    return { kind: "user", id, origin: dn, attributes, keys: [id], ...rest };
  });
  const groups = [...teams].map(([name, members]): Entry => {
    const keys = [...members].filter((id) => people.has(id)).map((key) => ({ key }));
    return { kind: "group", id: name, origin: name, attributes: { name }, keys: [name], memberOf: [], members: keys };
  });
  return [...users, ...groups];
}

/** Plants a cause on these people and says how the plan has to name it. */
interface Plant {
  readonly name: string;
  /** Whether it needs people whom no other cause touches. */
  readonly people: boolean;
  plant(company: Company, ids: readonly string[]): string;
}

const each = (company: Company, ids: readonly string[], change: (person: Person, id: string) => void): void => {
  for (const id of ids) {
    const person = company.people.get(id);
    if (person !== undefined) change(person, id);
  }
};

const plants: readonly Plant[] = [
  {
    name: "an organizational unit renamed",
    people: false,
    plant: (company) => {
      each(company, [...company.people.keys()], (person) => {
        if (person.ou === "Sales") person.ou = "Revenue";
      });
      return 'dn changed from "ou=Sales" to "ou=Revenue" (corp)';
    },
  },
  {
    name: "a domain renamed",
    people: false,
    plant: (company) => {
      each(company, [...company.people.keys()], (person) => {
        person.domain = "new.example";
      });
      return 'mail changed from "old.example" to "new.example" (corp)';
    },
  },
  {
    name: "the configuration changed",
    people: false,
    plant: (company) => {
      company.description = '"someone"';
      company.keys.push("syncs.staff.users.description");
      return "the configuration changed: syncs.staff.users.description";
    },
  },
  {
    name: "people left",
    people: true,
    plant: ({ people }, ids) => {
      for (const id of ids) people.delete(id);
      return "gone from corp";
    },
  },
  {
    name: "people came",
    people: true,
    plant: ({ people }, ids) => {
      for (const id of ids)
        people.set(`new-${id}`, {
          login: `new-${id}`,
          ou: "Works",
          department: "D1",
          domain: [...people.values()][0]?.domain ?? "",
          status: "active",
        });
      return "new in corp";
    },
  },
  {
    name: "people went out of scope",
    people: true,
    plant: (company, ids) => {
      each(company, ids, (person) => {
        person.status = "left";
      });
      return 'left the scope: status changed from "active" to "left" (corp)';
    },
  },
  {
    name: "people came into scope",
    people: true,
    plant: (company, ids) => {
      // They were out of it before the baseline was stored: see `prepare`.
      each(company, ids, (person) => {
        person.status = "active";
      });
      return 'came into scope: status changed from "left" to "active" (corp)';
    },
  },
  {
    name: "people changed the target",
    people: true,
    plant: ({ meddled }, ids) => {
      for (const id of ids) meddled.add(id);
      return "somebody changed the target: mail";
    },
  },
  {
    name: "people moved to another department",
    people: true,
    plant: (company, ids) => {
      each(company, ids, (person) => {
        person.department = "D4";
      });
      return "department";
    },
  },
  {
    name: "people were renamed",
    people: true,
    plant: (company, ids) => {
      each(company, ids, (person, id) => {
        person.login = `other-${id}`;
      });
      return "renamed";
    },
  },
  {
    name: "people joined a team",
    people: true,
    plant: ({ teams }, ids) => {
      for (const id of ids) teams.get("Finance")?.add(id);
      return "members of";
    },
  },
];

/** Holds what a cause says of those who came or left together to the records of that time. */
function expectTogether({ attribute, from, to, of, users, groups }: Cause, entries: readonly Entry[]): void {
  expect(of === undefined).toBe(attribute === undefined);
  if (attribute === undefined || of === undefined) return;
  const value = from ?? to;
  const inScope = entries.filter(({ kind, attributes }) => kind === "group" || attributes["status"] === "active");
  const team = entries.find(({ kind, id }) => kind === "group" && id === value);
  const having = inScope.filter(({ kind, id, origin, attributes }) => {
    if (attribute === "dn") return origin.endsWith(`,${value}`);
    if (attribute !== "memberOf(entry)") return attributes[attribute] === value;
    // A group of the source, or one of a rule.
    return kind === "user" && (team?.members.some(({ key }) => key === id) ?? attributes["department"] === value);
  });
  expect(having).toHaveLength(of);
  expect(users + groups).toBeGreaterThanOrEqual(2);
  expect(users + groups).toBeLessThanOrEqual(of);
}

async function plan(company: Company): Promise<void> {
  async function* records(): AsyncIterable<readonly Entry[]> {
    yield entriesOf(company);
  }
  await assemble(connection(), [{ name: "corp", records: records() }], compileRules(rulesOf(company)), {
    signal: new AbortController().signal,
    keepAttributes: true,
  });
  await freeze(connection(), { manage: "owned", makesGroups: true, users: [], groups: [] });
  await depart(connection(), { renames: "apply", reusedNames: "apply", after: 0, administrators: [] }, 0);
  await combine(connection(), serviceAttributes);
  await createPlan(connection(), serviceAttributes);
}

/** The last applied run, whose baseline is stored. */
async function runBefore(company: Company): Promise<void> {
  await connection().run(`
    CREATE OR REPLACE TEMP TABLE ledger (${tables.ledger});
    CREATE OR REPLACE TEMP TABLE leaving_since (${tables.leaving_since});
    CREATE OR REPLACE TABLE actual_foreign (${tables.actual_foreign});
    CREATE OR REPLACE TEMP TABLE left_out (${tables.left_out});
    CREATE OR REPLACE TEMP TABLE drift_left (${tables.drift_left});
    CREATE OR REPLACE TEMP TABLE drift_wanted (${tables.drift_wanted});
    CREATE OR REPLACE TABLE actual (${tables.actual})`);
  await plan(company);
  await loadBaseline(connection(), filesIn(join(folder, "none")), { name: "staff", place: "here" }, serviceAttributes);
  await storeBaseline(connection(), filesIn(folder), "staff", { at: "", settings: {} });
  await connection().run(`
    CREATE OR REPLACE TEMP TABLE ledger AS FROM assembled_origin;
    CREATE OR REPLACE TABLE actual AS FROM desired`);
}

test("finding causes compares no change with every other one", async () => {
  const person = { ou: "Sales", department: "D1", domain: "old.example", status: "active" };
  const company: Company = {
    people: new Map(["ada", "bob"].map((login) => [login, { login, ...person }])),
    teams: new Map([["Finance", new Set(["ada"])]]),
    meddled: new Set(),
    description: "entry.login",
    keys: [],
  };
  await runBefore(company);
  each(company, ["bob"], (bob) => Object.assign(bob, { department: "D2", login: "rob" }));
  each(company, ["ada"], (ada) => Object.assign(ada, { department: "D2" }));
  company.teams.set("Works", company.teams.get("Finance") ?? new Set());
  company.teams.delete("Finance");
  await loadBaseline(connection(), filesIn(folder), { name: "staff", place: "here" }, serviceAttributes);
  await plan(company);
  const causes = await findCauses(refusingSlowJoins(connection()), {
    attributes: serviceAttributes,
    reads: compileRules(rulesOf(company)).reads(),
    hasBaseline: true,
    hasGrace: false,
    changedKeys: [],
  });
  expect(causes.map(({ kind }) => kind)).toContain("attribute");
});

test("a plan names exactly the causes that there are, and they explain all of it", async () => {
  const person = fc.record({ ou: fc.constantFrom(...ous), department: fc.constantFrom(...departments) });
  const arbitrary = fc.record({
    people: fc.array(person, { minLength: 3, maxLength: 40, size: "max" }),
    chosen: fc.subarray(plants.map((_, index) => index)),
    shares: fc.array(fc.integer({ min: 0, max: plants.length + 3 }), { minLength: 40, maxLength: 40 }),
  });
  await fc.assert(
    fc.asyncProperty(arbitrary, async ({ people, chosen, shares }) => {
      const company: Company = {
        people: new Map(
          people.map(({ ou, department }, index) => [
            `p${index}`,
            { login: `p${index}`, ou, department, domain: "old.example", status: "active" },
          ]),
        ),
        teams: new Map([["Finance", new Set<string>()]]),
        meddled: new Set(),
        description: "entry.login",
        keys: [],
      };
      const of = (index: number): string[] => [...company.people.keys()].filter((_, place) => shares[place] === index);
      const touched = new Map(chosen.map((index) => [index, of(index)]));
      const into = plants.findIndex(({ name }) => name === "people came into scope");
      each(company, touched.get(into) ?? [], (each) => {
        each.status = "left";
      });
      await runBefore(company);

      const domain = plants.findIndex(({ name }) => name === "a domain renamed");
      const drift = plants.findIndex(({ name }) => name === "people changed the target");
      const expected = new Set<string>();
      const before = entriesOf(company);
      for (const index of chosen) {
        const ids = touched.get(index) ?? [];
        const plant = plants[index];
        // Where the source changes the mail of everybody, what somebody did to it no longer shows.
        if (plant === undefined || (plant.people && ids.length === 0) || (index === drift && chosen.includes(domain)))
          continue;
        if (plant.name.startsWith("an org") && ![...company.people.values()].some(({ ou }) => ou === "Sales")) continue;
        const said = plant.plant(company, ids);
        expected.add(said);
      }
      for (const id of company.meddled)
        await connection().run(`UPDATE actual SET mail = 'mine@example.net' WHERE kind = 'user' AND name = '${id}'`);
      await loadBaseline(connection(), filesIn(folder), { name: "staff", place: "here" }, serviceAttributes);
      await plan(company);
      const causes = await findCauses(connection(), {
        attributes: serviceAttributes,
        reads: compileRules(rulesOf(company)).reads(),
        hasBaseline: true,
        hasGrace: false,
        changedKeys: company.keys,
      });
      const said = new Set(
        causes.map((cause) => {
          // Whole values depend on which people are hit.
          const text = describeCause({ ...cause, whole: undefined, partial: undefined });
          if (cause.kind === "new" || cause.kind === "gone") {
            expectTogether(cause, cause.kind === "new" ? entriesOf(company) : before);
            return text.replace(/:.*/, "");
          }
          if (cause.kind === "rename") return "renamed";
          if (cause.kind === "membership") return "members of";
          return cause.attribute === "department" ? "department" : text;
        }),
      );
      const hidden = new Set([...expected].filter((text) => !said.has(text)));
      // Nobody may be left whom a company-wide cause could show on.
      for (const text of hidden) expect(text).toMatch(/^dn changed|^mail changed|^the configuration/);
      expect([...said].filter((text) => !expected.has(text))).toEqual([]);
      const [unexplained] = await connection().rows<{ n: bigint }>(
        "SELECT count(*) AS n FROM changes ANTI JOIN change_cause USING (kind, name)",
      );
      expect(unexplained?.n).toBe(0n);
    }),
    { numRuns: cases(10) },
  );
});

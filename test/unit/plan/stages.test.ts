import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { findCauses } from "#plan/causes.ts";
import { depart } from "#plan/departures.ts";
import type { DepartureRules, Departures } from "#plan/departures.ts";
import { createPlan } from "#plan/diff.ts";
import { checkLimits, measure } from "#plan/limits.ts";
import { combine, freeze } from "#plan/protect.ts";
import { narrow, waitingFor, withhold } from "#plan/selection.ts";
import { stageTimes, stageWords } from "#plan/stages.ts";
import type { Stages } from "#plan/stages.ts";
import { tablesOf } from "#plan/tables.ts";
import { Attributes } from "#principals/attributes.ts";
import type { Principal } from "#principals/principal.ts";
import { useConnection } from "../../support/duckdb.ts";
import { cases } from "../../support/random.ts";
import { fill } from "./directories.ts";

const connection = useConnection();
const day = 86_400_000;
const now = Date.UTC(2026, 5, 1);

const attributes = new Attributes([
  { name: "userName", type: "text", kind: "user", isName: "user" },
  { name: "active", type: "boolean", kind: "user" },
]);
const tables = tablesOf(attributes);

type State = "active" | "suspended";

function user(name: string, state: State = "active", ...groupNames: string[]): Principal {
  return { kind: "user", name, userName: name, active: state === "active", groupNames };
}

const staff: Principal = { kind: "group", name: "staff", groupNames: [] };

interface Scene {
  readonly present: readonly Principal[];
  readonly target: readonly Principal[];
  readonly since?: readonly (readonly [name: string, since: number])[];
  readonly rules?: Partial<DepartureRules>;
  readonly at?: number;
}

/** Plans what becomes of a target whose principals the sync all owns. */
async function plan({ present, target, since = [], rules = {}, at = now }: Scene): Promise<Departures> {
  await fill(
    connection(),
    "assembled",
    present.map(({ kind, name, groupNames }) => ({ kind, name, groupNames })),
    attributes,
  );
  await connection().run(`
    CREATE OR REPLACE TABLE assembled AS SELECT *, 'hr' AS source, name AS source_id, 'people.csv:2' AS origin, 0 AS kept FROM assembled;
    CREATE OR REPLACE TABLE quarantined (${tables.quarantined}); CREATE OR REPLACE TABLE contributor (${tables.contributor});
    CREATE OR REPLACE TABLE record (${tables.record}); CREATE OR REPLACE TABLE rule_membership (${tables.rule_membership});
    INSERT INTO record BY NAME SELECT kind, name, source, source_id, 'in' AS scope, '{}' AS attributes FROM assembled;
    CREATE OR REPLACE TEMP TABLE leaving_since (${tables.leaving_since}); CREATE OR REPLACE TEMP TABLE lost_recently (${tables.lost_recently})`);
  await fill(connection(), "actual", target, attributes);
  await connection().run(`
    CREATE OR REPLACE TEMP TABLE ledger (${tables.ledger});
    INSERT INTO ledger SELECT kind, name, 'hr', name FROM actual`);
  for (const [name, moment] of since)
    await connection().run("INSERT INTO leaving_since VALUES ('user', ?, ?)", [name, BigInt(moment)]);
  await freeze(connection(), { manage: "owned", makesGroups: true, users: [], groups: [] });
  const usual = { after: 0, renames: "apply", reusedNames: "hold", administrators: [] } as const;
  const departures = await depart(connection(), { ...usual, ...rules }, at);
  await combine(connection(), attributes);
  return departures;
}

async function changes(): Promise<string[]> {
  const { changes: all } = await createPlan(connection(), attributes);
  return (await Array.fromAsync(all())).map(({ action, name }) => `${action} ${name}`);
}

const suspending: Partial<DepartureRules> = { suspend: 0, after: 90 * day };

describe("who is gone from the sources", () => {
  test("is suspended with all memberships, stays so, and is active again once back", async () => {
    const target = [staff, user("ada", "active", "staff"), user("bob", "active", "staff")];
    const departures = await plan({ present: target.slice(0, 2), target, rules: suspending });
    expect(await changes()).toEqual(["suspend bob"]);
    expect(departures.leaving).toMatchObject({
      count: 1,
      examples: [{ name: "bob", suspendedOn: new Date(now).toISOString(), on: new Date(now + 90 * day).toISOString() }],
    });
    const later = [staff, user("ada", "active", "staff"), user("bob", "suspended", "staff")];
    await plan({ present: target.slice(0, 2), target: later, since: [["bob", now - day]], rules: suspending });
    expect(await changes()).toEqual([]);
    await plan({ present: target, target: later, since: [["bob", now - day]], rules: suspending });
    expect(await changes()).toEqual(["reactivate bob"]);
    await plan({ present: target.slice(0, 2), target: later, since: [["bob", now - 90 * day]], rules: suspending });
    expect(await changes()).toEqual(["delete bob"]);
  });

  test("is never deleted where that is so, and told how it is; groups are not suspended", async () => {
    const target = [staff, user("bob", "active", "staff"), user("cem", "suspended")];
    const departures = await plan({
      present: [],
      target,
      since: [["cem", now - 40 * day]],
      rules: { suspend: 30 * day, never: ["user"], after: day },
    });
    expect(await changes()).toEqual([]);
    expect(departures.leaving).toMatchObject({ count: 1, groups: 1 });
    expect(departures.staying).toEqual({
      count: 2,
      active: 1,
      examples: [
        { kind: "user", name: "bob", suspendedOn: new Date(now + 30 * day).toISOString() },
        { kind: "user", name: "cem", suspendedOn: new Date(now - 10 * day).toISOString() },
      ],
    });
  });

  test("is described by the stage", () => {
    const words = (stages: Stages, isSuspended = false, kind: "user" | "group" = "user") =>
      stageWords(stageTimes(stages, kind, now - day), isSuspended);
    expect(words({ after: 7 * day })).toBe("it leaves on 2026-06-07T00:00:00.000Z (deletions.after)");
    expect(words({ after: 7 * day, suspend: 0 }, true)).toBe(
      "it has been suspended since 2026-05-31T00:00:00.000Z, and leaves on 2026-06-07T00:00:00.000Z (deletions)",
    );
    expect(words({ after: 0, never: ["user"], suspend: 7 * day })).toBe(
      "it is suspended from 2026-06-07T00:00:00.000Z on, and is never deleted (deletions)",
    );
    expect(words({ after: 0, never: ["user", "group"], suspend: 0 }, false, "group")).toBe(
      "it is never deleted (deletions.delete: never)",
    );
  });
});

describe("suspensions", () => {
  const people = Array.from({ length: 40 }, (_, n) => user(`u${String(n).padStart(2, "0")}`));
  const limits = { sources: {}, floor: 0, suspends: { percent: 10, per: "day" } } as const;
  const facts = { sizes: [], history: { applied: [], reads: [] }, overrides: [] };

  test("of many at once are beyond a limit of their own, by which they wait while the rest goes on", async () => {
    const target = [...people, user("zoe", "suspended")];
    await plan({ present: [...people.slice(10), user("zoe"), user("new")], target, rules: suspending });
    await createPlan(connection(), attributes);
    const measured = await measure(connection(), attributes, { ...limits, action: "apply-the-rest" });
    expect(measured.amounts).toContainEqual({ measure: "suspends", of: "users", amount: 10, base: 40 });
    expect(measured.amounts).toContainEqual({ measure: "updates", of: "users", amount: 1, base: 41 });
    const checks = checkLimits({ ...limits, action: "apply-the-rest" }, { ...facts, ...measured });
    expect(checks).toMatchObject([{ limit: "suspends", value: 10, bound: 4, tripped: true }]);
    const waiting = waitingFor(checks, attributes);
    expect([...waiting]).toEqual(["suspends"]);
    await withhold(connection(), attributes, waiting);
    expect(await changes()).toEqual(["create new", "reactivate zoe"]);
  });

  test("go on while updates wait, wait when a source shrinks, and can be selected", async () => {
    const target = [...people.slice(0, 2), user("zoe", "suspended")];
    const scene = { present: [...people.slice(0, 1), user("zoe")], target, rules: suspending };
    await plan(scene);
    await createPlan(connection(), attributes);
    await measure(connection(), attributes, { ...limits, action: "hold" });
    await withhold(connection(), attributes, new Set(["updates"]));
    expect(await changes()).toEqual(["suspend u01"]);
    const shrunk = { limit: "shrink", of: "users of hr", tripped: true, overridden: false } as const;
    const check = { ...shrunk, value: 1, earlier: 0, bound: 0, basis: "" };
    expect([...waitingFor([check], attributes)]).toEqual(["deletes", "suspends", "membershipsLost"]);
    await plan(scene);
    expect(await changes()).toEqual(["suspend u01", "reactivate zoe"]);
    await narrow(connection(), { only: ["reactivate"] });
    expect(await changes()).toEqual(["reactivate zoe"]);
  });

  test("have the cause that deletions have; by hand, they are drift", async () => {
    const target = [...people, user("zoe", "suspended"), user("kim", "suspended"), user("eve")];
    await plan({
      present: [...people.slice(6), user("zoe"), user("kim")],
      target,
      since: [["zoe", now - day]],
      rules: suspending,
    });
    await createPlan(connection(), attributes);
    await connection().run(`
      CREATE OR REPLACE TABLE baseline_record AS FROM record UNION ALL BY NAME
      SELECT kind, name, 'hr' AS source, name AS source_id, 'in' AS scope, '{"department": "Sales"}' AS attributes FROM actual
      WHERE name < 'u06' AND name <> 'eve' AND name <> 'kim';
      CREATE OR REPLACE TABLE baseline_membership (${tables.baseline_membership});
      CREATE OR REPLACE TABLE baseline_target AS
      SELECT * REPLACE (CASE name WHEN 'eve' THEN false WHEN 'kim' THEN true ELSE active END AS active) FROM actual`);
    const causes = await findCauses(connection(), {
      attributes,
      reads: { users: new Map([["name", ["id"]]]), groups: new Map() },
      hasBaseline: true,
      hasGrace: true,
      suspendsLater: false,
      changedKeys: [],
    });
    expect(causes).toMatchObject([
      { kind: "gone", attribute: "department", to: undefined, from: "Sales", users: 6 },
      { kind: "drift", attribute: "active", users: 2, example: { name: "eve" } },
      { kind: "new", users: 1, example: { name: "zoe" } },
    ]);
  });
});

describe("any history", () => {
  const days = 9;
  const duration = fc.integer({ min: 0, max: 6 });
  const stages = fc.record(
    {
      after: duration.map((each) => each * day),
      never: fc.constantFrom([], ["user"], ["group"], ["user", "group"]),
      suspend: duration.map((each) => each * day),
    },
    { requiredKeys: ["after"] },
  ) as fc.Arbitrary<Stages>;
  const presence = fc.array(fc.boolean(), { minLength: days, maxLength: days });

  test("ends as a person would expect: each user by its own days, whatever else happens", async () => {
    await fc.assert(
      fc.asyncProperty(stages, fc.array(presence, { minLength: 120, maxLength: 120 }), async (rules, people) => {
        const names = people.map((_, n) => `u${n}`);
        const expected = new Map<string, State>();
        const gone = new Map<string, number>();
        let target: Principal[] = [];
        let since: (readonly [string, number])[] = [];
        for (let today = 0; today < days; today++) {
          const at = now + today * day;
          const present = names.filter((_, n) => people[n]?.[today] === true);
          for (const name of names) {
            const state = expected.get(name);
            if (present.includes(name)) {
              gone.delete(name);
              expected.set(name, "active");
            } else if (state !== undefined) {
              const left = gone.get(name) ?? at;
              gone.set(name, left);
              const { suspendedAt = Infinity, deletedAt = Infinity } = stageTimes(rules, "user", left);
              if (deletedAt <= at) gone.delete(name);
              if (deletedAt <= at) expected.delete(name);
              else if (suspendedAt <= at) expected.set(name, "suspended");
            }
          }
          await plan({ present: present.map((name) => user(name)), target, since, rules, at });
          const rows = await connection().rows<{ name: string; active: boolean }>("SELECT name, active FROM desired");
          expect(new Map(rows.map(({ name, active }) => [name, active ? "active" : "suspended"]))).toEqual(
            new Map(expected),
          );
          target = rows.map(({ name, active }) => user(name, active ? "active" : "suspended"));
          const left = await connection().rows<{ name: string; since: bigint }>(
            "SELECT name, since FROM gone SEMI JOIN desired USING (kind, name)",
          );
          since = left.map((row) => [row.name, Number(row.since)]);
        }
      }),
      { numRuns: cases(2) },
    );
  });
});

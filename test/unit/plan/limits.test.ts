import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { serviceAttributes } from "#principals/attributes.ts";
import { checkLimits, measure, measures } from "#plan/limits.ts";
import type { Amount, Bound, Facts, History, Limits, Measure } from "#plan/limits.ts";
import { createPlan } from "#plan/diff.ts";
import { describeCheck } from "#plan/render/shared.ts";
import { waitingFor, withhold } from "#plan/selection.ts";
import type { Principal } from "#principals/principal.ts";
import { planWithinLimits } from "#sync/planning/limits.ts";
import { useConnection } from "../../support/duckdb.ts";
import { byCodePoint, directory, fill } from "./directories.ts";
import { cases } from "../../support/random.ts";

const connection = useConnection();
const noFacts: Facts = { amounts: [], sizes: [], history: { applied: [], reads: [] }, overrides: [] };
const limitsOf = (limits: Partial<Limits>): Limits => ({ sources: {}, floor: 10, action: "hold", ...limits });
const deletes = (amount: number, base: number): Amount => ({ measure: "deletes", of: "users", amount, base });

describe("a bound", () => {
  const check = (limits: Partial<Limits>, facts: Partial<Facts>) => {
    const [found] = checkLimits(limitsOf(limits), { ...noFacts, ...facts });
    return found;
  };

  test.each([
    [{ count: 20 }, 20, 1000, false],
    [{ count: 20 }, 21, 1000, true],
    [{ count: 0 }, 1, 1000, true],
    [{ percent: 5 }, 50, 1000, false],
    [{ percent: 5 }, 51, 1000, true],
    [{ percent: 0.5 }, 11, 2199, true],
    // Below the floor no percentage is tripped, but a floor never lets more than half go.
    [{ percent: 5 }, 10, 20, false],
    [{ percent: 5 }, 11, 20, true],
    [{ percent: 0 }, 10, 20, false],
    [{ percent: 10 }, 5, 11, false],
    [{ percent: 10 }, 6, 11, true],
    [{ percent: 10 }, 1, 2, false],
    [{ percent: 10 }, 1, 1, true],
    // Who asks for more by a percentage or a number means it.
    [{ percent: 80 }, 9, 12, false],
    [{ count: 10 }, 10, 11, false],
    [{ percent: 10, floor: 100 }, 7, 12, true],
    // Of both, the smaller one holds; a count has no floor.
    [{ count: 3, percent: 5 }, 4, 1000, true],
    [{ count: 300, percent: 5 }, 51, 1000, true],
    // Of nothing there is no part: a first run is not held by a percentage.
    [{ percent: 5 }, 5000, 0, false],
    [{ count: 20, percent: 5 }, 21, 0, true],
    [{ percent: 7 }, 70, 1000, false],
  ])("%j lets %i of %i pass, or not: %s", (bound, amount, base, tripped) => {
    const found = check({ deletes: { ...bound, per: "run" } }, { amounts: [deletes(amount, base)] });
    expect(found?.tripped ?? false).toBe(tripped);
  });

  test("per day counts what was applied in the 24 hours before, of what there was then", () => {
    const history = { applied: [{ measure: "deletes" as const, of: "users", amount: 60 }], reads: [] };
    const amounts = [deletes(40, 940)];
    expect(check({ deletes: { percent: 10, per: "day" } }, { amounts, history })).toMatchObject({
      value: 100,
      earlier: 60,
      bound: 100,
      tripped: false,
    });
    const more = [deletes(41, 940)];
    expect(check({ deletes: { percent: 10, per: "day" } }, { amounts: more, history })?.tripped).toBe(true);
    expect(check({ deletes: { percent: 10, per: "run" } }, { amounts: more, history })?.tripped).toBe(false);
    // A plan without deletions is not held for those of before.
    expect(check({ deletes: { count: 50, per: "day" } }, { amounts: [deletes(0, 940)], history })?.tripped).toBe(false);
  });

  test("an override counts for its limit alone, and is shown as one only where the limit is tripped", () => {
    const amounts = [deletes(50, 100), { ...deletes(50, 100), measure: "updates" as const }];
    const limits = { deletes: { count: 10, per: "run" as const }, updates: { count: 60, per: "run" as const } };
    expect(checkLimits(limitsOf(limits), { ...noFacts, amounts, overrides: ["deletes", "updates"] })).toMatchObject([
      { limit: "deletes", tripped: true, overridden: true },
      { limit: "updates", tripped: false, overridden: false },
    ]);
  });

  test("a source is compared with its last good read, per day with the largest within 24 hours", () => {
    const sizes = [{ source: "hr", kind: "user" as const, size: 75 }];
    const reads = [{ source: "hr", kind: "user" as const, size: 90, most: 100 }];
    const facts = { sizes, history: { applied: [], reads } };
    expect(check({ shrink: { percent: 20, per: "run" } }, facts)).toMatchObject({
      value: 15,
      bound: 18,
      tripped: false,
    });
    expect(check({ shrink: { percent: 20, per: "day" } }, facts)).toMatchObject({
      value: 25,
      bound: 20,
      tripped: true,
    });
    expect(check({ shrink: { percent: 20, per: "day" } }, { sizes })).toBeUndefined();
  });

  test("held names are counted against what the sync manages", () => {
    const limits = { heldNames: { percent: 20, per: "day" as const } };
    const held = (count: number): Partial<Facts> => ({ heldNames: [{ of: "users", held: count, base: 100 }] });
    expect(check(limits, held(20))).toMatchObject({ limit: "heldNames", of: "users", bound: 20, tripped: false });
    expect(check(limits, held(21))).toMatchObject({ value: 21, tripped: true, overridden: false });
    expect(check(limits, { ...held(21), overrides: ["heldNames"] })).toMatchObject({ overridden: true });
  });

  test("what becomes empty is a share of all attributes, and of each by itself, where the floor counts whole", () => {
    const valuesOf = (attribute: string, amount: number, base: number): Amount => {
      return { measure: "blanked", of: `values of ${attribute}`, attribute, amount, base };
    };
    const found = (bound: Partial<Bound>, ...amounts: Amount[]) =>
      checkLimits(limitsOf({ blanked: { ...bound, per: "day" } }), {
        ...noFacts,
        amounts,
        history: { applied: [{ measure: "blanked", of: "values of title", amount: 5 }], reads: [] },
      }).map(({ of, value, bound: most, tripped }) => [of, value, most, tripped]);
    const all: Amount = { measure: "blanked", of: "attributes", amount: 80, base: 1_000 };
    expect(found({ percent: 10 }, all, valuesOf("title", 80, 195), valuesOf("mail", 3, 3))).toEqual([
      ["attributes", 80, 100, false],
      ["values of title", 85, 20, true],
      ["values of mail", 3, 10, false],
    ]);
    expect(found({ count: 5 }, all, valuesOf("title", 80, 195))).toEqual([["attributes", 80, 5, true]]);
  });

  test("of any number of things, a percentage below half with any floor lets at most half of them go", () => {
    fc.assert(
      fc.property(fc.nat(60), fc.nat(60), fc.nat(50), fc.nat(80), (base, some, percent, floor) => {
        const amount = Math.min(base, some);
        const per = "run" as const;
        const each = { percent, per };
        const found = checkLimits(
          limitsOf({
            deletes: each,
            membershipsLost: each,
            emptied: each,
            blanked: each,
            shrink: each,
            quarantined: each,
            heldNames: each,
            floor,
          }),
          {
            ...noFacts,
            amounts: (["deletes", "membershipsLost", "emptied", "blanked"] as const).map((name) => ({
              measure: name,
              of: "users",
              amount,
              base,
            })),
            sizes: [
              { source: "lost", kind: "user", size: base - amount },
              { source: "doubt", kind: "user", size: base, quarantined: amount },
            ],
            heldNames: [{ of: "users", held: amount, base }],
            history: { applied: [], reads: [{ source: "lost", kind: "user", size: base, most: base }] },
          },
        );
        const counting = found.filter(({ value }) => value > 0);
        if (amount > 0) expect(counting).toHaveLength(7);
        for (const { limit, tripped, value, bound } of counting) {
          expect(tripped).toBe(value > bound);
          const least = limit === "quarantined" || limit === "heldNames" ? 1 : 0;
          expect(bound).toBeLessThanOrEqual(Math.max(least, Math.floor(base / 2)));
        }
      }),
      { numRuns: cases(200) },
    );
  });

  test("records in doubt are counted against what their source has in scope, at a first read too", () => {
    const size = { source: "hr", kind: "user" as const, size: 100 };
    const limits = { quarantined: { percent: 20, per: "day" as const } };
    expect(check(limits, { sizes: [{ ...size, quarantined: 20 }] })).toMatchObject({
      value: 20,
      bound: 20,
      tripped: false,
    });
    expect(check(limits, { sizes: [{ ...size, quarantined: 21 }] })).toMatchObject({
      limit: "quarantined",
      of: "users of hr",
      tripped: true,
    });
    expect(check(limits, { sizes: [{ ...size, size: 10, quarantined: 5 }] })).toMatchObject({ tripped: false });
    expect(check(limits, { sizes: [{ ...size, size: 10, quarantined: 6 }] })).toMatchObject({
      tripped: true,
      basis: "half of 10; the floor of 10 would be more",
    });
    expect(check({}, { sizes: [{ ...size, quarantined: 100 }] })).toBeUndefined();
  });

  test("the fewest users and groups are those of all sources together, or of one", () => {
    const sizes = [
      { source: "hr", kind: "user" as const, size: 9 },
      { source: "hr", kind: "group" as const, size: 3 },
    ];
    const limits = { minUsers: 10, minGroups: 3, sources: { hr: { minUsers: 9, minGroups: 4 } } };
    const facts = { ...noFacts, sizes, inScope: { users: 9, groups: 3 } };
    const tripped = checkLimits(limitsOf(limits), facts).filter((each) => each.tripped);
    expect(tripped.map(({ limit, of }) => `${limit} ${of}`)).toEqual(["minUsers users", "minGroups groups of hr"]);
    // Where a source could not be read, nothing is concluded from the sum.
    expect(checkLimits(limitsOf(limits), { ...noFacts, sizes: [] })).toEqual([]);
  });
});

/** A directory in which every group that somebody is in exists, as a service holds it. */
const whole = directory.map((principals): Principal[] => {
  const groups = new Set(principals.filter(({ kind }) => kind === "group").map(({ name }) => name));
  return principals.map((each) =>
    Object.assign(each, { groupNames: each.groupNames.filter((name) => groups.has(name)) }),
  );
});

/** What a run knows besides its plan. */
const unknown = { scope: { sizes: [] }, history: noFacts.history as History, overrides: [], drift: undefined };

const some = (most: number) => fc.option(fc.nat(most), { nil: undefined });
const bound = fc.option(
  fc.record({ count: some(3), percent: some(60) }).map(({ count, percent }): Bound => ({
    ...(count === undefined ? {} : { count }),
    ...(percent === undefined ? {} : { percent }),
    per: "run",
  })),
  { nil: undefined },
);
const someLimits = fc
  .record({
    deletes: bound,
    updates: bound,
    creates: bound,
    membershipsLost: bound,
    "membershipsLost.perGroup": bound,
    emptied: bound,
    blanked: bound,
    floor: fc.nat(4),
  })
  .map(({ floor, ...bounds }) =>
    limitsOf({ ...Object.fromEntries(Object.entries(bounds).filter(([, each]) => each !== undefined)), floor }),
  );

async function fillBoth(actual: readonly Principal[], desired: readonly Principal[]): Promise<void> {
  await fill(connection(), "actual", actual);
  await fill(connection(), "desired", desired);
  await fill(connection(), "managed", desired);
  await connection().run("CREATE OR REPLACE TEMP TABLE frozen (kind VARCHAR, name VARCHAR, reason VARCHAR)");
  await createPlan(connection(), serviceAttributes);
}

async function desiredNow(): Promise<{ kind: string; name: string; group_names: string[] }[]> {
  return connection().rows("SELECT kind, name, group_names FROM desired ORDER BY kind, name");
}

describe("apply-the-rest, for any two directories and any limits", () => {
  test("what is left exceeds no limit, and is a whole directory", async () => {
    await fc.assert(
      fc.asyncProperty(whole, whole, someLimits, async (actual, desired, limits) => {
        await fillBoth(actual, desired);
        const { heldNames: _, ...before } = await measure(connection(), serviceAttributes, limits);
        const waiting = new Set(waitingFor(checkLimits(limits, { ...noFacts, ...before }), serviceAttributes));
        await planWithinLimits(
          connection(),
          { rules: { declared: serviceAttributes }, limits: { ...limits, action: "apply-the-rest" } },
          unknown,
        );
        const { heldNames: __, ...after } = await measure(connection(), serviceAttributes, limits);
        expect(checkLimits(limits, { ...noFacts, ...after }).filter(({ tripped }) => tripped)).toEqual([]);
        for (const { measure, of, amount } of after.amounts) {
          // Groups whose new members are not created may lose all they have; so may groups that are kept while all their
          // members are deleted.
          const mayEmpty = ["creates", "updates", "membershipsLost"] as const;
          if (measure === "emptied" && mayEmpty.some((each) => waiting.has(each))) continue;
          const was = before.amounts.find((each) => each.measure === measure && each.of === of)?.amount ?? 0;
          expect(amount, `${measure} ${of}`).toBeLessThanOrEqual(waiting.has(measure) ? 0 : was);
        }
        const rows = await desiredNow();
        const groups = new Set(rows.filter(({ kind }) => kind === "group").map(({ name }) => name));
        for (const { group_names: names } of rows) {
          expect(names.filter((name) => !groups.has(name))).toEqual([]);
          expect(names).toEqual([...new Set(names)].sort(byCodePoint));
        }
      }),
      { numRuns: cases(20) },
    );
  });

  test("members that an emptied group gets back keep the other groups they were in", async () => {
    const user = (name: string, ...groupNames: string[]): Principal => ({
      kind: "user",
      name,
      displayName: name,
      groupNames,
    });
    const group = (name: string, ...groupNames: string[]): Principal => ({
      kind: "group",
      name,
      displayName: name,
      groupNames,
    });
    // Without `gone`, ada would come back with one group less: an update, which no limit has looked at.
    const actual = [user("ada", "gone", "staff"), group("gone", "outer"), group("outer"), group("staff")];
    await fillBoth(actual, [group("staff")]);
    const limits = limitsOf({
      emptied: { count: 0, per: "run" },
      updates: { count: 0, per: "run" },
      action: "apply-the-rest",
    });
    const { plan, waiting } = await planWithinLimits(
      connection(),
      { rules: { declared: serviceAttributes }, limits },
      unknown,
    );
    expect(waiting).toEqual(["emptied"]);
    expect(await Array.fromAsync(plan.changes())).toEqual([]);
    expect(await desiredNow()).toEqual(
      [...actual]
        .map(({ kind, name, groupNames }) => ({ kind, name, group_names: groupNames }))
        .sort((a, b) => byCodePoint(`${a.kind} ${a.name}`, `${b.kind} ${b.name}`)),
    );
  });

  test("where deletions alone wait, everything else goes on", async () => {
    await fc.assert(
      fc.asyncProperty(whole, whole, async (actual, desired) => {
        await fillBoth(actual, desired);
        const before = await measure(connection(), serviceAttributes, limitsOf({}));
        await withhold(connection(), serviceAttributes, new Set<Measure>(["deletes"]));
        await createPlan(connection(), serviceAttributes);
        const after = await measure(connection(), serviceAttributes, limitsOf({}));
        const created = ({ amounts }: { amounts: readonly Amount[] }) =>
          amounts.filter(({ measure }) => measure === "creates");
        expect(created(after)).toEqual(created(before));
        const names = new Set((await desiredNow()).map(({ kind, name }) => `${kind}:${name}`));
        for (const { kind, name } of [...actual, ...desired]) expect(names).toContain(`${kind}:${name}`);
      }),
      { numRuns: cases(5) },
    );
  });

  test("where updates wait, groups stay that somebody would leave by their deletion", async () => {
    const ada = { kind: "user", name: "ada", displayName: "Ada" } as const;
    const staff = { kind: "group", name: "staff", displayName: "Staff", groupNames: [] } as const;
    await fillBoth([{ ...ada, groupNames: ["staff"] }, staff], [{ ...ada, groupNames: [] }]);
    await withhold(connection(), serviceAttributes, new Set<Measure>(["updates"]));
    const plan = await createPlan(connection(), serviceAttributes);
    expect(await Array.fromAsync(plan.changes())).toEqual([]);
  });

  test("where everything waits, nothing changes", async () => {
    await fc.assert(
      fc.asyncProperty(whole, whole, async (actual, desired) => {
        await fillBoth(actual, desired);
        await withhold(connection(), serviceAttributes, new Set<Measure>(measures));
        await createPlan(connection(), serviceAttributes);
        const { amounts } = await measure(connection(), serviceAttributes, limitsOf({}));
        expect(amounts.filter(({ amount }) => amount > 0)).toEqual([]);
      }),
      { numRuns: cases(5) },
    );
  });
});

test("what is measured: each kind apart, memberships and attributes of those who stay, of what the sync manages", async () => {
  const user = (name: string, groupNames: string[] = [], rest: Partial<Principal> = {}): Principal => ({
    kind: "user",
    name,
    displayName: name,
    groupNames,
    ...rest,
  });
  const group = (name: string): Principal => ({ kind: "group", name, displayName: name, groupNames: [] });
  await fillBoth(
    [
      user("ada", ["a", "b"], { mail: "ada@x", description: "d" }),
      user("gone", ["a", "b"], { mail: "gone@x" }),
      user("local", ["a"], { mail: "local@x" }),
      group("a"),
      group("b"),
    ],
    [user("ada", ["a"], { description: "other" }), user("local", ["a"], { mail: "local@x" }), user("new"), group("a")],
  );
  await connection().run("INSERT INTO frozen VALUES ('user', 'local', 'unmanaged')");
  const { amounts } = await measure(connection(), serviceAttributes, limitsOf({}));
  expect(
    amounts.filter(({ amount }) => amount > 0).sort((a, b) => byCodePoint(a.measure + a.of, b.measure + b.of)),
  ).toEqual([
    { measure: "blanked", of: "attributes", amount: 1, base: 3 },
    { measure: "blanked", of: "values of mail", attribute: "mail", amount: 1, base: 2 },
    { measure: "creates", of: "users", amount: 1, base: 2 },
    { measure: "deletes", of: "groups", amount: 1, base: 2 },
    { measure: "deletes", of: "users", amount: 1, base: 2 },
    { measure: "membershipsLost", of: "memberships", amount: 1, base: 4 },
    { measure: "updates", of: "users", amount: 1, base: 2 },
  ]);
});

describe("single groups", () => {
  const group = (name: string): Principal => ({ kind: "group", name, displayName: name, groupNames: [] });
  const users = (count: number, ...groupNames: string[]): Principal[] =>
    Array.from({ length: count }, (_, place) => ({
      kind: "user",
      name: `${groupNames[0] ?? "nobody"}${String(place).padStart(2, "0")}`,
      displayName: "x",
      groupNames,
    }));
  const without = (principals: readonly Principal[], from: number, groupName: string): Principal[] =>
    principals.map((each, place) =>
      place < from ? each : { ...each, groupNames: each.groupNames.filter((name) => name !== groupName) },
    );

  async function checked(limits: Partial<Limits>, action: Limits["action"] = "hold") {
    const { checks, waiting } = await planWithinLimits(
      connection(),
      { rules: { declared: serviceAttributes }, limits: limitsOf({ ...limits, action }) },
      unknown,
    );
    return { lines: checks.filter(({ tripped }) => tripped).map(describeCheck), waiting };
  }
  const half = { "membershipsLost.perGroup": { percent: 50, floor: 5, per: "day" } } as const;
  const none = { emptied: { count: 0, per: "day" } } as const;

  test("one that loses more than its share of those who stay is named, and the others are not", async () => {
    const [lab, board, crew] = [users(50, "lab"), users(8, "board"), users(20, "crew")];
    const groups = ["lab", "board", "crew"].map(group);
    const target = [...groups, ...lab, ...board, ...crew];
    await fillBoth(target, [
      ...groups,
      ...without(lab, 9, "lab"),
      ...without(board, 3, "board"),
      ...without(crew, 10, "crew"),
    ]);
    expect((await checked(half)).lines).toEqual([
      "membershipsLost.perGroup: 1 group, at most 0 (none may lose more than 50% of its members): lab loses 41 of 50",
    ]);
    // Those who leave the target count where a group would have nobody left, and not as lost by it.
    await fillBoth(target, [...groups, ...lab.slice(0, 9), ...board, ...crew]);
    expect((await checked({ ...half, ...none })).lines).toEqual([]);
    await fillBoth(target, [...groups, ...lab, ...crew]);
    expect((await checked({ ...half, ...none })).lines).toEqual([
      "emptied: 1 group, at most 0 (as configured): board loses all 8",
    ]);
    // A group that is deleted is not emptied, and neither is one that gets others.
    await fillBoth(target, [
      group("lab"),
      group("crew"),
      ...without(lab, 0, "lab"),
      ...without(board, 0, "board"),
      ...users(1, "lab", "x").map((each) => ({ ...each, name: "new", groupNames: ["lab"] })),
      ...crew,
    ]);
    expect((await checked(none)).lines).toEqual([]);
  });

  test("what they have lost in the 24 hours before counts, of the members that they had", async () => {
    const lab = users(40, "lab");
    await fillBoth([group("lab"), ...lab], [group("lab"), ...without(lab, 24, "lab")]);
    expect((await checked(half)).lines).toEqual([]);
    await connection().run("INSERT INTO lost_recently VALUES ('lab', 20)");
    expect((await checked(half)).lines).toEqual([
      "membershipsLost.perGroup: 1 group, at most 0 (none may lose more than 50% of its members): lab loses 36 of 60",
    ]);
    expect((await checked({ "membershipsLost.perGroup": { percent: 50, floor: 5, per: "run" } })).lines).toEqual([]);
    await connection().run("DELETE FROM lost_recently");
  });

  test("protected and unmanaged ones are not the sync's to lose", async () => {
    const [lab, crew] = [users(20, "lab"), users(20, "crew")];
    await fillBoth([group("lab"), group("crew"), ...lab, ...crew], [group("lab"), group("crew")]);
    await connection().run("INSERT INTO frozen VALUES ('group', 'lab', 'protected'), ('group', 'crew', 'unmanaged')");
    expect((await checked({ ...half, ...none })).lines).toEqual([]);
  });

  test("apply-the-rest keeps the members of those groups alone", async () => {
    const [lab, board, crew] = [users(20, "lab"), users(20, "board"), users(20, "crew")];
    const groups = ["lab", "board", "crew"].map(group);
    await fillBoth(
      [...groups, ...lab, ...board, ...crew],
      [...groups, ...without(lab, 5, "lab"), ...without(crew, 18, "crew")],
    );
    const { lines, waiting } = await checked({ ...half, ...none }, "apply-the-rest");
    expect(lines).toHaveLength(2);
    expect(waiting).toEqual(["membershipsLost.perGroup", "emptied"]);
    const left = await desiredNow();
    const members = (name: string) => left.filter(({ group_names: names }) => names.includes(name)).length;
    expect([members("lab"), members("board"), members("crew")]).toEqual([20, 20, 18]);
  });
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { serviceAttributes } from "#principals/attributes.ts";
import type { Action, Change } from "#plan/change.ts";
import { createPlan } from "#plan/diff.ts";
import { narrow, narrowTo } from "#plan/selection.ts";
import { tablesOf } from "#plan/tables.ts";
import type { Selection } from "#plan/selection.ts";
import type { Principal } from "#principals/principal.ts";
import { useConnection } from "../../support/duckdb.ts";
import { cases } from "../../support/random.ts";
import { applyOf, byCodePoint, directory, fill, keyOf } from "./directories.ts";

const tables = tablesOf(serviceAttributes);

const connection = useConnection();

/** As a target has it: nobody is in a group that is not there. */
const valid = directory.map((principals) => {
  const groups = new Set(principals.filter(({ kind }) => kind === "group").map(({ name }) => name));
  return principals.map((each) => ({ ...each, groupNames: each.groupNames.filter((name) => groups.has(name)) }));
});

const actions: readonly Action[] = ["create", "update", "delete"];

async function planned(actual: readonly Principal[], desired: readonly Principal[]): Promise<Change[]> {
  await fill(connection(), "actual", actual);
  await fill(connection(), "desired", desired);
  await connection().run("CREATE OR REPLACE TEMP TABLE managed AS SELECT kind, name FROM desired");
  return Array.fromAsync((await createPlan(connection(), serviceAttributes)).changes());
}

async function narrowed(selection: Selection): Promise<Change[]> {
  await narrow(connection(), selection);
  return Array.fromAsync((await createPlan(connection(), serviceAttributes)).changes());
}

const principal = (kind: Principal["kind"], name: string, ...groupNames: string[]): Principal => ({
  kind,
  name,
  displayName: name,
  groupNames,
});

test.each<[string, Selection, string[]]>([
  ["only these", { these: [{ kind: "user", name: "ada" }] }, ["ada"]],
  ["nobody", { these: [] }, []],
  ["all but one", { except: [{ kind: "user", name: "ada" }] }, ["bob"]],
  ["whatever it creates", { only: ["create"] }, ["ada", "bob"]],
])("a part adopts by name whom it names: %s", async (_, selection, adopted) => {
  await planned([principal("user", "gone")], [principal("user", "new")]);
  await connection().run(
    "INSERT INTO adoptable VALUES ('user', 'ada', 'hr', '1', '2'), ('user', 'bob', 'hr', '3', '4')",
  );
  await narrow(connection(), selection);
  const rows = await connection().rows<{ name: string }>("SELECT name FROM adoptable ORDER BY name");
  await connection().run("DELETE FROM adoptable");
  expect(rows.map(({ name }) => name)).toEqual(adopted);
});

test("a selection is a part of the plan, leaves the rest unchanged, and its result is consistent", async () => {
  await fc.assert(
    fc.asyncProperty(
      valid,
      valid,
      fc.option(fc.subarray([...actions], { minLength: 1 }), { nil: undefined }),
      fc.array(fc.nat(), { maxLength: 3 }),
      async (actual, desired, only, picks) => {
        const whole = await planned(actual, desired);
        const except = picks.flatMap((pick) => {
          const change = whole[pick % Math.max(1, whole.length)];
          return change === undefined ? [] : [{ kind: change.kind, name: change.name }];
        });
        const part = await narrowed({ except, ...(only === undefined ? {} : { only }) });
        const isExcluded = ({ kind, name, action }: Change): boolean =>
          except.some((each) => each.kind === kind && each.name === name) || only?.includes(action) === false;

        for (const change of part) {
          const shown = whole.find(({ kind, name }) => kind === change.kind && name === change.name);
          expect(shown?.action).toBe(change.action);
          expect(isExcluded(change)).toBe(false);
          if (shown === undefined) continue;
          for (const attribute of change.attributes) expect(shown.attributes).toContainEqual(attribute);
          expect(shown.groupsAdded).toEqual(expect.arrayContaining([...change.groupsAdded]));
          expect(shown.groupsRemoved).toEqual(expect.arrayContaining([...change.groupsRemoved]));
        }
        const becomes = applyOf(actual, part);
        const groups = new Set(becomes.filter(({ kind }) => kind === "group").map(({ name }) => name));
        for (const { groupNames } of becomes) for (const name of groupNames) expect(groups).toContain(name);
        // What is not chosen is what it was; who is not created is no member, nor is any group missing that has one.
        const there = new Map(becomes.map((each) => [keyOf(each), each]));
        for (const change of whole.filter(isExcluded)) {
          const key = `${change.kind}:${change.name}`;
          expect(there.get(key)).toEqual(actual.find((each) => keyOf(each) === key));
        }
        // Everything else of the plan that can be done is.
        if (only === undefined && except.length === 0) expect(part).toEqual(whole);
        for (const change of whole)
          if (!isExcluded(change) && change.action === "create")
            expect(part.map(({ kind, name }) => `${kind}:${name}`)).toContain(`${change.kind}:${change.name}`);
      },
    ),
    { numRuns: cases(20) },
  );
});

describe("a part of a plan", () => {
  test("a group of which a member stays as it is stays too; without its other members", async () => {
    await planned(
      [principal("group", "old"), principal("user", "ada", "old"), principal("user", "bob", "old")],
      [principal("user", "bob")],
    );
    const part = await narrowed({ except: [{ kind: "user", name: "ada" }] });
    // Bob would have left it with the group: while it is there, he stays in it.
    expect(part).toEqual([]);
  });

  test("who is not created is not in the groups of others, and owned by nobody", async () => {
    await planned([principal("user", "ada")], [principal("group", "new"), principal("user", "ada", "new")]);
    expect(await narrowed({ except: [{ kind: "group", name: "new" }] })).toEqual([]);
    expect(await connection().rows("SELECT name FROM managed")).toEqual([{ name: "ada" }]);
  });

  test("a principal that the plan does not change cannot be left out", async () => {
    await planned([], [principal("user", "ada")]);
    await expect(narrowed({ except: [{ kind: "group", name: "ada" }] })).rejects.toThrow(
      "the plan does not change the group ada: it can be neither left out nor applied alone",
    );
  });
});

/** Narrows what is planned to these, `renamed` from one name to the other. */
async function narrowedTo(
  chosen: readonly Principal[],
  renamed: readonly (readonly [was: string, becomes: string])[] = [],
) {
  await connection().run(`
    CREATE OR REPLACE TEMP TABLE renamed (${tables.renamed}); CREATE TABLE IF NOT EXISTS actual_foreign (${tables.actual_foreign})`);
  for (const [was, becomes] of renamed)
    await connection().run("INSERT INTO renamed VALUES ('user', ?, ?)", [was, becomes]);
  const left = await narrowTo(connection(), chosen);
  return { left, changes: await Array.fromAsync((await createPlan(connection(), serviceAttributes)).changes()) };
}

test("a plan for some changes them, the members of chosen groups, and nothing else", async () => {
  await fc.assert(
    fc.asyncProperty(
      valid,
      valid,
      fc.array(fc.nat(), { minLength: 1, maxLength: 3 }),
      async (actual, desired, picks) => {
        const all = [...actual, ...desired];
        fc.pre(all.length > 0);
        const chosen = picks.map((pick) => all[pick % all.length] as Principal);
        const isChosen = (each: Principal): boolean => chosen.some((one) => keyOf(one) === keyOf(each));
        await planned(actual, desired);
        const { left, changes } = await narrowedTo(chosen);

        const groups = (some: readonly Principal[]): string[] =>
          some.filter(({ kind }) => kind === "group").map(({ name }) => name);
        const followed = groups(chosen);
        const there = new Set([...groups(actual), ...groups(desired.filter(isChosen))]);
        const wanted = desired.filter(isChosen);
        const expected = [
          ...wanted.map((each) => ({ ...each, groupNames: each.groupNames.filter((name) => there.has(name)) })),
          ...actual
            .filter((each) => !isChosen(each))
            .map((each) => {
              const becomes = desired.find((other) => keyOf(other) === keyOf(each))?.groupNames ?? [];
              const stay = each.groupNames.filter((name) => !followed.includes(name));
              const follow = becomes.filter((name) => followed.includes(name));
              return { ...each, groupNames: [...stay, ...follow].sort(byCodePoint) };
            }),
        ];
        const sorted = (principals: readonly Principal[]): Principal[] =>
          principals.toSorted((a, b) => byCodePoint(keyOf(a), keyOf(b)));
        expect(sorted(applyOf(actual, changes))).toEqual(sorted(expected));
        expect(left.count).toBe(wanted.flatMap((each) => each.groupNames.filter((name) => !there.has(name))).length);
        const managed = await connection().rows<{ name: string; kind: "user" | "group" }>(
          "SELECT kind, name FROM managed",
        );
        expect(managed.every((each) => chosen.some((one) => one.name === each.name && one.kind === each.kind))).toBe(
          true,
        );
      },
    ),
    { numRuns: cases(15) },
  );
});

test("whoever is renamed is both names, for others only where it is asked for", async () => {
  const [bob, rob, eve] = [principal("user", "bob"), principal("user", "rob"), principal("user", "eve")];
  await planned([bob, eve], [rob]);
  const { changes } = await narrowedTo([rob], [["bob", "rob"]]);
  expect(changes.map(({ action, name }) => `${action} ${name}`)).toEqual(["create rob", "delete bob"]);
  await planned([bob, eve], [rob]);
  expect((await narrowedTo([eve], [["bob", "rob"]])).changes).toMatchObject([{ action: "delete", name: "eve" }]);
});

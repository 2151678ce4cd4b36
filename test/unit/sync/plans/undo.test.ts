import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { literal } from "#duckdb/database.ts";
import { ruleSource } from "#principals/tables.ts";
import { serviceAttributes } from "#principals/attributes.ts";
import type { Change } from "#plan/change.ts";
import { createPlan } from "#plan/diff.ts";
import { narrow } from "#plan/selection.ts";
import type { Principal } from "#principals/principal.ts";
import { combinePreviousState } from "#sync/plans/undo.ts";
import { useConnection } from "../../../support/duckdb.ts";
import { cases } from "../../../support/random.ts";
import { applyOf, byCodePoint, directory, fill, keyOf } from "../../plan/directories.ts";

const connection = useConnection();

/** As a target has it: nobody is in a group that is not there. */
function whole(principals: readonly Principal[]): Principal[] {
  const groups = new Set(principals.filter(({ kind }) => kind === "group").map(({ name }) => name));
  return principals.map((each) => ({ ...each, groupNames: each.groupNames.filter((name) => groups.has(name)) }));
}
const target = directory.map(whole);

/** What of a plan is applied. */
const part = fc.record({
  only: fc.option(fc.subarray(["create", "update", "delete"] as const, { minLength: 1 }), { nil: undefined }),
  picks: fc.array(fc.nat(), { maxLength: 3 }),
});

const sync = {
  rules: { declared: serviceAttributes },
  protection: { manage: "owned", makesGroups: true, users: [], groups: [] },
  departures: { after: 0, administrators: [], renames: "hold", reusedNames: "hold" },
} as const;

const sorted = (principals: readonly Principal[]): Principal[] =>
  principals.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));

async function changesTo(actual: readonly Principal[], desired: readonly Principal[]): Promise<Change[]> {
  await fill(connection(), "actual", actual);
  await fill(connection(), "desired", desired);
  await connection().run("CREATE OR REPLACE TEMP TABLE managed AS SELECT kind, name FROM desired");
  return Array.fromAsync((await createPlan(connection(), serviceAttributes)).changes());
}

/** A run: what is applied of what it plans. Leaves `change_sides` of that. */
async function applied(
  actual: readonly Principal[],
  desired: readonly Principal[],
  { only, picks }: { only: readonly Change["action"][] | undefined; picks: readonly number[] },
): Promise<Change[]> {
  const all = await changesTo(actual, desired);
  const except = picks.flatMap((pick) => {
    const change = all[pick % Math.max(1, all.length)];
    return change === undefined ? [] : [{ kind: change.kind, name: change.name }];
  });
  await narrow(connection(), { except, ...(only === undefined ? {} : { only }) });
  return Array.fromAsync((await createPlan(connection(), serviceAttributes)).changes());
}

/** Plans the undo of changes that led from an earlier state to `actual`. */
async function undo(
  actual: readonly Principal[],
  { previouslyOwned, ledger }: { previouslyOwned: ReadonlySet<string>; ledger: ReadonlySet<string> },
): Promise<Change[]> {
  await connection().run("CREATE OR REPLACE TEMP TABLE leaving_since (kind VARCHAR, name VARCHAR, since BIGINT)");
  // One that rules have made comes back, whether anybody is in it or not.
  await own("previously_owned", previouslyOwned, true);
  await own("ledger", ledger);
  await fill(connection(), "actual", actual);
  await combinePreviousState(connection(), sync, Date.now());
  return Array.fromAsync((await createPlan(connection(), serviceAttributes)).changes());
}

/** Keeps what was applied last as the `n`th change to undo. */
async function remember(n: number): Promise<void> {
  const query = `SELECT ${n} AS n, kind, name, before, after FROM change_sides`;
  await connection().run(
    n === 0 ? `CREATE OR REPLACE TEMP TABLE undone_change AS ${query}` : `INSERT INTO undone_change ${query}`,
  );
}

/** Owns principals, each from a record of its own; `madeByRules`: groups from rules. */
async function own(table: string, keys: ReadonlySet<string>, madeByRules = false): Promise<void> {
  const rows = [...keys].map((key) => {
    const [kind, name] = [key.slice(0, key.indexOf(":")), key.slice(key.indexOf(":") + 1)];
    const source = madeByRules && kind === "group" ? ruleSource : "hr";
    return `(${literal(kind)}, ${literal(name)}, ${literal(source)}, ${literal(key)})`;
  });
  await connection().run(
    `CREATE OR REPLACE TEMP TABLE ${table} (kind VARCHAR, name VARCHAR, source VARCHAR, source_id VARCHAR);
     ${rows.length === 0 ? "" : `INSERT INTO ${table} VALUES ${rows.join(", ")}`}`,
  );
}

test("undoing any part of a run restores the previous state and keeps what others have changed since", async () => {
  await fc.assert(
    fc.asyncProperty(
      target,
      target,
      part,
      fc.option(target, { nil: undefined }),
      fc.infiniteStream(fc.boolean()),
      async (before, desired, chosen, others, owns) => {
        const changes = await applied(before, desired, chosen);
        const changed = new Map(changes.map((change) => [`${change.kind}:${change.name}`, change]));
        const created = [...changed].flatMap(([key, { action }]) => (action === "create" ? [key] : []));
        await remember(0);
        const after = applyOf(before, changes);
        // Others may have changed anybody since, including those whom the run had changed.
        const since = others === undefined ? after : applyOf(after, await changesTo(after, others));
        const owned = new Set(before.map(keyOf).filter((key) => changed.has(key) || owns.next().value === true));
        const way = await undo(since, {
          previouslyOwned: new Set([...owned].filter((key) => changed.has(key))),
          ledger: new Set([...owned, ...created]),
        });

        // The principals of the run are what they were, all others what they are, in groups that exist. Memberships in
        // groups of others stay, unless the run gave them.
        const now = new Map(since.map((each) => [keyOf(each), each]));
        const isOfOthers = (group: string): boolean => {
          const key = `group:${group}`;
          return now.has(key) && !changed.has(key) && !owned.has(key);
        };
        const restored = before
          .filter((each) => changed.has(keyOf(each)))
          .map((each) => {
            const added = changed.get(keyOf(each))?.groupsAdded ?? [];
            const given = (now.get(keyOf(each))?.groupNames ?? []).filter(
              (group) => isOfOthers(group) && !added.includes(group),
            );
            return { ...each, groupNames: [...new Set([...each.groupNames, ...given])].sort(byCodePoint) };
          });
        const untouched = since.filter((each) => !changed.has(keyOf(each)));
        const becomes = sorted(applyOf(since, way));
        expect(becomes).toEqual(sorted(whole([...restored, ...untouched])));
        if (others === undefined) expect(becomes).toEqual(sorted(before));
      },
    ),
    { numRuns: cases(10) },
  );
});

describe("memberships in a group that the sync does not own", () => {
  const group = (name: string, ...groupNames: string[]): Principal => ({
    kind: "group",
    name,
    displayName: name,
    groupNames,
  });
  const ada = new Set(["group:ada"]);

  test("are taken back when the run gave them", async () => {
    const before = [group("ada"), group("others")];
    const changes = await applied(before, [group("ada", "others"), group("others")], { only: undefined, picks: [] });
    await remember(0);
    const after = applyOf(before, changes);
    const way = await undo(after, { previouslyOwned: ada, ledger: ada });
    expect(sorted(applyOf(after, way))).toEqual(before);
  });

  test("stay when others gave them, also between two runs that are undone", async () => {
    const before = [group("ada"), group("others"), group("theirs")];
    const all = { only: undefined, picks: [] };
    const first = await applied(before, [group("ada", "others"), ...before.slice(1)], all);
    await remember(0);
    const between = [group("ada", "others", "theirs"), ...before.slice(1)];
    expect(first).toHaveLength(1);
    const second = await applied(between, [group("ada", "theirs"), ...before.slice(1)], all);
    await remember(1);
    const after = applyOf(between, second);
    const way = await undo(after, { previouslyOwned: ada, ledger: ada });
    expect(sorted(applyOf(after, way))).toEqual([group("ada", "theirs"), ...before.slice(1)]);
  });
});

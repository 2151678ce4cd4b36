import fc from "fast-check";
import { expect, test } from "vitest";
import { literal } from "#duckdb/database.ts";
import type { Change } from "#plan/change.ts";
import { createPlan } from "#plan/diff.ts";
import { narrow } from "#plan/selection.ts";
import type { Principal } from "#principals/principal.ts";
import { combineWayBack } from "#sync/plans/undo.ts";
import { useConnection } from "../../../support/memory.ts";
import { applyOf } from "../../plan/applying.ts";
import { byCodePoint, directory, fill, keyOf } from "../../plan/directories.ts";
import { cases } from "../../../support/random.ts";

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
  protection: { manage: "owned", makesGroups: true, users: [], groups: [] },
  departures: { after: 0, administrators: [], renames: "hold", reusedNames: "hold" },
} as const;

const sorted = (principals: readonly Principal[]): Principal[] =>
  principals.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));

async function changesTo(actual: readonly Principal[], desired: readonly Principal[]): Promise<Change[]> {
  await fill(connection(), "actual", actual);
  await fill(connection(), "desired", desired);
  await fill(connection(), "managed", desired);
  return Array.fromAsync((await createPlan(connection())).changes());
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
  return Array.fromAsync((await createPlan(connection())).changes());
}

/** Owns principals, each from a record of its own. */
async function own(table: string, keys: ReadonlySet<string>): Promise<void> {
  const rows = [...keys].map((key) => {
    const [kind, name] = [key.slice(0, key.indexOf(":")), key.slice(key.indexOf(":") + 1)];
    return `(${literal(kind)}, ${literal(name)}, 'hr', ${literal(key)})`;
  });
  await connection().run(
    `CREATE OR REPLACE TEMP TABLE ${table} (kind VARCHAR, name VARCHAR, source VARCHAR, source_id VARCHAR);
     ${rows.length === 0 ? "" : `INSERT INTO ${table} VALUES ${rows.join(", ")}`}`,
  );
}

test("after a run of which any part was applied, the way back leads to what was before, and what others have done since stays", async () => {
  await fc.assert(
    fc.asyncProperty(
      target,
      target,
      part,
      fc.option(target, { nil: undefined }),
      fc.infiniteStream(fc.boolean()),
      async (before, desired, chosen, others, owns) => {
        const changes = await applied(before, desired, chosen);
        const changed = new Set(changes.map(({ kind, name }) => `${kind}:${name}`));
        const created = new Set(
          changes.filter(({ action }) => action === "create").map(({ kind, name }) => `${kind}:${name}`),
        );
        await connection().run(`
          CREATE OR REPLACE TEMP TABLE way_back AS SELECT kind, name, before FROM change_sides;
          CREATE OR REPLACE TEMP TABLE leaving_since (kind VARCHAR, name VARCHAR, since BIGINT)`);
        const after = applyOf(before, changes);
        // Others may have changed anybody since, also those whom the run had changed.
        const since = others === undefined ? after : applyOf(after, await changesTo(after, others));
        const owned = new Set(before.map(keyOf).filter((key) => changed.has(key) || owns.next().value === true));
        await own("owned_then", new Set([...owned].filter((key) => changed.has(key))));
        await own("ledger", new Set([...owned, ...created]));

        await fill(connection(), "actual", since);
        await combineWayBack(connection(), sync, Date.now());
        const way = await Array.fromAsync((await createPlan(connection())).changes());

        // By principal: those of the run are what they were, all others what they are; in groups that are there. Who is in
        // a group of others stays in it.
        const now = new Map(since.map((each) => [keyOf(each), each]));
        const isOfOthers = (group: string): boolean => {
          const key = `group:${group}`;
          return now.has(key) && !changed.has(key) && !owned.has(key);
        };
        const restored = before
          .filter((each) => changed.has(keyOf(each)))
          .map((each) => {
            const given = (now.get(keyOf(each))?.groupNames ?? []).filter(isOfOthers);
            return { ...each, groupNames: [...new Set([...each.groupNames, ...given])].sort(byCodePoint) };
          });
        const untouched = since.filter((each) => !changed.has(keyOf(each)));
        const becomes = sorted(applyOf(since, way));
        expect(becomes).toEqual(sorted(whole([...restored, ...untouched])));
        if (others === undefined) expect(becomes).toEqual(sorted(before));
      },
    ),
    { numRuns: cases(25) },
  );
}, 240_000);

import { literal, useThreads } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { firstLineOf, InputError } from "#errors.ts";
import { depart } from "#plan/departures.ts";
import type { DepartureRules, Departures } from "#plan/departures.ts";
import { combine, freeze } from "#plan/protect.ts";
import type { Protection } from "#plan/protect.ts";
import { assembledDdl } from "#principals/tables.ts";
import { listTarget } from "#sync/planning/desired.ts";
import { planWithinLimits } from "#sync/planning/limits.ts";
import { departureNotes, told } from "#sync/planning/notes.ts";
import type { Planner } from "#sync/planning/planning.ts";
import { pluralize } from "#text.ts";
import type { Store } from "./stored.ts";

/**
 * Plans the way back to what the target was before a run: everybody whom it, or a later run of the same sync, has
 * changed is to be what they were. What others have changed since stays, and so does what is protected.
 * @param ids the run, and the later ones of its sync that were applied, oldest first
 */
export function planUndo(store: Store, ids: readonly string[]): Planner {
  return async (sync, workbench, options) => {
    const { connection } = workbench;
    const { signal, progress, history, overrides = [], now = Date.now() } = options;
    progress?.("read");
    try {
      await connection.run(`
        CREATE OR REPLACE TEMP TABLE way_back AS
        SELECT kind, name, min(n) AS n, first(before ORDER BY n) AS before FROM (${each(store, ids, "changes")}) GROUP BY kind, name;
        CREATE OR REPLACE TEMP TABLE owned_then AS
        SELECT o.kind, o.name, o.source, o.source_id FROM (${each(store, ids, "owned")}) o
        JOIN way_back w ON w.kind = o.kind AND w.name = o.name AND w.n = o.n`);
    } catch (error) {
      throw new InputError(
        `what was changed since is not all kept (${firstLineOf(error)}): the way back cannot be planned`,
        { cause: error },
      );
    }
    progress?.("list");
    await listTarget(sync.target, workbench, "actual", signal);
    await useThreads(connection);
    progress?.("plan");
    const { departures, lost } = await combineWayBack(connection, sync, now);
    const limited = await planWithinLimits(connection, sync, { scope: { sizes: [] }, history, overrides });
    const none = { count: 0, examples: [] };
    const { create } = limited.plan.counts.users;
    return {
      ...limited,
      ...told([
        ...departureNotes({ ...departures, renames: none, reused: none, leaving: none }, sync.name),
        ...(create === 0
          ? []
          : [
              `${pluralize(create, "user")} created anew: their passwords do not come back, nor what the service gave to the ones that were deleted`,
            ]),
        ...(lost === 0
          ? []
          : [
              `${pluralize(lost, "membership")} left out: somebody has deleted the group since, and it does not come back`,
            ]),
        `as long as the sources and the rules are what they are, the next run of ${sync.name} plans the same changes again; it waits for approval then`,
      ]),
      departures,
    };
  };
}

/** A table of several runs, as rows with their place `n` among them. */
function each(store: Store, ids: readonly string[], table: "changes" | "owned"): string {
  return ids
    .map((id, n) => `SELECT ${n} AS n, * FROM read_parquet(${literal(store.file(id, table))})`)
    .join(" UNION ALL ");
}

/** What there is to say of a way back beside its changes. */
export interface WayBack {
  readonly departures: Departures;
  /** How many memberships do not come back: somebody has deleted the group since. */
  readonly lost: number;
}

/**
 * Makes `desired` of what principals were before: those of `way_back (kind, name, before)` are to be that, or not to be
 * where it is NULL, and all others stay as they are in `actual`. Expects the tables of `openLedger` as well, and
 * `owned_then (kind, name, source, source_id)`, what the sync owned of them before.
 * @param now in epoch milliseconds
 */
export async function combineWayBack(
  connection: Connection,
  rules: { readonly protection: Protection; readonly departures: DepartureRules },
  now: number,
): Promise<WayBack> {
  await connection.run(`
    CREATE OR REPLACE TABLE assembled (${assembledDdl});
    CREATE OR REPLACE TABLE quarantined (kind VARCHAR, name VARCHAR, source VARCHAR, source_id VARCHAR, origin VARCHAR, reason VARCHAR);
    CREATE OR REPLACE TEMP TABLE origin_then AS
    SELECT * FROM owned_then
    UNION ALL
    SELECT kind, name, source, source_id FROM ledger ANTI JOIN way_back USING (kind, name);
    CREATE OR REPLACE TABLE contributor AS
    SELECT * EXCLUDE (r) FROM (
      SELECT *, row_number() OVER (PARTITION BY kind, name ORDER BY source, source_id) AS r FROM origin_then) WHERE r > 1;
    INSERT INTO assembled
    WITH first_origin AS (FROM origin_then ANTI JOIN contributor USING (kind, name, source, source_id)),
    state AS (
      SELECT kind, name, before.display_name, before.description, before.mail, before.group_names
      FROM way_back WHERE before IS NOT NULL
      UNION ALL
      SELECT a.kind, a.name, a.display_name, a.description, a.mail, a.group_names
      FROM actual a SEMI JOIN ledger USING (kind, name) ANTI JOIN way_back USING (kind, name))
    SELECT s.*, coalesce(o.source, ''), coalesce(o.source_id, ''), 'as it was', 0
    FROM state s LEFT JOIN first_origin o USING (kind, name)`);
  await freeze(connection, { ...rules.protection, manage: "owned", makesGroups: true });
  const departures = await depart(
    connection,
    { ...rules.departures, after: 0, renames: "apply", reusedNames: "apply" },
    now,
  );
  // Who is gone from the sources has not come back by it: their time goes on.
  await connection.run("INSERT INTO gone FROM leaving_since ANTI JOIN gone USING (kind, name)");
  const lost = await forgetLostGroups(connection);
  await combine(connection);
  return { departures, lost };
}

/**
 * Takes groups that will not be there out of `assembled`: those that the way back deletes, and those that somebody else
 * has deleted since. Returns how many memberships that were there then do not come back. Expects the tables of `depart`.
 */
async function forgetLostGroups(connection: Connection): Promise<number> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE lost_membership AS
    SELECT m.kind, m.name, m.g FROM (SELECT kind, name, unnest(group_names) AS g FROM assembled) m
    ANTI JOIN (
      SELECT name FROM assembled ANTI JOIN held_back USING (kind, name) WHERE kind = 'group' AND NOT is_protected(kind, name)
      UNION SELECT name FROM frozen WHERE kind = 'group') there ON there.name = m.g;
    UPDATE assembled SET group_names = list_filter(assembled.group_names, lambda g: NOT list_contains(l.names, g))
    FROM (SELECT kind, name, list(g) AS names FROM lost_membership GROUP BY kind, name) l
    WHERE l.kind = assembled.kind AND l.name = assembled.name`);
  const [row] = await connection.rows<{ n: bigint }>(
    "SELECT count(*) AS n FROM lost_membership SEMI JOIN way_back USING (kind, name)",
  );
  return Number(row?.n ?? 0);
}

import { literal, useThreads } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { firstLineOf, InputError } from "#errors.ts";
import { exists } from "#files/disk.ts";
import { foreignGroups } from "#plan/carried.ts";
import { depart } from "#plan/departures.ts";
import type { Departures } from "#plan/departures.ts";
import { combine, freeze } from "#plan/protect.ts";
import { tablesOf } from "#plan/tables.ts";
import { readTarget } from "#sync/planning/target.ts";
import { planWithinLimits, withExpectations } from "#sync/planning/limits.ts";
import { departureNotes } from "#sync/planning/notes.ts";
import { noteIf } from "#plan/note.ts";
import type { Planner } from "#sync/planning/planning.ts";
import type { Declaring, Sync } from "#sync/sync.ts";
import type { RunRecord } from "#state/record.ts";
import { pluralize } from "#text.ts";
import type { Plans } from "#state/plans.ts";

/**
 * Plans an undo: everything that a run, or a later run of the same sync, has changed gets its previous state back. What
 * others have changed since stays, and so does what is protected.
 * @param runs the run, and the later ones of its sync that were applied, oldest first
 */
export function planUndo(plans: Plans, runs: readonly Pick<RunRecord, "id" | "seal">[]): Planner {
  const ids = runs.map(({ id }) => id);
  const read: Planner["read"] = async (sync, workbench, { signal, warn, progress }) => {
    const { connection } = workbench;
    progress?.("read");
    await plans.fetch(ids);
    for (const { id, seal } of runs) await plans.verify(id, seal);
    try {
      await connection.run(`
        CREATE OR REPLACE TEMP TABLE undone_change AS
        SELECT n, kind, name, before, after, fields FROM (${each(plans, ids, "changes")});
        CREATE OR REPLACE TEMP TABLE previous_owner AS
        SELECT n, kind, name, source, source_id FROM (${each(plans, ids, "owned")});
        CREATE OR REPLACE TEMP TABLE name_taken (kind VARCHAR, name VARCHAR)`);
      for (const [n, id] of ids.entries()) await leaveUnwritten(connection, plans, id, n);
      for (const [n, id] of ids.entries()) await followRenames(connection, plans, id, n);
      await connection.run(`
        CREATE OR REPLACE TEMP TABLE previously_owned AS
        SELECT o.kind, o.name, o.source, o.source_id FROM previous_owner o
        JOIN (SELECT kind, name, min(n) AS n FROM undone_change GROUP BY kind, name) c
          ON c.kind = o.kind AND c.name = o.name AND c.n = o.n`);
    } catch (error) {
      throw new InputError(
        `the undo cannot be planned: some of the changes since are no longer stored (${firstLineOf(error)})`,
        { cause: error },
      );
    }
    progress?.("list");
    await readTarget(sync.target, workbench, "actual", { declared: sync.rules.declared, signal, warn });
  };
  return { read, plan: planPreviousState };
}

/** Takes back nothing that the `n`th run did not do: whom the target refused to create may have been there, and be somebody's. */
async function leaveUnwritten(connection: Connection, plans: Plans, id: string, n: number): Promise<void> {
  const unwritten = plans.file(id, "unwritten");
  if (!(await exists(unwritten))) return;
  await connection.run(`
    DELETE FROM undone_change WHERE n = ${n} AND (kind, name) IN (SELECT (kind, name) FROM read_parquet(${literal(unwritten)}))`);
}

/**
 * Gives the changes of the runs before the `n`th the names that this one gave in place: the target's object is the same, and
 * what it was called is one of its attributes. Those who had such a name before were others, who had been deleted: what they
 * were is nobody's any more (`name_taken`), nor are memberships in such a group.
 */
async function followRenames(connection: Connection, plans: Plans, id: string, n: number): Promise<void> {
  const renamed = plans.file(id, "renamed_in_place");
  if (n === 0 || !(await exists(renamed))) return;
  const named = (table: string): string => `
    DELETE FROM ${table} t USING given_name r WHERE t.n < ${n} AND r.kind = t.kind AND r.becomes = t.name;
    UPDATE ${table} t SET name = r.becomes FROM given_name r WHERE t.n < ${n} AND r.kind = t.kind AND r.was = t.name;`;
  const side = (which: "before" | "after"): string => `
    UPDATE undone_change t SET ${which} = struct_update(t.${which}, name := t.name, group_names := list_transform(
      list_filter(t.${which}.group_names, lambda g: NOT list_contains(m.given, g)), lambda g: coalesce(m.names[g], g)))
    FROM (SELECT map(list(was), list(becomes)) AS names, coalesce(list(becomes), []) AS given FROM given_name WHERE kind = 'group') m
    WHERE t.n < ${n} AND t.${which} IS NOT NULL;`;
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE given_name AS
    SELECT kind, was, becomes FROM read_parquet(${literal(renamed)}) r
    WHERE (kind, becomes) IN (SELECT (kind, name) FROM undone_change WHERE n = ${n});
    INSERT INTO name_taken SELECT DISTINCT t.kind, t.name FROM undone_change t JOIN given_name r
    ON t.n < ${n} AND r.kind = t.kind AND r.becomes = t.name;
    ${named("undone_change")} ${named("previous_owner")} ${side("before")} ${side("after")}`);
}

const planPreviousState: Planner["plan"] = async (sync, { connection }, options) => {
  const { signal, progress, history, overrides = [], now = Date.now() } = options;
  await useThreads(connection);
  progress?.("plan");
  // A principal that is created anew gets the target's own fields back.
  await connection.run(`
    INSERT INTO actual_extra
    SELECT kind, name, fields FROM (
      SELECT kind, name, first(fields ORDER BY n) AS fields, first(before ORDER BY n) AS before FROM undone_change GROUP BY kind, name)
    ANTI JOIN actual USING (kind, name) WHERE before IS NOT NULL AND fields IS NOT NULL`);
  const { departures, lost } = await combinePreviousState(connection, sync, now);
  await connection.run("CREATE OR REPLACE TEMP TABLE kept_by_hand AS FROM by_hand");
  const limited = await planWithinLimits(connection, sync, { scope: { sizes: [] }, history, overrides });
  const none = { count: 0, examples: [] };
  const { create } = limited.plan.counts.users;
  const { staying } = departures;
  const [taken] = await connection.rows<{ n: number }>("SELECT count(*)::INTEGER AS n FROM name_taken");
  const notes = [
    ...departureNotes(
      { ...departures, renames: none, reused: none, leaving: { ...none, groups: 0, days: [] }, staying: undefined },
      sync.name,
    ),
    ...noteIf(
      staying?.count ?? 0,
      `${pluralize(staying?.count ?? 0, "principal")} that the undone runs created: not deleted, users are suspended (deletions.delete: never)`,
    ),
    ...noteIf(
      create,
      `${pluralize(create, "user")} created again, without the passwords and the access that they had before they were deleted`,
    ),
    ...noteIf(
      taken?.n ?? 0,
      `${pluralize(taken?.n ?? 0, "principal")} not restored: a later run gave the name to another one`,
    ),
    ...noteIf(
      lost,
      `${pluralize(lost, "membership")} left out: the group has been deleted since, and an undo does not restore it`,
    ),
    {
      text: `unless the sources or the rules change, the next run of ${sync.name} plans the same changes again; it waits for approval then`,
    },
  ];
  const expected = await withExpectations(connection, sync, limited, { knowsSources: false, overrides, signal });
  return { ...expected, notes, departures };
};

/** A stored table of several runs, with each run's place `n` among them. */
function each(plans: Plans, ids: readonly string[], table: "changes" | "owned"): string {
  return [
    "SELECT NULL::VARCHAR AS fields WHERE false",
    ...ids.map((id, n) => `SELECT ${n} AS n, * FROM read_parquet(${literal(plans.file(id, table))})`),
  ].join(" UNION ALL BY NAME ");
}

/** What an undo says besides its changes. */
export interface PreviousState {
  readonly departures: Departures;
  /** How many memberships do not come back, because somebody has deleted the group since. */
  readonly lost: number;
}

/**
 * Makes `desired` of the previous state: the principals of `undone_change (n, kind, name, before, after)` get back what
 * they were before their first change, all others stay as they are in `actual`. `previously_owned (kind, name, source,
 * source_id)` has what the sync owned of them before.
 * @param now in epoch milliseconds
 */
export async function combinePreviousState(
  connection: Connection,
  { rules: { declared }, protection, departures: ruled }: Pick<Sync, "protection" | "departures"> & Declaring,
  now: number,
): Promise<PreviousState> {
  const tables = tablesOf(declared);
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE previous_state AS
    SELECT kind, name, first(before ORDER BY n) AS before,
      flatten(list(list_filter(coalesce(after.group_names, []::VARCHAR[]),
        lambda g: NOT list_contains(coalesce(before.group_names, []::VARCHAR[]), g)))) AS groups_added
    FROM undone_change GROUP BY kind, name;
    CREATE OR REPLACE TABLE assembled (${tables.assembled});
    CREATE OR REPLACE TABLE quarantined (${tables.quarantined});
    CREATE OR REPLACE TABLE record (${tables.record});
    CREATE OR REPLACE TABLE rule_membership (${tables.rule_membership});
    CREATE OR REPLACE TEMP TABLE previous_origin AS
    SELECT * FROM previously_owned
    UNION ALL
    SELECT kind, name, source, source_id FROM ledger ANTI JOIN previous_state USING (kind, name);
    CREATE OR REPLACE TABLE contributor AS
    SELECT * EXCLUDE (r) FROM (
      SELECT *, row_number() OVER (PARTITION BY kind, name ORDER BY source, source_id) AS r FROM previous_origin) WHERE r > 1;
    INSERT INTO assembled BY NAME
    WITH first_origin AS (FROM previous_origin ANTI JOIN contributor USING (kind, name, source, source_id)),
    state AS (
      SELECT kind, unnest(before) FROM previous_state WHERE before IS NOT NULL
      UNION ALL BY NAME
      FROM actual SEMI JOIN ledger USING (kind, name) ANTI JOIN previous_state USING (kind, name))
    SELECT s.*, coalesce(o.source, '') AS source, coalesce(o.source_id, '') AS source_id, 'as it was' AS origin, 0 AS kept
    FROM state s LEFT JOIN first_origin o USING (kind, name)`);
  await freeze(connection, { ...protection, manage: "owned", makesGroups: true });
  // A principal created by mistake has no grace period; where users are never deleted, it is suspended at once.
  const { never = [] } = ruled;
  const stages = { after: 0, suspend: never.includes("user") ? 0 : undefined };
  const departures = await depart(connection, { ...ruled, ...stages, renames: "apply", reusedNames: "apply" }, now);
  // An undo does not bring anybody back to the sources: their grace periods go on.
  await connection.run("INSERT INTO gone FROM leaving_since ANTI JOIN gone USING (kind, name)");
  const lost = await leaveLostGroups(connection);
  await combine(connection, declared);
  await takeBackMemberships(connection);
  return { departures, lost };
}

/**
 * `combine` keeps every membership in a group that the sync does not own. Those that the undone runs gave are taken back,
 * unless the group is protected.
 */
async function takeBackMemberships(connection: Connection): Promise<void> {
  await connection.run(`
    UPDATE desired SET group_names = list_filter(desired.group_names, lambda g:
      NOT list_contains(p.groups_added, g) OR list_contains(p.before.group_names, g) OR is_protected('group', g))
    FROM (FROM previous_state SEMI JOIN managed USING (kind, name)) p
    WHERE p.before IS NOT NULL AND p.kind = desired.kind AND p.name = desired.name`);
}

/**
 * Takes the groups out of `assembled` that will not exist: those that the undo deletes, and those that somebody else has
 * deleted since. Returns how many previous memberships do not come back.
 */
async function leaveLostGroups(connection: Connection): Promise<number> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE lost_membership AS
    SELECT m.kind, m.name, m.g FROM (SELECT kind, name, unnest(group_names) AS g FROM assembled) m
    ANTI JOIN (
      SELECT name FROM assembled ANTI JOIN held_back USING (kind, name) WHERE kind = 'group' AND NOT is_protected(kind, name)
      UNION SELECT name FROM frozen WHERE kind = 'group' UNION ${foreignGroups}) there ON there.name = m.g;
    UPDATE assembled SET group_names = list_filter(assembled.group_names, lambda g: NOT list_contains(l.names, g))
    FROM (SELECT kind, name, list(g) AS names FROM lost_membership GROUP BY kind, name) l
    WHERE l.kind = assembled.kind AND l.name = assembled.name`);
  const [row] = await connection.rows<{ n: bigint }>(
    "SELECT count(*) AS n FROM lost_membership SEMI JOIN previous_state USING (kind, name)",
  );
  return Number(row?.n ?? 0);
}

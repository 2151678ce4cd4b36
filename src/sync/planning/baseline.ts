import { join } from "node:path";
import { rm } from "node:fs/promises";
import { isDeepStrictEqual } from "node:util";
import type { Connection } from "#duckdb/database.ts";
import { tablesOf } from "#plan/tables.ts";
import type { Attributes } from "#principals/attributes.ts";
import { origins } from "#state/ledger/ledger.ts";
import { paths } from "#state/store.ts";
import type { StateFiles } from "#state/store.ts";
import type { Sync } from "#sync/sync.ts";
import { copySnapshot, findSnapshot, replaceDocument, storeSnapshot } from "./snapshot.ts";

/**
 * What the last applied run of a sync read and left: the tables `baseline_record`, `baseline_membership` and
 * `baseline_target`. Causes are found by comparing with it. A snapshot for each sync, in the folder `baselines`.
 */
export interface Baseline {
  /** The run, and when it was applied, ISO 8601. */
  readonly run?: string | undefined;
  readonly at: string;
  /** Identifies the target's service: of another one it says nothing. Absent in baselines of versions before 0.3. */
  readonly place?: string | undefined;
  /** What the sync was configured to do, without secrets, by key. */
  readonly settings: Readonly<Record<string, unknown>>;
}

const stored = {
  baseline_record: "record",
  baseline_membership: "membership",
  baseline_target: "target",
} as const;

function folderOf({ folder }: StateFiles): string {
  return join(folder, "baselines");
}

/** Makes the tables of the baseline of a sync, empty ones where there is none, or it is of a target at another place. */
export async function loadBaseline(
  connection: Connection,
  files: StateFiles,
  { name, place }: Pick<Sync, "name" | "place">,
  attributes: Attributes,
): Promise<Baseline | undefined> {
  const tables = tablesOf(attributes);
  await files.fetch(paths.baseline(name));
  const snapshot = await findSnapshot<Baseline>(folderOf(files), name);
  let loaded = snapshot !== undefined && (snapshot.document.place ?? place) === place;
  for (const [table, file] of Object.entries(stored) as [keyof typeof stored, string][])
    loaded &&=
      (await snapshot?.load(connection, file, table, "TEMP VIEW")) === true &&
      (await fits(connection, table, tables[table]));
  if (loaded) return snapshot?.document;
  for (const table of Object.keys(stored) as (keyof typeof stored)[])
    await connection.run(`DROP VIEW IF EXISTS temp.${table}; CREATE OR REPLACE TABLE ${table} (${tables[table]})`);
  return undefined;
}

/** Whether a table has its columns: an earlier release may have stored fewer, or the target declared others. */
async function fits(connection: Connection, table: string, ddl: string): Promise<boolean> {
  const columns = ddl.split(",").map((column) => column.trim().split(" ", 1)[0]);
  return connection.run(`SELECT ${columns.join(", ")} FROM ${table} LIMIT 0`).then(
    () => true,
    () => false,
  );
}

/**
 * Stores what a run read and left, after it was applied and verified. What of its plan was not applied (`left_out`), and
 * who is leaving later, keeps its earlier state, so that its cause stays what it was.
 * @param options.undone the run undid others. Nothing was read, and what it changed back will be planned again
 * @param options.isOlder the plan is from before the target was listed: what it does not change may have got memberships
 *   since, which nobody has looked at. Only those that were there before are left by the run
 */
export async function storeBaseline(
  connection: Connection,
  files: StateFiles,
  sync: string,
  baseline: Baseline,
  { undone = false, isOlder = false }: { readonly undone?: boolean; readonly isOlder?: boolean } = {},
): Promise<void> {
  if (!undone && !(await wasRecorded(connection))) return forgetBaseline(files, sync);
  const known = `(
    SELECT d.* REPLACE (CASE WHEN c.name IS NOT NULL THEN d.group_names
      ELSE list_filter(d.group_names, lambda g: list_contains(coalesce(b.group_names, []), g)) END AS group_names)
    FROM desired d LEFT JOIN changes c ON c.kind = d.kind AND c.name = d.name
    LEFT JOIN baseline_target b ON b.kind = d.kind AND b.name = d.name)`;
  // Drift that stays is drift the next time, too.
  const target = `
    WITH untouched AS (
      FROM baseline_target SEMI JOIN left_out USING (kind, name) ANTI JOIN changes USING (kind, name))
    FROM (
      FROM ${isOlder ? known : "desired"} ANTI JOIN drift_left USING (kind, name) ANTI JOIN untouched USING (kind, name)
      UNION ALL BY NAME FROM drift_wanted ANTI JOIN untouched USING (kind, name)
      UNION ALL BY NAME FROM untouched)
    ORDER BY kind, name`;
  const unsettled = "(FROM left_out UNION SELECT kind, name FROM frozen WHERE reason = 'leaving')";
  const kept = `
    SELECT * FROM baseline_record WHERE (kind, source, source_id) IN (
      SELECT (kind, source, source_id) FROM ledger SEMI JOIN ${unsettled} USING (kind, name)
      UNION SELECT (kind, source, source_id) FROM baseline_record SEMI JOIN ${unsettled} USING (kind, name))`;
  const record = undone
    ? `SELECT * REPLACE (CASE WHEN (kind, name) IN (SELECT (kind, name) FROM changes) THEN 'left out' ELSE scope END AS scope)
       FROM baseline_record
       UNION ALL BY NAME
       SELECT *, 'left out' AS scope, '{}' AS attributes FROM (${origins})
       SEMI JOIN changes USING (kind, name) ANTI JOIN baseline_record USING (kind, source, source_id)`
    : `SELECT r.* FROM record r ANTI JOIN left_out l ON l.kind = r.kind AND l.name = r.name
       ANTI JOIN (${kept}) k ON k.kind = r.kind AND k.source = r.source AND k.source_id = r.source_id
       UNION ALL ${kept}`;
  await storeSnapshot(
    connection,
    { folder: folderOf(files), name: sync, what: "the folder of the baselines" },
    {
      record: `FROM (${record}) ORDER BY source, kind, name`,
      membership: undone ? "FROM baseline_membership" : "FROM rule_membership ORDER BY kind, grp, name",
      target,
    },
    baseline,
  );
  await files.save(paths.baseline(sync));
}

/** Whether it is known what the run read: not if a release planned it that did not store that. */
async function wasRecorded(connection: Connection): Promise<boolean> {
  const [row] = await connection.rows<{ known: boolean }>(
    "SELECT EXISTS (FROM record WHERE scope = 'in') OR NOT EXISTS (FROM assembled) AS known",
  );
  return row?.known === true;
}

/** Copies the baseline of a sync, where there is one, for a rehearsal. */
export async function copyBaseline(files: StateFiles, sync: string, to: StateFiles): Promise<void> {
  await files.fetch(paths.baseline(sync));
  await copySnapshot(folderOf(files), sync, folderOf(to));
}

/** After a run of which it is not known what it read: the next plan has nothing to compare with. */
export async function forgetBaseline(files: StateFiles, sync: string): Promise<void> {
  await rm(join(folderOf(files), `${sync}.json`), { force: true });
  await files.save(paths.baseline(sync));
}

/**
 * Stores that the configuration has changed, and nothing else had to.
 * @param known as `loadBaseline` returned it: it names the folder of its tables, too
 */
export async function renewSettings(
  files: StateFiles,
  sync: string,
  known: Baseline,
  now: Pick<Sync, "settings" | "place">,
): Promise<void> {
  const { settings, place } = now;
  if (known.place === place && isDeepStrictEqual(known.settings, settings)) return;
  await replaceDocument(folderOf(files), sync, { ...known, settings, place });
  await files.save(paths.baseline(sync));
}

import { columnOf } from "#principals/attributes.ts";
import type { Attributes } from "#principals/attributes.ts";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { isExceeded } from "#plan/limits.ts";
import type { Amount, History, LimitCheck, SourceCounts, SourceSize } from "#plan/limits.ts";

/** The span that limits count over, in milliseconds. */
const day = 86_400_000;

/**
 * The history that limits need, in the ledger of the target (attached as `owned`): the changes of the last 24 hours, the
 * sizes of the sources at good reads and what they counted then, the members that single groups have lost, and since when
 * principals are gone from the sources: `leaving.since`. Where the clock was ahead or behind, it may be one of several times in
 * `leaving_recount`, too: the latest counts that is not in the future. So nobody is deleted early once the clock is right.
 */
const tables = {
  applied:
    "sync VARCHAR NOT NULL, moment BIGINT NOT NULL, measure VARCHAR NOT NULL, what VARCHAR NOT NULL, amount BIGINT NOT NULL",
  source_read:
    "sync VARCHAR NOT NULL, moment BIGINT NOT NULL, source VARCHAR NOT NULL, kind VARCHAR NOT NULL, size BIGINT NOT NULL",
  source_count: "sync VARCHAR NOT NULL, source VARCHAR NOT NULL, digest VARCHAR NOT NULL, counts VARCHAR NOT NULL",
  group_lost: "sync VARCHAR NOT NULL, moment BIGINT NOT NULL, name VARCHAR NOT NULL, lost BIGINT NOT NULL",
  leaving:
    "sync VARCHAR NOT NULL, kind VARCHAR NOT NULL, name VARCHAR NOT NULL, since BIGINT NOT NULL, suspended BOOLEAN",
  // Beside `leaving`, into which earlier releases write rows with all of its columns.
  leaving_recount: "sync VARCHAR NOT NULL, kind VARCHAR NOT NULL, name VARCHAR NOT NULL, since BIGINT NOT NULL",
} as const;

/** Creates missing tables in a ledger. */
export async function createHistory(connection: Connection): Promise<void> {
  for (const [table, columns] of Object.entries(tables))
    await connection.run(`CREATE TABLE IF NOT EXISTS owned.${table} (${columns})`);
  // Ledgers of earlier releases lack it.
  await connection.run("ALTER TABLE owned.leaving ADD COLUMN IF NOT EXISTS suspended BOOLEAN");
}

/**
 * Reads the history of a sync, and fills the tables `leaving_since` and `lost_recently` of the workbench.
 * @param now in epoch milliseconds
 */
export async function readHistory(connection: Connection, sync: string, now: number): Promise<History> {
  const known = await connection.rows<{ table_name: string }>(
    "SELECT table_name FROM duckdb_tables() WHERE database_name = 'owned'",
  );
  // The ledger is from before there were limits, and is only read.
  if (!known.some(({ table_name: name }) => name === "leaving")) return noHistory;
  const ofSync = `sync = ${literal(sync)}`;
  const isRecounted = known.some(({ table_name: name }) => name === "leaving_recount");
  await connection.run(
    `INSERT INTO leaving_since SELECT kind, name, since FROM (${leavingSince(now, isRecounted)}) WHERE ${ofSync}`,
  );
  const isRecent = `abs(moment - ${now}) < ${day}`;
  if (known.some(({ table_name: name }) => name === "group_lost"))
    await connection.run(`
      INSERT INTO lost_recently SELECT name, sum(lost)::BIGINT FROM owned.group_lost
      WHERE ${ofSync} AND ${isRecent} GROUP BY name`);
  const applied = await connection.rows<History["applied"][number]>(`
    SELECT measure, what AS of, sum(amount)::DOUBLE AS amount FROM owned.applied
    WHERE ${ofSync} AND ${isRecent} GROUP BY measure, what`);
  // One that is in the future was read before the clock was set back.
  const latest = `arg_max(size, CASE WHEN moment <= ${now} THEN moment ELSE 0 END)`;
  const reads = await connection.rows<History["reads"][number]>(`
    SELECT source, kind, ${latest}::DOUBLE AS size, greatest(${latest}, max(size) FILTER (${isRecent}))::DOUBLE AS most
    FROM owned.source_read WHERE ${ofSync} GROUP BY source, kind`);
  const counts = known.some(({ table_name: name }) => name === "source_count")
    ? await connection.rows<{ source: string; digest: string; counts: string }>(
        `SELECT source, digest, counts FROM owned.source_count WHERE ${ofSync}`,
      )
    : [];
  return {
    applied,
    reads,
    counts: counts.map(({ source, digest, counts }) => ({
      source,
      digest,
      counts: JSON.parse(counts) as Record<string, number>,
    })),
  };
}

/**
 * SQL: the rows of `owned.leaving` with the `since` that counts.
 * @param now in epoch milliseconds; @param isRecounted whether there is `owned.leaving_recount`
 */
export function leavingSince(now: number, isRecounted: boolean): string {
  const recounts = isRecounted
    ? `LEFT JOIN (SELECT sync, kind, name, max(since) AS since FROM owned.leaving_recount WHERE since <= ${now} GROUP BY ALL) r
       USING (sync, kind, name)`
    : "";
  const known = `CASE WHEN l.since <= ${now} THEN l.since END`;
  return `SELECT l.* REPLACE (coalesce(${isRecounted ? `greatest(${known}, r.since)` : known}, ${now}) AS since)
    FROM owned.leaving l ${recounts}`;
}

export const noHistory: History = { applied: [], reads: [], counts: [] };

/** What a successful run adds to the history. */
export interface Addition {
  /** In epoch milliseconds. */
  readonly now: number;
  /** What `laterTimes` says. Absent: none. */
  readonly later?: readonly number[] | undefined;
  readonly amounts: readonly Amount[];
  readonly scope: { readonly sizes: readonly SourceSize[] };
  /** What the target declares. */
  readonly declared: Attributes;
  /** Absent or without a source: it was not read. */
  readonly counts?: readonly SourceCounts[] | undefined;
  readonly checks: readonly LimitCheck[];
}

/**
 * Writes what a run did, in the caller's transaction. Overridden changes do not count against the runs of the next 24 hours.
 * A source that has too little is no good read, and those gone from it are not leaving; if that was overridden, the next
 * reads are compared with it. While a source cannot be read, nobody knows whether those who were leaving are back: their
 * grace periods go on. Runs after `depart`.
 */
export async function addHistory(connection: Connection, sync: string, addition: Addition): Promise<void> {
  const { now, amounts, checks } = addition;
  const { sizes } = addition.scope;
  const name = literal(sync);
  const overridden = checks.filter((check) => check.overridden);
  const counted = amounts.filter(
    ({ measure, of, amount }) => amount > 0 && !overridden.some((check) => check.limit === measure && check.of === of),
  );
  const isOverridden = overridden.some(({ limit }) => limit === "membershipsLost.perGroup");
  const rows = [
    `DELETE FROM owned.group_lost WHERE sync = ${name} AND moment <= ${now - day}`,
    `INSERT INTO owned.group_lost SELECT ${name}, ${now}, name, lost FROM group_loss
     WHERE lost > 0 ${isOverridden ? "AND NOT beyond" : ""}`,
    `DELETE FROM owned.applied WHERE sync = ${name} AND moment <= ${now - day}`,
    ...counted.map(
      ({ measure, of, amount }) =>
        `INSERT INTO owned.applied VALUES (${name}, ${now}, '${measure}', ${literal(of)}, ${amount})`,
    ),
  ];
  for (const { source, kind, size } of sizes) {
    if (isDoubted(checks, source, kind)) continue;
    const same = `sync = ${name} AND source = ${literal(source)} AND kind = '${kind}'`;
    const accepted = overridden.some(({ limit, of }) => limit === "shrink" && isOf(of, source, kind));
    rows.push(
      `DELETE FROM owned.source_read WHERE ${same} ${accepted ? "" : `AND moment <= ${now - day}`}`,
      `INSERT INTO owned.source_read VALUES (${name}, ${now}, ${literal(source)}, '${kind}', ${size})`,
    );
  }
  for (const { source, digest, counts } of addition.counts ?? []) {
    if (isDoubted(checks, source, "user") || isDoubted(checks, source, "group")) continue;
    rows.push(
      `DELETE FROM owned.source_count WHERE sync = ${name} AND source = ${literal(source)}`,
      `INSERT INTO owned.source_count VALUES (${name}, ${literal(source)}, ${literal(digest)}, ${literal(JSON.stringify(counts))})`,
    );
  }
  await connection.run([...rows, ...leavers(sync, addition, "desired")].join(";"));
}

/** What `leavers` needs of a run. */
export type Missed = Pick<Addition, "now" | "later" | "checks" | "declared" | "scope">;

/**
 * SQL that writes down who is gone from the sources and stays for now, since when, and whether they are suspended in a relation:
 * `desired` after a run was applied, `actual` where it waits or is held. Runs after `depart`.
 *
 * Whoever leaves while the clock is behind what earlier runs saw may have left at that later time: once the clock is right, the
 * grace period would be over at once.
 */
export function leavers(
  sync: string,
  { now, later = [], checks, declared, scope: { sizes } }: Missed,
  relation: "desired" | "actual",
): string[] {
  const ofSync = `sync = ${literal(sync)}`;
  const isSuspended = declared.state === undefined ? "NULL" : `NOT coalesce(s.${columnOf(declared.state)}, true)`;
  const isInDoubt = sizes.some(({ source, kind }) => isDoubted(checks, source, kind));
  return [
    `CREATE OR REPLACE TEMP TABLE left_before AS SELECT kind, name, since AS before FROM owned.leaving WHERE ${ofSync}`,
    `CREATE OR REPLACE TEMP TABLE left_now AS
     SELECT l.*, coalesce(b.before, greatest(${Math.max(0, ...later)}, l.since)) AS stored,
       ${isSuspended} AS suspended FROM (
       FROM gone ${isInDoubt ? "SEMI JOIN leaving_since USING (kind, name)" : ""}
       UNION ALL
       FROM leaving_since SEMI JOIN (SELECT kind, name FROM frozen WHERE reason IN ('quarantined', 'unread', 'awaited')) USING (kind, name)) l
     LEFT JOIN left_before b ON b.kind = l.kind AND b.name = l.name
     SEMI JOIN desired d ON d.kind = l.kind AND d.name = l.name
     JOIN ${relation} s ON s.kind = l.kind AND s.name = l.name`,
    `DELETE FROM owned.leaving WHERE ${ofSync}`,
    `INSERT INTO owned.leaving SELECT ${literal(sync)}, kind, name, stored, suspended FROM left_now`,
    `DELETE FROM owned.leaving_recount WHERE ${ofSync} AND (kind, name) NOT IN (SELECT (kind, name) FROM left_now)`,
    `INSERT INTO owned.leaving_recount SELECT DISTINCT ${literal(sync)}, kind, name, moment
     FROM left_now, (SELECT unnest([${[now, ...later].join(", ")}]::BIGINT[]) AS moment) WHERE since = ${now} AND moment <> stored`,
  ];
}

/** Whether a limit has found that a source has too little. */
function isDoubted(checks: readonly LimitCheck[], source: string, kind: string): boolean {
  return checks.some((check) => isExceeded(check) && isAboutSize(check.limit) && isOf(check.of, source, kind));
}

function isAboutSize(limit: LimitCheck["limit"]): boolean {
  return limit === "shrink" || limit === "minUsers" || limit === "minGroups";
}

/** Whether a limit is about this source, or about all of them. */
function isOf(of: string, source: string, kind: string): boolean {
  return of === `${kind}s of ${source}` || of === `${kind}s`;
}

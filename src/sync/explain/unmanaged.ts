import { deletedAt } from "#plan/stages.ts";
import type { Stages } from "#plan/stages.ts";
import { takenNames } from "#plan/carried.ts";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Attributes } from "#principals/attributes.ts";
import type { Kind } from "#principals/principal.ts";
import { inWorkbench } from "#sync/interruption.ts";
import type { Interruption } from "#sync/interruption.ts";
import { Ledger } from "#state/ledger/ledger.ts";
import type { StateFiles } from "#state/store.ts";
import { makeDesired } from "#sync/planning/desired.ts";
import type { Known } from "./listing.ts";
import { ledgerOf } from "#sync/sync.ts";
import type { Sync } from "#sync/sync.ts";
import type { Stage } from "#state/record.ts";

/**
 * What becomes of somebody who is in the target and in no source.
 * - `not owned`: no sync has made or adopted it, and it stays. `foreign`: its type is none that a sync manages, and it stays.
 * - `gone`: the next run deletes it. `leaving`: a later one does, after its grace period.
 * - `administrator`, `last member`, `foreign member`: it was the sync's, and is never deleted (see `Kept`).
 */
export type Fate = "not owned" | "foreign" | "gone" | "leaving" | "administrator" | "last member" | "foreign member";

/** A principal of the target that no source has. */
export interface Unmanaged {
  /** `LOCAL_USER`, `LOCAL_GROUP`, or another type of the target. */
  readonly type: string;
  readonly name: string;
  /** What people know it by, by attribute; null: unset. */
  readonly known: Known;
  readonly groups: readonly string[];
  readonly fate: Fate;
  /** When it leaves, ISO 8601; of those who are leaving. */
  readonly leavesAt: string | null;
}

/** Who is in a target and in no source. It can be read only while `work` is running. */
export interface UnmanagedList {
  readonly sync: string;
  readonly target: string;
  /** The attributes that people know them by. */
  readonly knownBy: readonly string[];
  readonly count: number;
  /** Who is not in the list, although no source of this sync has them. */
  readonly leftOut: {
    /** Their names are protected. */
    readonly protected: number;
    /** Another sync owns them. */
    readonly others: number;
    /** A record that is quarantined, or a source that could not be read, may have them. */
    readonly inDoubt: number;
  };
  /** Groups after users, other types last; by name. */
  readonly rows: () => AsyncIterable<readonly Unmanaged[]>;
}

export interface UnmanagedOptions {
  readonly files: StateFiles;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
  readonly interruption: Interruption;
  readonly progress?: (stage: Stage, records?: number) => void;
  readonly warn: (message: string) => void;
}

/**
 * Finds who is in the target of a sync and in none of its sources. It reads what a run reads, and changes nothing.
 * @throws what `run` throws before it applies
 */
export async function listUnmanaged<Result>(
  sync: Sync,
  options: UnmanagedOptions,
  work: (list: UnmanagedList) => Promise<Result>,
): Promise<Result> {
  return inWorkbench(options, async (workbench, watching) => {
    const { connection } = workbench;
    const { declared } = sync.rules;
    const now = Date.now();
    const signal = watching.signal();
    await Ledger.open(connection, { files: options.files, ...ledgerOf(sync), mode: "read", signal, now });
    await makeDesired(sync, workbench, { ...options, signal: watching.signal(), now });
    const leftOut = await findUnmanaged(connection, declared, sync.departures);
    const [row] = await connection.rows<{ count: number }>("SELECT count(*)::INTEGER AS count FROM unmanaged");
    return await work({
      sync: sync.name,
      target: sync.target.name,
      knownBy: declared.all.filter(({ identifies }) => identifies === true).map(({ name }) => name),
      count: row?.count ?? 0,
      leftOut,
      rows: () =>
        connection.batches<Unmanaged>(`
          SELECT type, name, known, group_names AS groups, fate,
            strftime(make_timestamp(leaves_at * 1000), '%Y-%m-%dT%H:%M:%S.%gZ') AS "leavesAt"
          FROM unmanaged ORDER BY place, type, name`),
    });
  });
}

const typeOf: Record<Kind, string> = { user: "LOCAL_USER", group: "LOCAL_GROUP" };

async function findUnmanaged(
  connection: Connection,
  attributes: Attributes,
  stages: Stages,
): Promise<UnmanagedList["leftOut"]> {
  // What Rollcall does not manage has the same attributes in the target's list.
  const foreign = attributes.knownAs(({ name }) => `json ->> ${literal(`$."${name}"`)}`);
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE sourceless AS
    SELECT a.*, coalesce(f.reason, 'gone') AS reason, g.leaves_at,
      o.name IS NOT NULL AND coalesce(f.reason, '') = 'unmanaged' AS is_of_others
    FROM actual a ANTI JOIN assembled USING (kind, name)
    LEFT JOIN frozen f ON f.kind = a.kind AND f.name = a.name
    LEFT JOIN (SELECT kind, name, ${deletedAt(stages)} AS leaves_at FROM gone) g ON g.kind = a.kind AND g.name = a.name
    LEFT JOIN owned_by_others o ON o.kind = a.kind AND o.name = a.name
    WHERE (a.kind, a.name) NOT IN (SELECT (kind, was) FROM renamed) AND coalesce(f.reason, '') NOT IN ('renamed', 'reused');
    CREATE OR REPLACE TEMP TABLE unmanaged AS
    SELECT CASE kind WHEN 'user' THEN 0 ELSE 1 END AS place,
      CASE kind WHEN 'user' THEN '${typeOf.user}' ELSE '${typeOf.group}' END AS type, name, ${attributes.known()} AS known, group_names,
      CASE reason WHEN 'unmanaged' THEN 'not owned' ELSE reason END AS fate,
      CASE reason WHEN 'leaving' THEN leaves_at END AS leaves_at
    FROM sourceless WHERE reason NOT IN ('protected', 'quarantined', 'unread', 'awaited') AND NOT is_of_others
    UNION ALL
    SELECT 2, type, name, ${foreign}, group_names, 'foreign', NULL
    FROM actual_foreign WHERE (name, type) NOT IN (SELECT (name, type) FROM ${takenNames})`);
  const [row] = await connection.rows<UnmanagedList["leftOut"]>(`
    SELECT count(*) FILTER (reason = 'protected')::INTEGER AS protected, count(*) FILTER (is_of_others)::INTEGER AS others,
      count(*) FILTER (reason IN ('quarantined', 'unread', 'awaited'))::INTEGER AS "inDoubt"
    FROM sourceless`);
  return row ?? { protected: 0, others: 0, inDoubt: 0 };
}

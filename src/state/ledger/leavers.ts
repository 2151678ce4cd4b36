import type { Connection } from "#duckdb/database.ts";
import { literal } from "#duckdb/database.ts";
import type { Kind } from "#principals/principal.ts";
import { leavingSince } from "./history.ts";
import { readingLedger } from "./ledger.ts";
import type { LedgerOptions } from "./ledger.ts";

/** Somebody whom a sync owns in its target and who is gone from the sources, as of the last run that succeeded. */
export interface Leaver {
  readonly kind: Kind;
  readonly name: string;
  /** When a run first missed it, in epoch milliseconds. */
  readonly since: number;
  /** The last run left it suspended. */
  readonly isSuspended: boolean;
}

/**
 * Who is leaving, by the ledger; users first, by name.
 * @throws as `Ledger.open` does
 */
export async function readLeavers(connection: Connection, options: LedgerOptions): Promise<Leaver[]> {
  const found = await readingLedger(connection, options, async () => {
    const columns = await connection.rows<{ of: string; name: string }>(
      "SELECT table_name AS of, column_name AS name FROM duckdb_columns() WHERE database_name = 'owned' AND table_name LIKE 'leaving%'",
    );
    if (columns.length === 0) return [];
    const isSuspended = columns.some(({ name }) => name === "suspended") ? "coalesce(suspended, false)" : "false";
    const isRecounted = columns.some(({ of }) => of === "leaving_recount");
    return connection.rows<Leaver>(`
      SELECT kind, name, since::DOUBLE AS since, ${isSuspended} AS "isSuspended"
      FROM (${leavingSince(options.now ?? Date.now(), isRecounted)})
      WHERE sync = ${literal(options.sync)} ORDER BY kind DESC, name`);
  });
  return found ?? [];
}

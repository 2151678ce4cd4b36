import { availableParallelism } from "node:os";
import type { Connection } from "#plan/database.ts";

/**
 * DuckDB's threads share out a table by row groups of 122,880 rows: below two of them, several threads spend more on
 * each other than they gain.
 */
const worthSharing = 250_000;

/**
 * Has DuckDB work with as many threads as are worth while for the directory and so many principals beside it. It holds
 * for the whole database until it is called again: what else runs is as right with any number.
 */
export async function useThreads(connection: Connection, beside: number): Promise<void> {
  const [directory] = await connection.rows<{ rows: number }>(
    "SELECT coalesce(sum(estimated_size), 0)::DOUBLE AS rows FROM duckdb_tables() WHERE schema_name = 'directory'",
  );
  const threads = (directory?.rows ?? 0) + beside < worthSharing ? 1 : availableParallelism();
  await connection.run(`SET threads = ${threads}`);
}

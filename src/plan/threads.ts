import { availableParallelism } from "node:os";
import type { Connection } from "./database.ts";

/**
 * DuckDB's threads share out a table by row groups of 122,880 rows: while there are few of them, several threads spend
 * more time on each other than they gain, and memory as well. Of 500,000 memberships, two threads make principals in twice
 * the time that one takes.
 */
const worthSharing = 750_000;

/**
 * Has DuckDB work with as many threads as are worth while for the largest table there is, or for so many rows that are
 * to come. It holds for the whole database until it is called again: what else runs is as right with any number.
 */
export async function useThreads(connection: Connection, toCome = 0): Promise<void> {
  const [largest] = await connection.rows<{ rows: number }>(
    "SELECT coalesce(max(estimated_size), 0)::DOUBLE AS rows FROM duckdb_tables()",
  );
  const threads = Math.max(largest?.rows ?? 0, toCome) < worthSharing ? 1 : availableParallelism();
  await connection.run(`SET threads = ${threads}`);
}

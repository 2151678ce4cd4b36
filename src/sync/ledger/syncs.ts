import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { openDatabase } from "#duckdb/database.ts";

/** In bytes: a name for each sync is all that is asked for. */
const memory = 64 * 1024 * 1024;

/**
 * The names of the syncs that have ever applied anything, or were about to, as the ledgers of a daemon's folder know them.
 * Nobody else may write to that meanwhile.
 * @throws when one of them cannot be read
 */
export async function syncsInLedgers(daemonFolder: string): Promise<readonly string[]> {
  const folder = join(daemonFolder, "ledgers");
  const names = await readdir(folder).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  });
  const syncs = new Set<string>();
  for (const name of names.filter((each) => each.endsWith(".duckdb")))
    for (const sync of await syncsIn(join(folder, name))) syncs.add(sync);
  return [...syncs].sort();
}

async function syncsIn(path: string): Promise<string[]> {
  const database = await openDatabase({ path, memory, spill: `${path}.spill`, readOnly: true });
  try {
    const connection = await database.connect();
    try {
      const tables = await connection.rows<{ name: string }>(
        "SELECT table_name AS name FROM duckdb_tables() WHERE table_name IN ('principal', 'settled')",
      );
      if (tables.length === 0) return [];
      const all = tables.map(({ name }) => `SELECT sync FROM ${name}`).join(" UNION ");
      return (await connection.rows<{ sync: string }>(all)).map(({ sync }) => sync);
    } finally {
      connection.close();
    }
  } finally {
    database.close();
  }
}

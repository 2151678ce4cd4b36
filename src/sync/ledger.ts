import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { UnavailableError, messageOf } from "#errors.ts";
import { literal } from "#plan/database.ts";
import type { Connection } from "#plan/database.ts";

/**
 * What a sync owns in its target: the principals it created or adopted, each with the source and the immutable id of
 * the record it came from. A DuckDB file; whoever applies holds its lock, so that a sync never runs twice at once.
 */
export interface Ledger {
  /** Writes down, before anything is applied, what the run is about to own as well. */
  claim(): Promise<void>;
  /** Writes down, after the target was verified, what the sync owns now. */
  settle(): Promise<void>;
  /** Gives the lock back. */
  close(): Promise<void>;
}

const columns = "kind VARCHAR NOT NULL, name VARCHAR NOT NULL, source VARCHAR NOT NULL, source_id VARCHAR NOT NULL";

/**
 * Opens the ledger and makes the table `ledger` of the workbench from it. `claim` and `settle` expect the tables
 * that `protect` makes. For a dry run the file is only read, and is not created.
 * @throws {UnavailableError} when another process is applying the same sync
 */
export async function openLedger(connection: Connection, file: string, mode: "read" | "write"): Promise<Ledger> {
  await connection.run(`CREATE OR REPLACE TEMP TABLE ledger (${columns})`);
  if (mode === "read" && !(await exists(file))) return { claim: refuse, settle: refuse, close: async () => {} };
  await mkdir(dirname(file), { recursive: true });
  try {
    await connection.run(`ATTACH ${literal(file)} AS owned ${mode === "read" ? "(READ_ONLY)" : ""}`);
  } catch (error) {
    if (!messageOf(error).includes("lock")) throw error;
    const pid = /PID (\d+)/.exec(messageOf(error))?.[1];
    throw new UnavailableError(
      `another run of this sync is under way${pid === undefined ? "" : ` (process ${pid})`}: wait until it has ended, then try again`,
      { cause: error },
    );
  }
  if (mode === "write") await connection.run(`CREATE TABLE IF NOT EXISTS owned.principal (${columns})`);
  await connection.run("INSERT INTO ledger SELECT kind, name, source, source_id FROM owned.principal");
  if (mode === "read") {
    await connection.run("DETACH owned");
    return { claim: refuse, settle: refuse, close: async () => {} };
  }
  return {
    claim: () =>
      connection.run(`
        INSERT INTO owned.principal
        SELECT s.kind, s.name, s.source, s.source_id
        FROM assembled s SEMI JOIN managed USING (kind, name) ANTI JOIN owned.principal USING (kind, name)`),
    settle: () =>
      connection.transaction(() =>
        connection.run(`
          DELETE FROM owned.principal;
          INSERT INTO owned.principal
          SELECT s.kind, s.name, s.source, s.source_id FROM assembled s SEMI JOIN managed USING (kind, name)
          UNION ALL
          SELECT l.kind, l.name, l.source, l.source_id
          FROM ledger l SEMI JOIN desired USING (kind, name) ANTI JOIN managed USING (kind, name)`),
      ),
    close: async () => {
      await connection.run("DETACH owned");
    },
  };
}

async function refuse(): Promise<never> {
  throw new Error("a dry run does not write the ledger");
}

async function exists(file: string): Promise<boolean> {
  return stat(file).then(
    () => true,
    () => false,
  );
}

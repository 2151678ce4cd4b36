import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";

/** A database in memory, with its one connection. */
export interface Memory {
  readonly connection: Connection;
  close(): void;
}

/** Opens one that is small enough never to spill. */
export async function openMemory(): Promise<Memory> {
  const database = await openDatabase({ path: ":memory:", memory: 512 * 1024 * 1024, spill: join(tmpdir(), "unused") });
  const connection = await database.connect();
  return {
    connection,
    close: () => {
      connection.close();
      database.close();
    },
  };
}

/** A connection to one, for as long as the tests of a file run. */
export function useConnection(): () => Connection {
  let memory: Memory;
  beforeAll(async () => {
    memory = await openMemory();
    // For a handful of rows, to share the work costs more than the work.
    await memory.connection.run("SET threads = 1");
  });
  afterAll(() => {
    memory.close();
  });
  return () => memory.connection;
}

import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";

/** A database in memory and a connection to it. */
export interface Memory {
  readonly connection: Connection;
  close(): void;
}

/** Opens a database that is small enough never to spill. */
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

/** A connection to a database in memory, for all tests of a file. */
export function useConnection(): () => Connection {
  let memory: Memory;
  beforeAll(async () => {
    memory = await openMemory();
    // For a handful of rows, several threads cost more than they save.
    await memory.connection.run("SET threads = 1");
  });
  afterAll(() => {
    memory.close();
  });
  return () => memory.connection;
}

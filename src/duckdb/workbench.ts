import { randomUUID } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { makeFolder } from "#files/disk.ts";
import { isAlive } from "#files/durable.ts";
import { openDatabase, useThreads } from "./database.ts";
import type { Connection } from "./database.ts";

/** Where one plan is made: a database in memory that spills to disk, and a folder for lists. `close` removes both. */
export interface Workbench {
  readonly connection: Connection;
  /** Another connection, for what runs beside the statements of `connection`. Temporary tables are its own. Close it first. */
  readonly connect: () => Promise<Connection>;
  /** Moves tables to disk where they take much memory, for what is about to need it. They come back as they are read. */
  readonly makeRoom: () => Promise<void>;
  /** The path of a file of this workbench. */
  readonly file: (name: string) => string;
  /** Stops what is running and removes everything. */
  readonly close: () => Promise<void>;
}

/** Enough for a million users, in bytes: with a third less, some of their plans fail. */
const leastMemory = 512 * 1024 ** 2;

/**
 * Opens a workbench in a new folder below `folder`, and removes those that killed processes have left there. It uses one
 * thread until `useThreads`.
 * @param options.memory the configured limit in bytes. DuckDB takes half of it here, or `leastMemory`: the service often runs in
 *   the same process, and with more a run is no faster
 */
export async function openWorkbench(options: { folder: string; memory: number }): Promise<Workbench> {
  await makeFolder(options.folder, "the folder of the workbenches");
  await removeAbandoned(options.folder);
  const place = join(options.folder, `${process.pid}-${randomUUID()}`);
  await mkdir(place, { mode: 0o700 });
  const memory = Math.min(options.memory, Math.max(options.memory / 2, leastMemory));
  const database = await openDatabase({ path: ":memory:", memory, spill: join(place, "spill") });
  const connection = await database.connect();
  await useThreads(connection);
  return {
    connection,
    connect: () => database.connect(),
    makeRoom: () => makeRoom(connection),
    file: (name) => join(place, name),
    close: async () => {
      connection.interrupt();
      connection.close();
      database.close();
      await rm(place, { recursive: true, force: true });
    },
  };
}

/** How much the tables may take without being moved to disk for something else, in bytes. */
const muchMemory = 128 * 1024 ** 2;

async function makeRoom(connection: Connection): Promise<void> {
  const [row] = await connection.rows<{ used: number }>(
    "SELECT sum(memory_usage_bytes)::DOUBLE AS used FROM duckdb_memory()",
  );
  if ((row?.used ?? 0) < muchMemory) return connection.returnMemory();
  try {
    await connection.run(`SET memory_limit = '${muchMemory / 8 / 1024}KiB'`);
  } catch {
    // What could be moved was. The rest is in use.
  } finally {
    // Sets the limit of before.
    await connection.returnMemory();
  }
}

async function removeAbandoned(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const pid = Number(name.split("-", 1)[0]);
    if (Number.isInteger(pid) && pid > 0 && !isAlive(pid))
      await rm(join(folder, name), { recursive: true, force: true });
  }
}

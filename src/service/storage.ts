import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { InputError, messageOf } from "#errors.ts";
import { openDatabase } from "#plan/database.ts";
import type { Database } from "#plan/database.ts";

/** Where the service keeps what it has. */
export interface Storage {
  readonly database: Database;
  readonly folder: string;
  /** The folder where uploads lie while they are worked on: empty at the start, since what a killed process left may hold passwords. */
  readonly uploads: string;
}

/**
 * Opens `service` below the data folder, readable by its owner alone.
 * @param memory DuckDB's limit in bytes
 * @throws {InputError} when another process uses the data folder
 */
export async function openStorage(data: string, memory: number): Promise<Storage> {
  const folder = join(data, "service");
  const uploads = join(folder, "uploads");
  await mkdir(folder, { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
    throw new InputError(`service.data: the folder ${folder} cannot be made: ${messageOf(cause)}`, { cause });
  });
  const path = join(folder, "service.duckdb");
  const database = await openDatabase({ path, memory, spill: join(folder, "spill") }).catch((cause: unknown) => {
    const message = messageOf(cause);
    if (!message.includes("Could not set lock")) throw cause;
    const pid = /PID (\d+)/.exec(message)?.[1];
    throw new InputError(
      `another process${pid === undefined ? "" : ` (${pid})`} is using the data folder ${data}: ` +
        "stop it first, or give this service another `service.data`",
      { cause },
    );
  });
  await rm(uploads, { recursive: true, force: true });
  await mkdir(uploads, { mode: 0o700 });
  return { database, folder, uploads };
}

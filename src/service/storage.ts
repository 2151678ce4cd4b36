import { mkdir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { InputError, firstLineOf } from "#errors.ts";
import type { RollcallError } from "#errors.ts";
import { lockHolder, openDatabase } from "#duckdb/database.ts";
import type { Database } from "#duckdb/database.ts";
import { makeFolder, obstacleOf, unwritable } from "#files/disk.ts";

/** The service's files. */
export interface Storage {
  readonly database: Database;
  readonly folder: string;
  /** The folder for uploads in progress. Emptied at the start: what a killed process left may hold passwords. */
  readonly uploads: string;
  /** Whether the files are still where they were opened: a file system may be unmounted, or a folder moved. */
  isInPlace(): Promise<boolean>;
}

/**
 * Opens `service` below the data folder, readable by its owner alone.
 * @param memory DuckDB's limit in bytes
 * @throws {InputError} when another process uses the data folder, or its database cannot be opened; {UnavailableError}
 *   when
 *   the disk is full
 */
export async function openStorage(data: string, memory: number): Promise<Storage> {
  const folder = join(data, "service");
  const uploads = join(folder, "uploads");
  await makeFolder(folder, "the service's folder");
  const path = join(folder, "service.duckdb");
  const database = await openDatabase({ path, memory, spill: join(folder, "spill") }).catch((cause: unknown) => {
    const holder = lockHolder(cause);
    throw holder === undefined ? unusable(path, cause) : inUse(data, holder.pid, cause);
  });
  await rm(uploads, { recursive: true, force: true });
  await mkdir(uploads, { mode: 0o700 });
  const opened = await stat(path);
  const isInPlace = (): Promise<boolean> =>
    stat(path).then(
      ({ dev, ino }) => dev === opened.dev && ino === opened.ino,
      () => false,
    );
  return { database, folder, uploads, isInPlace };
}

function inUse(data: string, pid: number | undefined, cause: unknown): InputError {
  return new InputError(
    `another process${pid === undefined ? "" : ` (${pid})`} is using the data folder ${data}: ` +
      "stop it first, or give this service another `service.data`",
    { cause },
  );
}

function unusable(path: string, cause: unknown): RollcallError {
  if (obstacleOf(cause) !== undefined) return unwritable(`the service's database ${path}`, cause);
  return new InputError(
    `the service's database ${path} cannot be opened: it is damaged, or this account may not read and write it ` +
      `(${firstLineOf(cause)}). Restore the folder ${dirname(path)} from a backup as a whole; where there is none, move ` +
      "it away: the service then starts anew, without the users, groups and tables it had",
    { cause },
  );
}

import { dirname } from "node:path";
import type { Configuration } from "#config/configuration.ts";
import { lockHolder, openDatabase } from "#plan/database.ts";
import { makeFolder } from "#plan/folder.ts";
import { dataFolderInUse } from "./presence.ts";

/** A claim to the data folder. The kernel gives it back whatever way the process ends. */
export interface Lock {
  release(): void;
}

/**
 * Claims the data folder for one daemon. The lock is DuckDB's on its file: the operating system's own, so that a
 * killed process leaves nothing that a person must clear away.
 * @throws {InputError} naming the process that has it
 */
export async function holdLock(file: string, configuration: Configuration): Promise<Lock> {
  await makeFolder(dirname(file), "the daemon's folder");
  try {
    const database = await openDatabase({ path: file, memory: 16 * 1024 * 1024, spill: `${file}.spill` });
    return {
      release: () => {
        database.close();
      },
    };
  } catch (error) {
    if (lockHolder(error) === undefined) throw error;
    throw await dataFolderInUse(configuration.data, error);
  }
}

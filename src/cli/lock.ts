import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Configuration } from "#config/configuration.ts";
import { lockHolder, openDatabase } from "#plan/database.ts";
import { makeFolder } from "#plan/folder.ts";
import { daemonFolder } from "./context.ts";
import { dataFolderInUse } from "./presence.ts";

/** A claim to the data folder. The kernel gives it back whatever way the process ends. */
export interface Lock {
  release(): void;
}

/**
 * Claims the data folder for one daemon. The lock is DuckDB's on its file: the operating system's own, so that a
 * killed process leaves nothing that a person must clear away.
 * @param patience how long another process is waited for, in milliseconds
 * @throws {InputError} naming the process that has it
 */
export async function holdLock(configuration: Configuration, patience = 0): Promise<Lock> {
  const file = join(daemonFolder(configuration), "lock");
  await makeFolder(dirname(file), "the daemon's folder");
  const patienceEnds = performance.now() + patience;
  for (;;) {
    try {
      const database = await openDatabase({ path: file, memory: 16 * 1024 * 1024, spill: `${file}.spill` });
      return {
        release: () => {
          database.close();
        },
      };
    } catch (error) {
      if (lockHolder(error) === undefined) throw error;
      if (performance.now() >= patienceEnds) throw await dataFolderInUse(configuration.data, error);
    }
    await delay(pause);
  }
}

/** How often it is looked whether the other process has ended, in milliseconds. */
const pause = 200;

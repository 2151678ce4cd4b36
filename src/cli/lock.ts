import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import type { Configuration } from "#config/configuration.ts";
import { InputError, messageOf } from "#errors.ts";
import { openDatabase } from "#plan/database.ts";

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
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  try {
    const database = await openDatabase({ path: file, memory: 16 * 1024 * 1024, spill: `${file}.spill` });
    return {
      release: () => {
        database.close();
      },
    };
  } catch (error) {
    if (!messageOf(error).includes("lock")) throw error;
    const pid = /PID (\d+)/.exec(messageOf(error))?.[1] ?? "unknown";
    throw new InputError(
      `another Rollcall (process ${pid}) is using the data folder ${configuration.data}: stop it first, or give this one another \`service.data\``,
      { cause: error },
    );
  }
}

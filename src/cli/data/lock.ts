import { readFile, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";
import { daemonFolder } from "#cli/context.ts";
import type { Configuration } from "#config/configuration.ts";
import { InputError, messageOf } from "#errors.ts";
import type { RollcallError } from "#errors.ts";
import { makeFolder, obstacleOf, unwritable } from "#files/disk.ts";
import { refuseForeignFolder } from "./owner.ts";
import { dataFolderInUse } from "./presence.ts";

/** A claim to the data folder. The kernel gives it back whatever way the process ends. */
export interface Lock {
  release(): void;
}

/**
 * Claims the data folder for one daemon. Node has no locks of files; SQLite, which is in it, has: the operating system's
 * own, so that a killed process leaves nothing that a person must clear away. Nothing is ever written to the file.
 * @param patience how long another process is waited for, in milliseconds
 * @throws {InputError} naming the process that has it, or the account that the folder belongs to
 */
export async function holdLock(configuration: Configuration, patience = 0): Promise<Lock> {
  const file = join(daemonFolder(configuration), "lock.sqlite");
  await refuseForeignFolder(configuration.data);
  await makeFolder(dirname(file), "the daemon's folder");
  const patienceEnds = performance.now() + patience;
  for (;;) {
    const database = open(file);
    try {
      database.exec("BEGIN EXCLUSIVE");
      return {
        release: () => {
          if (database.isOpen) database.close();
        },
      };
    } catch (error) {
      database.close();
      if (!isBusy(error)) throw unusable(file, error);
      if (performance.now() >= patienceEnds)
        throw await dataFolderInUse(
          configuration.data,
          error,
          await holderOf(file),
          ...(patience > 0 ? ["wait until it has ended, then try again"] : []),
        );
    }
    await delay(pause);
  }
}

/** How often it is looked whether the other process has ended, in milliseconds. */
const pause = 200;

function open(file: string): DatabaseSync {
  try {
    return new DatabaseSync(file);
  } catch (error) {
    throw unusable(file, error);
  }
}

function unusable(file: string, cause: unknown): RollcallError {
  if (obstacleOf(cause) !== undefined) return unwritable(`the lock ${file}`, cause);
  return new InputError(
    `the lock ${file} cannot be taken: ${messageOf(cause)}. It holds nothing: remove it when no Rollcall runs, and let ` +
      "this account write in its folder",
    { cause },
  );
}

/** SQLite's number for a file that another process has. */
const busy = 5;

function isBusy(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && error.errcode === busy;
}

/** Linux lists who holds what lock, by the number of the file. */
async function holderOf(file: string): Promise<number | undefined> {
  const { ino } = await stat(file);
  const locks = await readFile("/proc/locks", "utf8").catch(() => "");
  const pid = new RegExp(` WRITE +(\\d+) [^ ]+:${ino} `).exec(locks)?.[1];
  return pid === undefined ? undefined : Number(pid);
}

import { readFile, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import type { Configuration } from "#config/configuration.ts";
import { lockHolder } from "#duckdb/database.ts";
import { InputError, messageOf } from "#errors.ts";
import type { RollcallError } from "#errors.ts";
import { makeFolder, obstacleOf, unwritable } from "#files/disk.ts";
import { presenceFile } from "#files/presence.ts";

/** The daemon's folder: workbenches and ledgers. */
export function daemonFolder(configuration: Configuration): string {
  return join(configuration.data, "daemon");
}

/**
 * What a running service tells the commands on the same data folder: `service.json`, readable by its owner alone.
 * It holds the cookie of a session that ends with the process.
 */
const presence = z.object({ pid: z.int(), url: z.url(), startedAt: z.iso.datetime(), session: z.string() });

export const { announce, withdraw, read: readPresence } = presenceFile(presence, (data) => join(data, "service.json"));

/**
 * What a second process on a data folder is told of the first, as far as that is known.
 * @param advice what to do about it
 */
export async function dataFolderInUse(
  data: string,
  cause: unknown,
  holder = lockHolder(cause)?.pid,
  advice = "stop it first, or give this one another `service.data`",
): Promise<InputError> {
  const present = await readPresence(data);
  const pid = holder ?? present?.pid;
  const process = pid === undefined ? "" : `process ${pid}`;
  const known = present === undefined || pid !== present.pid ? "" : `, ${present.url}, started ${present.startedAt}`;
  return new InputError(
    `another Rollcall${process === "" ? "" : ` (${process}${known})`} is using the data folder ${data}: ${advice}`,
    { cause },
  );
}

/**
 * Root can write into everybody's data folder, but what it leaves there the account of the service cannot read, and so
 * would not start again.
 * @param own the account of this process, by its number; absent: this system has none
 * @throws {InputError} when this is root, and what is in the data folder belongs to another account
 */
export async function refuseForeignFolder(data: string, own: number | undefined = process.getuid?.()): Promise<void> {
  if (own !== 0) return;
  for (const file of [join(data, "service", "service.duckdb"), join(data, "daemon", "journal.json")]) {
    const owner = await stat(file).catch(() => undefined);
    if (owner === undefined || owner.uid === own) continue;
    throw new InputError(
      `the data folder ${data} belongs to account ${owner.uid}, which could not read what root leaves there: ` +
        "do this while the service runs, which then does it itself, or as that account",
    );
  }
}

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

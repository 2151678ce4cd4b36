import { existsSync, statSync } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
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
import type { Reader } from "#state/store.ts";

/**
 * The folder that the daemon of this machine works in: journal, ledgers, stored plans, workbenches. Where several daemons
 * share their state, it has workbenches and copies, beside a state that was in the folder before.
 */
export function daemonFolder(configuration: Pick<Configuration, "data" | "shared">): string {
  const folder = stateFolder(configuration);
  return configuration.shared === undefined ? folder : join(folder, "shared");
}

/** The folder of a state that is in no database. It has the lock of the data folder, too. */
export function stateFolder({ data }: Pick<Configuration, "data">): string {
  return join(data, "daemon");
}

/**
 * Opens the state of a configuration to read it: needs no lock. Close it after use.
 * @throws {UnavailableError} when PostgreSQL does not answer
 */
export async function readState(configuration: Pick<Configuration, "data" | "shared">): Promise<Reader> {
  const folder = daemonFolder(configuration);
  // Either is loaded only where it is used, with its library.
  if (configuration.shared === undefined) {
    const { openFolderReader } = await import("#state/folder/store.ts");
    return openFolderReader(folder, () => isLocked(configuration));
  }
  await refuseUnusable(configuration.data);
  const { openPostgresReader } = await import("#state/postgres/store.ts");
  return openPostgresReader(configuration.shared.postgres, folder);
}

/** The same, for what plans: it also needs a workbench. @throws {InputError} as `workFolder` does */
export async function readStateForPlan(configuration: Pick<Configuration, "data" | "shared">): Promise<Reader> {
  await workFolder(configuration);
  return readState(configuration);
}

/**
 * How commands on the same data folder find a running service: `service.json`, readable only by its owner. It contains
 * the cookie of a session that ends with the process.
 */
const presence = z.object({
  pid: z.int(),
  url: z.url(),
  startedAt: z.iso.datetime(),
  session: z.string(),
  /** The one that the service serves, in PEM form, if it uses TLS: its file may have been renewed since. */
  certificate: z.string().exactOptional(),
});

export const {
  announce,
  assertReadable,
  renew: renewPresence,
  withdraw,
  read: readPresence,
} = presenceFile(presence, (data) => join(data, "service.json"));

/**
 * The error for a second process on a data folder: names the first, as far as it is known.
 * @param advice the next step
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

/** Where `rollcall restore` unpacks a backup, in the data folder: `.restore-PID`. */
export const restoreFolder = /^\.restore-(\d+)$/;

/**
 * Before anything is written into a data folder.
 * @throws {InputError} when a restore ended before all of the backup was in place, or the folder is another account's
 */
export async function refuseUnusable(data: string): Promise<void> {
  const half = (await readdir(data).catch(() => [])).find((name) => restoreFolder.test(name));
  if (half !== undefined)
    throw new InputError(
      `the data folder ${data} is being restored, or its restore was interrupted (${half}): restore the backup again, then start`,
    );
  await refuseForeignFolder(data);
}

/**
 * Root can write to any data folder, but the account of the service could not read what root leaves there, and would not
 * start again.
 * @param own the uid of this process; undefined on a system without uids
 * @throws {InputError} when this is root, and the data folder belongs to another account
 */
export async function refuseForeignFolder(
  data: string,
  { own = process.getuid?.(), what = "data folder" }: { own?: number | undefined; what?: string } = {},
): Promise<void> {
  if (own !== 0) return;
  const files = ["", "service", "daemon", "service/service.duckdb", "daemon/journal.json", "daemon/lock.sqlite"];
  for (const file of files.map((path) => join(data, path))) {
    const owner = await stat(file).catch(() => undefined);
    if (owner === undefined || owner.uid === own) continue;
    throw new InputError(
      `the ${what} ${data} belongs to account ${owner.uid}, which could not read files written by root: ` +
        `run this command as that account (sudo -u '#${owner.uid}' …)` +
        `${what === "data folder" ? ", or while the service is running, which then does the work itself" : ""}; ` +
        "or make the folder root's own with chown",
    );
  }
}

/**
 * The folder for workbenches, which are removed after use: so root may use one that is there, whoever it belongs to.
 * @throws {InputError} when root would make it for another account
 */
export async function workFolder(configuration: Pick<Configuration, "data" | "shared">): Promise<string> {
  const folder = join(daemonFolder(configuration), "work");
  if (!existsSync(folder)) await refuseUnusable(configuration.data);
  return folder;
}

/**
 * Locks the data folder for one process, until `release` or the end of the process. Node cannot lock files, but its SQLite can: with locks of the operating system,
 * so that a killed process leaves nothing to clean up. Nothing is ever written to the file.
 * @param timeout how long to wait for another process, in milliseconds
 * @throws {InputError} naming the process that has it, or the account that the folder belongs to
 */
export async function holdLock(
  configuration: Pick<Configuration, "data">,
  timeout = 0,
): Promise<{ readonly release: () => void }> {
  const file = join(stateFolder(configuration), "lock.sqlite");
  await refuseUnusable(configuration.data);
  await makeFolder(dirname(file), "the daemon's folder");
  const waitEnds = performance.now() + timeout;
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
      if (performance.now() >= waitEnds)
        throw await dataFolderInUse(
          configuration.data,
          error,
          await holderOf(file),
          ...(timeout > 0 ? ["wait until it has ended, then try again"] : []),
        );
    }
    await delay(pause);
  }
}

/** Whether a process has the lock: whatever else the journal says is running has ended. True where that cannot be known. */
export function isLocked(configuration: Pick<Configuration, "data">): boolean {
  const file = join(stateFolder(configuration), "lock.sqlite");
  try {
    if (statSync(file, { throwIfNoEntry: false }) === undefined) return false;
    using database = new DatabaseSync(file, { readOnly: true });
    database.exec("SELECT name FROM sqlite_schema");
    return false;
  } catch {
    return true;
  }
}

/** How often the lock is tried again, in milliseconds. */
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
    `the lock ${file} cannot be taken: ${messageOf(cause)}. It contains nothing: remove it when no Rollcall is running, and let ` +
      "this account write to its folder",
    { cause },
  );
}

/** SQLITE_BUSY: another process has the lock. */
const busy = 5;

function isBusy(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && error.errcode === busy;
}

/** The process that holds the lock: Linux lists locks by inode. */
async function holderOf(file: string): Promise<number | undefined> {
  const { ino } = await stat(file);
  const locks = await readFile("/proc/locks", "utf8").catch(() => "");
  const pid = new RegExp(` WRITE +(\\d+) [^ ]+:${ino} `).exec(locks)?.[1];
  return pid === undefined ? undefined : Number(pid);
}

import { join } from "node:path";
import type { Logger } from "pino";
import type { Database } from "#duckdb/database.ts";
import { useThreads } from "#duckdb/database.ts";
import { createQueue } from "#queue.ts";
import { findAccount, findEffectiveGroups } from "./accounts.ts";
import { openAnswers } from "./answers.ts";
import type { Directory } from "./directory.ts";
import { openKeptLists } from "./kept-list.ts";
import { listing } from "./listing.ts";
import { bootstrap, createTables, readRevision } from "./schema.ts";
import type { Administrator } from "./schema.ts";
import { sync } from "./sync.ts";
import { receiveSync } from "./upload.ts";

export interface DirectoryOptions {
  readonly database: Database;
  /** The folder for answers on their way out, emptied now, and for the list that was applied last: each in one of its own. */
  readonly folder: string;
  readonly administrator: Administrator;
  readonly log: Logger;
}

export interface OpenedDirectory extends Directory {
  /** The administrator's password, when it was generated now: to be shown once (0.7). */
  readonly generatedPassword?: string;
  close(): Promise<void>;
}

/** Opens the directory in the service's database; at the first start it creates what is there from the start (0.7). */
export async function openDirectory(options: DirectoryOptions): Promise<OpenedDirectory> {
  const { database, folder, administrator, log } = options;
  const answers = await openAnswers(join(folder, "answers"));
  const lookups = await database.connect();
  await createTables(lookups);
  const generatedPassword = await bootstrap(lookups, administrator);
  const keptLists = await openKeptLists(join(folder, "list"), await readRevision(lookups), log);

  // A statement keeps a thread of the pool busy until it ends, and passwords and files need some too: one of each at a time.
  const lookup = createQueue();
  const list = createQueue();
  const load = createQueue();
  const change = createQueue();

  return {
    ...(generatedPassword === undefined ? {} : { generatedPassword }),
    account: (name) => lookup(() => findAccount(lookups, name)),
    effectiveGroups: (name) => lookup(() => findEffectiveGroups(lookups, name)),
    list: () =>
      list(async () => {
        const connection = await database.connect();
        try {
          await useThreads(connection);
          return await answers.compute(connection, listing);
        } finally {
          connection.close();
        }
      }),
    receive: (body, contentType, query, uploads, signal) =>
      receiveSync(body, contentType, query, { folder: uploads, database, keptLists, turn: load }, signal),
    sync: (request, signal) => {
      const interrupt = (): void => {
        request.list.interrupt();
      };
      return change(async () => {
        signal.addEventListener("abort", interrupt);
        try {
          return await sync(request.list, { ...request, administrator: administrator.name, answers, signal });
        } catch (error) {
          signal.throwIfAborted();
          throw error;
        } finally {
          signal.removeEventListener("abort", interrupt);
        }
      }, signal);
    },
    close: async () => {
      await Promise.all([lookup, list, load, change].map((queue) => queue.idle()));
      lookups.close();
    },
  };
}

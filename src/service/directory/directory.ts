import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { useThreads } from "#duckdb/database.ts";
import type { Connection, Database, Parameter } from "#duckdb/database.ts";
import { createQueue } from "#queue.ts";
import type { Progress } from "#service/progress.ts";
import { listAnswer, openAnswers } from "./list.ts";
import { bootstrap, createTables, lookupOf } from "./schema.ts";
import type { Administrator } from "./schema.ts";
import { sync } from "./sync.ts";
import type { SyncRequest } from "./sync.ts";

/** The users and groups of the service, in its database. */
export interface Directory {
  /** The account of a user; undefined when there is none. `id` is never reused, not even for the same name. */
  account(name: string): Promise<Account | undefined>;
  /** The name of the user of an id; undefined when there is none any more. */
  nameOf(id: string): Promise<string | undefined>;
  /** The names of all groups the user is in, directly or through groups (0.6). Cycle-safe. */
  effectiveGroups(name: string): Promise<ReadonlySet<string>>;
  /** The answer of `user/list`, a JSON array (B.9), as a stream of bytes: the state at the time of the call. */
  list(): Promise<Readable>;
  /**
   * Specification 4.2, `principal/sync`. Calls queue behind each other (B.8).
   * @returns the JSON answer of specification 2.8 as a stream of bytes
   * @throws {InputError} B.5; its `problems` are the first hundred, nothing has changed
   */
  sync(request: SyncRequest, signal: AbortSignal): Promise<Readable>;
}

export interface Account {
  readonly id: string;
  readonly name: string;
  /** An argon2id hash in PHC form. */
  readonly passwordHash: string;
}

export interface DirectoryOptions {
  readonly database: Database;
  /** The service's folder. Answers on their way out are in `answers` below it, which is emptied now. */
  readonly folder: string;
  readonly administrator: Administrator;
  readonly progress: Progress;
}

export interface OpenedDirectory extends Directory {
  /** The administrator's password, when it was generated now: it is printed once (0.7). */
  readonly generatedPassword: string | undefined;
  close(): Promise<void>;
}

/**
 * Opens the directory in the service's database. At the first start,
 * it creates the administrator and the built-in groups (0.7).
 */
export async function openDirectory({
  database,
  folder,
  administrator,
  progress,
}: DirectoryOptions): Promise<OpenedDirectory> {
  // Rollcall 0.1.0 stored a copy of the last list there. Nothing reads it any more.
  await rm(join(folder, "list"), { recursive: true, force: true });
  const answers = await openAnswers(join(folder, "answers"));
  const lookups = await database.connect();
  await createTables(lookups);
  const generatedPassword = await bootstrap(lookups, administrator);

  // A statement occupies a thread of Node's pool until it ends, and passwords and files need threads too: one of each
  // at a time.
  const lookupQueue = createQueue();
  const listQueue = createQueue();
  const syncQueue = createQueue();

  function withConnection<Result>(what: string, work: (connection: Connection) => Promise<Result>): Promise<Result> {
    return progress.watch(what, patience, async (moved) => {
      const connection = await database.connect();
      try {
        await useThreads(connection);
        return await work(reporting(connection, moved));
      } finally {
        connection.close();
      }
    });
  }

  return {
    generatedPassword,
    account: (name) => lookupQueue(() => findAccount(lookups, name)),
    nameOf: (id) => lookupQueue(() => findName(lookups, id)),
    effectiveGroups: (name) => lookupQueue(() => findEffectiveGroups(lookups, name)),
    list: () =>
      listQueue(() => withConnection("a call of user/list", (connection) => answers.compute(connection, listAnswer))),
    sync: (request, signal) =>
      syncQueue(
        () =>
          withConnection("a call of user/sync", async (connection) => {
            const interrupt = (): void => {
              connection.interrupt();
            };
            signal.addEventListener("abort", interrupt);
            try {
              return await sync(connection, request, { administrator: administrator.name, answers, signal });
            } catch (error) {
              signal.throwIfAborted();
              throw error;
            } finally {
              signal.removeEventListener("abort", interrupt);
            }
          }),
        signal,
      ),
    close: async () => {
      await Promise.all([lookupQueue, listQueue, syncQueue].map((queue) => queue.idle()));
      lookups.close();
    },
  };
}

/** How long one statement may take, in milliseconds: those on a million principals take less than a minute. */
const patience = 10 * 60_000;

/** The connection, with a call of `moved` after every statement. */
function reporting(connection: Connection, moved: () => void): Connection {
  return {
    ...connection,
    run: (sql, parameters) => connection.run(sql, parameters).finally(moved),
    rows: <Row extends object>(sql: string, parameters?: readonly Parameter[]) =>
      connection.rows<Row>(sql, parameters).finally(moved),
  };
}

/** The account of a user; undefined when there is none. */
async function findAccount(connection: Connection, name: string): Promise<Account | undefined> {
  const [account] = await connection.rows<Account>(
    `SELECT id::VARCHAR AS id, name, password_hash AS "passwordHash"
     FROM directory.users WHERE lookup = ${lookupOf("$1")} AND name = $1`,
    [name],
  );
  return account;
}

async function findName(connection: Connection, id: string): Promise<string | undefined> {
  const [user] = await connection.rows<{ name: string }>("SELECT name FROM directory.users WHERE id::VARCHAR = $1", [
    id,
  ]);
  return user?.name;
}

/** The names of all groups the user is in, directly or through groups (0.6). Cycle-safe: UNION meets no group twice. */
async function findEffectiveGroups(connection: Connection, name: string): Promise<ReadonlySet<string>> {
  const rows = await connection.rows<{ name: string }>(
    `WITH RECURSIVE member_of(name) AS (
       SELECT unnest(group_names) FROM directory.users WHERE lookup = ${lookupOf("$1")} AND name = $1
       UNION
       SELECT unnest(g.group_names) FROM directory.groups g JOIN member_of USING (name)
     )
     SELECT name FROM member_of`,
    [name],
  );
  return new Set(rows.map((row) => row.name));
}

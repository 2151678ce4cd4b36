import { randomBytes } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { interruptible, useThreads } from "#duckdb/database.ts";
import type { Connection, Database, Parameter } from "#duckdb/database.ts";
import { createQueue } from "#queue.ts";
import type { Progress } from "#service/progress.ts";
import { jsonArray } from "#plan/lists.ts";
import { listAnswer, openAnswers } from "./list.ts";
import { hashPassword, verifyPassword } from "./passwords.ts";
import { DirectoryChangedError } from "./store.ts";
import type { DirectoryStore } from "./store.ts";
import { sync } from "./sync.ts";
import type { SyncRequest } from "./sync.ts";

/** The users and groups of the service. */
export interface Directory extends Pick<DirectoryStore, "account" | "nameOf" | "effectiveGroups" | "state"> {
  /**
   * The answer of `user/list`, a JSON array (B.9), as a stream of bytes: the state at the time of the call. Calls queue behind
   * each other.
   */
  list(signal: AbortSignal): Promise<Readable>;
  /**
   * Specification 4.2, `principal/sync`. Calls queue behind each other (B.8).
   * @returns the JSON answer of specification 2.8 as a stream of bytes
   * @throws {InputError} B.5; its `problems` are the first hundred, nothing has changed
   */
  sync(request: SyncRequest, signal: AbortSignal): Promise<Readable>;
}

/** The configured bootstrap administrator. */
export interface Administrator {
  readonly name: string;
  readonly password?: string;
}

export interface DirectoryOptions {
  readonly store: DirectoryStore;
  /** Where lists are read, compared and written out. */
  readonly database: Pick<Database, "use" | "trim">;
  /** The service's folder. Answers on their way out are in `answers` below it, which is emptied now. */
  readonly folder: string;
  readonly administrator: Administrator;
  readonly progress: Progress;
  /** Called with how far a long call of `user/sync` is, for the log. */
  readonly say?: ((message: string) => void) | undefined;
}

export interface OpenedDirectory extends Directory {
  /** The administrator's password, when it was generated now: it is printed once (0.7). */
  readonly generatedPassword: string | undefined;
  close(): Promise<void>;
}

/**
 * Opens the directory. At the first start, it creates the administrator and the built-in groups (0.7).
 */
export async function openDirectory({
  store,
  database,
  folder,
  administrator,
  progress,
  say,
}: DirectoryOptions): Promise<OpenedDirectory> {
  // Rollcall 0.1.0 stored a copy of the last list there. Nothing reads it any more.
  await rm(join(folder, "list"), { recursive: true, force: true });
  const answers = await openAnswers(join(folder, "answers"));
  const generatedPassword = await setUp(store, administrator);

  // A statement occupies a thread of Node's pool until it ends, and passwords and files need threads too: one of each
  // at a time.
  const listQueue = createQueue();
  const syncQueue = createQueue();

  let [underWay, untilTrim] = [0, callsUntilTrim];

  function withConnection<Result>(what: string, work: (connection: Connection) => Promise<Result>): Promise<Result> {
    return progress.watch(what, patience, async (moved) => {
      underWay++;
      untilTrim--;
      try {
        return await database.use((connection) => work(reporting(connection, moved)));
      } finally {
        underWay--;
        if (untilTrim <= 0 && underWay === 0) {
          untilTrim = callsUntilTrim;
          await database.trim();
        }
      }
    });
  }

  /** Begins again when somebody else was faster. */
  async function syncOnce(request: SyncRequest, signal: AbortSignal): Promise<Readable> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await withConnection("a call of user/sync", (connection) =>
          interruptible(connection, signal, async () => {
            await useThreads(connection);
            return sync(connection, request, { store, administrator: administrator.name, answers, signal, say });
          }),
        );
      } catch (error) {
        if (!(error instanceof DirectoryChangedError) || attempt === attempts) throw error;
      }
    }
  }

  return {
    generatedPassword,
    account: store.account,
    nameOf: store.nameOf,
    effectiveGroups: store.effectiveGroups,
    state: store.state,
    list: (signal) =>
      listQueue(
        () =>
          withConnection("a call of user/list", (connection) =>
            interruptible(connection, signal, async () => {
              // Sorting a million principals with two threads takes twice the memory, and as long.
              await connection.run("SET threads = 1");
              await store.read(connection);
              signal.throwIfAborted();
              return answers.compute(connection, listAnswer, jsonArray);
            }),
          ),
        signal,
      ),
    sync: (request, signal) =>
      syncQueue(() => {
        const once = (): Promise<Readable> => syncOnce(request, signal);
        return request.apply ? store.inTurn(once, signal) : once();
      }, signal),
    close: async () => {
      await Promise.all([listQueue, syncQueue].map((queue) => queue.idle()));
      await store.close();
    },
  };
}

/** How often a call of `user/sync` begins when the directory is changed meanwhile, in spite of its turn. */
const attempts = 3;

/**
 * Creates the administrator and the lasting groups, and sets the configured password of the administrator, if any (0.7).
 * @returns the administrator's password when it was generated now
 */
async function setUp(store: DirectoryStore, { name, password }: Administrator): Promise<string | undefined> {
  const user = await store.account(name);
  const generated = user === undefined && password === undefined ? randomBytes(18).toString("base64url") : undefined;
  const valid = password ?? generated;
  const isCurrent =
    user !== undefined && (password === undefined || (await verifyPassword(user.passwordHash, password)));
  const first =
    valid === undefined || isCurrent
      ? undefined
      : { hash: await hashPassword(valid), isGenerated: generated !== undefined };
  // Another process may have created the administrator meanwhile, with a password of its own.
  const isCreated = await store.setUp(name, first);
  return isCreated ? generated : undefined;
}

/** After so many calls the database is trimmed: each leaves some forty buffers to remember, and reading the tables anew takes time. */
const callsUntilTrim = 100;

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

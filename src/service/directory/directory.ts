import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { interruptible, useThreads } from "#duckdb/database.ts";
import type { Connection, Database, Parameter } from "#duckdb/database.ts";
import { emptyFolder } from "#files/disk.ts";
import { createQueue } from "#queue.ts";
import type { Progress } from "#service/progress.ts";
import { ListAnswer } from "./list.ts";
import { hashPassword, verifyPassword } from "#passwords.ts";
import { loadList } from "./check.ts";
import type { SyncUpload } from "./receive.ts";
import { DirectoryChangedError } from "./store.ts";
import type { Account, DirectoryStore } from "./store.ts";
import { sync } from "./sync.ts";

/** The configured bootstrap administrator. */
export interface Administrator {
  readonly name: string;
  readonly password?: string;
}

export interface DirectoryOptions {
  readonly store: DirectoryStore;
  /** Where lists are read, compared and written out. */
  readonly database: Pick<Database, "use" | "trim">;
  /** The service's folder. Answers on their way out are in `answers` below it, the last list in `list`; both are emptied now. */
  readonly folder: string;
  readonly administrator: Administrator;
  readonly progress: Progress;
  /** Called with how far a long call of `user/sync` is, for the log. */
  readonly say?: ((message: string) => void) | undefined;
}

/** A call of `user/sync` while it arrives. */
export type Arriving = Pick<SyncUpload, "begun" | "pieces" | "received">;

/** The users and groups of the service, as lists. */
export class Directory {
  /** The administrator's password, when it was generated at the opening: it is printed once (0.7). */
  readonly generatedPassword: string | undefined;
  readonly store: DirectoryStore;
  readonly #options: DirectoryOptions;
  /** The folder of answers on their way out. */
  readonly #answers: string;
  readonly #list: ListAnswer;
  // A statement occupies a thread of Node's pool until it ends, and passwords and files need threads too: one of each
  // at a time.
  readonly #listQueue = createQueue();
  readonly #pieceQueue = createQueue();
  readonly #syncQueue = createQueue();
  /** All calls. */
  readonly #calls = createQueue(Infinity);
  #underWay = 0;
  #untilTrim = callsUntilTrim;

  /** Opens the directory. At the first start, it creates the administrator and the built-in groups (0.7). */
  static async open(options: DirectoryOptions): Promise<Directory> {
    const { store, folder, administrator } = options;
    const [answers, list] = [join(folder, "answers"), join(folder, "list")];
    await emptyFolder(answers);
    await emptyFolder(list);
    return new Directory(options, { answers, list }, await setUp(store, administrator));
  }

  private constructor(
    options: DirectoryOptions,
    folders: { readonly answers: string; readonly list: string },
    generatedPassword: string | undefined,
  ) {
    this.store = options.store;
    this.#options = options;
    this.#answers = folders.answers;
    this.#list = new ListAnswer(folders.list);
    this.generatedPassword = generatedPassword;
  }

  /**
   * The answer of `user/list`, a JSON array (B.9), as a stream of bytes: the state at the time of the call. Calls queue behind
   * each other.
   */
  list(signal: AbortSignal): Promise<Readable> {
    const answer = async (): Promise<Readable> => {
      const state = await this.store.state();
      const computed = (connection: Connection) => this.#computeList(connection, state, signal);
      return (await this.#list.find(state)) ?? this.#withConnection(signal, computed);
    };
    return this.#calls(() => this.#listQueue(answer, signal));
  }

  /**
   * Specification 4.2, `principal/sync`. Its list is read while it arrives. Calls queue behind each other from the moment they
   * have arrived (B.8).
   * @param caller the name of the calling user
   * @returns the JSON answer of specification 2.8 as a stream of bytes; undefined where `upload.received` is
   * @throws {InputError} B.5; its `problems` are the first hundred, nothing has changed
   */
  async sync(upload: Arriving, caller: string, signal: AbortSignal): Promise<Readable | undefined> {
    return this.#calls(async () => {
      if (!(await upload.begun())) {
        await upload.received;
        return undefined;
      }
      for (let attempt = 1; ; attempt++) {
        try {
          return await this.#withConnection(signal, (connection) => this.#syncOnce(connection, upload, caller, signal));
        } catch (error) {
          // Somebody else was faster.
          if (!(error instanceof DirectoryChangedError) || attempt === attempts) throw error;
        }
      }
    });
  }

  /** The account of the configured administrator. */
  async administrator(): Promise<Account> {
    const { name } = this.#options.administrator;
    const user = await this.store.account(name);
    if (user === undefined) throw new Error(`the administrator ${name} does not exist`);
    return user;
  }

  /** Gives the administrator a new password. */
  async resetPassword(): Promise<{ readonly name: string; readonly password: string }> {
    const { name } = this.#options.administrator;
    const password = generatePassword();
    await this.store.setUp(name, { hash: await hashPassword(password), isGenerated: false });
    return { name, password };
  }

  async close(): Promise<void> {
    await this.#calls.idle();
    await this.#list.forget();
    await this.store.close();
  }

  async #syncOnce(
    connection: Connection,
    upload: Arriving,
    caller: string,
    signal: AbortSignal,
  ): Promise<Readable | undefined> {
    const what = "a call of user/sync";
    await loadList(upload.pieces(), upload.received, (sql) =>
      this.#pieceQueue(() => this.#watch(what, connection, (watched) => watched.run(sql)), signal),
    );
    const received = await upload.received;
    if (received === undefined) return undefined;
    const { administrator, say } = this.#options;
    const context = { store: this.store, administrator: administrator.name, answers: this.#answers, signal, say };
    const once = (): Promise<Readable> =>
      this.#watch(what, connection, async (watched) => {
        await useThreads(watched);
        if (received.apply) await this.#list.forget();
        return sync(watched, { ...received, caller }, context);
      });
    return this.#syncQueue(() => (received.apply ? this.store.inTurn(once, signal) : once()), signal);
  }

  #computeList(connection: Connection, state: string, signal: AbortSignal): Promise<Readable> {
    return this.#watch("a call of user/list", connection, async (watched) => {
      // Sorting a million principals with two threads takes twice the memory, and as long.
      await watched.run("SET threads = 1");
      await this.store.read(watched);
      signal.throwIfAborted();
      return this.#list.compute(watched, state);
    });
  }

  /** Runs `work`, whose every statement is a step for `progress`. */
  #watch<Result>(
    what: string,
    connection: Connection,
    work: (connection: Connection) => Promise<Result>,
  ): Promise<Result> {
    return this.#options.progress.watch(what, patience, (moved) => work(reporting(connection, moved)));
  }

  async #withConnection<Result>(
    signal: AbortSignal,
    work: (connection: Connection) => Promise<Result>,
  ): Promise<Result> {
    const { database } = this.#options;
    this.#underWay++;
    this.#untilTrim--;
    try {
      return await database.use((connection) => interruptible(connection, signal, () => work(connection)));
    } finally {
      this.#underWay--;
      if (this.#untilTrim <= 0 && this.#underWay === 0) {
        this.#untilTrim = callsUntilTrim;
        await database.trim();
      }
    }
  }
}

/** How often a call of `user/sync` begins when the directory is changed meanwhile, in spite of its turn. */
const attempts = 3;

/**
 * Creates the administrator and the lasting groups, and sets the configured password of the administrator, if any (0.7).
 * @returns the administrator's password when it was generated now
 */
async function setUp(store: DirectoryStore, { name, password }: Administrator): Promise<string | undefined> {
  const user = await store.account(name);
  const generated = user === undefined && password === undefined ? generatePassword() : undefined;
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

function generatePassword(): string {
  return randomBytes(18).toString("base64url");
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

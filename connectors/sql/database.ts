import { access, constants, stat } from "node:fs/promises";
import { resolve } from "node:path";
import type { OpenContext, ReadContext } from "#connector.ts";
import { IncompleteReadError, InputError, RefusedError, RollcallError, UnavailableError } from "#errors.ts";
import { readAuthorities } from "#files/certificates.ts";
import { unreadable } from "#files/disk.ts";
import { connectionProblem } from "#http/errors.ts";
import { presentable } from "#redact.ts";
import { formatDuration, formatNumber } from "#text.ts";
import { isLocal } from "./address.ts";
import type { Address, ServerAddress } from "./address.ts";
import { tlsOf } from "./connection.ts";
import type { Dialect, Meaning, Place, Rows, Session } from "./dialect.ts";
import type { Options } from "./options.ts";
import { wrapped } from "./query.ts";

/** How many rows are fetched at a time. */
const fetched = 1_000;

/** Each is loaded when it is configured. */
const dialects: Readonly<Record<Address["dialect"], () => Promise<Dialect>>> = {
  postgres: async () => (await import("./postgres.ts")).postgres,
  mysql: async () => (await import("./mysql.ts")).mysql,
  sqlite: async () => (await import("./sqlite.ts")).sqlite,
};

/** A database as of one moment, for the time of one read: within its time limits, and until its signal aborts. */
export class Database {
  readonly #options: Options;
  readonly #signal: AbortSignal;
  readonly #dialect: Dialect;
  readonly #limit: AbortSignal;
  readonly #session: Session;
  /** The database has been asked for something, and has not answered. */
  #isWaiting = false;

  /**
   * Connects and begins the transaction.
   * @throws {RefusedError | UnavailableError | InputError} what the server, its certificate or the system say
   */
  static async open(options: Options, open: OpenContext, context: ReadContext): Promise<Database> {
    context.signal.throwIfAborted();
    const place = await placeOf(options, open, context);
    const dialect = await dialects[options.url.dialect]();
    const database = new Database(options, dialect, dialect.session(place), context.signal);
    const { connect, statement } = options.timeouts;
    try {
      await database.#wait(database.#session.begin(), connect + statement, "timeouts: { connect }");
      return database;
    } catch (error) {
      await database[Symbol.asyncDispose]();
      throw database.#explained(error);
    }
  }

  private constructor(options: Options, dialect: Dialect, session: Session, signal: AbortSignal) {
    this.#options = options;
    this.#dialect = dialect;
    this.#session = session;
    this.#signal = signal;
    this.#limit = AbortSignal.timeout(options.timeouts.read);
  }

  /**
   * Every row of a query, as many as it has when it is counted.
   * @param part what messages call the query: `users`
   * @throws {IncompleteReadError} the database counts other rows than it delivers; what `open` throws
   */
  async *rows(part: string, query: string): AsyncGenerator<Rows> {
    const expected = await this.count(part, query);
    let received = 0;
    for await (const rows of this.#pages(part, this.#wrapped("*", query))) {
      received += rows.rows.length;
      yield rows;
    }
    if (received === expected) return;
    throw new IncompleteReadError(
      `${this.#titleOf(part)}: the database counted ${formatNumber(expected)} rows and delivered ${formatNumber(received)}; ` +
        "does the query pick rows at random, or are its tables of an engine without transactions (MyISAM)?",
      { torn: true },
    );
  }

  /**
   * A join that finds two rows for a person makes two records of one.
   * @param id the column of the ids
   * @throws {InputError} two rows have one id
   */
  async assertUnique(part: string, query: string, id: string): Promise<void> {
    const { shown, by } = this.#dialect.grouping(id);
    const twice = `${this.#wrapped(`${shown}, count(*)`, query)} GROUP BY ${by} HAVING count(*) > 1 LIMIT 1`;
    for await (const { rows } of this.#pages(part, twice)) {
      const [found] = rows;
      if (found === undefined) continue;
      throw new InputError(
        `${this.#titleOf(part)}: ${String(found[1])} rows have the ${id} ${JSON.stringify(String(found[0]))}; does a join find several rows for one record?`,
      );
    }
  }

  async count(part: string, query: string): Promise<number> {
    let count: unknown;
    for await (const { rows } of this.#pages(part, this.#wrapped("count(*)", query))) count = rows[0]?.[0] ?? count;
    return Number(count);
  }

  async describe(): Promise<readonly string[]> {
    const { statement } = this.#options.timeouts;
    try {
      return await this.#wait(this.#session.describe(), statement, "timeouts: { statement }");
    } catch (error) {
      throw this.#explained(error);
    }
  }

  /** Ends the connection. A statement that is still running is stopped. */
  async [Symbol.asyncDispose](): Promise<void> {
    await (this.#isWaiting ? this.#session.stop() : this.#session.close());
  }

  #wrapped(select: string, query: string): string {
    return wrapped(select, query, this.#options.url.dialect === "mysql" ? "mysql" : "standard");
  }

  async *#pages(part: string, sql: string): AsyncGenerator<Rows> {
    const { statement } = this.#options.timeouts;
    const pages = this.#session.rows(sql, fetched)[Symbol.asyncIterator]();
    try {
      for (;;) {
        const { done, value } = await this.#wait(pages.next(), statement + grace, "timeouts: { statement }");
        if (done === true) return;
        yield value;
      }
    } catch (error) {
      throw this.#explained(error, part);
    } finally {
      if (!this.#isWaiting) await pages.return?.();
    }
  }

  /** @param setting what to raise */
  async #wait<Result>(work: Promise<Result>, limit: number, setting: string): Promise<Result> {
    this.#isWaiting = true;
    const answered = (): void => {
      this.#isWaiting = false;
    };
    work.then(answered, answered);
    const late = AbortSignal.timeout(Math.min(limit, longestTimer));
    const over = AbortSignal.any([this.#signal, this.#limit, late]);
    const { promise, reject } = Promise.withResolvers<never>();
    const stop = (): void => {
      reject(new UnavailableError(`no answer within ${formatDuration(limit)} (${setting})`));
    };
    over.addEventListener("abort", stop, { once: true });
    try {
      if (over.aborted) stop();
      return await Promise.race([promise, work]);
    } finally {
      over.removeEventListener("abort", stop);
    }
  }

  /** @throws the signal's reason */
  #explained(error: unknown, part?: string): unknown {
    this.#signal.throwIfAborted();
    const title = this.#titleOf(part);
    if (this.#limit.aborted) {
      const limit = formatDuration(this.#options.timeouts.read);
      return new UnavailableError(`${title}: the whole read takes longer than ${limit} (timeouts: { read })`);
    }
    if (error instanceof UnavailableError) return new UnavailableError(`${title}: ${error.message}`, { cause: error });
    if (error instanceof RollcallError) return error;
    const { url } = this.#options;
    const settings = { ca: "the source's `ca`", scheme: "another sslmode" };
    const problem = connectionProblem(error, { host: url.place.replace(/\/[^/]*$/, ""), settings });
    if (problem !== undefined) {
      const { reason, kind } = problem;
      return meant({ kind: kind === "network" ? "unavailable" : "refused", message: reason }, title, error);
    }
    const meaning = this.#dialect.explain(error) ?? this.#lost(error);
    const secrets = [this.#options.password, "password" in url ? url.password : undefined];
    if (meaning === undefined) return part === undefined ? strange(error, title) : error;
    const known = secrets.filter((secret) => secret !== undefined);
    const hint =
      meaning.kind === "refused" && part === undefined && known.length === 0 ? "; it has no password here" : "";
    return meant({ ...meaning, message: presentable(meaning.message, known) + hint }, title, error);
  }

  #lost(error: unknown): Meaning | undefined {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    return /^E[A-Z]+$/.test(code) ? { kind: "unavailable", message: `the connection was lost (${code})` } : undefined;
  }

  #titleOf(part?: string): string {
    return `${this.#dialect.name} at ${this.#options.url.place}${part === undefined ? "" : `, ${part}`}`;
  }
}

/** The longest time that a timer of Node.js holds, in milliseconds. */
const longestTimer = 2 ** 31 - 1;

/** How much longer than the database's own limit an answer may take, in milliseconds. */
const grace = 10_000;

const errors = {
  input: InputError,
  refused: RefusedError,
  unavailable: UnavailableError,
  incomplete: IncompleteReadError,
  torn: IncompleteReadError,
};

function meant({ kind, message }: Meaning, title: string, cause: unknown): RollcallError {
  return new errors[kind](`${title}: ${message}`, { cause, torn: kind === "torn" });
}

/** What answers is something else. */
function strange(error: unknown, title: string): unknown {
  if (!(error instanceof Error) || error instanceof TypeError) return error;
  const message = `no answer of such a server (${presentable(error.message)}): are scheme, host and port right?`;
  return new UnavailableError(`${title}: ${message}`, { cause: error });
}

async function placeOf(options: Options, open: OpenContext, { warn }: ReadContext): Promise<Place> {
  const { url } = options;
  if (url.dialect === "sqlite") {
    const file = resolve(open.folder, url.file);
    const found = await access(file, constants.R_OK)
      .then(() => stat(file))
      .catch((error: unknown) => {
        throw unreadable(url.file, file, error);
      });
    if (!found.isFile()) throw new InputError(`${url.file} is not a file (looked in ${open.folder})`);
    return { options, file, tls: undefined };
  }
  const server: ServerAddress = { ...url, password: options.password ?? url.password };
  const isOpen = url.sslmode === "disable" || (url.sslmode === "require" && options.ca === undefined);
  if (isOpen && !isLocal(url.host))
    warn(
      `source ${open.name}: with sslmode=${url.sslmode} anybody between here and ${url.place} can read and change everything`,
    );
  const { ca } = options;
  const authorities = ca === undefined ? undefined : readAuthorities(resolve(open.folder, ca), `ca: ${ca}`);
  return { options, server, tls: tlsOf(server, authorities) };
}

import { readFile } from "node:fs/promises";
import type { Readable, Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type { ConnectionOptions } from "node:tls";
import { Client, DatabaseError, types } from "pg";
import type { ClientConfig, FieldDef, PoolClient, PoolConfig } from "pg";
import { from, to } from "pg-copy-streams";
import { InputError, messageOf, UnavailableError } from "#errors.ts";
import { parseAddress } from "./address.ts";
import type { Address, Host } from "./address.ts";
import { isForeignAway, sqlState, StandbyError } from "./errors.ts";
import type { PostgresSettings } from "./options.ts";
import { connectTimeout, Primary, streamOf } from "./primary.ts";
import type { Reached, Waiting } from "./primary.ts";

/** A value of a parameter `$1`. Arrays are PostgreSQL's arrays. */
export type Parameter = string | number | bigint | boolean | Buffer | Date | null | readonly Parameter[];

/** A result with its types, each value as PostgreSQL's text. */
export interface TextResult {
  readonly fields: readonly FieldDef[];
  readonly rows: readonly (readonly (string | null)[])[];
  /** How many rows the command returned, moved over or changed. */
  readonly count: number;
}

/** The statements of a transaction. */
export interface Transaction {
  /** Runs statements without parameters and ignores what they return. */
  run(sql: string): Promise<void>;
  /** The rows of one statement as objects by column name: `bigint` for int8, text for dates and times without a zone. */
  rows<Row extends object>(sql: string, parameters?: readonly Parameter[]): Promise<Row[]>;
  /** How many rows one statement changed. */
  count(sql: string, parameters?: readonly Parameter[]): Promise<number>;
  /** One statement, whatever it is, with its values as text. */
  text(sql: string): Promise<TextResult>;
  /** What `COPY … FROM STDIN` reads. It has all of it when the stream has finished. Destroying it fails the statement. */
  copyIn(sql: string): Writable & { readonly rowCount: number };
  /** What `COPY … TO STDOUT` writes. */
  copyOut(sql: string): Readable;
  /**
   * Waits until no other transaction holds the lock of this name, and holds it to the end of the transaction. It works
   * with a pooler between, and is free when the process dies.
   */
  lock(name: string): Promise<void>;
}

export interface TransactionOptions {
  readonly readOnly?: boolean | undefined;
  /** All statements see the database as it was at the first. */
  readonly snapshot?: boolean | undefined;
  /** How long each statement may run, in milliseconds; 0: as long as it takes. Absent: as configured. */
  readonly timeout?: number | undefined;
  /** Settings that hold for this transaction only, by name. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
  /** Aborting it stops the statement that is running, and rolls back. */
  readonly signal?: AbortSignal | undefined;
  /**
   * The work is done again when the server went away before it answered the commit, which may have been written then: the work
   * only reads, or looks for that first.
   */
  readonly isRepeatable?: boolean | undefined;
}

export interface RowsOptions {
  /**
   * Running it twice leaves what running it once does, so that it is run again when the connection was lost. If the second
   * time violates a unique constraint, the first has inserted its row.
   */
  readonly isRepeatable?: boolean | undefined;
}

/** How much longer than the server's own limit an answer may take, in milliseconds, before its connection is given up. */
const grace = 10_000;

/** OIDs whose text is what Rollcall wants: dates and times without a zone are no moments. */
const asText: ReadonlySet<number> = new Set([1082, 1083, 1114]);
const int8 = 20;

const usual = types.getTypeParser as (oid: number, format?: "text" | "binary") => unknown;

const parsers = {
  getTypeParser: (oid: number, format?: "text" | "binary"): unknown => {
    if (format !== "binary" && oid === int8) return BigInt;
    if (format !== "binary" && asText.has(oid)) return String;
    return usual(oid, format);
  },
} as PoolConfig["types"];

const texts = { getTypeParser: () => String } as PoolConfig["types"];

/**
 * A PostgreSQL database, through a pool of connections to its primary. What begins while the server is away, as in a failover, waits for
 * it for up to half a minute. Nothing lasts in a connection beyond a transaction, so that
 * pgbouncer may be between (`pool_mode = transaction`): no settings, no prepared statements, no locks, no LISTEN.
 */
export class Postgres {
  /** `host:port/database`: what messages call it. */
  readonly place: string;
  readonly #primary: Primary;
  readonly #statementTimeout: number;

  /**
   * Opens a pool. It connects with the first statement.
   * @throws {InputError} when the file of `sslrootcert` cannot be read
   */
  static async open(settings: PostgresSettings, waiting: Waiting = {}): Promise<Postgres> {
    const address = parseAddress(settings.postgres);
    const configs = address.hosts.map(async ({ host, port }): Promise<ClientConfig> => ({
      host,
      port,
      database: address.database,
      user: address.user,
      password: address.password,
      application_name: address.applicationName,
      ssl: await tlsOf(address.sslmode, host, settings.sslrootcert),
      connectionTimeoutMillis: connectTimeout,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
      types: parsers,
    }));
    const { place } = address;
    const primary = new Primary({ configs: await Promise.all(configs), poolSize: settings.poolSize, place, waiting });
    return new Postgres(place, primary, settings.statementTimeout);
  }

  private constructor(place: string, primary: Primary, statementTimeout: number) {
    this.place = place;
    this.#primary = primary;
    this.#statementTimeout = statementTimeout;
  }

  /**
   * The rows of one statement, in a transaction of its own. One that only reads is run again when the connection was lost.
   * @throws {UnavailableError} when the server does not answer; {RefusedError} when it lets this user not in
   */
  rows<Row extends object>(
    sql: string,
    parameters: readonly Parameter[] = [],
    { isRepeatable = isRead(sql) }: RowsOptions = {},
  ): Promise<Row[]> {
    let isSent = false;
    let isSecond = false;
    const once = async (): Promise<Row[]> => {
      const { client } = await this.#primary.connect();
      isSecond = isSent;
      isSent = true;
      try {
        const { rows } = await client.query<Row>(limited(sql, parameters, this.#statementTimeout));
        client.release();
        return rows;
      } catch (error) {
        const state = sqlState(error);
        client.release(!isAnswer(error));
        // A standby has done nothing.
        if (state === "25006") isSent = false;
        if (state === "23505" && isSecond) return [];
        throw error;
      }
    };
    return this.#primary.patiently(once, () => isRepeatable || !isSent);
  }

  /**
   * Runs `work` in a transaction: committed when it returns, rolled back when it throws.
   * @throws the signal's reason; what `work` throws; errors as those of `rows`. An UnavailableError of the commit itself
   *   says that nobody knows whether it was written
   */
  async transaction<Result>(
    work: (transaction: Transaction) => Promise<Result>,
    options: TransactionOptions = {},
  ): Promise<Result> {
    const { signal, isRepeatable = false, timeout = this.#statementTimeout } = options;
    signal?.throwIfAborted();
    let isBegun = false;
    const once = async (): Promise<Result> => {
      const reached = await this.#begin(options, timeout);
      isBegun = true;
      return this.#commit(reached, work, timeout, signal);
    };
    return this.#primary.patiently(once, () => isRepeatable || !isBegun, signal);
  }

  /** Breaks every connection: statements under way fail, and the next ones open others. */
  disconnect(): void {
    this.#primary.disconnect();
  }

  /** Waits for what is under way. */
  close(): Promise<void> {
    return this.#primary.close();
  }

  async #begin(options: TransactionOptions, timeout: number): Promise<Reached> {
    const reached = await this.#primary.connect();
    const { client } = reached;
    try {
      const results: unknown = await client.query(limited(begin(options, timeout), [], connectTimeout));
      const last = (results as { rows: { standby: boolean }[] }[]).at(-1);
      // Behind pgbouncer a connection may lead to another server than before.
      if (last?.rows[0]?.standby === true) throw new StandbyError();
      return reached;
    } catch (error) {
      // "cannot set transaction read-write mode during recovery"
      const isStandby = error instanceof StandbyError || sqlState(error) === "0A000";
      await giveBack(client, isStandby || !isAnswer(error));
      throw isStandby ? new StandbyError() : error;
    }
  }

  async #commit<Result>(
    { client, config }: Reached,
    work: (transaction: Transaction) => Promise<Result>,
    timeout: number,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    const stopper = new Stopper(config, client, signal);
    let isCommitting = false;
    try {
      await stopper.watch();
      const result = await work(onClient(client, timeout, signal));
      await stopper.end();
      signal?.throwIfAborted();
      isCommitting = true;
      const { command } = await client.query(limited("COMMIT", [], timeout));
      if (command === "ROLLBACK") throw new Error("the transaction had failed, and was rolled back");
      client.release();
      return result;
    } catch (error) {
      await stopper.end();
      await giveBack(client, isCommitting && !isAnswer(error));
      if (signal?.aborted === true) throw signal.reason;
      if (isCommitting && !isAnswer(error)) throw commitUnknown(this.place, error);
      throw error;
    }
  }
}

async function tlsOf(
  sslmode: Address["sslmode"],
  host: Host["host"],
  sslrootcert: string | undefined,
): Promise<ConnectionOptions | false> {
  if (sslmode === "disable" || host.startsWith("/")) return false;
  const ca =
    sslrootcert === undefined
      ? undefined
      : await readFile(sslrootcert, "utf8").catch((cause: unknown) => {
          throw new InputError(`sslrootcert: ${sslrootcert} cannot be read: ${messageOf(cause)}`, { cause });
        });
  if (sslmode === "require" && ca === undefined) return { rejectUnauthorized: false };
  // As in libpq: with a root certificate, `require` is `verify-ca`.
  return sslmode === "verify-full" ? { ca } : { ca, checkServerIdentity: () => undefined };
}

function begin({ readOnly, snapshot, settings = {} }: TransactionOptions, timeout: number): string {
  const mode = `${snapshot === true ? " ISOLATION LEVEL REPEATABLE READ," : ""} READ ${readOnly === true ? "ONLY" : "WRITE"}`;
  const all = { statement_timeout: String(timeout), ...settings };
  const set = Object.entries(all).map(([name, value]) => `SET LOCAL ${name} = ${literal(value)};`);
  return `BEGIN${mode}; ${set.join(" ")} SELECT pg_is_in_recovery() AS standby`;
}

function limited(text: string, values: readonly Parameter[], timeout: number): { text: string; values: unknown[] } {
  const query = { text, values: [...values] };
  // The driver's type does not know of it.
  return timeout === 0 ? query : Object.assign(query, { query_timeout: Math.min(timeout + grace, 2 ** 31 - 1) });
}

function onClient(client: PoolClient, timeout: number, signal: AbortSignal | undefined): Transaction {
  const self: Transaction = {
    run: async (sql) => {
      signal?.throwIfAborted();
      await client.query(sql);
    },
    rows: async <Row extends object>(sql: string, parameters: readonly Parameter[] = []) => {
      signal?.throwIfAborted();
      const { rows } = await client.query<Row>(limited(sql, parameters, timeout));
      return rows;
    },
    count: async (sql, parameters = []) => {
      signal?.throwIfAborted();
      return (await client.query(limited(sql, parameters, timeout))).rowCount ?? 0;
    },
    text: async (sql) => {
      signal?.throwIfAborted();
      const query = { ...limited(sql, [], timeout), rowMode: "array" as const, types: texts };
      // With `queryMode` the statement is parsed alone: several at once are an error.
      const { fields, rows, rowCount } = await client.query<(string | null)[]>(
        Object.assign(query, { queryMode: "extended" }),
      );
      return { fields, rows, count: rowCount ?? 0 };
    },
    copyIn: (sql) => client.query(from(sql)),
    copyOut: (sql) => client.query(to(sql)),
    lock: async (name) => {
      await self.rows("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [`rollcall ${name}`]);
    },
  };
  return self;
}

/**
 * Stops what a transaction is doing when its signal is aborted. The statement is cancelled by another connection: that
 * works through a pooler too, and while the transaction is open the process is nobody else's. It is repeated, since one that
 * comes between two statements is lost. What does not stop then loses its connection.
 */
class Stopper {
  readonly #config: ClientConfig;
  readonly #client: PoolClient;
  readonly #signal: AbortSignal | undefined;
  readonly #over = new AbortController();
  #pid = 0;
  #stopping: Promise<void> | undefined;

  constructor(config: ClientConfig, client: PoolClient, signal: AbortSignal | undefined) {
    this.#config = config;
    this.#client = client;
    this.#signal = signal;
  }

  async watch(): Promise<void> {
    if (this.#signal === undefined) return;
    const { rows } = await this.#client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
    this.#pid = rows[0]?.pid ?? 0;
    this.#signal.throwIfAborted();
    this.#signal.addEventListener("abort", this.#begin, { once: true });
  }

  /** Nothing is stopped from now on. Waits for what was being stopped. */
  async end(): Promise<void> {
    this.#over.abort();
    this.#signal?.removeEventListener("abort", this.#begin);
    await this.#stopping;
  }

  readonly #begin = (): void => {
    this.#stopping = this.#stop();
  };

  async #stop(): Promise<void> {
    const until = performance.now() + longestStop;
    while (!this.#over.signal.aborted) {
      const left = until - performance.now();
      if (left > 0 && (await cancel(this.#config, this.#pid, left))) await delay(100);
      else {
        streamOf(this.#client).destroy();
        return;
      }
    }
  }
}

/** How long a statement may take to stop, in milliseconds. Less than the worker waits before it is killed. */
const longestStop = 700;

/**
 * With a connection of its own: those of the pool may all be busy.
 * @param time in milliseconds
 * @returns whether the server was told
 */
async function cancel(config: ClientConfig, pid: number, time: number): Promise<boolean> {
  const client = new Client({ ...config, connectionTimeoutMillis: time });
  client.on("error", () => undefined);
  const late = setTimeout(() => streamOf(client).destroy(), time);
  try {
    await client.connect();
    await client.query("SELECT pg_cancel_backend($1)", [pid]);
    return true;
  } catch {
    return false;
  } finally {
    clearTimeout(late);
    await client.end().catch(() => undefined);
  }
}

/** @param isLost its connection is not to be used again */
async function giveBack(client: PoolClient, isLost: boolean): Promise<void> {
  if (isLost) {
    client.release(true);
    return;
  }
  const failed = await client.query(limited("ROLLBACK", [], grace)).then(
    () => false,
    () => true,
  );
  client.release(failed);
}

/** Whether the server has said it, so that its connection is as it should be. */
function isAnswer(error: unknown): boolean {
  return error instanceof DatabaseError && (!/^(?:08|57P|25006)/.test(error.code ?? "") || isForeignAway(error));
}

/** Whether a statement certainly changes nothing. */
function isRead(sql: string): boolean {
  return /^\s*(?:SELECT|WITH)\b/i.test(sql) && !/\b(?:INSERT|UPDATE|DELETE|MERGE)\b/i.test(sql);
}

function commitUnknown(place: string, cause: unknown): UnavailableError {
  return new UnavailableError(
    `the connection to PostgreSQL at ${place} was lost during a commit, so that it may or may not be written: ${messageOf(cause)}`,
    { cause },
  );
}

/** A name as a quoted SQL identifier. */
export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A string as a literal of SQL, whatever `standard_conforming_strings` is. */
function literal(text: string): string {
  const quoted = text.replaceAll("'", "''");
  return quoted.includes("\\") ? `E'${quoted.replaceAll("\\", "\\\\")}'` : `'${quoted}'`;
}

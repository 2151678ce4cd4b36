import type { ConnectionOptions } from "node:tls";
import { DatabaseError, escapeLiteral, types } from "pg";
import type { ClientConfig, PoolClient, PoolConfig } from "pg";
import { messageOf, UnavailableError } from "#errors.ts";
import { readAuthorities } from "#files/certificates.ts";
import { parseAddress } from "./address.ts";
import type { Address, Host } from "./address.ts";
import { isForeignAway, sqlState, StandbyError } from "./errors.ts";
import type { PostgresSettings } from "./options.ts";
import { connectTimeout, Primary } from "./primary.ts";
import type { Reached, Waiting } from "./primary.ts";
import { grace, limited, Stopper, Transaction } from "./transaction.ts";
import type { Parameter } from "./transaction.ts";

export { escapeIdentifier as identifier } from "pg";
export type { Parameter, TextResult, Transaction } from "./transaction.ts";

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
      const result = await work(new Transaction(client, timeout, signal));
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
  const ca = sslrootcert === undefined ? undefined : readAuthorities(sslrootcert, `sslrootcert: ${sslrootcert}`);
  if (sslmode === "require" && ca === undefined) return { rejectUnauthorized: false };
  // As in libpq: with a root certificate, `require` is `verify-ca`.
  return sslmode === "verify-full" ? { ca } : { ca, checkServerIdentity: () => undefined };
}

function begin({ readOnly, snapshot, settings = {} }: TransactionOptions, timeout: number): string {
  const mode = `${snapshot === true ? " ISOLATION LEVEL REPEATABLE READ," : ""} READ ${readOnly === true ? "ONLY" : "WRITE"}`;
  const all = { statement_timeout: String(timeout), ...settings };
  const set = Object.entries(all).map(([name, value]) => `SET LOCAL ${name} = ${escapeLiteral(value)};`);
  return `BEGIN${mode}; ${set.join(" ")} SELECT pg_is_in_recovery() AS standby`;
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

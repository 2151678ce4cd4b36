import type { Readable, Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import type { ClientConfig, FieldDef, PoolClient, PoolConfig } from "pg";
import { from, to } from "pg-copy-streams";
import { streamOf } from "./primary.ts";

/** A value of a parameter `$1`. Arrays are PostgreSQL's arrays. */
export type Parameter = string | number | bigint | boolean | Buffer | Date | null | readonly Parameter[];

/** A result with its types, each value as PostgreSQL's text. */
export interface TextResult {
  readonly fields: readonly FieldDef[];
  readonly rows: readonly (readonly (string | null)[])[];
  /** How many rows the command returned, moved over or changed. */
  readonly count: number;
}

/** How much longer than the server's own limit an answer may take, in milliseconds, before its connection is given up. */
export const grace = 10_000;

const texts = { getTypeParser: () => String } as PoolConfig["types"];

/** The statements of a transaction. */
export class Transaction {
  readonly #client: PoolClient;
  readonly #timeout: number;
  readonly #signal: AbortSignal | undefined;

  /** @param timeout how long each statement may run, in milliseconds; 0: as long as it takes */
  constructor(client: PoolClient, timeout: number, signal: AbortSignal | undefined) {
    this.#client = client;
    this.#timeout = timeout;
    this.#signal = signal;
  }

  /** Runs statements without parameters and ignores what they return. */
  async run(sql: string): Promise<void> {
    this.#signal?.throwIfAborted();
    await this.#client.query(sql);
  }

  /** The rows of one statement as objects by column name: `bigint` for int8, text for dates and times without a zone. */
  async rows<Row extends object>(sql: string, parameters: readonly Parameter[] = []): Promise<Row[]> {
    this.#signal?.throwIfAborted();
    const { rows } = await this.#client.query<Row>(limited(sql, parameters, this.#timeout));
    return rows;
  }

  /** How many rows one statement changed. */
  async count(sql: string, parameters: readonly Parameter[] = []): Promise<number> {
    this.#signal?.throwIfAborted();
    return (await this.#client.query(limited(sql, parameters, this.#timeout))).rowCount ?? 0;
  }

  /** One statement, whatever it is, with its values as text. */
  async text(sql: string): Promise<TextResult> {
    this.#signal?.throwIfAborted();
    const query = { ...limited(sql, [], this.#timeout), rowMode: "array" as const, types: texts };
    // With `queryMode` the statement is parsed alone: several at once are an error.
    const { fields, rows, rowCount } = await this.#client.query<(string | null)[]>(
      Object.assign(query, { queryMode: "extended" }),
    );
    return { fields, rows, count: rowCount ?? 0 };
  }

  /** What `COPY … FROM STDIN` reads. It has all of it when the stream has finished. Destroying it fails the statement. */
  copyIn(sql: string): Writable & { readonly rowCount: number } {
    return this.#client.query(from(sql));
  }

  /** What `COPY … TO STDOUT` writes. */
  copyOut(sql: string): Readable {
    return this.#client.query(to(sql));
  }

  /**
   * Waits until no other transaction holds the lock of this name, and holds it to the end of the transaction. It works
   * with a pooler between, and is free when the process dies.
   */
  async lock(name: string): Promise<void> {
    await this.rows("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [`rollcall ${name}`]);
  }
}

/** A query that is given up some time after the server should have. @param timeout the server's limit, in milliseconds; 0: none */
export function limited(
  text: string,
  values: readonly Parameter[],
  timeout: number,
): { text: string; values: unknown[] } {
  const query = { text, values: [...values] };
  // The driver's type does not know of it.
  return timeout === 0 ? query : Object.assign(query, { query_timeout: Math.min(timeout + grace, 2 ** 31 - 1) });
}

/**
 * Stops what a transaction is doing when its signal is aborted. The statement is cancelled by another connection: that
 * works through a pooler too, and while the transaction is open the process is nobody else's. It is repeated, since one that
 * comes between two statements is lost. What does not stop then loses its connection.
 */
export class Stopper {
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

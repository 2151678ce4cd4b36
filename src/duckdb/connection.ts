import type { DuckDBConnection, DuckDBResult, DuckDBValue } from "@duckdb/node-api";
import { messageOf, UnavailableError } from "#errors.ts";
import { isCommitted, isInvalidated } from "./checkpoints.ts";
import type { Checkpoints } from "./checkpoints.ts";
import type { nextChunk, readRows } from "./chunk.ts";

/** A value bound to `?` or `$name` in a statement. */
export type Parameter = DuckDBValue;

/** One connection: statements run one after the other, and a transaction is its own. */
export interface Connection {
  /** Runs one or more statements and ignores what they return. */
  run(sql: string, parameters?: readonly Parameter[]): Promise<void>;
  /** All rows as objects by column name, for results known to be small. BIGINT gives `bigint`, a list an array. */
  rows<Row extends object>(sql: string, parameters?: readonly Parameter[]): Promise<Row[]>;
  /**
   * The rows in batches of up to 2,048, as they are computed. Stopping early stops the query.
   * @throws {UnavailableError} it has failed or was interrupted, or another statement was run on the connection meanwhile
   */
  batches<Row extends object>(sql: string, parameters?: readonly Parameter[]): AsyncIterable<Row[]>;
  /** Runs `work` in a transaction: committed when it returns, rolled back when it throws. */
  transaction<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Runs what uses `raw`: so a commit that was made counts as made, whatever came after it. */
  watch(work: () => Promise<void>): Promise<void>;
  /** Stops the statement that is running: it fails with an error that says `interrupted`. */
  readonly interrupt: () => void;
  /** Gives back to the system what DuckDB no longer uses, at once: by itself that takes some ten seconds. */
  returnMemory(): Promise<void>;
  /** The database is being opened again: nothing can run on this connection any more. */
  isLost(): boolean;
  close(): void;
  /** The library's own connection, for bulk inserts and results with their own types. */
  readonly raw: DuckDBConnection;
}

export const unusable =
  "the database is being opened again, because it could not be written to: there may be no room on its disk. Try again later";

/** The database is being opened again: nothing was done. */
export class ReopeningError extends UnavailableError {}

interface ConnectedOptions {
  readonly read: typeof readRows;
  readonly next: typeof nextChunk;
  readonly memoryLimit: string;
  readonly checkpoints: Checkpoints | undefined;
  readonly onInvalidated: (error: unknown) => void;
  readonly onClosed: () => void;
}

/** A connection, and what is under way on it. */
export class Connected {
  readonly connection: Connection;
  readonly #raw: DuckDBConnection;
  readonly #options: ConnectedOptions;
  #running = 0;
  #isLost = false;
  #isClosed = false;
  /** What broke a transaction that could not be rolled back yet: a ROLLBACK needs memory, which another connection may have. */
  #broken: { readonly error: unknown } | undefined;
  /** Resolves when no statement runs any more on a connection that is lost. */
  readonly #quiet = Promise.withResolvers<void>();

  constructor(raw: DuckDBConnection, options: ConnectedOptions) {
    this.#raw = raw;
    this.#options = options;
    this.connection = this.#open();
  }

  /** Lets no further statement begin: the instance is about to be closed. */
  lose(): void {
    this.#isLost = true;
    if (this.#running === 0) this.#quiet.resolve();
  }

  /** Stops what runs, and closes the connection. */
  async end(): Promise<void> {
    this.lose();
    // An interrupt between two steps is lost.
    const again = setInterval(this.connection.interrupt, 20);
    this.connection.interrupt();
    await this.#quiet.promise;
    clearInterval(again);
    this.#close();
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#raw.closeSync();
    this.#options.onClosed();
  }

  async #statement<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#isLost) throw new ReopeningError(unusable);
    this.#running++;
    try {
      await this.#endBroken();
      return await work();
    } catch (error) {
      if (isInvalidated(error)) this.#options.onInvalidated(error);
      throw error;
    } finally {
      this.#running--;
      if (this.#isLost && this.#running === 0) this.#quiet.resolve();
    }
  }

  /** Until the transaction has ended, every statement fails with what broke it: DuckDB would only say that it is aborted. */
  async #endBroken(): Promise<void> {
    if (this.#broken === undefined) return;
    await this.#rollback(this.#broken.error);
    if (this.#broken !== undefined) throw this.#broken.error;
  }

  async #rollback(error: unknown): Promise<void> {
    this.#broken = undefined;
    try {
      await this.#raw.run("ROLLBACK");
    } catch (failure) {
      // A failed COMMIT has rolled back already; then there is nothing left to end.
      if (isInvalidated(failure)) throw failure;
      if (!messageOf(failure).includes("no transaction is active")) this.#broken = { error };
    }
  }

  /** Runs what may commit. Where only the checkpoint after a commit has failed, it has succeeded. */
  async #commit(work: () => Promise<unknown>): Promise<void> {
    try {
      await this.#statement(work);
    } catch (error) {
      if (!isCommitted(error)) throw error;
    }
  }

  async *#batches<Row extends object>(result: DuckDBResult): AsyncGenerator<Row[]> {
    const { read, next } = this.#options;
    const [names, types] = [result.deduplicatedColumnNames(), result.columnTypes()];
    for (;;) {
      const chunk = await this.#statement(() => next(result));
      if (chunk === undefined) return;
      yield read(chunk, names, types) as Row[];
    }
  }

  #open(): Connection {
    const raw = this.#raw;
    const { checkpoints } = this.#options;
    const batches = <Row extends object>(result: DuckDBResult): AsyncGenerator<Row[]> => this.#batches<Row>(result);
    const stream = (sql: string, parameters?: readonly Parameter[]): Promise<DuckDBResult> =>
      this.#statement(() => raw.stream(sql, bound(parameters)));
    return {
      raw,
      isLost: () => this.#isLost,
      run: (sql, parameters) =>
        this.#commit(async () => {
          await checkpoints?.beforeCommit(raw, false);
          await raw.run(sql, bound(parameters));
        }),
      watch: (work) => this.#commit(work),
      rows: async <Row extends object>(sql: string, parameters?: readonly Parameter[]) => {
        const result = await this.#statement(() => raw.run(sql, bound(parameters)));
        const found: Row[][] = [];
        for await (const batch of batches<Row>(result)) found.push(batch);
        return found.flat();
      },
      batches: async function* <Row extends object>(sql: string, parameters?: readonly Parameter[]) {
        yield* batches<Row>(await stream(sql, parameters));
      },
      transaction: async (work) => {
        await this.#statement(() => raw.run("BEGIN TRANSACTION"));
        try {
          const result = await work();
          await this.#commit(async () => {
            await checkpoints?.beforeCommit(raw, true);
            await raw.run("COMMIT");
          });
          return result;
        } catch (error) {
          await this.#statement(() => this.#rollback(error)).catch(() => undefined);
          throw error;
        }
      },
      interrupt: () => {
        if (!this.#isClosed) raw.interrupt();
      },
      // DuckDB does so whenever its limit is set.
      returnMemory: async () => {
        await this.#statement(() => raw.run(`SET memory_limit = '${this.#options.memoryLimit}'`));
      },
      close: () => {
        // One that is lost is closed when what runs on it has ended.
        if (!this.#isLost) this.#close();
      },
    };
  }
}

function bound(parameters?: readonly Parameter[]): Parameter[] | undefined {
  return parameters && [...parameters];
}

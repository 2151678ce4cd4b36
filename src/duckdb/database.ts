import { stat, statfs } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { dirname } from "node:path";
import type { DuckDBConnection, DuckDBInstance, DuckDBResult, DuckDBValue } from "@duckdb/node-api";
import { messageOf } from "#errors.ts";
import { isDiskFull } from "#files/disk.ts";
import { createWhole } from "#files/durable.ts";
import type { readRows } from "./chunk.ts";

/** A value bound to `?` or `$name` in a statement. */
export type Parameter = DuckDBValue;

/** One connection: statements run one after the other, and a transaction is its own. */
export interface Connection {
  /** Runs one or more statements and ignores what they return. */
  run(sql: string, parameters?: readonly Parameter[]): Promise<void>;
  /** All rows as objects by column name, for results known to be small. BIGINT gives `bigint`, a list an array. */
  rows<Row extends object>(sql: string, parameters?: readonly Parameter[]): Promise<Row[]>;
  /** The rows in batches of up to 2,048, as they are computed. Stopping early stops the query. */
  batches<Row extends object>(sql: string, parameters?: readonly Parameter[]): AsyncIterable<Row[]>;
  /** Runs `work` in a transaction: committed when it returns, rolled back when it throws. */
  transaction<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Stops the statement that is running: it fails with an error that says `interrupted`. */
  interrupt(): void;
  /** Gives back to the system what DuckDB no longer uses, at once: by itself that takes some ten seconds. */
  returnMemory(): Promise<void>;
  close(): void;
  /** The library's own connection, for bulk inserts and results with their own types. */
  readonly raw: DuckDBConnection;
}

/** An open DuckDB database. */
export interface Database {
  connect(): Promise<Connection>;
  /**
   * Frees what DuckDB remembers of buffers that are gone, and what it has in memory of its files. Of each kind of buffer
   * it lists some 30,000 as candidates for eviction before it looks which of them still exist, and until then keeps a
   * piece of memory for each: in a process that lives long, these pieces lie scattered among everything else. Tables that
   * are in memory only move to disk until they are read. Does nothing while the disk has little room.
   */
  trim(): Promise<void>;
  /** Closes the file once all its connections are closed. */
  close(): void;
}

export interface DatabaseOptions {
  /** A file, created when it is missing, or `:memory:`. Its lock is held until `close`. */
  readonly path: string;
  /** DuckDB's memory limit in bytes. Beyond it, it spills to `spill`. */
  readonly memory: number;
  /** The folder for what does not fit into memory. */
  readonly spill: string;
  /** Opens an existing file beside other readers. */
  readonly readOnly?: boolean | undefined;
  /** The only folders whose files SQL can reach; absent: all. Nothing can widen this later. */
  readonly folders?: readonly string[] | undefined;
  /** The files of all attached databases, in one folder, at the moment of the call. */
  readonly attached?: () => readonly string[];
}

/**
 * Opens a database.
 * @throws the library's error; `lockHolder` says whether it means that another process has the file
 */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  if (options.path !== ":memory:" && options.readOnly !== true) await createDatabase(options.path);
  const { DuckDBInstance, readRows } = await loadLibrary();
  const memoryLimit = `${Math.floor(options.memory / 1024)}KiB`;
  const instance = await DuckDBInstance.create(options.path, {
    memory_limit: memoryLimit,
    // Otherwise a process keeps whatever a statement has taken once, until it ends.
    allocator_background_threads: "true",
    temp_directory: options.spill,
    access_mode: options.readOnly === true ? "READ_ONLY" : "AUTOMATIC",
    autoinstall_known_extensions: "false",
    autoload_known_extensions: "false",
  });
  if (options.folders !== undefined) await confine(instance, options.folders);
  const { path, attached = (): string[] => [path] } = options;
  const isWritten = options.attached !== undefined || (path !== ":memory:" && options.readOnly !== true);
  const beforeCommit = isWritten ? delayCheckpoints(attached) : undefined;
  return {
    connect: async () => connection(await instance.connect(), { read: readRows, memoryLimit, beforeCommit }),
    trim: async () => {
      // What is in memory only moves to the disk.
      if (await hasRoom(attached())) await trim(instance, memoryLimit);
    },
    close: () => {
      instance.closeSync();
    },
  };
}

/** To get below a limit that it cannot reach, DuckDB goes through the whole list. It refuses that limit, and keeps its own. */
async function trim(instance: DuckDBInstance, memoryLimit: string): Promise<void> {
  const connection = await instance.connect();
  try {
    await connection.run("SET memory_limit = '0KiB'").catch(() => undefined);
    await connection.run(`SET memory_limit = '${memoryLimit}'`);
  } finally {
    connection.closeSync();
  }
}

/** Loaded with the first database: it takes 50 MB and a fifth of a second, and a daemon at rest has none open. */
async function loadLibrary(): Promise<{ DuckDBInstance: typeof DuckDBInstance; readRows: typeof readRows }> {
  const [{ DuckDBInstance }, { readRows }] = await Promise.all([import("@duckdb/node-api"), import("./chunk.ts")]);
  return { DuckDBInstance, readRows };
}

/** Makes the file of a database where there is none. */
export async function createDatabase(path: string): Promise<void> {
  const { DuckDBInstance } = await loadLibrary();
  await createWhole(path, async (beside) => {
    const instance = await DuckDBInstance.create(beside);
    instance.closeSync();
  });
}

/**
 * The process that has locked a file that could not be opened or attached, from the message of the error or of its
 * causes. `pid` is absent where the system does not tell it.
 * @returns undefined when the error is about something else
 */
export function lockHolder(error: unknown): { readonly pid?: number } | undefined {
  const message = messageOf(error);
  if (message.includes("Could not set lock")) {
    const pid = /PID (\d+)/.exec(message)?.[1];
    return pid === undefined ? {} : { pid: Number(pid) };
  }
  return error instanceof Error && error.cause !== undefined ? lockHolder(error.cause) : undefined;
}

/** Whether a statement needs more memory than the limit. DuckDB's own message, with addresses of its manual, is for the log only. */
export function isOutOfMemory(error: unknown): boolean {
  return !isDiskFull(error) && /\bOut of Memory Error\b/.test(messageOf(error));
}

/** `create` takes neither setting: the binding only passes strings, and the list has to come before the lock. */
async function confine(instance: DuckDBInstance, folders: readonly string[]): Promise<void> {
  const connection = await instance.connect();
  await connection.run(`SET allowed_directories = [${folders.map(literal).join(", ")}]`);
  await connection.run("SET enable_external_access = false");
  connection.closeSync();
}

function connection(
  raw: DuckDBConnection,
  {
    read,
    memoryLimit,
    beforeCommit = async () => {},
  }: {
    readonly read: typeof readRows;
    readonly memoryLimit: string;
    readonly beforeCommit?: BeforeCommit | undefined;
  },
): Connection {
  async function* batchesOf<Row extends object>(result: DuckDBResult): AsyncGenerator<Row[]> {
    const [names, types] = [result.deduplicatedColumnNames(), result.columnTypes()];
    for await (const chunk of result) yield read(chunk, names, types) as Row[];
  }

  return {
    raw,
    run: async (sql, parameters) => {
      await beforeCommit(raw, false);
      await raw.run(sql, parameters === undefined ? undefined : [...parameters]);
    },
    rows: async <Row extends object>(sql: string, parameters?: readonly Parameter[]) => {
      const result = await raw.run(sql, parameters === undefined ? undefined : [...parameters]);
      const batches: Row[][] = [];
      for await (const batch of batchesOf<Row>(result)) batches.push(batch);
      return batches.flat();
    },
    batches: async function* <Row extends object>(sql: string, parameters?: readonly Parameter[]) {
      yield* batchesOf<Row>(await raw.stream(sql, parameters === undefined ? undefined : [...parameters]));
    },
    transaction: async (work) => {
      await raw.run("BEGIN TRANSACTION");
      try {
        const result = await work();
        await beforeCommit(raw, true);
        await raw.run("COMMIT");
        return result;
      } catch (error) {
        // A failed COMMIT has rolled back already; then there is nothing left to end.
        await raw.run("ROLLBACK").catch(() => undefined);
        throw error;
      }
    },
    interrupt: () => {
      raw.interrupt();
    },
    returnMemory: async () => {
      // DuckDB does so whenever its limit is set.
      await raw.run(`SET memory_limit = '${memoryLimit}'`);
    },
    close: () => {
      raw.closeSync();
    },
  };
}

/**
 * Runs `work` on a connection until the signal stops it. What has ended by then has ended: a commit, for example.
 * @throws the signal's reason once it is aborted, whatever error DuckDB reports
 */
export async function interruptible<Result>(
  connection: Pick<Connection, "interrupt">,
  signal: AbortSignal,
  work: () => Promise<Result>,
): Promise<Result> {
  signal.throwIfAborted();
  let again: NodeJS.Timeout | undefined;
  const stop = (): void => {
    connection.interrupt();
    // An interrupt between two statements is lost, and the next statement would run to its end.
    again = setInterval(connection.interrupt, 20);
  };
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await work();
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", stop);
    clearInterval(again);
  }
}

/** A string as an SQL literal, for what cannot be a parameter (file names, DDL). */
export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** A name as a quoted SQL identifier. */
export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/**
 * SQL for one side of `=` in the ON of an outer join: the value where a condition on the same side holds. That condition by
 * itself in the ON makes DuckDB compare every row with every other.
 */
export function onlyIf(condition: string, value: string): string {
  return `CASE WHEN ${condition} THEN ${value} END`;
}

/**
 * DuckDB's threads divide a table by row groups of 122,880 rows. With few row groups several threads cost more time and
 * memory than they gain: two threads take twice as long as one to make principals of 500,000 memberships.
 */
const rowsWorthThreads = 750_000;

/**
 * Sets DuckDB's number of threads to what suits the largest table, or the number of rows that will come. It holds for the
 * whole database until the next call; results are the same with any number.
 */
export async function useThreads(connection: Connection, toCome = 0): Promise<void> {
  const [largest] = await connection.rows<{ rows: number }>(
    "SELECT coalesce(max(estimated_size), 0)::DOUBLE AS rows FROM duckdb_tables()",
  );
  const threads = Math.max(largest?.rows ?? 0, toCome) < rowsWorthThreads ? 1 : availableParallelism();
  await connection.run(`SET threads = ${threads}`);
}

/**
 * Called before a commit, or a statement that may be one.
 * @param isLarge the transaction may just have filled much of the disk
 */
export type BeforeCommit = (connection: DuckDBConnection, isLarge: boolean) => Promise<void>;

/** The size of the log at which DuckDB moves it into its file: the default, and one that is never reached. */
const thresholds = { usual: "16MiB", never: "1024GiB" };

/** What must be free, in bytes: as much as the databases have, in case all of it is rewritten, at most this; plus a rest. */
const reserve = { most: 2 ** 30, rest: 16 * 2 ** 20 };

/** How long the result of the last check is used, in milliseconds. */
const checkInterval = 1000;

/**
 * On a commit DuckDB moves a large log into the database's file. If the disk fills up while it does, all databases of the
 * instance are unusable until the process ends. So while there is little room it does not: the log grows, and a commit that
 * does not fit is rolled back.
 * @param files the current files of the databases, all in one folder
 */
function delayCheckpoints(files: () => readonly string[]): BeforeCommit {
  let checked = -Infinity;
  let current: string | undefined;
  return async (connection, isLarge) => {
    const now = performance.now();
    if (!isLarge && now - checked < checkInterval) return;
    checked = now;
    const wanted = (await hasRoom(files())) ? thresholds.usual : thresholds.never;
    if (wanted === current) return;
    await connection.run(`SET GLOBAL checkpoint_threshold = '${wanted}'`);
    current = wanted;
  };
}

async function hasRoom(files: readonly string[]): Promise<boolean> {
  const [first] = files;
  if (first === undefined) return true;
  const sizes = await Promise.all(files.flatMap((file) => [sizeOf(file), sizeOf(`${file}.wal`)]));
  const all = sizes.reduce((sum, size) => sum + size, 0);
  // If the folder is gone, the write itself will say so.
  const free = await statfs(dirname(first)).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => Infinity,
  );
  return free >= Math.min(all, reserve.most) + reserve.rest;
}

async function sizeOf(file: string): Promise<number> {
  return stat(file).then(
    ({ size }) => size,
    () => 0,
  );
}

import { stat, statfs } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { dirname } from "node:path";
import type { DuckDBConnection, DuckDBInstance, DuckDBResult, DuckDBValue } from "@duckdb/node-api";
import { messageOf } from "#errors.ts";
import { createWhole } from "#files/durable.ts";
import type { readRows } from "./chunk.ts";

/** A value bound to `?` or `$name` in a statement. */
export type Parameter = DuckDBValue;

/** One connection: statements run one after the other, and a transaction is its own. */
export interface Connection {
  /** Runs one or several statements and forgets what they return. */
  run(sql: string, parameters?: readonly Parameter[]): Promise<void>;
  /** All rows, as objects by column name: for results known to be small. BIGINT comes as `bigint`, a list as an array. */
  rows<Row extends object>(sql: string, parameters?: readonly Parameter[]): Promise<Row[]>;
  /** The rows in batches of up to 2,048, as they are computed. Ending early stops the query. */
  batches<Row extends object>(sql: string, parameters?: readonly Parameter[]): AsyncIterable<Row[]>;
  /** Runs `work` in a transaction: committed when it returns, rolled back when it throws. */
  transaction<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Stops the statement that is running: it fails with an error that says `interrupted`. */
  interrupt(): void;
  close(): void;
  /** The library's own connection, for appenders. */
  readonly raw: DuckDBConnection;
}

/** An open DuckDB database. */
export interface Database {
  connect(): Promise<Connection>;
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
  /** The only folders whose files SQL can reach, from here on; absent: every file. Nothing can widen it later. */
  readonly folders?: readonly string[] | undefined;
  /** Of the databases that are attached for as long as this one is open: their files, in one folder. */
  readonly attached?: () => readonly string[];
}

/**
 * Opens a database.
 * @throws the library's error; `lockHolder` says whether it means that another process has the file
 */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  if (options.path !== ":memory:" && options.readOnly !== true) await createDatabase(options.path);
  const { DuckDBInstance, readRows } = await loadLibrary();
  const instance = await DuckDBInstance.create(options.path, {
    memory_limit: `${Math.floor(options.memory / 1024)}KiB`,
    temp_directory: options.spill,
    access_mode: options.readOnly === true ? "READ_ONLY" : "AUTOMATIC",
    autoinstall_known_extensions: "false",
    autoload_known_extensions: "false",
  });
  if (options.folders !== undefined) await confine(instance, options.folders);
  const { path, attached = (): string[] => [path] } = options;
  const isWritten = options.attached !== undefined || (path !== ":memory:" && options.readOnly !== true);
  const beforeCommit = isWritten ? whereThereIsRoom(attached) : undefined;
  return {
    connect: async () => connection(await instance.connect(), readRows, beforeCommit),
    close: () => {
      instance.closeSync();
    },
  };
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
 * Which process has the file that could not be opened or attached: read out of the library's message, also where that is
 * the cause of the error. `pid` is absent where the system does not tell it.
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

/** Neither can be given to `create`: the binding passes strings alone, and the list must be there before the lock. */
async function confine(instance: DuckDBInstance, folders: readonly string[]): Promise<void> {
  const connection = await instance.connect();
  await connection.run(`SET allowed_directories = [${folders.map(literal).join(", ")}]`);
  await connection.run("SET enable_external_access = false");
  connection.closeSync();
}

function connection(
  raw: DuckDBConnection,
  read: typeof readRows,
  beforeCommit: BeforeCommit = async () => {},
): Connection {
  async function* batchesOf<Row extends object>(result: DuckDBResult): AsyncGenerator<Row[]> {
    const [names, types] = [result.deduplicatedColumnNames(), result.columnTypes()];
    for await (const chunk of result) yield read(chunk, names, types) as Row[];
  }

  const self: Connection = {
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
    close: () => {
      raw.closeSync();
    },
  };
  return self;
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
 * DuckDB's threads share out a table by row groups of 122,880 rows: while there are few of them, several threads spend
 * more time on each other than they gain, and memory as well. Of 500,000 memberships, two threads make principals in twice
 * the time that one takes.
 */
const worthSharing = 750_000;

/**
 * Has DuckDB work with as many threads as are worth while for the largest table there is, or for so many rows that are
 * to come. It holds for the whole database until it is called again: what else runs is as right with any number.
 */
export async function useThreads(connection: Connection, toCome = 0): Promise<void> {
  const [largest] = await connection.rows<{ rows: number }>(
    "SELECT coalesce(max(estimated_size), 0)::DOUBLE AS rows FROM duckdb_tables()",
  );
  const threads = Math.max(largest?.rows ?? 0, toCome) < worthSharing ? 1 : availableParallelism();
  await connection.run(`SET threads = ${threads}`);
}

/**
 * Called before a commit, or what may be one.
 * @param isLarge what is committed may just have taken a lot of the disk
 */
export type BeforeCommit = (connection: DuckDBConnection, isLarge: boolean) => Promise<void>;

/** From how many bytes on the log is moved into its file: as DuckDB has it by itself, and as never happens. */
const thresholds = { usual: "16MiB", never: "1024GiB" };

/** What must be free, in bytes: what is there, should all of it be written anew, or so much, and something to go on with. */
const reserve = { most: 2 ** 30, rest: 16 * 2 ** 20 };

/** How long it is believed that there is room, or none, in milliseconds. */
const belief = 1000;

/**
 * With a commit, DuckDB moves what is in the log into the database's file when the log is large. Where the disk is full
 * meanwhile, all databases of the instance are of no use until the process has ended. So it does not while there is little
 * room: the log grows, and a commit for which that has no room is rolled back.
 * @param files of the databases, as they are at the moment: all of them in one folder
 */
function whereThereIsRoom(files: () => readonly string[]): BeforeCommit {
  let looked = -Infinity;
  let current: string | undefined;
  return async (connection, isLarge) => {
    const now = performance.now();
    if (!isLarge && now - looked < belief) return;
    looked = now;
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
  // Where the folder is gone, what is to be written says so.
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

import { availableParallelism } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import type { DuckDBInstance } from "@duckdb/node-api";
import { messageOf } from "#errors.ts";
import { isDiskFull } from "#files/disk.ts";
import { createWhole } from "#files/durable.ts";
import { Checkpoints, isInvalidated, thresholds } from "./checkpoints.ts";
import { Connected, ReopeningError, unusable } from "./connection.ts";
import type { Connection } from "./connection.ts";

export type { Connection, Parameter } from "./connection.ts";

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
  /** A checkpoint has failed in the process before this one. */
  readonly hasFailed?: boolean | undefined;
  /**
   * Is called when DuckDB refuses everything until the files are opened again. Absent: they are opened again here, which is not
   * for databases that are attached.
   */
  readonly onInvalidated?: ((error: unknown) => void) | undefined;
}

/**
 * Opens a database.
 * @throws the library's error; `lockHolder` says whether it means that another process has the file
 */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  if (options.path !== ":memory:" && options.readOnly !== true) await createDatabase(options.path);
  const { path, readOnly, attached = (): string[] => [path] } = options;
  const isWritten = options.attached !== undefined || (path !== ":memory:" && readOnly !== true);
  const checkpoints = isWritten ? new Checkpoints(attached, options.hasFailed) : undefined;
  return new Database(options, checkpoints, await openInstance(options, checkpoints));
}

async function openInstance(options: DatabaseOptions, checkpoints: Checkpoints | undefined): Promise<DuckDBInstance> {
  const { DuckDBInstance } = await loadLibrary();
  const instance = await DuckDBInstance.create(options.path, {
    memory_limit: limitOf(options),
    // Otherwise a process keeps whatever a statement has taken once, until it ends.
    allocator_background_threads: "true",
    temp_directory: options.spill,
    access_mode: options.readOnly === true ? "READ_ONLY" : "AUTOMATIC",
    autoinstall_known_extensions: "false",
    autoload_known_extensions: "false",
    // In memory a checkpoint only rewrites tables. Of a file that is attached, none can fail before it is detached.
    checkpoint_threshold: checkpoints === undefined ? thresholds.never : checkpoints.threshold(),
  });
  if (options.folders !== undefined) await confine(instance, options.folders);
  return instance;
}

function limitOf({ memory }: DatabaseOptions): string {
  return `${Math.floor(memory / 1024)}KiB`;
}

/** How often work is begun again when the database is opened again meanwhile. */
const attempts = 3;

/** How long calls wait for a database that is being opened again, in milliseconds. */
const patience = 5000;

/** Between two attempts to open it again, in milliseconds: the first, and the longest. */
const pauses = { first: 100, longest: 2000 };

/** An open DuckDB database. When DuckDB refuses it after a failed write, its file is closed and opened again. */
export class Database {
  readonly #options: DatabaseOptions;
  readonly #checkpoints: Checkpoints | undefined;
  #instance: DuckDBInstance;
  /** Those of the instance. */
  readonly #connections = new Set<Connected>();
  readonly #connecting = new Set<Promise<Connection>>();
  #reopening: Promise<void> | undefined;
  #isClosed = false;

  constructor(options: DatabaseOptions, checkpoints: Checkpoints | undefined, instance: DuckDBInstance) {
    this.#options = options;
    this.#checkpoints = checkpoints;
    this.#instance = instance;
  }

  /**
   * What runs on it fails when the database is opened again, with a `ReopeningError` at the latest.
   * @throws {ReopeningError} when the database cannot be opened again yet
   */
  async connect(): Promise<Connection> {
    if (this.#reopening !== undefined) await inTime(this.#reopening);
    const connecting = this.#connect();
    this.#connecting.add(connecting);
    try {
      return await connecting;
    } finally {
      this.#connecting.delete(connecting);
    }
  }

  async #connect(): Promise<Connection> {
    const { readRows, nextChunk } = await loadLibrary();
    const connected = new Connected(await this.#instance.connect(), {
      read: readRows,
      next: nextChunk,
      memoryLimit: limitOf(this.#options),
      checkpoints: this.#checkpoints,
      onInvalidated: (cause) => {
        this.#invalidated(cause);
      },
      onClosed: () => this.#connections.delete(connected),
    });
    this.#connections.add(connected);
    return connected.connection;
  }

  /**
   * Runs `work` with a connection of its own; from its beginning, when the database is opened again meanwhile. Running it twice
   * must leave what running it once does.
   */
  async use<Result>(work: (connection: Connection) => Promise<Result>): Promise<Result> {
    for (let attempt = 1; ; attempt++) {
      const connection = await this.connect();
      try {
        return await work(connection);
      } catch (error) {
        if (isInvalidated(error)) this.#invalidated(error);
        if (attempt === attempts || !connection.isLost()) throw error;
      } finally {
        connection.close();
      }
    }
  }

  /** Why it cannot be used, or not for long, for a person; undefined: it can. */
  async problem(): Promise<string | undefined> {
    if (this.#reopening !== undefined) return unusable;
    return (await this.#checkpoints?.isStuck()) === true ? stuck : undefined;
  }

  /** Begins or ends a time in which its files do not change, except for appends to their logs. */
  async holdCheckpoints(isHeld: boolean): Promise<void> {
    const threshold = this.#checkpoints?.hold(isHeld);
    if (threshold !== undefined)
      await this.use((connection) => connection.run(`SET GLOBAL checkpoint_threshold = '${threshold}'`));
  }

  /**
   * Frees what DuckDB remembers of buffers that are gone, and what it has in memory of its files. Of each kind of buffer
   * it lists some 30,000 as candidates for eviction before it looks which of them still exist, and until then keeps a
   * piece of memory for each: in a process that lives long, these pieces lie scattered among everything else. Tables that
   * are in memory only move to disk until they are read. Does nothing while the disk has little room.
   */
  async trim(): Promise<void> {
    // Moves the rest of memory to the disk.
    if (this.#reopening !== undefined || (await this.#checkpoints?.canGrow()) === false) return;
    await this.use(async (connection) => {
      // To get below a limit that it cannot reach, DuckDB goes through the whole list. It refuses that limit, and keeps its own.
      await connection.run("SET memory_limit = '0KiB'").catch(() => undefined);
      await connection.returnMemory();
    });
  }

  /** Closes the file once all its connections are closed. */
  close(): void {
    this.#isClosed = true;
    if (this.#reopening === undefined) this.#instance.closeSync();
  }

  #invalidated(cause: unknown): void {
    if (this.#isClosed || this.#reopening !== undefined || this.#checkpoints === undefined) return;
    this.#checkpoints.fail();
    const { onInvalidated } = this.#options;
    if (onInvalidated === undefined) {
      for (const connected of this.#connections) connected.lose();
      this.#reopening = this.#reopen().finally(() => {
        this.#reopening = undefined;
      });
    } else onInvalidated(cause);
  }

  async #reopen(): Promise<void> {
    await Promise.allSettled(this.#connecting);
    await Promise.all([...this.#connections].map((connected) => connected.end()));
    // Two instances must not have the file at once, and closing a file ends all locks that the process has on it.
    this.#instance.closeSync();
    for (let pause = pauses.first; !this.#isClosed; pause = Math.min(pause * 2, pauses.longest)) {
      try {
        this.#instance = await openInstance(this.#options, this.#checkpoints);
        if (this.#isClosed) this.#instance.closeSync();
        return;
      } catch {
        await delay(pause, undefined, { ref: false });
      }
    }
  }
}

/** It can be read, and written to as long as its log can grow. */
const stuck =
  "the database cannot grow: its disk is full, or a quota or a limit on the size of files is reached. Make room; it is tried again by itself";

/** @throws {ReopeningError} when that takes too long */
async function inTime(reopening: Promise<void>): Promise<void> {
  const over = new AbortController();
  const late = delay(patience, undefined, { signal: over.signal }).then(() => {
    throw new ReopeningError(unusable);
  });
  late.catch(() => undefined);
  await Promise.race([reopening, late]).finally(() => {
    over.abort();
  });
}

/** Loaded with the first database: it takes 50 MB and a fifth of a second, and a daemon at rest has none open. */
async function loadLibrary() {
  const [{ DuckDBInstance }, { readRows, nextChunk }] = await Promise.all([
    import("@duckdb/node-api"),
    import("./chunk.ts"),
  ]);
  return { DuckDBInstance, readRows, nextChunk };
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
  // A statement ends at U+0000.
  return text.includes("\0") ? `(${text.split("\0").map(quoted).join(" || chr(0) || ")})` : quoted(text);
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** A list of texts in SQL. */
export function textList(texts: readonly string[]): string {
  return `[${texts.map(literal).join(", ")}]::VARCHAR[]`;
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

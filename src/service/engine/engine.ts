import { randomUUID } from "node:crypto";
import { availableParallelism } from "node:os";
import { identifier } from "#duckdb/database.ts";
import type { Connection, Database } from "#duckdb/database.ts";
import { UnavailableError } from "#errors.ts";

/** The types of columns. Only DECIMAL has a width and a scale. */
export const columnTypes = [
  "VARCHAR",
  "BIGINT",
  "INTEGER",
  "SMALLINT",
  "DOUBLE",
  "FLOAT",
  "DECIMAL",
  "BOOLEAN",
  "DATE",
  "TIME",
  "TIMESTAMP",
  "UUID",
] as const;

export type ColumnType = (typeof columnTypes)[number];

export interface Column {
  readonly name: string;
  readonly type: ColumnType;
  /** The number of digits of a DECIMAL. */
  readonly width?: number;
  /** The number of digits after the point of a DECIMAL. */
  readonly scale?: number;
  /** The most characters of a VARCHAR, spaces at the end apart; absent: as many as there are. */
  readonly longest?: number | undefined;
  /** A VARCHAR that cannot hold U+0000. */
  readonly isZeroFree?: boolean;
  readonly nullable: boolean;
}

/** The type of a column as DuckDB writes it. */
export function exactType({ type, width = 18, scale = 0 }: Column): string {
  return type === "DECIMAL" ? `DECIMAL(${width}, ${scale})` : type;
}

/** A table that loads write to, with its names as they were defined. */
export interface Table {
  readonly database: string;
  readonly schema: string;
  readonly name: string;
  /** In the table's order, because fields go to columns by position (A.7). */
  readonly columns: readonly Column[];
  /** The names of its columns; empty if the table has no primary key. */
  readonly primaryKey: readonly string[];
}

/** A table in a list. */
export interface ListedTable {
  readonly database: string;
  readonly schema: string;
  readonly name: string;
  /** With their types as SQL has them: `BIGINT`, `DECIMAL(9,2)`. */
  readonly columns: readonly { readonly name: string; readonly type: string; readonly nullable: boolean }[];
  readonly primaryKey: readonly string[];
  readonly rows: number;
  /** Counting them would take long: `rows` is what the engine takes the number for. */
  readonly isEstimated: boolean;
  /** Why loads cannot write to it, for a person. */
  readonly problem?: string | undefined;
}

/** The column that numbers staged rows: `row_number`, or another name if the table has a column of that name. */
export function rowNumberOf(columns: readonly Pick<Column, "name">[]): string {
  const taken = new Set(columns.map(({ name }) => name.toLowerCase()));
  let name = "row_number";
  while (taken.has(name)) name += "_";
  return name;
}

/** Names a table in a queue of writes. */
export function keyOf({ database, schema, name }: Table): string {
  return [database, schema, name].join("\0").toLowerCase();
}

/** The database that SQL without one is for: the only one. */
export function soleOf([only, ...more]: readonly string[]): string | undefined {
  return more.length === 0 ? only : undefined;
}

/** A table as a client names it. Case does not matter; the schema may be an alias (A.22). */
export interface TableName {
  readonly database: string;
  readonly schema: string;
  readonly table: string;
}

/** The schema of a database that is named without one (A.22). */
export const defaultSchema = "core_default_schema";

/** Aliases of schemas, in lower case (A.22). */
const aliases: ReadonlyMap<string, string> = new Map([["falcon_default_schema", defaultSchema]]);

/** The schema that a name means (A.22); absent: the default one. */
export function schemaOf(name: string = defaultSchema): string {
  return aliases.get(name.toLowerCase()) ?? name;
}

/**
 * Where one load parses and checks its rows: a DuckDB connection, whichever engine holds the table. Its current database
 * is in memory, belongs to it alone, spills to disk, and disappears when the stage is closed.
 */
export interface Stage {
  readonly connection: Connection;
  close(): Promise<void>;
}

/** Opens a stage in a DuckDB instance. */
export async function openStage(instance: Database): Promise<Stage> {
  const name = identifier(`${stagePrefix}${randomUUID()}`);
  const connection = await instance.connect();
  await connection.run(`ATTACH ':memory:' AS ${name}`);
  await connection.run(`USE ${name}`);
  return {
    connection,
    close: async () => {
      connection.close();
      const other = await instance.connect();
      try {
        await other.run(`DETACH ${name}`);
      } finally {
        other.close();
      }
    },
  };
}

/** What the in-memory databases of stages are called. */
export const stagePrefix = "rollcall stage ";

/** Gets the rows of a result as they are computed. The next ones wait until it has taken these. */
export interface RowSink {
  /** Begins a result. What an earlier statement gave is dropped. */
  begin(columnNames: readonly string[]): Promise<void>;
  /** Values are as in JSON (B.15). */
  rows(rows: readonly (readonly unknown[])[]): Promise<void>;
}

export interface Query {
  readonly database: string;
  readonly sql: string;
  /** How many rows to skip; absent: none. */
  readonly offset?: number;
  /** The maximum number of rows to return. */
  readonly limit: number;
  /** How long it may run, in milliseconds, not counting the time in the queue. */
  readonly timeout: number;
}

/**
 * How many queries run at once. In DuckDB each occupies a thread of Node's pool, which files and loads need too, and as many
 * processors as it can get; of PostgreSQL's connections, some are left for loads.
 * @param poolSize how many connections there are; undefined: DuckDB
 */
export function queriesOf(poolSize: number | undefined): number {
  return poolSize === undefined ? Math.min(3, Math.max(2, availableParallelism())) : Math.max(1, poolSize - 2);
}

/** @param timeout in milliseconds */
export function tookTooLong(timeout: number): string {
  return `the query took longer than ${timeout / 1000} s and was stopped`;
}

/** In milliseconds (24 days). A longer timer would fire at once. */
export const longestTimer = 2 ** 31 - 1;

/**
 * Runs the work of a query, and aborts its signal when its time is up.
 * @throws {UnavailableError} then
 */
export async function inTime<Result>(
  query: Query,
  signal: AbortSignal,
  work: (limited: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const limit = new AbortController();
  const timer = setTimeout(
    () => {
      limit.abort(new UnavailableError(tookTooLong(query.timeout)));
    },
    Math.min(query.timeout, longestTimer),
  );
  try {
    return await work(AbortSignal.any([signal, limit.signal]));
  } finally {
    clearTimeout(timer);
  }
}

/** A table is no longer what `find` said, and nothing was written to it. */
export class TableChangedError extends UnavailableError {
  constructor({ database, schema, name }: Table) {
    super(`the table ${database}.${schema}.${name} was changed while the load was being read: load it again`);
  }
}

/** The rows to write, and how. */
export interface Writing {
  /** Empty the table first. */
  readonly empty: boolean;
  /** The load's permanent name. */
  readonly load: string;
  /**
   * The transaction fails unless exactly this many rows are written now; so it also fails if the load was written before. Only for a table without a primary key, whose rows need no number.
   */
  readonly rows?: number | undefined;
  /**
   * Where several nodes share a database: the one that the load must belong to at the end of the transaction, and what is
   * stored there of a load that was written. Nothing is written of one that was taken from it.
   */
  readonly claim?: { readonly node: string; readonly written: string } | undefined;
}

/** A database engine: it holds the tables. */
export interface Engine {
  /**
   * Creates the databases, schemas and tables of a definition that do not exist yet.
   * @throws {InputError} naming the statement's line in `origin`
   */
  define(sql: string, origin: string): Promise<void>;
  /**
   * Runs arbitrary statements of an administrator in a database. `sink` gets the first rows of the last one.
   * @returns how many rows it has
   */
  execute(database: string | undefined, sql: string, signal: AbortSignal, sink: RowSink): Promise<number>;
  /** The table of this name; undefined if there is none. */
  find(name: TableName): Promise<Table | undefined>;
  /** All tables that loads may write to, by name. */
  list(): Promise<readonly ListedTable[]>;
  /** Why nothing large can be written, for a person; undefined: it can. */
  problem(): Promise<string | undefined>;
  /** Begins or ends a time in which the files of the databases can be copied; nothing where it has none. */
  holdCheckpoints(isHeld: boolean): Promise<void>;
  /** Opens a stage for a load. */
  openStage(): Promise<Stage>;
  /**
   * Writes the rows of `accepted`, a table or view of the stage, in one transaction. It has the table's columns, in the
   * same order, and a BIGINT named by `rowNumberOf`. Empties the table first if `empty` is set, replaces rows with known
   * keys, and of several rows with the same key writes the one with the highest number (A.21).
   *
   * `load` is the load's permanent name. The same transaction records it for at least 30 days, and a recorded load is
   * not written again. So a commit interrupted by a crash can be repeated, however far it got (A.24).
   * @throws {TableChangedError} when its columns or its key are others now
   */
  write(stage: Stage, table: Table, writing: Writing, signal: AbortSignal): Promise<void>;
  /**
   * Runs a query read-only, confined to its database: no files, no network, no other database. `sink` gets its page.
   * @returns how many rows the query has
   * @throws {InputError} what is wrong with the SQL; {UnavailableError} when its time is up
   */
  query(query: Query, signal: AbortSignal, sink: RowSink): Promise<number>;
  /** What SQL of a query calls a table. */
  reference(table: Table): string;
  close(): Promise<void>;
}

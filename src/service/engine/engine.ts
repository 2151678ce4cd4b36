import type { Connection } from "#duckdb/database.ts";

/** What a column holds. DECIMAL has a width and a scale; the others have none. */
export type ColumnType =
  | "VARCHAR"
  | "BIGINT"
  | "INTEGER"
  | "SMALLINT"
  | "DOUBLE"
  | "FLOAT"
  | "DECIMAL"
  | "BOOLEAN"
  | "DATE"
  | "TIME"
  | "TIMESTAMP"
  | "UUID";

export interface Column {
  readonly name: string;
  readonly type: ColumnType;
  /** Digits in all, of a DECIMAL. */
  readonly width?: number;
  /** Digits after the point, of a DECIMAL. */
  readonly scale?: number;
  readonly nullable: boolean;
}

/** A table that loads write to, with its names as they were defined. */
export interface Table {
  readonly database: string;
  readonly schema: string;
  readonly name: string;
  /** In the table's order: fields go to columns by position (A.7). */
  readonly columns: readonly Column[];
  /** The names of its columns; empty when the table has no primary key. */
  readonly primaryKey: readonly string[];
}

/** The name of the column that numbers staged rows: `row_number`, unless the table has a column of that name itself. */
export function rowNumberOf(columns: readonly Pick<Column, "name">[]): string {
  const taken = new Set(columns.map(({ name }) => name.toLowerCase()));
  let name = "row_number";
  while (taken.has(name)) name += "_";
  return name;
}

/** What a client names. Names are matched without regard to case; the schema may be an alias (A.22). */
export interface TableName {
  readonly database: string;
  readonly schema: string;
  readonly table: string;
}

/**
 * A place of one load where rows are parsed and checked: a DuckDB connection, whatever engine holds the table. Its current
 * database is its own, is in memory, spills to disk, and is gone once the stage is closed.
 */
export interface Stage {
  readonly connection: Connection;
  close(): Promise<void>;
}

/** Rows of a query, a page of them. */
export interface Page {
  readonly columnNames: readonly string[];
  /** Values as JSON holds them (B.15). */
  readonly rows: readonly (readonly unknown[])[];
  readonly totalRowCount: number;
}

export interface Query {
  readonly database: string;
  readonly sql: string;
  /** Rows to pass over; absent: none. */
  readonly offset?: number;
  /** The most rows to return. */
  readonly limit: number;
  /** How long it may run, in milliseconds. That it waits for others to end is not its fault. */
  readonly timeout: number;
}

/** What is to be written, and how. */
export interface Writing {
  /** The table is emptied first. */
  readonly empty: boolean;
  /** The load's permanent name. */
  readonly load: string;
  /**
   * Fails unless exactly this many rows are written now, also when the load was written before. Only for a table without
   * a primary key; its rows need no number.
   */
  readonly rows?: number | undefined;
}

/** Where the tables are. */
export interface Engine {
  /**
   * Makes the databases, schemas and tables of a definition that are not there yet.
   * @throws {InputError} naming the statement's line in `origin`
   */
  define(sql: string, origin: string): Promise<void>;
  /** Runs any statements of an administrator in a database, and returns the rows of the last one. */
  execute(database: string | undefined, sql: string, signal: AbortSignal): Promise<Page>;
  /** The table of that name, or undefined. */
  find(name: TableName): Promise<Table | undefined>;
  /** Opens a place to parse a load in. */
  openStage(): Promise<Stage>;
  /**
   * Writes the rows of the stage's table or view `accepted`, which has the table's columns in its order and names and
   * a BIGINT called as `rowNumberOf` says, in one transaction: empties the table first when asked to, replaces rows of
   * known keys, and of several rows with one key keeps the one with the highest number (A.21).
   *
   * `load` is the load's permanent name. The same transaction records it for at least 30 days, and a recorded load is
   * not written again. So a commit that a crash cut off can be started again, whatever it had done (A.24).
   */
  write(stage: Stage, table: Table, writing: Writing, signal: AbortSignal): Promise<void>;
  /**
   * Runs a query read-only, confined to its database: it reaches no file, no network and no other database.
   * @throws {InputError} what is wrong with the SQL; {UnavailableError} when the time is up
   */
  query(query: Query, signal: AbortSignal): Promise<Page>;
  /** Another number after everything that may have changed what queries see, before it is reported to be done. */
  revision(): number;
  close(): Promise<void>;
}

import { listValue } from "@duckdb/node-api";
import type { Database, Parameter } from "#duckdb/database.ts";

/** A value in a statement about records. */
export type RecordValue = string | bigint | boolean | readonly string[] | readonly bigint[];

/**
 * The service's small tables: sessions, known addresses, ended loads. Their statements are written in what DuckDB and
 * PostgreSQL both understand: `$1`, lists as `unnest($1::VARCHAR[])`.
 */
export interface Records {
  /** Creates what is missing. PostgreSQL has its tables from migrations. */
  create(sql: string): Promise<void>;
  /** BIGINT gives `bigint`. */
  rows<Row extends object>(sql: string, values?: readonly RecordValue[]): Promise<Row[]>;
  run(sql: string, values?: readonly RecordValue[]): Promise<void>;
  /** The name of a table in statements. */
  table(name: string): string;
  /** Epoch milliseconds on the clock that everybody who writes records shares. */
  now(): number;
  /** Other processes write too. */
  readonly areShared: boolean;
  close(): void;
}

/** The records in the service's own database, which no other process has. */
export async function openEmbeddedRecords(database: Database): Promise<Records> {
  const connection = await database.connect();
  return {
    create: (sql) => connection.run(sql),
    rows: (sql, values = []) => connection.rows(sql, bound(values)),
    run: (sql, values = []) => connection.run(sql, bound(values)),
    table: (name) => name,
    now: () => Date.now(),
    areShared: false,
    close: () => {
      connection.close();
    },
  };
}

function bound(values: readonly RecordValue[]): readonly Parameter[] {
  return values.map((value) => (typeof value === "object" ? listValue([...value]) : value));
}

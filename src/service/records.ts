import { listValue } from "@duckdb/node-api";
import type { Database, Parameter } from "#duckdb/database.ts";
import { readClock } from "#postgres/clock.ts";
import type { Postgres, RowsOptions } from "#postgres/database.ts";
import type { Schema } from "#postgres/migrations.ts";

/** A value in a statement about records. */
export type RecordValue = string | bigint | boolean | readonly string[] | readonly bigint[];

/**
 * The service's small tables: sessions, known addresses, ended loads. Their statements are written in what DuckDB and
 * PostgreSQL both understand: `$1`, lists as `unnest($1::VARCHAR[])`.
 */
export interface Records {
  /** BIGINT gives `bigint`. */
  rows<Row extends object>(sql: string, values?: readonly RecordValue[], options?: RowsOptions): Promise<Row[]>;
  /** Running it twice must leave what running it once does; a second row with the same key is no error then. */
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
  await database.use((connection) => connection.run(tablesOf("", "NOT NULL")));
  return {
    rows: (sql, values = []) => database.use((connection) => connection.rows(sql, bound(values))),
    run: (sql, values = []) => database.use((connection) => connection.run(sql, bound(values))),
    table: (name) => name,
    now: () => Date.now(),
    areShared: false,
    close: () => undefined,
  };
}

function bound(values: readonly RecordValue[]): readonly Parameter[] {
  return values.map((value) => (typeof value === "object" ? listValue([...value]) : value));
}

/** The columns of each table, and their types. */
export const recordTables = {
  sessions: {
    digest: "text",
    user_id: "text",
    user_name: "text",
    remembered: "boolean",
    opened: "bigint",
    last_used: "bigint",
  },
  known_addresses: { name: "text", address: "text", since: "bigint" },
  ended_loads: { id: "text", owner: "text", ended: "bigint", record: "text" },
} as const;

/**
 * Creates the tables that are missing.
 * @param key what keys are, besides unique: DuckDB would keep an index of them in memory
 */
function tablesOf(schema: string, key: "NOT NULL" | "PRIMARY KEY"): string {
  const tables = Object.entries(recordTables).map(([table, columns]) => {
    const ddl = Object.entries(columns).map(
      ([name, type]) => `${name} ${type} ${name === "digest" || name === "id" ? key : "NOT NULL"}`,
    );
    return `CREATE TABLE IF NOT EXISTS ${schema}${table} (${ddl.join(", ")});`;
  });
  return tables.join("\n");
}

export const recordsSchema: Schema = {
  part: "records",
  migrations: [
    `${tablesOf("rollcall.", "PRIMARY KEY")}
     CREATE INDEX IF NOT EXISTS known_addresses_since ON rollcall.known_addresses (since);
     CREATE INDEX IF NOT EXISTS ended_loads_owner ON rollcall.ended_loads (owner);
     CREATE INDEX IF NOT EXISTS ended_loads_ended ON rollcall.ended_loads (ended)`,
  ],
};

/** How often the clock of the database is read, in milliseconds. */
const clockInterval = 60_000;

/** How long that may take, in milliseconds: the clock is as far off as half of it at most. */
const quick = 1_000;

/** The records in PostgreSQL. Its clock counts: that of one of several machines may be wrong. */
export async function openPostgresRecords(postgres: Postgres): Promise<Records> {
  let base = 0;
  const adjust = async (): Promise<void> => {
    const asked = performance.now();
    const now = await readClock(postgres);
    const answered = performance.now();
    // An answer that took long says less than the last one.
    if (base === 0 || answered - asked < quick) base = now - (asked + answered) / 2;
  };
  await adjust();
  // Until it answers again, this process's own clock goes on from there.
  const timer = setInterval(() => void adjust().catch(() => undefined), clockInterval);
  timer.unref();
  return {
    rows: (sql, values = [], options = {}) => postgres.rows(sql, values, options),
    run: async (sql, values = []) => {
      await postgres.rows(sql, values, { isRepeatable: true });
    },
    table: (name) => `rollcall.${name}`,
    now: () => Math.round(base + performance.now()),
    areShared: true,
    close: () => {
      clearInterval(timer);
    },
  };
}

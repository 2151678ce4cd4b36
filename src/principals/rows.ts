import type { DuckDBAppender, DuckDBConnection } from "@duckdb/node-api";

type Value = string | number | null;

/** Appends rows to tables, the quickest way from here into DuckDB. */
export interface Rows<Table extends string> {
  /** Numbers are integers. */
  append(table: Table, ...values: readonly Value[]): void;
  /** Hands over what has been appended; the last thing before `close`. */
  flush(): void;
  /** Drops what has not been handed over. */
  close(): void;
}

/** After so many rows a table's are handed over: the fewer, the shorter the event loop waits. */
const rowsPerFlush = 2048;

/** Opens appenders to the tables; the rows show once they were handed over, and only in this connection's transaction. */
export async function openRows<Table extends string>(
  connection: DuckDBConnection,
  tables: readonly Table[],
): Promise<Rows<Table>> {
  const open = {} as Record<Table, { appender: DuckDBAppender; pending: number }>;
  for (const table of tables) open[table] = { appender: await connection.createAppender(table), pending: 0 };
  const all = Object.values<(typeof open)[Table]>(open);
  return {
    append: (table, ...values) => {
      const to = open[table];
      for (const value of values) {
        if (value === null) to.appender.appendNull();
        else if (typeof value === "string") to.appender.appendVarchar(value);
        else to.appender.appendInteger(value);
      }
      to.appender.endRow();
      to.pending += 1;
      if (to.pending < rowsPerFlush) return;
      to.appender.flushSync();
      to.pending = 0;
    },
    flush: () => {
      for (const { appender } of all) appender.flushSync();
    },
    close: () => {
      for (const { appender } of all) {
        appender.clear();
        appender.closeSync();
      }
    },
  };
}

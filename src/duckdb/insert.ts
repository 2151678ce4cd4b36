import type { DuckDBConnection, DuckDBPreparedStatement } from "@duckdb/node-api";

type Value = string | number | null;

/** Puts rows into tables, the quickest way from here into DuckDB: many at a time, each column as one text. */
export interface Rows<Table extends string> {
  /** Numbers are integers; of a text, half a character becomes U+FFFD. */
  append(table: Table, ...values: readonly Value[]): void;
  /** Resolves when there is room for more. Whoever appends has to wait for it from time to time. */
  room(): Promise<void>;
  /** Resolves when everything that has been appended shows; the last thing before `close`. */
  flush(): Promise<void>;
  /** Drops what has not been handed over. Nothing runs any more when it resolves. */
  close(): Promise<void>;
}

/** After so many rows a table's are handed over: the fewer, the shorter the event loop waits. */
const rowsPerInsert = 4096;

/** How many texts of rows may wait for the database, besides those that it is taking in. */
const mostWaiting = 2;

/**
 * Opens tables for rows; the connection is for them alone until `flush` has resolved.
 *
 * A call into the library for each value takes five times as long as JSON does, and leaves the event loop no time.
 * @param tables their columns as DDL: `seq INTEGER, name VARCHAR`
 */
export async function openRows<Table extends string>(
  connection: DuckDBConnection,
  tables: Readonly<Record<Table, string>>,
): Promise<Rows<Table>> {
  const names = Object.keys(tables) as Table[];
  const open = {} as Record<Table, Pending>;
  for (const table of names) {
    const types = tables[table].split(",").map((column) => column.trim().split(/\s+/)[1] ?? "");
    const columns = types.map((type, index) => `unnest(from_json(c${index}, '["${type}"]'))`);
    // A parameter that stands in the expression itself makes a constant of the whole list, which takes three times as long.
    const texts = `(VALUES (${types.map((_, index) => `$${index + 1}`).join(", ")})) t(${types.map((_, index) => `c${index}`).join(", ")})`;
    open[table] = {
      statement: await connection.prepare(`INSERT INTO ${table} SELECT ${columns.join(", ")} FROM ${texts}`),
      columns: types.map(() => []),
    };
  }
  let inserting: Promise<void> = Promise.resolve();
  let waiting = 0;

  function insert({ statement, columns }: Pending): void {
    const texts = columns.map((column) => JSON.stringify(column));
    for (const column of columns) column.length = 0;
    const before = inserting;
    const work = async (): Promise<void> => {
      waiting++;
      await before;
      waiting--;
      for (const [index, text] of texts.entries()) statement.bindVarchar(index + 1, text);
      await statement.run();
    };
    inserting = work();
    // `room` and `flush` find out.
    inserting.catch(() => undefined);
  }

  return {
    append: (table, ...values) => {
      const pending = open[table];
      const { columns } = pending;
      for (let index = 0; index < values.length; index++) {
        const value = values[index] as Value;
        // Half a character would be no JSON.
        columns[index]?.push(typeof value === "string" ? value.toWellFormed() : value);
      }
      if ((columns[0]?.length ?? 0) >= rowsPerInsert) insert(pending);
    },
    room: async () => {
      if (waiting > mostWaiting) await inserting;
    },
    flush: async () => {
      for (const table of names) if ((open[table].columns[0]?.length ?? 0) > 0) insert(open[table]);
      await inserting;
    },
    close: async () => {
      await inserting.catch(() => undefined);
      for (const table of names) open[table].statement.destroySync();
    },
  };
}

interface Pending {
  readonly statement: DuckDBPreparedStatement;
  /** The values of the rows that were not handed over yet, column by column. */
  readonly columns: readonly Value[][];
}

import type { DuckDBConnection, DuckDBPreparedStatement } from "@duckdb/node-api";

type Value = string | number | null;

/** Inserts rows the fastest way from JavaScript into DuckDB: many at a time, each column as one JSON text. */
export interface Rows<Table extends string> {
  /** Numbers must be integers. A lone surrogate in a text becomes U+FFFD. */
  append(table: Table, ...values: readonly Value[]): void;
  /** Runs a statement in turn with the inserts: `$1` is the first value, and so on. It is prepared once. */
  execute(sql: string, ...values: readonly Value[]): void;
  /** Resolves when there is room for more; await it from time to time. */
  room(): Promise<void>;
  /** Resolves when all appended rows are visible; call it last before `close`. */
  flush(): Promise<void>;
  /** Drops rows that were not flushed. Nothing is running when it resolves. */
  close(): Promise<void>;
}

/** The size of an insert: the fewer rows, the shorter the event loop is held. */
const rowsPerInsert = 8192;

/** How many inserts may wait besides the one that is running. */
const mostWaiting = 2;

/**
 * Opens tables for inserts. Nothing else may use the connection until `flush` resolves.
 *
 * A library call for each value would take five times as long as JSON, and block the event loop.
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
    open[table] = { types, columns: types.map(() => []), count: 0, statements: new Map() };
  }
  const statementFor = async (table: Table, lists: readonly boolean[]): Promise<DuckDBPreparedStatement> => {
    const { types, statements } = open[table];
    const form = lists.join();
    const known = statements.get(form);
    if (known !== undefined) return known;
    const columns = types.map((type, index) =>
      lists[index] ? `unnest(from_json(c${index}, '["${type}"]'))` : `c${index}::${type}`,
    );
    // A parameter inside the expression makes the whole list a constant, which takes three times as long.
    const texts = `(VALUES (${types.map((_, index) => `$${index + 1}`).join(", ")})) t(${types.map((_, index) => `c${index}`).join(", ")})`;
    const statement = await connection.prepare(`INSERT INTO ${table} SELECT ${columns.join(", ")} FROM ${texts}`);
    statements.set(form, statement);
    return statement;
  };
  const others = new Map<string, DuckDBPreparedStatement>();
  let inserting: Promise<void> = Promise.resolve();
  let waiting = 0;

  /** Does something after everything before it. */
  function inTurn(work: () => Promise<unknown>): void {
    const before = inserting;
    const run = async (): Promise<void> => {
      waiting++;
      await before;
      waiting--;
      await work();
    };
    inserting = run();
    // `room` and `flush` report it.
    inserting.catch(() => undefined);
  }

  function insert(table: Table): void {
    const pending = open[table];
    const { columns, count } = pending;
    const isFull = count === rowsPerInsert;
    const filled = isFull ? columns : columns.map((column) => column.slice(0, count));
    // A value that all rows share, as the kind of an entry often is, is sent once. One list at least says how many there are.
    const lists = filled.map((column) => column.some((value) => value !== column[0]));
    if (!lists.includes(true)) lists[0] = true;
    const texts = filled.map((column, index) => {
      const [value = null] = column;
      return lists[index] ? JSON.stringify(column) : value === null ? null : String(value);
    });
    pending.count = 0;
    inTurn(async () => {
      const statement = await statementFor(table, lists);
      for (const [index, text] of texts.entries())
        if (text === null) statement.bindNull(index + 1);
        else statement.bindVarchar(index + 1, text);
      await statement.run();
    });
  }

  return {
    append: (table, ...values) => {
      const pending = open[table];
      const { columns, count } = pending;
      for (let index = 0; index < values.length; index++) {
        const value = values[index] as Value;
        // A lone surrogate is not valid JSON.
        (columns[index] as Value[])[count] = typeof value === "string" ? value.toWellFormed() : value;
      }
      pending.count = count + 1;
      if (pending.count === rowsPerInsert) insert(table);
    },
    execute: (sql, ...values) => {
      inTurn(async () => {
        const statement = others.get(sql) ?? (await connection.prepare(sql));
        others.set(sql, statement);
        for (const [index, value] of values.entries()) {
          if (value === null) statement.bindNull(index + 1);
          else if (typeof value === "number") statement.bindInteger(index + 1, value);
          else statement.bindVarchar(index + 1, value);
        }
        await statement.run();
      });
    },
    room: async () => {
      if (waiting > mostWaiting) await inserting;
    },
    flush: async () => {
      for (const table of names) if (open[table].count > 0) insert(table);
      await inserting;
    },
    close: async () => {
      await inserting.catch(() => undefined);
      for (const prepared of [...names.map((table) => open[table].statements), others])
        for (const statement of prepared.values()) statement.destroySync();
    },
  };
}

interface Pending {
  readonly types: readonly string[];
  /** By which columns are lists, and which one value for all rows. */
  readonly statements: Map<string, DuckDBPreparedStatement>;
  /** Values, column by column: first those of the `count` rows that were not inserted yet, then old ones to be overwritten. */
  readonly columns: readonly Value[][];
  count: number;
}

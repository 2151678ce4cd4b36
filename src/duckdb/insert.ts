import type { DuckDBConnection, DuckDBPreparedStatement } from "@duckdb/node-api";

type Value = string | number | null;

/** The size of an insert: the fewer rows, the shorter the event loop is held. */
const rowsPerInsert = 8192;

/** An insert also ends at so much text, in UTF-16 units: the members of groups are long. */
const textPerInsert = 2 * 1024 * 1024;

/** How many inserts may wait besides the one that is running. */
const mostWaiting = 2;

/**
 * Inserts rows the fastest way from JavaScript into DuckDB: many at a time, each column as one JSON text. A library call for
 * each value would take five times as long, and block the event loop. Nothing else may use the connection until `flush`
 * resolves.
 */
export class Rows<Table extends string> {
  readonly #connection: DuckDBConnection;
  readonly #open = new Map<Table, Pending>();
  readonly #statements = new Map<string, DuckDBPreparedStatement>();
  #inserting: Promise<void> = Promise.resolve();
  #waiting = 0;

  /** @param tables their columns as DDL: `seq INTEGER, name VARCHAR` */
  constructor(connection: DuckDBConnection, tables: Readonly<Record<Table, string>>) {
    this.#connection = connection;
    for (const table of Object.keys(tables) as Table[]) {
      const types = tables[table].split(",").map((column) => column.trim().split(/\s+/)[1] ?? "");
      this.#open.set(table, { sql: insertOf(table, types), columns: types.map(() => []), count: 0, text: 0 });
    }
  }

  /** Numbers must be integers. A lone surrogate in a text becomes U+FFFD. */
  append(table: Table, ...values: readonly Value[]): void {
    const pending = this.#open.get(table) as Pending;
    const { columns, count } = pending;
    for (let index = 0; index < values.length; index++) {
      const value = values[index] as Value;
      (columns[index] as Value[])[count] = value;
      if (typeof value === "string") pending.text += value.length;
    }
    pending.count = count + 1;
    if (pending.count === rowsPerInsert || pending.text > textPerInsert) this.#insert(pending);
  }

  /** Runs a statement in turn with the inserts: `$1` is the first value, and so on. It is prepared once. */
  execute(sql: string, ...values: readonly (string | number)[]): void {
    this.#inTurn(async () => {
      const statement = this.#statements.get(sql) ?? (await this.#connection.prepare(sql));
      this.#statements.set(sql, statement);
      for (const [index, value] of values.entries()) {
        if (typeof value === "number") statement.bindInteger(index + 1, value);
        else statement.bindVarchar(index + 1, value);
      }
      await statement.run();
    });
  }

  /** Resolves when there is room for more; await it from time to time. */
  async room(): Promise<void> {
    if (this.#waiting > mostWaiting) await this.#inserting;
  }

  /** Resolves when all appended rows are visible; call it last before `close`. */
  async flush(): Promise<void> {
    for (const pending of this.#open.values()) if (pending.count > 0) this.#insert(pending);
    await this.#inserting;
  }

  /** Drops rows that were not flushed. Nothing is running when it resolves. */
  async close(): Promise<void> {
    await this.#inserting.catch(() => undefined);
    for (const statement of this.#statements.values()) statement.destroySync();
  }

  /** Does something after everything before it. */
  #inTurn(work: () => Promise<unknown>): void {
    const before = this.#inserting;
    const run = async (): Promise<void> => {
      this.#waiting++;
      await before;
      this.#waiting--;
      await work();
    };
    this.#inserting = run();
    // `room` and `flush` report it.
    this.#inserting.catch(() => undefined);
  }

  #insert(pending: Pending): void {
    const { sql, columns, count } = pending;
    const filled = count === rowsPerInsert ? columns : columns.map((column) => column.slice(0, count));
    const texts = filled.map(jsonOf);
    pending.count = 0;
    pending.text = 0;
    this.execute(sql, ...texts);
  }
}

/** Inserts rows whose columns are parameters, each a list in JSON. */
function insertOf(table: string, types: readonly string[]): string {
  const columns = types.map((type, index) => `unnest(from_json(c${index}, '["${type}"]'))`);
  const names = types.map((_, index) => `c${index}`);
  // A parameter inside the expression makes the whole list a constant, which takes three times as long.
  const texts = `(VALUES (${types.map((_, index) => `$${index + 1}`).join(", ")})) t(${names.join(", ")})`;
  return `INSERT INTO ${table} SELECT ${columns.join(", ")} FROM ${texts}`;
}

/** A lone surrogate is not valid JSON; most columns have none. */
function jsonOf(column: readonly Value[]): string {
  const json = JSON.stringify(column);
  if (!/\\ud[89a-f]/.test(json)) return json;
  return JSON.stringify(column.map((value) => (typeof value === "string" ? value.toWellFormed() : value)));
}

interface Pending {
  readonly sql: string;
  /** Values, column by column: first those of the `count` rows that were not inserted yet, then old ones to be overwritten. */
  readonly columns: readonly Value[][];
  count: number;
  /** How long their texts are, in UTF-16 units. */
  text: number;
}

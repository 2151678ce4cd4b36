import { isDeepStrictEqual } from "node:util";
import { firstLineOf, InputError } from "#errors.ts";
import { identifier, interruptible } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { rowNumberOf, TableChangedError } from "./engine.ts";
import type { Table, Writing } from "./engine.ts";
import { ledgerName } from "./databases.ts";
import { nameAt, splitStatements } from "./statements.ts";
import { findTable } from "./tables.ts";

/**
 * Writes the rows of `accepted` into the table, all or nothing (A.15, A.21). Deleting from a table with a primary key is
 * far too slow in DuckDB (its index removes keys one by one: 30 s for a million). So rows with known keys are updated in
 * place, and a table to be emptied is created again if nothing depends on it.
 */
export async function writeTable(
  connection: Connection,
  table: Table,
  { empty, load, rows }: Writing,
  signal: AbortSignal,
): Promise<void> {
  const ledger = `${identifier(table.database)}.main.${identifier(ledgerName)}`;
  const writing = connection.transaction(async () => {
    await interruptible(connection, signal, async () => {
      const written = await connection.rows(`FROM ${ledger} WHERE load = $1`, [load]);
      if (written.length > 0) {
        // This time `accepted` was not read, so its number of rows is not known.
        if (rows !== undefined) throw new Error("the load was written before");
        return;
      }
      const { database, schema, name } = table;
      const now = await findTable(connection, { database, schema, table: name });
      if (!isDeepStrictEqual(now, table)) throw new TableChangedError(table);
      const count = await writeRows(connection, table, empty);
      if (rows !== undefined && count !== rows) throw new Error(`${count} rows instead of ${rows}`);
      await connection.run(`INSERT INTO ${ledger} VALUES ($1, now()::TIMESTAMP)`, [load]);
      signal.throwIfAborted();
    });
    // From here on the load is committed, whatever the signal says.
  });
  await writing.catch(async (error: unknown) => {
    throw (await failedCheck(connection, table, error)) ?? stillReferenced(table, empty, error) ?? error;
  });
}

/** A row that another table refers to: DuckDB's sentence names neither table, and leads to its own documentation. */
function stillReferenced({ name }: Table, empty: boolean, error: unknown): InputError | undefined {
  const key = /key "(.*?)" is still referenced by a foreign key/s.exec(firstLineOf(error))?.[1];
  if (key === undefined) return undefined;
  const advice = empty
    ? "empty the other table first"
    : "DuckDB cannot replace such a row in a table with an index or a UNIQUE column; drop that or the foreign key";
  return new InputError(`the table ${name} has rows that another table refers to (${key}): ${advice}`, {
    cause: error,
  });
}

/** The first row that a CHECK of the table refuses: DuckDB names the condition only. */
async function failedCheck(
  connection: Connection,
  { database, schema, name, columns }: Table,
  error: unknown,
): Promise<InputError | undefined> {
  if (!(error instanceof Error && error.message.includes("CHECK constraint failed"))) return undefined;
  const checks = await connection.rows<{ expression: string }>(
    `SELECT expression FROM duckdb_constraints() WHERE database_name = $1 AND schema_name = $2 AND table_name = $3
       AND constraint_type = 'CHECK'`,
    [database, schema, name],
  );
  const number = identifier(rowNumberOf(columns));
  for (const { expression } of checks) {
    const sql = `SELECT min(${number}) AS number FROM accepted WHERE NOT (${expression})`;
    const [first] = await connection.rows<{ number: bigint | null }>(sql);
    const row = first?.number ?? undefined;
    if (row !== undefined)
      return new InputError(`row ${row}: the table ${name} has CHECK ${expression}, which is false for it`, {
        cause: error,
      });
  }
  return undefined;
}

/** Writes the rows, and returns how many if the table has no primary key. */
async function writeRows(connection: Connection, table: Table, empty: boolean): Promise<number | undefined> {
  const target = `${identifier(table.database)}.${identifier(table.schema)}.${identifier(table.name)}`;
  if (table.primaryKey.length === 0) {
    if (empty) await connection.run(`DELETE FROM ${target}`);
    const [inserted] = await connection.rows<{ Count: bigint }>(
      `INSERT INTO ${target} ${await latest(connection, table)}`,
    );
    return Number(inserted?.Count);
  }
  const { indexed, referenced } = await dependentsOf(connection, table);
  if (empty && !indexed && !referenced) {
    await replace(connection, table, target);
  } else if (empty || indexed) {
    await connection.run(
      empty
        ? `DELETE FROM ${target}`
        : `DELETE FROM ${target} AS kept USING accepted AS loaded WHERE ${sameKey(table)}`,
    );
    await connection.run(`INSERT INTO ${target} ${await latest(connection, table)}`);
  } else {
    await connection.run(upsert(table, target, await latest(connection, table)));
  }
  return undefined;
}

/** Replaces rows with known keys. @param rows a query for them */
export function upsert({ columns, primaryKey }: Table, target: string, rows: string): string {
  const others = columns.filter(({ name }) => !primaryKey.includes(name)).map(({ name }) => identifier(name));
  const update = others.map((name) => `${name} = excluded.${name}`).join(", ");
  return `INSERT INTO ${target} (${listOf(columns)}) ${rows}
    ON CONFLICT (${primaryKey.map(identifier).join(", ")}) DO ${update === "" ? "NOTHING" : `UPDATE SET ${update}`}`;
}

/** Whether `kept` and `loaded` are rows of one key. */
export function sameKey({ primaryKey }: Table): string {
  return primaryKey.map((name) => `kept.${identifier(name)} = loaded.${identifier(name)}`).join(" AND ");
}

export function listOf(columns: Table["columns"]): string {
  return columns.map(({ name }) => identifier(name)).join(", ");
}

/** A query for the rows to write: of several rows with the same key, the last. Searches for those only if there are any. */
export async function latest(connection: Connection, table: Table): Promise<string> {
  const rows = `SELECT ${listOf(table.columns)} FROM accepted`;
  if (table.primaryKey.length === 0) return rows;
  const key = table.primaryKey.map(identifier).join(", ");
  const [count] = await connection.rows<{ all: bigint; distinct: bigint }>(
    `SELECT (SELECT count(*) FROM accepted) AS "all",
       (SELECT count(*) FROM (SELECT DISTINCT ${key} FROM accepted)) AS "distinct"`,
  );
  if (count?.all === count?.distinct) return rows;
  const number = identifier(rowNumberOf(table.columns));
  return `${rows} SEMI JOIN (SELECT max(${number}) AS ${number} FROM accepted GROUP BY ${key}) USING (${number})`;
}

/** Replaces the table with a new one of the same definition. */
async function replace(connection: Connection, table: Table, target: string): Promise<void> {
  const [old] = await connection.rows<{ sql: string }>(
    "SELECT sql FROM duckdb_tables() WHERE database_name = $1 AND schema_name = $2 AND table_name = $3",
    [table.database, table.schema, table.name],
  );
  // DuckDB's text of the definition is CREATE TABLE, the name, and the columns in parentheses.
  const tokens = splitStatements(old?.sql ?? "")[0]?.tokens ?? [];
  const columns = tokens[nameAt(tokens, 2).next];
  if (old === undefined || columns === undefined) throw new InputError(`the table ${table.name} is gone`);
  const made = `${identifier(table.database)}.${identifier(table.schema)}.${identifier(`${table.name} (loading)`)}`;
  await connection.run(`CREATE TABLE ${made} ${old.sql.slice(columns.start)}`);
  await connection.run(`INSERT INTO ${made} ${await latest(connection, table)}`);
  await connection.run(`DROP TABLE ${target}`);
  await connection.run(`ALTER TABLE ${made} RENAME TO ${identifier(table.name)}`);
}

/** What prevents a table from being updated in place, or from being created again. */
async function dependentsOf(connection: Connection, table: Table): Promise<{ indexed: boolean; referenced: boolean }> {
  const name = [table.database, table.schema, table.name];
  const [indexes, references, unique] = await Promise.all([
    connection.rows(
      "FROM duckdb_indexes() WHERE database_name = $1 AND schema_name = $2 AND table_name = $3 LIMIT 1",
      name,
    ),
    connection.rows<{ table_name: string }>(
      `SELECT table_name FROM duckdb_constraints() WHERE database_name = $1 AND schema_name = $2 AND referenced_table = $3`,
      name,
    ),
    connection.rows(
      `FROM duckdb_constraints() WHERE database_name = $1 AND schema_name = $2 AND table_name = $3
         AND constraint_type IN ('UNIQUE', 'FOREIGN KEY') LIMIT 1`,
      name,
    ),
  ]);
  if (references.some((reference) => reference.table_name === table.name))
    throw new InputError(
      `the table ${table.name} has a foreign key to itself, which DuckDB cannot check while rows are loaded: ` +
        "make the table without it",
    );
  return { indexed: indexes.length > 0 || unique.length > 0, referenced: references.length > 0 };
}

import { InputError } from "#errors.ts";
import { identifier } from "#plan/database.ts";
import type { Connection } from "#plan/database.ts";
import type { Databases } from "./databases.ts";
import type { Page } from "./engine.ts";
import { meaningOf } from "./interrupt.ts";
import { convert } from "./query.ts";
import { hasWords, nameAt, splitStatements } from "./statements.ts";
import type { Statement } from "./statements.ts";

/** The most rows an administrator's statement returns; `totalRowCount` tells of the others. */
const maxRows = 100_000;
/** They would change the instance under everybody, or reach files of the service. */
const refused = ["ATTACH", "DETACH", "COPY", "EXPORT", "IMPORT", "INSTALL", "LOAD", "PRAGMA", "SET", "RESET", "CALL"];

/** Runs an administrator's statements one after the other, each in a transaction of its own unless they say BEGIN. */
export async function execute(databases: Databases, connection: Connection, sql: string): Promise<Page> {
  let page: Page = { columnNames: [], rows: [], totalRowCount: 0 };
  const statements = splitStatements(sql);
  for (const statement of statements) {
    const database = newDatabase(statement);
    if (database !== undefined) {
      await databases.create(database);
      continue;
    }
    checkStatement(statement);
    try {
      const result = await connection.raw.stream(statement.sql);
      const { rows, total } = await convert(result, maxRows);
      page = { columnNames: result.columnNames(), rows, totalRowCount: total };
    } catch (error) {
      const meaning = meaningOf(error);
      // The engine counts lines from the beginning of the statement that it was given.
      if (statements.length === 1 || !(meaning instanceof InputError)) throw meaning;
      const before = statement === statements[0] ? "" : ", after those before it were carried out";
      throw new InputError(`the statement on line ${statement.line}${before}: ${meaning.message}`, { cause: error });
    }
  }
  return page;
}

function newDatabase({ tokens, line }: Statement): string | undefined {
  if (!hasWords(tokens, 0, ["CREATE", "DATABASE"])) return undefined;
  const { parts, next } = nameAt(tokens, hasWords(tokens, 2, ["IF", "NOT", "EXISTS"]) ? 5 : 2);
  const [name] = parts;
  if (name === undefined || parts.length > 1 || next < tokens.length) {
    throw new InputError(`line ${line}: expected CREATE DATABASE IF NOT EXISTS name`);
  }
  return name;
}

function checkStatement({ tokens, line }: Statement): void {
  const word = refused.find((word) => hasWords(tokens, 0, [word]));
  if (word !== undefined) throw new InputError(`line ${line}: ${word} cannot be run here`);
  if (hasWords(tokens, 0, ["DROP", "DATABASE"])) {
    throw new InputError(
      `line ${line}: a database is removed by stopping the service and deleting its file; DROP TABLE works here`,
    );
  }
}

/**
 * What an administrator's statement made outside every database would be in memory, and lost at the next start.
 * @throws {InputError} when there is such a table
 */
export async function refuseUnplaced(connection: Connection): Promise<void> {
  const [table] = await connection.rows<{ name: string }>(
    "SELECT table_name AS name FROM duckdb_tables() WHERE database_name = 'memory'",
  );
  if (table === undefined) return;
  await connection.run(`DROP TABLE memory.main.${identifier(table.name)}`);
  throw new InputError(`the table ${table.name} belongs to no database: write CREATE TABLE database.schema.name`);
}

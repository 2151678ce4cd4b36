import { ResultReturnType } from "@duckdb/node-api";
import { identifier, literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { InputError } from "#errors.ts";
import type { Databases } from "./databases.ts";
import type { Page } from "./engine.ts";
import { convert, meaningOf } from "./query.ts";
import { hasWords, nameAt, splitStatements } from "./statements.ts";
import type { Statement } from "./statements.ts";

/** The most rows an administrator's statement returns; `totalRowCount` tells of the others. */
const maxRows = 100_000;
/** They would change the instance under everybody, or reach files of the service. */
const refused = ["ATTACH", "DETACH", "COPY", "EXPORT", "IMPORT", "INSTALL", "LOAD", "PRAGMA", "SET", "RESET", "CALL"];

/**
 * Runs an administrator's statements one after the other, each in a transaction of its own unless they say BEGIN.
 * @param defaultSchema that of a table which is named without one
 */
export async function execute(
  databases: Databases,
  connection: Connection,
  sql: string,
  defaultSchema: string,
): Promise<Page> {
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
      await withinReach(connection, namedDatabases(statement, databases), defaultSchema, async () => {
        const result = await connection.raw.stream(statement.sql);
        const { rows, total } = await convert(result, maxRows);
        // Of what returns nothing, DuckDB gives a column `Count` all the same.
        const columnNames = result.returnType === ResultReturnType.NOTHING ? [] : result.columnNames();
        page = { columnNames, rows, totalRowCount: total };
      });
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

/** The databases that a statement names as `database.name`. */
function namedDatabases({ tokens }: Statement, databases: Databases): string[] {
  // What it makes the current one is to stay that.
  if (hasWords(tokens, 0, ["USE"])) return [];
  const names = tokens.flatMap(({ kind, text }, place) => {
    const after = tokens[place + 1];
    const isBefore = (kind === "word" || kind === "quoted") && after?.kind === "symbol" && after.text === ".";
    return isBefore ? (databases.find(text) ?? []) : [];
  });
  return [...new Set(names)];
}

/**
 * `database.table` means the default schema here as it does in loads; to DuckDB alone, of a database that is not the
 * current one, it would mean the schema `main`, where no load finds the table.
 */
async function withinReach(
  connection: Connection,
  named: readonly string[],
  defaultSchema: string,
  work: () => Promise<void>,
): Promise<void> {
  if (named.length === 0) return work();
  const [current] = await connection.rows<{ path: string }>("SELECT current_setting('search_path') AS path");
  const before = current?.path === "" ? "memory.main" : (current?.path ?? "memory.main");
  const further = named.flatMap((name) =>
    [defaultSchema, "main"].map((schema) => `${identifier(name)}.${identifier(schema)}`),
  );
  await connection.run(`SET search_path = ${literal([before, ...further].join(","))}`);
  await work();
  await connection.run(`SET search_path = ${literal(before)}`);
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

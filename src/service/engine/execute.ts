import { ResultReturnType, StatementType } from "@duckdb/node-api";
import { CutOffError } from "#duckdb/chunk.ts";
import { identifier, literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { InputError } from "#errors.ts";
import type { Databases } from "./databases.ts";
import { defaultSchema } from "./engine.ts";
import type { RowSink } from "./engine.ts";
import { convert, meaningOf, readAll } from "./query.ts";
import { hasWords, nameAt, splitStatements } from "./statements.ts";
import type { Statement } from "./statements.ts";

/** The maximum number of rows an administrator's statement returns; all of them are counted. */
export const maxRows = 100_000;
/** Statements that would change the instance for everybody, or reach files of the service. */
const refused = ["ATTACH", "DETACH", "COPY", "EXPORT", "IMPORT", "INSTALL", "LOAD", "PRAGMA", "SET", "RESET", "CALL"];

/** Statements that leave tables, views and macros as they are. */
const plain = new Set([StatementType.SELECT, StatementType.INSERT, StatementType.UPDATE, StatementType.DELETE]);

interface Executed {
  /** How many rows the last statement has. */
  readonly rows: number;
  /** Whether there may be other tables, views or macros now. */
  readonly mayDefine: boolean;
}

/**
 * Runs an administrator's statements in order, each in its own transaction unless they use BEGIN.
 */
export async function execute(
  databases: Databases,
  connection: Connection,
  sql: string,
  sink: RowSink,
): Promise<Executed> {
  let rows = 0;
  let mayDefine = false;
  const statements = splitStatements(sql);
  for (const statement of statements) {
    const database = newDatabase(statement);
    if (database !== undefined) {
      await databases.create(database);
      mayDefine = true;
      continue;
    }
    checkStatement(statement);
    let isSelect = false;
    const explained = async (error: unknown): Promise<unknown> => {
      if (!isSelect || !(error instanceof CutOffError)) return error;
      return readAll(connection, statement.sql).then(
        () => error,
        (cause: unknown) => cause,
      );
    };
    try {
      await withinReach(connection, namedDatabases(statement, databases), async () => {
        await connection.watch(async () => {
          const result = await connection.raw.stream(statement.sql);
          isSelect = result.statementType === StatementType.SELECT;
          mayDefine ||= !plain.has(result.statementType);
          // DuckDB returns a column `Count` even for statements that return nothing.
          await sink.begin(result.returnType === ResultReturnType.NOTHING ? [] : result.columnNames());
          rows = await convert(result, maxRows, sink);
        });
      });
    } catch (error) {
      const meaning = meaningOf(await explained(error));
      // The engine counts lines from the start of the statement.
      if (statements.length === 1 || !(meaning instanceof InputError)) throw meaning;
      const before = statement === statements[0] ? "" : " (the statements before it were executed)";
      throw new InputError(`the statement on line ${statement.line}${before}: ${meaning.message}`, { cause: error });
    }
  }
  return { rows, mayDefine };
}

/** The databases that a statement names as `database.name`. */
function namedDatabases({ tokens }: Statement, databases: Databases): string[] {
  // USE changes the search path itself, which must not be restored after it.
  if (hasWords(tokens, 0, ["USE"])) return [];
  const names = tokens.flatMap(({ kind, text }, place) => {
    const after = tokens[place + 1];
    const isBefore = (kind === "word" || kind === "quoted") && after?.kind === "symbol" && after.text === ".";
    return isBefore ? (databases.find(text) ?? []) : [];
  });
  return [...new Set(names)];
}

/**
 * Makes `database.table` mean the default schema, as in loads. For any but the current database, DuckDB alone would take
 * it as the schema `main`, where no load finds the table.
 */
async function withinReach(connection: Connection, named: readonly string[], work: () => Promise<void>): Promise<void> {
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
 * A table that an administrator's statement creates outside every database is in memory, and would be lost at the next start.
 * @throws {InputError} if there is such a table
 */
export async function refuseUnplaced(connection: Connection): Promise<void> {
  const [table] = await connection.rows<{ name: string }>(
    "SELECT table_name AS name FROM duckdb_tables() WHERE database_name = 'memory'",
  );
  if (table === undefined) return;
  await connection.run(`DROP TABLE memory.main.${identifier(table.name)}`);
  throw new InputError(`the table ${table.name} belongs to no database: write CREATE TABLE database.schema.name`);
}

import { setImmediate } from "node:timers/promises";
import type { DuckDBResult } from "@duckdb/node-api";
import { InputError } from "#errors.ts";
import { readColumns } from "#duckdb/chunk.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Page } from "./engine.ts";
import { splitStatements } from "./statements.ts";
import { unordered } from "./syntax.ts";
import { converterOf } from "./values.ts";

/** The one statement of a query, as it can stand in parentheses: without its semicolon and what follows. */
export function soleStatement(sql: string): string {
  const statements = splitStatements(sql);
  const [statement] = statements;
  if (statement === undefined || statements.length > 1) {
    throw new InputError(`a query is one SELECT statement, not ${statements.length}`);
  }
  return statement.sql;
}

/**
 * Reads a page of a statement that was checked. The page is cut by the engine; the rows are counted in a second query
 * only where the page does not tell.
 */
export async function readPage(
  connection: Connection,
  statement: string,
  { offset, limit }: { readonly offset: number; readonly limit: number },
): Promise<Page> {
  // The names of the statement itself: around it, DuckDB would give equal names a number.
  const prepared = await connection.raw.prepare(statement);
  const columnNames = Array.from({ length: prepared.columnCount }, (_, index) => prepared.columnName(index));
  prepared.destroySync();
  const result = await connection.raw.run(`SELECT * FROM (\n${statement}\n) LIMIT ${limit + 1} OFFSET ${offset}`);
  const rows = (await convert(result, limit + 1)).rows;
  const told = rows.length <= limit && (rows.length > 0 || offset === 0);
  if (told) return { columnNames, rows, totalRowCount: offset + rows.length };
  const counted = await unordered(connection, statement);
  const [count] = await connection.rows<{ total: bigint }>(`SELECT count(*) AS total FROM (\n${counted}\n)`);
  return { columnNames, rows: rows.slice(0, limit), totalRowCount: Number(count?.total ?? 0) };
}

/** The first rows of a result as JSON holds them, and how many rows it has. Others get their turn after each batch. */
export async function convert(result: DuckDBResult, limit: number): Promise<{ rows: unknown[][]; total: number }> {
  const types = result.columnTypes();
  const converters = types.map(converterOf);
  const rows: unknown[][] = [];
  let total = 0;
  for (;;) {
    const chunk = await result.fetchChunk();
    if (chunk === null || chunk.rowCount === 0) return { rows, total };
    total += chunk.rowCount;
    if (rows.length >= limit) continue;
    const columns = readColumns(chunk, types);
    const wanted = Math.min(chunk.rowCount, limit - rows.length);
    for (let row = 0; row < wanted; row++)
      rows.push(columns.map((values, index) => converters[index]?.(values[row] ?? null)));
    await setImmediate();
  }
}

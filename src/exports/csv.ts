import { writeFile } from "node:fs/promises";
import { identifier, literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { formula } from "#plan/render/csv.ts";
import type { ExportedTable } from "./relations.ts";

/** A table, and its columns in order. */
export interface TableColumns {
  readonly table: ExportedTable;
  readonly columns: readonly string[];
}

/**
 * Writes the rows of a table to a file for a load: no header, every value in quotes, so that it comes back as it was.
 * @param nothing the text for an unset value, without quotes; no value may be equal to it
 * @returns the number of rows
 */
export function writeForLoad(
  connection: Connection,
  { table, columns }: TableColumns,
  file: string,
  nothing: string,
): Promise<number> {
  return copy(
    connection,
    `SELECT ${columns.map(identifier).join(", ")} FROM ${table}`,
    file,
    `HEADER false, NULLSTR ${literal(nothing)}`,
  );
}

/** How a file for people is written. */
export interface FileStyle {
  /**
   * True: values exactly as they are. Otherwise formulas get an apostrophe in front, and the file begins with a byte
   * order mark, which tells spreadsheets that it is UTF-8.
   */
  readonly raw: boolean;
}

/** Writes the rows of a table to a file for people, in order, with a header. @returns the number of rows */
export async function writeForPeople(
  connection: Connection,
  { table, columns: names }: TableColumns,
  file: string,
  { raw }: FileStyle,
): Promise<number> {
  const columns = names.map((name) => (raw || name === "depth" ? identifier(name) : withoutFormula(name)));
  const head = `${raw ? "" : "\uFEFF"}"${names.join('","')}"\n`;
  const rows = await copy(
    connection,
    `SELECT ${columns.join(", ")} FROM (FROM ${table} ORDER BY ALL)`,
    file,
    `HEADER false, PREFIX ${literal(head)}, SUFFIX '\n'`,
  );
  // DuckDB would end an empty file with an extra line.
  if (rows === 0) await writeFile(file, head);
  return rows;
}

function withoutFormula(column: string): string {
  const value = identifier(column);
  return `CASE WHEN regexp_matches(${value}, ${literal(formula.source)}) THEN concat('''', ${value}) ELSE ${value} END`;
}

async function copy(connection: Connection, rows: string, file: string, options: string): Promise<number> {
  const [result] = await connection.rows<{ Count: bigint }>(
    `COPY (${rows}) TO ${literal(file)} (FORMAT csv, FORCE_QUOTE *, ${options})`,
  );
  return Number(result?.Count ?? 0);
}

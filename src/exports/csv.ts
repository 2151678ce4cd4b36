import { writeFile } from "node:fs/promises";
import { identifier, literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { formula } from "#plan/render/csv.ts";
import { exportedTables } from "./relations.ts";
import type { ExportedTable } from "./relations.ts";

/**
 * Writes the rows of a table to a file for a load: without a header, every value enclosed, so that whatever it holds
 * comes back as it was.
 * @param nothing the text that stands for an unset value, which is not enclosed: one that no value has
 * @returns how many rows there are
 */
export function writeForLoad(
  connection: Connection,
  table: ExportedTable,
  file: string,
  nothing: string,
): Promise<number> {
  return copy(connection, `FROM ${table}`, file, `HEADER false, NULLSTR ${literal(nothing)}`);
}

/** How a file for people is written. */
export interface FileStyle {
  /**
   * True: values exactly as they are. Otherwise those that a spreadsheet would run as a formula begin with an
   * apostrophe, and the file begins with the mark by which a spreadsheet knows UTF-8.
   */
  readonly raw: boolean;
}

/** Writes the rows of a table to a file for people, in order, with a header. @returns how many rows there are */
export async function writeForPeople(
  connection: Connection,
  table: ExportedTable,
  file: string,
  { raw }: FileStyle,
): Promise<number> {
  const names = exportedTables[table];
  const columns = names.map((name) => (raw || name === "depth" ? name : `${defused(name)} AS ${name}`));
  const head = `${raw ? "" : "\uFEFF"}"${names.join('","')}"\n`;
  const rows = await copy(
    connection,
    `SELECT ${columns.join(", ")} FROM (FROM ${table} ORDER BY ALL)`,
    file,
    `HEADER false, PREFIX ${literal(head)}, SUFFIX '\n'`,
  );
  // DuckDB ends an empty file with a line too many.
  if (rows === 0) await writeFile(file, head);
  return rows;
}

function defused(column: string): string {
  const value = identifier(column);
  return `CASE WHEN regexp_matches(${value}, ${literal(formula.source)}) THEN concat('''', ${value}) ELSE ${value} END`;
}

async function copy(connection: Connection, rows: string, file: string, options: string): Promise<number> {
  const [result] = await connection.rows<{ Count: bigint }>(
    `COPY (${rows}) TO ${literal(file)} (FORMAT csv, FORCE_QUOTE *, ${options})`,
  );
  return Number(result?.Count ?? 0);
}

import { literal } from "#duckdb/database.ts";
import type { LoadFormat } from "./format.ts";
import { createRowScan, joined } from "./row-scan.ts";
import type { RegularRows } from "./row-scan.ts";
import type { Scanned } from "./scan.ts";
import { blocks } from "./sections.ts";
import type { Section } from "./sections.ts";

/**
 * Whether DuckDB's CSV reader and the splitter are of one mind on every chunk in a format like this that `isRegular`.
 * What the reader does otherwise: it has one byte each for separator and enclosing character, no escape apart from
 * doubling, and it matches a null after unescaping.
 */
export function isPlain(format: LoadFormat, width: number): boolean {
  const { fieldSeparator, enclosingCharacter, nullValue } = format;
  const mark = format.type === "csv" ? enclosingCharacter : "";
  return (
    (format.type === "csv" || format.escapeCharacter === "") &&
    width > 1 &&
    !format.flexible &&
    !format.trailingFieldSeparator &&
    /^[!-~\t]$/.test(fieldSeparator) &&
    /^[!-~]?$/.test(mark) &&
    /^[ -~]+$/.test(nullValue) &&
    !nullValue.includes(fieldSeparator) &&
    (mark === "" || !nullValue.includes(mark))
  );
}

/**
 * What the rows of a section are, undefined when one of them is not regular.
 * @param scanned what was seen of the section's chunk when it arrived
 * @throws the signal's reason
 */
export async function regularRows(
  section: Section,
  format: LoadFormat,
  width: number,
  scanned: Scanned | undefined,
  signal: AbortSignal,
): Promise<RegularRows | undefined> {
  if (section.from === scanned?.firstLineEnd) return scanned.rest;
  if (section.from === scanned?.from) return joined(scanned.firstLine, scanned.rest);
  const rows = createRowScan(format, width);
  for await (const block of blocks(section.path, section.from, signal)) {
    rows.take(block);
    if (!rows.isRegular) break;
  }
  return rows.end();
}

/** An SQL table expression with the columns `flaw` and `f0`, `f1`… VARCHAR: the rows of a regular section. */
export function readingRegular(section: Section, format: LoadFormat, width: number): string {
  const types = Array.from({ length: width }, () => "VARCHAR");
  return `(SELECT NULL::VARCHAR AS flaw, * FROM ${readingTyped([section], section.lines, format, types)})`;
}

/**
 * The rows of regular sections with as many lines before them, as columns `f0`, `f1`… of the given types. DuckDB's own
 * conversion is not as strict as A.15.
 */
export function readingTyped(
  sections: readonly Section[],
  lines: number,
  format: LoadFormat,
  types: readonly string[],
  options = "",
): string {
  const mark = format.type === "csv" ? format.enclosingCharacter : "";
  const columns = types.map((type, i) => `'f${String(i)}': '${type}'`).join(", ");
  const files = sections.map(({ path }) => literal(path)).join(", ");
  return `read_csv([${files}], auto_detect = false, header = false,
    skip = ${String(lines)}, delim = ${literal(format.fieldSeparator)}, quote = ${literal(mark)}, escape = ${literal(mark)},
    nullstr = ${literal(format.nullValue)}, new_line = '\\n', strict_mode = true, columns = {${columns}}${options})`;
}

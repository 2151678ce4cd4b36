import { identifier, literal } from "#duckdb/database.ts";
import { rowNumberOf } from "#service/engine/engine.ts";
import type { Column, Stage } from "#service/engine/engine.ts";
import { conversionOf, moment } from "#service/loads/convert.ts";
import type { LoadFormat } from "#service/loads/load-format.ts";
import type { LoadInput, Parsed } from "#service/loads/parse.ts";
import { blocks, findSections } from "#service/loads/sections.ts";
import type { Section } from "#service/loads/sections.ts";
import { plainFormat } from "#service/loads/strptime.ts";
import { days, digits, empties, marks, minus, moments, point, RegularRows, shapeless, spaces } from "./regular-rows.ts";

/**
 * The fast path: makes `accepted` a view over DuckDB's own CSV reader, so that rows are read, converted and written in
 * one pass. It is taken only for input that the reader is known to treat as `parse` does: every byte of it was looked at
 * before. The view fails on a row that would be rejected; then `parse` says what is wrong. Rows are not numbered, which a
 * table with a primary key needs.
 * @param write writes the rows of `accepted`, all or nothing, and only if there are as many
 * @returns what became of the rows; undefined when nothing was written and the input has to be parsed
 * @throws {InputError} for an unsupported format of dates and times; the signal's reason
 */
export async function readDirectly(
  { connection }: Stage,
  { chunks, format, columns }: LoadInput,
  signal: AbortSignal,
  write: (parsed: Parsed) => Promise<void>,
): Promise<Parsed | undefined> {
  const width = columns.length;
  if (!isPlain(format, width)) return undefined;
  const sections = await findSections(chunks, format, width, signal);
  if (!sections.every((section) => section.isPlain)) return undefined;
  const rows = await regularRows(sections, format, width, signal);
  if (rows === undefined || rows.count === 0) return undefined;
  await connection.run(`CREATE OR REPLACE TEMP VIEW accepted AS ${selectsOf(columns, rows.kinds, sections, format)}`);
  const parsed = { accepted: rows.count, rejected: 0, errors: [] };
  await write(parsed);
  return parsed;
}

/**
 * Whether DuckDB's CSV reader and the splitter agree on regular rows in this format. The reader differs in this: its
 * separator and enclosing character are one byte each, it has no escape apart from doubling, and it matches a null after
 * unescaping.
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
 * The rows of sections; undefined when one of them is not regular.
 * @throws the signal's reason
 */
export async function regularRows(
  sections: readonly Section[],
  format: LoadFormat,
  width: number,
  signal: AbortSignal,
): Promise<RegularRows | undefined> {
  const rows = new RegularRows(format, width);
  for (const { path, from } of sections) {
    for await (const block of blocks(path, from, signal)) {
      rows.scan(block);
      if (!rows.isRegular) return undefined;
    }
    rows.end();
  }
  return rows.isRegular ? rows : undefined;
}

function selectsOf(
  columns: readonly Column[],
  kinds: Uint16Array,
  sections: readonly Section[],
  format: LoadFormat,
): string {
  const readings = columns.map((column, i) => readingOf(column, `f${String(i)}`, kinds[i] ?? 0, format));
  return groups(sections)
    .map((group) => selectOf(columns, readings, group, format))
    .join(" UNION ALL ");
}

/** How DuckDB's CSV reader reads a column, and how its value is made of that. */
interface Reading {
  readonly type: string;
  /** The field as text, where the reader does not convert it; null where it stands for null. */
  readonly text?: string;
  /** The value of `text`, or of the field. */
  readonly value: (field: string) => string;
}

/** The reader converts a column only if, for the bytes it holds, it is as strict as A.15 and A.19. */
function readingOf(column: Column, field: string, kinds: number, format: LoadFormat): Reading {
  const { type, text, value } = conversionOf(column, field, format);
  const isMadeOf = (allowed: number): boolean => (kinds & ~allowed) === 0;
  const whole = digits | minus;
  const number = whole | days | moments | shapeless;
  switch (column.type) {
    case "VARCHAR":
      return { type, value: itself };
    case "BIGINT":
    case "INTEGER":
    case "SMALLINT":
      if (isMadeOf(number)) return { type, value: itself };
      if (isMadeOf(number | empties)) return { type: "VARCHAR", text, value: (name) => `CAST(${name} AS ${type})` };
      break;
    case "DOUBLE":
    case "FLOAT":
      if (isMadeOf(number | point)) return { type, value: finite };
      if (isMadeOf(number | point | empties)) {
        return { type: "VARCHAR", text, value: (name) => finite(`CAST(${name} AS ${type})`) };
      }
      break;
    case "DATE":
    case "TIMESTAMP": {
      if (format.convertedToEpoch) {
        if (!isMadeOf(number)) break;
        return { type: "BIGINT", value: (name) => orRefused(`CAST(${moment(name, "0")} AS ${type})`, name) };
      }
      const [own, iso, shape] =
        column.type === "DATE"
          ? [format.dateFormat, "%Y-%m-%d", days]
          : [format.dateTimeFormat, "%Y-%m-%d %H:%M:%S", moments];
      if (plainFormat(own) !== iso || !isMadeOf(whole | marks | spaces | empties | shape)) break;
      if (isMadeOf(whole | marks | spaces | shape)) return { type, value: itself };
      return { type: "VARCHAR", text, value: (name) => `CAST(${name} AS ${type})` };
    }
    case "DECIMAL":
    case "BOOLEAN":
    case "TIME":
    case "UUID":
  }
  return { type: "VARCHAR", text, value: (name) => orRefused(value(name), name) };
}

function itself(field: string): string {
  return field;
}

const refused = "error('a row is to be rejected')";

/** Fails where a field that is not null does not convert. */
function orRefused(value: string, field: string): string {
  return `CASE WHEN ${field} IS NOT NULL AND ${value} IS NULL THEN ${refused} ELSE ${value} END`;
}

function finite(value: string): string {
  return `CASE WHEN isinf(${value}) THEN ${refused} ELSE ${value} END`;
}

/** Neighbouring sections with equally many lines before their rows are read together. */
function groups(sections: readonly Section[]): Section[][] {
  const found: Section[][] = [];
  for (const section of sections) {
    const last = found.at(-1);
    if (last?.[0]?.lines === section.lines) last.push(section);
    else found.push([section]);
  }
  return found;
}

function selectOf(
  columns: readonly Column[],
  readings: readonly Reading[],
  sections: readonly Section[],
  format: LoadFormat,
): string {
  const types = readings.map(({ type }) => type);
  const from = readingTyped(sections, sections[0]?.lines ?? 0, format, types);
  const fields = readings.map(({ text }, i) => (text === undefined ? `f${String(i)}` : `${text} AS f${String(i)}`));
  const values = readings.map(({ value }, i) => `${value(`f${String(i)}`)} AS ${identifier(columns[i]?.name ?? "")}`);
  const number = identifier(rowNumberOf(columns));
  return `SELECT ${values.join(", ")}, NULL::BIGINT AS ${number} FROM (SELECT ${fields.join(", ")} FROM ${from})`;
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
): string {
  const mark = format.type === "csv" ? format.enclosingCharacter : "";
  const columns = types.map((type, i) => `'f${String(i)}': '${type}'`).join(", ");
  const files = sections.map(({ path }) => literal(path)).join(", ");
  return `read_csv([${files}], auto_detect = false, header = false,
    skip = ${String(lines)}, delim = ${literal(format.fieldSeparator)}, quote = ${literal(mark)}, escape = ${literal(mark)},
    nullstr = ${literal(format.nullValue)}, new_line = '\\n', strict_mode = true, columns = {${columns}})`;
}

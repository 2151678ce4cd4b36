import { setImmediate } from "node:timers/promises";
import type { DuckDBResult, DuckDBType, DuckDBValue } from "@duckdb/node-api";
import {
  DuckDBArrayType,
  DuckDBArrayValue,
  DuckDBDateValue,
  DuckDBListType,
  DuckDBListValue,
  DuckDBMapType,
  DuckDBMapValue,
  DuckDBStructType,
  DuckDBStructValue,
  DuckDBTimestampMillisecondsValue,
  DuckDBTimestampNanosecondsValue,
  DuckDBTimestampSecondsValue,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  DuckDBTimeTZValue,
  DuckDBTimeValue,
  DuckDBTypeId,
  DuckDBUnionType,
  DuckDBUnionValue,
} from "@duckdb/node-api";
import { columnReaders, entryNamesOf, nextChunk } from "#duckdb/chunk.ts";
import type { Connection } from "#duckdb/database.ts";
import { InputError, messageOf, UnavailableError } from "#errors.ts";
import type { RowSink } from "./engine.ts";
import { splitStatements, unordered } from "./statements.ts";

/** The one statement of a query in a form that fits into parentheses: without its semicolon and what follows. */
export function soleStatement(sql: string): string {
  const statements = splitStatements(sql);
  const [statement] = statements;
  if (statement === undefined || statements.length > 1) {
    throw new InputError(`a query is one SELECT statement, not ${statements.length}`);
  }
  return statement.sql;
}

/**
 * Reads a page of a checked statement. The engine cuts the page; a second query counts the rows only if the page does not
 * show how many there are.
 * @returns how many rows the statement has
 */
export async function readPage(
  connection: Connection,
  statement: string,
  { offset, limit }: { readonly offset: number; readonly limit: number },
  sink: RowSink,
): Promise<number> {
  // Column names are taken from the statement itself: around a subquery, DuckDB would number equal names.
  const prepared = await connection.raw.prepare(statement);
  const columnNames = Array.from({ length: prepared.columnCount }, (_, index) => prepared.columnName(index));
  prepared.destroySync();
  await sink.begin(columnNames);
  const result = await connection.raw.stream(`SELECT * FROM (\n${statement}\n) LIMIT ${limit + 1} OFFSET ${offset}`);
  const found = await convert(result, limit, sink);
  const told = found <= limit && (found > 0 || offset === 0);
  if (told) return offset + found;
  const counted = await unordered(connection, statement);
  const [count] = await connection.rows<{ total: bigint }>(`SELECT count(*) AS total FROM (\n${counted}\n)`);
  return Number(count?.total ?? 0);
}

/**
 * Reads every value of a query before it gives any. What a query was cut off by, which nobody says, is thrown here, if it fails
 * again.
 */
export function readAll(connection: Connection, statement: string): Promise<void> {
  return connection.run(`SELECT max(hash(each_row)) FROM (\n${statement}\n) AS each_row`);
}

/** How many rows are in JavaScript's memory at a time: a value may have megabytes. */
const rowsAtOnce = 64;

/**
 * Gives the first rows of a result to `sink`, and counts all of them. Yields to the event loop after each batch.
 * @returns how many rows it has
 */
export async function convert(result: DuckDBResult, limit: number, sink: RowSink): Promise<number> {
  const types = result.columnTypes();
  const converters = types.map(converterOf);
  let total = 0;
  for (;;) {
    const chunk = await nextChunk(result);
    if (chunk === undefined) return total;
    const wanted = Math.min(chunk.rowCount, Math.max(0, limit - total));
    total += chunk.rowCount;
    if (wanted === 0) continue;
    const columns = columnReaders(chunk, types);
    for (let from = 0; from < wanted; from += rowsAtOnce) {
      const length = Math.min(rowsAtOnce, wanted - from);
      await sink.rows(
        Array.from({ length }, (_, row) => columns.map((read, index) => converters[index]?.(read(from + row)))),
      );
    }
    await setImmediate();
  }
}

/** The function that converts values of a type to JSON values (B.15). */
function converterOf(type: DuckDBType): (value: DuckDBValue) => unknown {
  if (type.typeId === DuckDBTypeId.FLOAT) return (value) => (typeof value === "number" ? shortest(value) : null);
  if (type instanceof DuckDBListType || type instanceof DuckDBArrayType)
    return listConverter(converterOf(type.valueType));
  if (type instanceof DuckDBStructType) return structConverter(type);
  if (type instanceof DuckDBMapType) return mapConverter(converterOf(type.keyType), converterOf(type.valueType));
  if (type instanceof DuckDBUnionType) {
    const converters = new Map(type.memberTags.map((tag) => [tag, converterOf(type.memberTypeForTag(tag))]));
    return (value) => (value instanceof DuckDBUnionValue ? converters.get(value.tag)?.(value.value) : null);
  }
  return jsonValue;
}

function listConverter(convert: (value: DuckDBValue) => unknown) {
  return (value: DuckDBValue): unknown =>
    value instanceof DuckDBListValue || value instanceof DuckDBArrayValue ? value.items.map(convert) : null;
}

/** A struct without names, `ROW(1, 2)`, is an array in JSON. Its entries are asked for by name: JavaScript sorts names like "10". */
function structConverter(type: DuckDBStructType) {
  const converters = type.entryTypes.map(converterOf);
  const names = entryNamesOf(type);
  const isNamed = type.entryNames.some((name) => name !== "");
  return (value: DuckDBValue): unknown => {
    if (!(value instanceof DuckDBStructValue)) return null;
    const values = names.map((name, index) => converters[index]?.(value.entries[name] ?? null));
    return isNamed ? Object.fromEntries(names.map((name, index) => [name, values[index]])) : values;
  };
}

function mapConverter(key: (value: DuckDBValue) => unknown, convert: (value: DuckDBValue) => unknown) {
  return (value: DuckDBValue): unknown =>
    value instanceof DuckDBMapValue
      ? Object.fromEntries(value.entries.map((entry) => [nameOf(key(entry.key)), convert(entry.value)]))
      : null;
}

/** Names in a JSON object are texts: a key that is none has its JSON as a name. */
function nameOf(key: unknown): string {
  return typeof key === "string" ? key : JSON.stringify(key);
}

/** A value that is made of no others in JSON: a string if JSON cannot represent it exactly, null if not at all. */
function jsonValue(value: DuckDBValue): unknown {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (typeof value === "bigint") return value >= -exact && value <= exact ? Number(value) : value.toString();
  if (value instanceof DuckDBDateValue) return value.isFinite ? isoDate(value.toString()) : null;
  if (value instanceof DuckDBTimeValue) return sixDigits(value.toString());
  if (value instanceof DuckDBTimeTZValue) return sixDigits(new DuckDBTimeValue(value.micros).toString());
  if (isTimestamp(value)) return value.isFinite ? isoDate(value.toString()) : null;
  // Its own text form would use the process's time zone.
  if (value instanceof DuckDBTimestampTZValue) return jsonValue(new DuckDBTimestampValue(value.micros));
  // Decimals with their scale, UUIDs, intervals, bits and bytes.
  return String(value);
}

const exact = 2n ** 53n;

type Timestamp =
  | DuckDBTimestampValue
  | DuckDBTimestampSecondsValue
  | DuckDBTimestampMillisecondsValue
  | DuckDBTimestampNanosecondsValue;

function isTimestamp(value: DuckDBValue): value is Timestamp {
  return (
    value instanceof DuckDBTimestampValue ||
    value instanceof DuckDBTimestampSecondsValue ||
    value instanceof DuckDBTimestampMillisecondsValue ||
    value instanceof DuckDBTimestampNanosecondsValue
  );
}

/**
 * An engine's date or moment as ISO 8601 has it (B.15). Years before 0001 and after 9999 have a sign and six digits, as in
 * JavaScript; 0000 is the year before 0001, which the engines call 1 BC.
 */
export function isoDate(text: string): string {
  const isBefore = text.includes("BC");
  const moment = sixDigits(text.replace(/ \(?BC\)?/, "").replace(" ", "T"));
  if (text[4] === "-" && !isBefore) return moment;
  const [digits = ""] = /^\d+/.exec(moment) ?? [];
  const year = isBefore ? 1 - Number(digits) : Number(digits);
  const shown = year === 0 ? "0000" : (year < 0 ? "-" : "+") + String(Math.abs(year)).padStart(6, "0");
  return shown + moment.slice(digits.length);
}

/** A fraction always has six digits (B.15), so that the texts sort like the times. */
export function sixDigits(text: string): string {
  return text.replace(/\.\d+/, (fraction) => fraction.padEnd(7, "0"));
}

/** The shortest number with the same 32-bit float: 0.1, not 0.10000000149011612. */
function shortest(value: number): number | null {
  if (!Number.isFinite(value)) return null;
  for (let digits = 6; digits < 9; digits += 1) {
    const number = Number(value.toPrecision(digits));
    if (Math.fround(number) === value) return number;
  }
  return Number(value.toPrecision(9));
}

const wrong =
  /^(?:Constraint|Conversion|Binder|Catalog|Parser|Not implemented|Out of Range|Invalid Input|Permission|Syntax) Error/;
const busy = /^(?:TransactionContext|Transaction|Out of Memory) Error/;

/** Translates DuckDB's error for the caller: the SQL or the rows are wrong, or the engine was too busy. */
export function meaningOf(error: unknown): unknown {
  // The prefix that the binding puts before syntax errors.
  const message = messageOf(error).replace(/^Failed to extract statements: /, "");
  if (wrong.test(message) || /^Invalid|^Could not convert/.test(message)) {
    return new InputError(message, { cause: error });
  }
  return busy.test(message) ? new UnavailableError(message, { cause: error }) : error;
}

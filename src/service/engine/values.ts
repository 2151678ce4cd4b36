import {
  DuckDBArrayValue,
  DuckDBDateValue,
  DuckDBListValue,
  DuckDBMapValue,
  DuckDBStructValue,
  DuckDBTimeTZValue,
  DuckDBTimeValue,
  DuckDBTimestampMillisecondsValue,
  DuckDBTimestampNanosecondsValue,
  DuckDBTimestampSecondsValue,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  DuckDBTypeId,
  DuckDBUnionValue,
} from "@duckdb/node-api";
import type { DuckDBType, DuckDBValue } from "@duckdb/node-api";

/** The function that makes of a column's values what JSON holds (B.15). */
export function converterOf(type: DuckDBType): (value: DuckDBValue) => unknown {
  return type.typeId === DuckDBTypeId.FLOAT
    ? (value) => (typeof value === "number" ? shortest(value) : jsonValue(value))
    : jsonValue;
}

/** The value as JSON holds it: what it cannot hold exactly as a string, what it cannot hold at all as null. */
function jsonValue(value: DuckDBValue): unknown {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (typeof value === "bigint") return value >= -exact && value <= exact ? Number(value) : value.toString();
  if (value instanceof DuckDBDateValue) return value.isFinite ? value.toString() : null;
  if (value instanceof DuckDBTimeValue) return sixDigits(value.toString());
  if (value instanceof DuckDBTimeTZValue) return sixDigits(new DuckDBTimeValue(value.micros).toString());
  if (isTimestamp(value)) return value.isFinite ? sixDigits(value.toString().replace(" ", "T")) : null;
  // Its own text would be in the process's time zone.
  if (value instanceof DuckDBTimestampTZValue) return jsonValue(new DuckDBTimestampValue(value.micros));
  if (value instanceof DuckDBListValue || value instanceof DuckDBArrayValue) return value.items.map(jsonValue);
  if (value instanceof DuckDBStructValue) return jsonObject(Object.entries(value.entries));
  if (value instanceof DuckDBMapValue) {
    return jsonObject(value.entries.map((entry) => [String(entry.key), entry.value]));
  }
  if (value instanceof DuckDBUnionValue) return jsonValue(value.value);
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

function jsonObject(entries: readonly (readonly [string, DuckDBValue])[]): unknown {
  return Object.fromEntries(entries.map(([key, value]) => [key, jsonValue(value)]));
}

/** A fraction has six digits (B.15), so that texts compare as times do. */
function sixDigits(text: string): string {
  return text.replace(/\.\d+/, (fraction) => fraction.padEnd(7, "0"));
}

/** The shortest number that is this 32-bit float: 0.1, not 0.10000000149011612. */
function shortest(value: number): number | null {
  if (!Number.isFinite(value)) return null;
  for (let digits = 6; digits < 9; digits += 1) {
    const number = Number(value.toPrecision(digits));
    if (Math.fround(number) === value) return number;
  }
  return Number(value.toPrecision(9));
}

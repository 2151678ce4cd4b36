import { literal } from "#duckdb/database.ts";
import { exactType } from "#service/engine/engine.ts";
import type { Column } from "#service/engine/engine.ts";
import type { LoadFormat } from "./load-format.ts";
import { parseTime } from "./strptime.ts";

/** How the fields of one column become its values. All are SQL expressions. */
export interface Conversion {
  /** The column's type. */
  readonly type: string;
  /** The trimmed field (A.15), null where it stands for null (A.17). */
  readonly text: string;
  /** The value of `text`: NULL when it does not convert. */
  readonly value: (text: string) => string;
  /** What is wrong with a text that does not convert. Follows the text in messages. */
  readonly complaint: string;
}

/** The longest text that an error shows, in characters. */
const longestShown = 100;

/** @throws {InputError} for an unsupported format of dates and times */
export function conversionOf(column: Column, field: string, format: LoadFormat): Conversion {
  const type = exactType(column);
  const conversion = { type, ...checked(column, type, format) };
  if (column.type === "VARCHAR") return { ...conversion, text: field };
  if (column.type === "BOOLEAN" && bitsOrWords(format).some((word) => word !== word.trim()))
    return { ...conversion, text: `nullif(${field}, '')` };
  const trimmed = `CASE WHEN starts_with(${field}, ' ') OR ends_with(${field}, ' ') THEN trim(${field}, ' ') ELSE ${field} END`;
  return { ...conversion, text: `nullif(${trimmed}, '')` };
}

function checked(column: Column, type: string, format: LoadFormat): Pick<Conversion, "value" | "complaint"> {
  const not = `is not ${type === "INTEGER" ? "an" : "a"} ${type}`;
  switch (column.type) {
    case "VARCHAR":
      return { value: (text) => text, complaint: "" };
    case "BIGINT":
    case "INTEGER":
    case "SMALLINT":
      return guarded("[+-]?[0-9]+", type, not);
    case "DOUBLE":
    case "FLOAT":
      return {
        value: (text) => `CASE WHEN regexp_full_match(${text}, '${decimal}([eE][+-]?[0-9]+)?')
          THEN nullif(nullif(try_cast(${text} AS ${type}), 'Infinity'), '-Infinity')
          WHEN ${text} IN ('NaN', 'Infinity', '+Infinity', '-Infinity') THEN try_cast(ltrim(${text}, '+') AS ${type}) END`,
        complaint: not,
      };
    case "DECIMAL":
      return guarded(decimalOf(column.scale ?? 0), type, not);
    case "BOOLEAN":
      return booleans(format);
    case "UUID":
      return guarded("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", type, not);
    case "DATE":
      return format.convertedToEpoch ? epochDate() : times(type, format.dateFormat, format);
    case "TIME":
      return times(type, format.timeFormat, format);
    case "TIMESTAMP":
      break;
  }
  return format.convertedToEpoch ? epochTimestamp(format) : times(type, format.dateTimeFormat, format);
}

const decimal = "[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)";

/** Numbers with at most that many fraction digits, zeros at the end apart. */
function decimalOf(scale: number): string {
  if (scale === 0) return "[+-]?([0-9]+([.]0*)?|[.]0+)";
  return `[+-]?([0-9]+([.][0-9]{0,${scale}}0*)?|[.][0-9]{1,${scale}}0*)`;
}

/** DuckDB's cast accepts more than A.15: `1.5`, `0x1f` and `1_000` for integers. */
function guarded(pattern: string, type: string, complaint: string): Pick<Conversion, "value" | "complaint"> {
  return {
    value: (text) => `CASE WHEN regexp_full_match(${text}, '${pattern}') THEN try_cast(${text} AS ${type}) END`,
    complaint,
  };
}

function booleans(format: LoadFormat): Pick<Conversion, "value" | "complaint"> {
  const [yes, no] = bitsOrWords(format);
  return {
    value: (text) => `CASE ${text} WHEN ${literal(yes)} THEN true WHEN ${literal(no)} THEN false END`,
    complaint: `is neither "${yes}" nor "${no}"`,
  };
}

/** The texts for true and false (A.20). */
function bitsOrWords(format: LoadFormat): readonly [yes: string, no: string] {
  return format.useBitValues && format.type === "csv" ? ["0x1", "0x0"] : [format.trueFormat, format.falseFormat];
}

function times(type: string, format: string, options: LoadFormat): Pick<Conversion, "value" | "complaint"> {
  return {
    value: (text) => `CAST(${parseTime(text, { ...options, format })} AS ${type})`,
    complaint: `does not match ${format}`,
  };
}

/**
 * What a TIMESTAMP holds in both engines, in whole seconds, with any fraction: PostgreSQL's begin on 24 November of 4714 BC,
 * DuckDB's end in 294247.
 */
const [firstSecond, lastSecond] = [-210_866_803_199, 9_223_372_036_853];

function integer(text: string): string {
  return `try_cast(${text} AS BIGINT)`;
}

/** The sign and the first six digits of the fraction; the rest is cut off. */
function micros(text: string): string {
  return `CAST(concat(CASE WHEN ${text} LIKE '-%' THEN '-' ELSE '' END,
    rpad(left(regexp_extract(${text}, '[.]([0-9]+)$', 1), 6), 6, '0')) AS BIGINT)`;
}

/** A TIMESTAMP so many whole seconds and microseconds, both BIGINT, after 1970-01-01; NULL where it holds no such. */
export function moment(seconds: string, fraction: string): string {
  return `CASE WHEN ${seconds} BETWEEN ${firstSecond} AND ${lastSecond} THEN make_timestamp(${seconds} * 1000000 + ${fraction}) END`;
}

function epochTimestamp(format: LoadFormat): Pick<Conversion, "value" | "complaint"> {
  return {
    value: (text) => `CASE WHEN regexp_full_match(${text}, '[+-]?[0-9]+') THEN ${moment(integer(text), "0")}
      WHEN regexp_full_match(${text}, '[+-]?[0-9]+[.][0-9]+')
      THEN ${moment(integer(`split_part(${text}, '.', 1)`), format.skipSecondFraction ? "0" : micros(text))} END`,
    complaint: "is not a number of seconds since 1970-01-01",
  };
}

function epochDate(): Pick<Conversion, "value" | "complaint"> {
  return {
    value: (text) => `CASE WHEN regexp_full_match(${text}, '[+-]?[0-9]+')
      THEN CAST(${moment(integer(text), "0")} AS DATE) END`,
    complaint: "is not a whole number of seconds since 1970-01-01",
  };
}

/** An SQL expression for a text in quotes, cut where it is long. */
export function shown(text: string): string {
  return `concat('"', left(${text}, ${longestShown}), CASE WHEN length(${text}) > ${longestShown} THEN '…' ELSE '' END, '"')`;
}

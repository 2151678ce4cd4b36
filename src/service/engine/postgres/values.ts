import { types } from "pg";
import type { TextResult } from "#postgres/database.ts";
import { isoDate, sixDigits } from "#service/engine/query.ts";

/** What makes a value of JSON (B.15) of PostgreSQL's text. */
export type Convert = (text: string) => unknown;

/** Settings that the texts are made with. */
export const textSettings: Readonly<Record<string, string>> = {
  timezone: "UTC",
  datestyle: "ISO, YMD",
  intervalstyle: "postgres",
  extra_float_digits: "1",
  bytea_output: "hex",
};

const byType: ReadonlyMap<number, Convert> = new Map<number, Convert>([
  [16, (text) => text === "t"],
  [20, integer],
  [21, Number],
  [23, Number],
  [26, Number],
  [700, float],
  [701, float],
  [1082, moment],
  [1083, sixDigits],
  [1114, moment],
  // Without their zone, which is UTC for moments, as the embedded engine gives them.
  [1184, (text) => moment(text.replace(/[+-]\d\d(?::?\d\d)*(?= BC$|$)/, ""))],
  [1266, (text) => sixDigits(text.replace(/[+-]\d\d(?::?\d\d)*$/, ""))],
  [1700, (text) => (/^-?\d/.test(text) ? text : null)],
]);

/** The types of arrays, and of what is in them. */
const arrays: ReadonlyMap<number, number> = new Map([
  [1000, 16],
  [1005, 21],
  [1007, 23],
  [1009, 25],
  [1014, 1042],
  [1015, 1043],
  [1016, 20],
  [1021, 700],
  [1022, 701],
  [1028, 26],
  [1115, 1114],
  [1182, 1082],
  [1183, 1083],
  [1185, 1184],
  [1231, 1700],
  [1270, 1266],
  [2951, 2950],
]);

/** The values of a row in JSON. */
export function jsonValues(fields: TextResult["fields"], row: TextResult["rows"][number]): unknown[] {
  return row.map((text, index) => (text === null ? null : converterOf(fields[index]?.dataTypeID ?? 0)(text)));
}

/** Any other type is its text. @param type its OID */
function converterOf(type: number): Convert {
  const inner = arrays.get(type);
  if (inner === undefined) return byType.get(type) ?? itself;
  const convert = converterOf(inner);
  // Its type is that of an older version.
  const { create } = types.arrayParser as unknown as {
    readonly create: (text: string, convert: (entry: string | null) => unknown) => { parse(): unknown };
  };
  return (text) => create(text, (entry) => (entry === null ? null : convert(entry))).parse();
}

function itself(text: string): string {
  return text;
}

function integer(text: string): unknown {
  const number = Number(text);
  return Math.abs(number) < 2 ** 53 || (BigInt(text) === BigInt(number) && Math.abs(number) === 2 ** 53)
    ? number
    : text;
}

function float(text: string): number | null {
  const number = Number(text);
  return Number.isFinite(number) ? number : null;
}

function moment(text: string): string | null {
  return text.endsWith("infinity") ? null : isoDate(text);
}

import { pluralize, quote } from "#text.ts";
import { formatsOf, matches, nulls, usualBooleansOf, usualFormatsOf } from "./formats.ts";
import type { DateKind } from "./formats.ts";
import type { FormatOptions } from "./options.ts";

/** A column of a file, and its fields in the rows that are looked at. */
export interface ColumnValues {
  readonly name: string;
  /** As SQL has it; empty where the table has no such column. */
  readonly type: string;
  readonly values: readonly string[];
}

/** What a person calls an option: `--date-format`. */
export type OptionName = (option: keyof FormatOptions) => string;

/** Collects what is found, for a person. */
export interface Found {
  readonly notes: string[];
  readonly doubts: string[];
  readonly doubtful: (keyof FormatOptions)[];
  readonly called: OptionName;
}

/**
 * Guesses how nulls, dates and booleans are written, and finds numbers that are written as no load takes them.
 * @param all every value; `present`: without those that are null
 * @param nothing the text for null, if it was guessed
 */
export function guessValues(
  all: readonly ColumnValues[],
  present: readonly ColumnValues[],
  given: Partial<FormatOptions>,
  nothing: string | undefined,
  found: Found,
): Partial<FormatOptions> {
  if (nothing !== undefined) nullAsText(all, nothing, found);
  for (const column of present) otherNumbers(column, found);
  return { ...dateOptions(present, given, found), ...booleanOptions(present, given, found) };
}

const isText = ({ type }: ColumnValues): boolean => type === "VARCHAR";

/** A null that columns of other types than text have. There, an empty field is null without being called so (A.17). */
export function nullOf(columns: readonly ColumnValues[]): string | undefined {
  const values = new Set(
    columns.filter((column) => column.type !== "" && !isText(column)).flatMap((column) => column.values),
  );
  const found = nulls.find((text) => values.has(text));
  return found === "(null)" ? undefined : found;
}

/** The columns without what is null in them. */
export function withoutNulls(columns: readonly ColumnValues[], nothing = "(null)"): readonly ColumnValues[] {
  return columns.map((column) => ({
    ...column,
    values: column.values.filter((value) => value !== nothing && (value !== "" || isText(column))),
  }));
}

/** `NA` is no number, and the code of a country. */
function nullAsText(columns: readonly ColumnValues[], nothing: string, { doubts, doubtful, called }: Found): void {
  const texts = columns.filter((column) => isText(column) && column.values.includes(nothing));
  const [one] = texts;
  if (one === undefined) return;
  const names = texts.map(({ name }) => name).join(", ");
  const number = columns.find((column) => !isText(column) && column.values.includes(nothing))?.name ?? "";
  doubtful.push("null_value");
  const times = one.values.filter((value) => value === nothing).length;
  doubts.push(
    `${quote(nothing)} stands for null in ${number}, but ${names} ${texts.length === 1 ? "is" : "are"} text and may mean it ` +
      `(${pluralize(times, "row")} of ${one.name}): give ${called("null_value")} if it is null there, too, or write nulls differently`,
  );
}

const isNumber = /^(?:\w*INT|DOUBLE|FLOAT|REAL|DECIMAL.*|NUMERIC.*)$/;
/** `12,5`, `1.234,50`, `1,234.50`, `1'234`, `12 345`: beside these, 1.234 may be more than a thousand. */
const otherwiseWritten =
  /^[-+]?(?:\d+,\d+|\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:[.,'’\u0020\u00A0\u2009\u202F]\d{3})+(?:[.,]\d+)?)$/;

function otherNumbers({ name, type, values }: ColumnValues, { doubts }: Found): void {
  if (!isNumber.test(type)) return;
  const found = values.find((value) => otherwiseWritten.test(value) && !/^[-+]?\d+\.\d+$/.test(value));
  if (found === undefined) return;
  doubts.push(
    `${name}: ${quote(found)} is no number in a load; write all numbers of the file with a decimal point and nothing between thousands, as in 1234.50`,
  );
}

const optionOf = { DATE: "date_format", TIMESTAMP: "date_time_format", TIME: "time_format" } as const;
const defaults = { DATE: "%Y%m%d", TIMESTAMP: "%Y%m%d %H:%M:%S", TIME: "%H:%M:%S" } as const;

function dateOptions(
  columns: readonly ColumnValues[],
  given: Partial<FormatOptions>,
  found: Found,
): Partial<FormatOptions> {
  const options: { -readonly [Key in keyof FormatOptions]?: FormatOptions[Key] } = {};
  const isGiven = given.date_format ?? given.date_time_format ?? given.converted_to_epoch;
  const counted: ColumnValues[] = [];
  for (const kind of ["DATE", "TIMESTAMP", "TIME"] as const) {
    const option = optionOf[kind];
    if (given[option] !== undefined || (kind !== "TIME" && isGiven !== undefined)) continue;
    const ofKind = columns.filter(({ type, values }) => kindOf(type) === kind && values.length > 0);
    const values = ofKind.flatMap((column) => column.values);
    const [format, ...others] = usualFormatsOf(kind, values);
    if (format === undefined) {
      for (const column of ofKind) {
        if (kind !== "TIME" && mostlyNumbers(column.values).length > 0) counted.push(column);
        else found.doubts.push(unknownFormat(column, kind, found.called));
      }
      continue;
    }
    const odd = values.find((value) => !matches(value, format));
    if (odd !== undefined) found.notes.push(`most values are ${format}, but not ${quote(odd)}`);
    const other = others.find((each) => each.length === format.length && each !== format);
    if (other !== undefined) {
      found.doubtful.push(option);
      found.doubts.push(`dates may be ${format} or ${other}; give ${found.called(option)} with one of them`);
    }
    if (kind === "TIME" && format === defaults.TIME) continue;
    // A format that is the default says that dates are no seconds since 1970.
    options[option] = format;
  }
  const formatted = options.date_format ?? options.date_time_format;
  for (const column of counted) {
    const doubt =
      formatted === undefined
        ? notSeconds(column, found.called)
        : `${column.name} has numbers (${quote(column.values[0] ?? "")}) where others are ${formatted}; write both in one way`;
    if (doubt !== undefined) found.doubts.push(doubt);
  }
  return options;
}

function kindOf(type: string): DateKind | undefined {
  if (type.startsWith("TIMESTAMP") || type === "DATETIME") return "TIMESTAMP";
  return type === "DATE" || type === "TIME" ? type : undefined;
}

function unknownFormat({ name, values }: ColumnValues, kind: DateKind, called: OptionName): string {
  const unknown = values.find((value) => formatsOf(kind, [value]).length === 0) ?? values[0] ?? "";
  return `no format is known for ${quote(unknown)} in ${name}; give ${called(optionOf[kind])} as for strptime, like ${defaults[kind]}`;
}

/** The numbers among the values, where more than half are numbers. */
function mostlyNumbers(values: readonly string[]): readonly number[] {
  const numbers = values.filter((value) => /^[-+]?\d+(?:\.\d+)?$/.test(value)).map(Number);
  return numbers.length * 2 > values.length ? numbers : [];
}

/** The number of 9999-12-31 where spreadsheets count days, from 1899-12-30. */
const lastDay = 2_958_465;
/** The first second behind the year 9999, and before the year 1. */
const secondsOf = { end: 253_402_300_800, start: -62_135_596_800 } as const;
const day = 86_400;

/** What numbers are that would be seconds since 1970, and hardly are. */
function notSeconds({ name, type, values }: ColumnValues, called: OptionName): string | undefined {
  const numbers = mostlyNumbers(values);
  const end = `if they are seconds, give ${called("converted_to_epoch")}; else write them as text`;
  const [first = 0] = numbers;
  if (numbers.every((number) => Math.abs(number) <= lastDay)) {
    const asDay = first > 60 ? `, ${dateOf((first - 25_569) * day)} as a day of a spreadsheet` : "";
    return `${name}: ${String(first)} is ${dateOf(first)} as seconds since 1970${asDay}; ${end}`;
  }
  const written = values.find((value) => matches(value, defaults.DATE));
  if (written !== undefined)
    return (
      `${name}: ${written} is ${dateOf(Number(written))} as seconds since 1970, and a day as ${defaults.DATE}; if they are seconds, give ` +
      `${called("converted_to_epoch")}; else give ${called(optionOf[kindOf(type) ?? "DATE"])}, and write other values as null`
    );
  const beyond = numbers.find((number) => number >= secondsOf.end || number < secondsOf.start);
  if (beyond === undefined) return undefined;
  const [unit, factor] =
    units.find(([, factor]) => Math.abs(beyond / factor) < secondsOf.end / 3) ?? (["", 0] as const);
  const asUnit = factor === 0 ? "" : `, and ${dateOf(beyond / factor)} as ${unit}`;
  return `${name}: ${String(beyond)} is no date before the year 10000 as seconds since 1970${asUnit}; ${end}`;
}

const units = [
  ["milliseconds", 1e3],
  ["microseconds", 1e6],
  ["nanoseconds", 1e9],
] as const;

function dateOf(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(0, 10);
}

function booleanOptions(
  columns: readonly ColumnValues[],
  given: Partial<FormatOptions>,
  { notes, doubts, called }: Found,
): Partial<FormatOptions> {
  if (given.true_format !== undefined || given.false_format !== undefined || given.use_bit_values === true) return {};
  const values = columns.flatMap((column) => (column.type === "BOOLEAN" ? column.values : []));
  if (values.length === 0) return {};
  const pair = usualBooleansOf(values);
  const odd = [...new Set(values)]
    .filter((value) => !(pair as readonly string[] | undefined)?.includes(value))
    .slice(0, 4);
  const wrong = odd.map((value) => quote(value));
  if (pair === undefined) {
    doubts.push(`which of ${wrong.join(", ")} is true? Give ${called("true_format")} and ${called("false_format")}`);
    return {};
  }
  const [yes, no] = pair;
  if (wrong.length > 0) notes.push(`most values are ${quote(yes)} or ${quote(no)}, but not ${wrong.join(", ")}`);
  if (yes === "T") return {};
  return yes === "0x1" ? { use_bit_values: true } : { true_format: yes, false_format: no };
}

import { writeFile } from "node:fs/promises";
import { isUtf8 } from "node:buffer";
import { parse } from "csv-parse/sync";
import { firstLineOf, InputError } from "#errors.ts";
import { literal } from "#duckdb/database.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { formatName, pluralize, quote } from "#text.ts";
import { booleansOf, formatsOf, nulls, usualBooleansOf, usualFormatsOf } from "./formats.ts";
import type { DateKind } from "./formats.ts";
import type { LoadOptions } from "./options.ts";
import type { TableColumn } from "./tables.ts";

/** What the beginning of a file says about its format. */
export interface Guess {
  /** The options that say the same, without those that were given, and without defaults. */
  readonly options: Partial<LoadOptions>;
  /** For a person: each column with its type and the first values. */
  readonly columns: readonly (readonly [name: string, type: string, values: string])[];
  /** What else was found: lines for a person. */
  readonly notes: readonly string[];
  /** What only a person can decide: each says how. */
  readonly doubts: readonly string[];
  /** The names in the header; none where there is no header. */
  readonly header: readonly string[];
}

/** What a person calls an option: `--date_format`. */
export type OptionName = (option: keyof LoadOptions) => string;

const asFlag: OptionName = (option) => `--${option}`;

/** How many rows are looked at. */
const looked = 1000;
const examples = 3;

/**
 * Guesses the format of a file from its beginning. Dates, booleans and nulls are guessed for the types of the table's
 * columns; where the table is unknown, for what DuckDB takes the columns for.
 * @param sample the first bytes, unpacked; `isWhole`: there are no others
 * @throws {InputError} when they are not UTF-8, or no rows
 */
export async function guessFormat(
  { connection, file }: Workbench,
  { name, sample, isWhole }: { readonly name: string; readonly sample: Buffer; readonly isWhole: boolean },
  table: readonly TableColumn[] | undefined,
  given: Partial<LoadOptions>,
  called: OptionName = asFlag,
): Promise<Guess> {
  const whole = isWhole ? sample : sample.subarray(0, sample.lastIndexOf("\n") + 1);
  if (whole.length === 0) throw new InputError(`${name} is empty`);
  if (!isUtf8(whole)) {
    const encoding = whole[0] === 0xff || whole[0] === 0xfe ? "utf-16" : "latin1";
    throw new InputError(`${name} is not UTF-8; convert it, for instance: iconv -f ${encoding} -t utf-8`);
  }
  const path = file("sample.csv");
  await writeFile(path, whole, { mode: 0o600 });
  const { field_separator: separator, enclosing_character: enclosing } = given;
  const asked = [
    ...(separator === undefined ? [] : [`delim = ${literal(separator)}`]),
    ...(enclosing === undefined ? [] : [`quote = ${literal(enclosing)}`]),
  ];
  const read = async <Row extends object>(sql: string): Promise<Row[]> => {
    try {
      return await connection.rows<Row>(sql);
    } catch (error) {
      throw new InputError(`the format of ${name} cannot be guessed: ${firstLineOf(error)}; give its options`, {
        cause: error,
      });
    }
  };
  const [found] = await read<{ d: string; q: string; h: boolean; t: string }>(
    `SELECT Delimiter AS d, Quote AS q, HasHeader AS h, list_transform(Columns, c -> c.type)::JSON::VARCHAR AS t
     FROM sniff_csv(${literal(path)}, ${[...asked, "ignore_errors = true", "strict_mode = false"].join(", ")})`,
  );
  if (found === undefined) throw new InputError(`${name} has no rows`);
  const delimiter = separator ?? found.d;
  const quoting = enclosing ?? (found.q === "(empty)" ? '"' : found.q);
  const rows = rowsOf(name, whole, delimiter, quoting);
  const types = table?.map(({ type }) => type) ?? (JSON.parse(found.t) as string[]);
  const header = given.has_header_row ?? hasHeader(rows, types, table, found.h);
  const data = header ? rows.slice(1) : rows;
  const valuesOf = (index: number): string[] => data.flatMap((row) => row[index] ?? []);
  const nothing = given.null_value ?? nullOf(types, valuesOf);
  const present = (index: number): string[] => valuesOf(index).filter((value) => value !== (nothing ?? "(null)"));
  const notes: string[] = [];
  const doubts: string[] = [];
  const dated = dateOptions(types, present, given, { notes, doubts }, called);
  const truth = booleanOptions(types, present, given, notes, called);
  const options: Partial<LoadOptions> = {
    field_separator: separator === undefined && delimiter !== "," ? delimiter : undefined,
    enclosing_character: enclosing === undefined && quoting !== '"' ? quoting : undefined,
    has_header_row: given.has_header_row === undefined && header ? true : undefined,
    null_value: given.null_value === undefined ? nothing : undefined,
    ...dated,
    ...truth,
  };
  const names = header ? (rows[0] ?? []) : [];
  notes.push(...differentWidths(names, rows, table, called));
  doubts.push(...movedColumns(names, table));
  const width = Math.max(types.length, rows[0]?.length ?? 0);
  return {
    options: Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)),
    columns: Array.from({ length: width }, (_, index) => [
      table?.[index]?.name ?? names[index] ?? `column ${index + 1}`,
      types[index] ?? "",
      present(index)
        .slice(0, examples)
        .map((value) => quote(value))
        .join(", "),
    ]),
    notes,
    doubts,
    header: names,
  };
}

/** The first rows. The sample may end within a quoted field: then those before it. */
function rowsOf(name: string, sample: Buffer, delimiter: string, quoting: string): readonly (readonly string[])[] {
  const rows: string[][] = [];
  try {
    parse(sample, {
      delimiter,
      quote: quoting === "" ? false : quoting,
      bom: true,
      relax_column_count: true,
      relax_quotes: true,
      skip_empty_lines: true,
      to: looked,
      on_record: (row: string[]) => {
        rows.push(row);
        return row;
      },
    });
  } catch (error) {
    if (rows.length === 0)
      throw new InputError(`${name}: ${firstLineOf(error)}; is a quote never closed?`, { cause: error });
  }
  return rows;
}

/** Where the table is known: names of its columns, or something that is not of its types above rows that are. */
function hasHeader(
  rows: readonly (readonly string[])[],
  types: readonly string[],
  table: readonly TableColumn[] | undefined,
  sniffed: boolean,
): boolean {
  const [first = [], second] = rows;
  if (table === undefined) return sniffed;
  const names = new Set(table.map(({ name }) => plain(name)));
  if (first.filter((name) => names.has(plain(name))).length * 2 >= first.length) return true;
  if (second === undefined) return false;
  return types.some((type, index) => {
    const rest = rows
      .slice(1)
      .map((row) => row[index] ?? "")
      .filter((value) => value !== "");
    return (
      fits(type, first[index] ?? "") === false && rest.length > 0 && rest.every((value) => fits(type, value) !== false)
    );
  });
}

/** Whether a value may be of a type; undefined where any text may be. */
function fits(type: string, value: string): boolean | undefined {
  if (/INT|DOUBLE|FLOAT|REAL|DECIMAL|NUMERIC|DATE|TIME/.test(type)) return /^[\s(]*[-+]?\d/.test(value) || value === "";
  if (type === "BOOLEAN") return value === "" || booleansOf([value]) !== undefined;
  return undefined;
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, "");
}

/** A null that columns of other types than text have; else empty fields of such columns. */
function nullOf(types: readonly string[], valuesOf: (index: number) => string[]): string | undefined {
  const values = new Set(types.flatMap((type, index) => (type === "VARCHAR" ? [] : valuesOf(index))));
  const found = nulls.find((text) => values.has(text)) ?? (values.has("") ? "" : undefined);
  return found === "(null)" ? undefined : found;
}

const optionOf = { DATE: "date_format", TIMESTAMP: "date_time_format", TIME: "time_format" } as const;
const defaults = { DATE: "%Y%m%d", TIMESTAMP: "%Y%m%d %H:%M:%S", TIME: "%H:%M:%S" } as const;

function dateOptions(
  types: readonly string[],
  present: (index: number) => string[],
  given: Partial<LoadOptions>,
  { notes, doubts }: { readonly notes: string[]; readonly doubts: string[] },
  called: OptionName,
): Partial<LoadOptions> {
  const found: { -readonly [Key in keyof LoadOptions]?: LoadOptions[Key] } = {};
  const isGiven = given.date_format ?? given.date_time_format ?? given.converted_to_epoch;
  for (const kind of ["DATE", "TIMESTAMP", "TIME"] as const) {
    const option = optionOf[kind];
    if (given[option] !== undefined || (kind !== "TIME" && isGiven !== undefined)) continue;
    const values = types.flatMap((type, index) => (kindOf(type) === kind ? present(index) : []));
    const [format, ...others] = usualFormatsOf(kind, values);
    const odd = values.find((value) => format !== undefined && !formatsOf(kind, [value]).includes(format));
    if (odd !== undefined) notes.push(`most values are ${format}, but not ${quote(odd)}`);
    if (format === undefined) {
      const isEpoch = kind !== "TIME" && values.every((value) => /^-?\d+$/.test(value));
      if (values.length > 0 && !isEpoch)
        notes.push(
          `no format is known for ${quote(values.find((value) => formatsOf(kind, [value]).length === 0) ?? values[0] ?? "")}; give ${called(option)}`,
        );
      continue;
    }
    const other = others.find((each) => each.length === format.length && each !== format);
    if (other !== undefined) doubts.push(`dates may be ${format} or ${other}; give ${called(option)} with one of them`);
    if (kind === "TIME" && format === defaults.TIME) continue;
    // A format that is the default says that dates are no seconds since 1970.
    found[option] = format;
  }
  return found;
}

function kindOf(type: string): DateKind | undefined {
  if (type.startsWith("TIMESTAMP") || type === "DATETIME") return "TIMESTAMP";
  return type === "DATE" || type === "TIME" ? type : undefined;
}

function booleanOptions(
  types: readonly string[],
  present: (index: number) => string[],
  given: Partial<LoadOptions>,
  notes: string[],
  called: OptionName,
): Partial<LoadOptions> {
  if (given.true_format !== undefined || given.false_format !== undefined || given.use_bit_values === true) return {};
  const values = types.flatMap((type, index) => (type === "BOOLEAN" ? present(index) : []));
  if (values.length === 0) return {};
  const pair = usualBooleansOf(values);
  const odd = [...new Set(values)]
    .filter((value) => !(pair as readonly string[] | undefined)?.includes(value))
    .slice(0, 4);
  const wrong = odd.map((value) => quote(value));
  if (pair === undefined) {
    notes.push(`which of ${wrong.join(", ")} is true? Give ${called("true_format")} and ${called("false_format")}`);
    return {};
  }
  const [yes, no] = pair;
  if (wrong.length > 0) notes.push(`most values are ${quote(yes)} or ${quote(no)}, but not ${wrong.join(", ")}`);
  if (yes === "T") return {};
  return yes === "0x1" ? { use_bit_values: true } : { true_format: yes, false_format: no };
}

function differentWidths(
  names: readonly string[],
  rows: readonly (readonly string[])[],
  table: readonly TableColumn[] | undefined,
  called: OptionName,
): string[] {
  if (table === undefined) return [];
  const width = rows[0]?.length ?? 0;
  if (names.length > 0 && names.length < table.length)
    return [`the file has ${pluralize(names.length, "column")}, the table ${table.length}`];
  if (width > table.length)
    return [
      `the file has ${pluralize(width, "column")}, the table ${table.length}; ${called("flexible")} drops the rest`,
    ];
  return [];
}

/** Columns are loaded by their position, whatever the header calls them. */
function movedColumns(names: readonly string[], table: readonly TableColumn[] | undefined): string[] {
  if (table === undefined) return [];
  const at = (name: string): number => table.findIndex((column) => plain(column.name) === plain(name));
  const moved = names.filter((name, index) => ![-1, index].includes(at(name)));
  if (moved.length === 0) return [];
  return [
    `columns are loaded by position, and in the file ${moved.map(formatName).join(", ")} ` +
      `${moved.length === 1 ? "is" : "are"} elsewhere than in the table (${table.map(({ name }) => name).join(", ")}); ` +
      "write the file in the order of the table",
  ];
}

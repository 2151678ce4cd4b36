import { writeFile } from "node:fs/promises";
import { isUtf8 } from "node:buffer";
import { endingInReturns, refuseSeparatorLine } from "#client/cuts.ts";
import { InputError } from "#errors.ts";
import { literal } from "#duckdb/database.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { formatOf } from "#service/loads/load-format.ts";
import { formatName, lettersOf, pluralize, quote } from "#text.ts";
import { loadParameters } from "#wire/loads.ts";
import { booleansOf } from "./formats.ts";
import type { FormatOptions } from "./options.ts";
import { readRows } from "./sample.ts";
import type { SampleRow } from "./sample.ts";
import { guessValues, nullOf, withoutNulls } from "./values.ts";
import type { ColumnValues, Found, OptionName } from "./values.ts";

/** What the beginning of a file says about its format. */
export interface Guess {
  /** The options that say the same, without those that were given, and without defaults. */
  readonly options: Partial<FormatOptions>;
  /** For a person: each column with its type and the first values. */
  readonly columns: readonly (readonly [name: string, type: string, values: string])[];
  /** What else was found: lines for a person. */
  readonly notes: readonly string[];
  /** What only a person can decide: each says how. */
  readonly doubts: readonly string[];
  /** The options that are in doubt, among those that were guessed. */
  readonly doubtful: readonly (keyof FormatOptions)[];
  /** The names in the header; none where there is no header. */
  readonly header: readonly string[];
}

const asFlag: OptionName = (option) =>
  option === "has_header_row" ? "--has-header-row or --no-has-header-row" : `--${option.replaceAll("_", "-")}`;

/** How many values of a column, or fields of a row, are shown. */
const examples = 3;

/**
 * Guesses the format of a file from its beginning. Dates, booleans and nulls are guessed for the types of the table's
 * columns; where the table is unknown, for what DuckDB takes the columns for.
 * @param sample the first bytes, unpacked; `isWhole`: there are no others
 * @throws {InputError} when they are not UTF-8, or no rows, or their first line is for spreadsheets
 */
export async function guessFormat(
  workbench: Workbench,
  { name, sample, isWhole }: { readonly name: string; readonly sample: Buffer; readonly isWhole: boolean },
  table: readonly TableColumn[] | undefined,
  given: Partial<FormatOptions>,
  called: OptionName = asFlag,
): Promise<Guess> {
  const end = sample.lastIndexOf("\n") + 1;
  const whole = isWhole || end === 0 ? sample : sample.subarray(0, end);
  if (whole.length === 0)
    throw new InputError(`${name} is empty: there is nothing to guess from. Without a guess, it loads no rows`);
  if (!isUtf8(whole)) {
    const encoding = whole[0] === 0xff || whole[0] === 0xfe ? "utf-16" : "latin1";
    throw new InputError(`${name} is not UTF-8; convert it, for instance: iconv -f ${encoding} -t utf-8`);
  }
  const { field_separator: separator, enclosing_character: enclosing } = given;
  refuseSeparatorLine(name, whole);
  const path = workbench.file("sample.csv");
  await writeFile(path, whole, { mode: 0o600 });
  const sniffed = await sniff(workbench.connection, path, separator, enclosing);
  const delimiter = separator ?? sniffed?.delimiter ?? ",";
  const quoting = enclosing ?? sniffed?.quoting ?? '"';
  const rows = sampleOf(name, whole, isWhole, { delimiter, quoting }, given, table);
  const above = rowsAbove(rows, table, given);
  const sampled = rows.slice(above);
  const first = sampled[0]?.fields ?? [];
  const notes: string[] = [];
  const doubts: string[] = [];
  const types = table?.map(({ type }) => type) ?? sniffed?.types ?? first.map(() => "VARCHAR");
  const decided = given.has_header_row ?? headerOf(sampled, types, table, sniffed?.hasHeader ?? false);
  const header = decided ?? false;
  if (header) refuseReturns(name, sampled[0]);
  const names = header ? first : [];
  const data = sampled.slice(header ? 1 : 0).map(({ fields }) => fields);
  const columns = Array.from({ length: Math.max(types.length, first.length) }, (_, index): ColumnValues => ({
    name: table?.[index]?.name ?? names[index] ?? `column ${index + 1}`,
    type: types[index] ?? "",
    values: data.flatMap((row) => row[index] ?? []),
  }));
  const nothing = given.null_value ?? nullOf(columns);
  const present = withoutNulls(columns, nothing);
  const doubtful: (keyof FormatOptions)[] = [];
  const found: Found = { notes, doubts, doubtful, called };
  if (sniffed === undefined && (separator === undefined || enclosing === undefined))
    doubts.push(
      `how fields are separated cannot be told; give ${called("field_separator")} and ${called("enclosing_character")}`,
    );
  doubts.push(...aboveTheRest(rows, above), ...wrongSeparator(first, delimiter, table, called));
  if (decided === undefined)
    doubts.push(`is the first row (${shown(first)}) a header? Nothing tells; give ${called("has_header_row")}`);
  const options: Partial<FormatOptions> = {
    field_separator: separator === undefined && delimiter !== "," ? delimiter : undefined,
    enclosing_character: enclosing === undefined && quoting !== '"' ? quoting : undefined,
    has_header_row: given.has_header_row === undefined && header ? true : undefined,
    null_value: given.null_value === undefined ? nothing : undefined,
    ...guessValues(columns, present, given, given.null_value === undefined ? nothing : undefined, found),
  };
  notes.push(...oddRows(sampled, header), ...differentWidths(names, first.length, table, called));
  doubts.push(...returnsIn(sampled, header), ...movedColumns(names, table));
  return {
    options: Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)),
    columns: present.map((column) => [column.name, column.type, shown(column.values)]),
    notes,
    doubts,
    doubtful,
    header: names,
  };
}

function shown(values: readonly string[]): string {
  return values
    .slice(0, examples)
    .map((value) => quote(value))
    .join(", ");
}

interface Sniffed {
  readonly delimiter: string;
  readonly quoting: string;
  readonly hasHeader: boolean;
  readonly types: readonly string[];
}

/** What DuckDB takes a file for; undefined where it cannot tell. */
async function sniff(
  connection: Workbench["connection"],
  path: string,
  separator: string | undefined,
  enclosing: string | undefined,
): Promise<Sniffed | undefined> {
  const asked = [
    ...(separator === undefined ? [] : [`delim = ${literal(separator)}`]),
    ...(enclosing === undefined ? [] : [`quote = ${literal(enclosing)}`]),
  ];
  const [found] = await connection
    .rows<{ d: string; q: string; h: boolean; t: string }>(
      `SELECT Delimiter AS d, Quote AS q, HasHeader AS h, list_transform(Columns, c -> c.type)::JSON::VARCHAR AS t
       FROM sniff_csv(${literal(path)}, ${[...asked, "ignore_errors = true", "strict_mode = false"].join(", ")})`,
    )
    .catch(() => []);
  if (found === undefined) return undefined;
  const quoting = found.q === "(empty)" ? '"' : found.q;
  return { delimiter: found.d, quoting, hasHeader: found.h, types: JSON.parse(found.t) as string[] };
}

/** The first rows, as they will be loaded. @throws {InputError} when there are none, or nobody knows where they end */
function sampleOf(
  name: string,
  bytes: Buffer,
  isWhole: boolean,
  { delimiter, quoting }: { readonly delimiter: string; readonly quoting: string },
  given: Partial<FormatOptions>,
  table: readonly TableColumn[] | undefined,
): SampleRow[] {
  if (delimiter === quoting)
    throw new InputError(`${name}: ${quote(delimiter)} cannot both separate fields and enclose them`);
  const format = {
    field_separator: delimiter,
    enclosing_character: quoting,
    trailing_field_separator: given.trailing_field_separator,
  };
  const parameters = loadParameters.parse({ target: { database: "d", table: "t" }, format });
  const rows = readRows(bytes, formatOf(parameters), table?.length, isWhole);
  const [first] = rows;
  if (first === undefined) throw new InputError(`${name} has no whole row${isWhole ? "" : " in its first megabyte"}`);
  if (rows.length === 1) {
    refuseReturns(name, first);
    if (first.flaw !== undefined) throw new InputError(`${name}: row 1: ${first.flaw}; is a quote never closed?`);
  }
  return rows;
}

/** @throws {InputError} when rows would be taken for the only one, or for the header */
function refuseReturns(name: string, row: SampleRow | undefined): void {
  if (row?.hasReturn === true) throw endingInReturns(name);
}

/** What would be loaded as data, and may be the end of a row. */
function returnsIn(rows: readonly SampleRow[], header: boolean): string[] {
  const index = rows.findIndex(({ hasReturn }) => hasReturn);
  if (index === -1) return [];
  return [
    `row ${index + (header ? 0 : 1)} has a carriage return (\\r) without a newline, which ends no row; ` +
      "write its rows on lines of their own, or enclose its field in quotes",
  ];
}

/** The rows that would be rejected as they are. */
function oddRows(rows: readonly SampleRow[], header: boolean): string[] {
  const index = rows.findIndex(({ flaw }) => flaw !== undefined);
  const odd = rows.filter(({ flaw }) => flaw !== undefined).length;
  if (index === -1) return [];
  const others = odd === 1 ? "" : `, and ${odd - 1} more like it`;
  return [`row ${index + (header ? 0 : 1)} would be rejected${others}: ${rows[index]?.flaw ?? ""}`];
}

/** How many rows at the beginning are a title or a comment: above a row of the table's names, or of one field above whole rows. */
function rowsAbove(
  rows: readonly SampleRow[],
  table: readonly TableColumn[] | undefined,
  { flexible }: Partial<FormatOptions>,
): number {
  if (table === undefined || table.length < 2) return 0;
  const beginning = rows.slice(0, mostAbove + 1).map(({ fields }) => fields);
  if (isHeader(beginning[0] ?? [], table)) return 0;
  const header = beginning.findIndex((fields) => {
    const named = fields.filter((field) => field !== "");
    return named.length > 1 && namesIn(named, table) === named.length;
  });
  if (header !== -1) return header;
  const whole = beginning.findIndex(({ length }) => length !== 1);
  return flexible !== true && beginning[whole]?.length === table.length ? whole : 0;
}

/** Titles and comments are a few rows. */
const mostAbove = 10;

function isHeader(fields: readonly string[], table: readonly TableColumn[]): boolean {
  return fields.length > 0 && namesIn(fields, table) * 2 >= fields.length;
}

function namesIn(fields: readonly string[], table: readonly TableColumn[]): number {
  const names = new Set(table.map(({ name }) => lettersOf(name)));
  return fields.filter((field) => names.has(lettersOf(field))).length;
}

/** A load has no comments, and only the first row can be a header. */
function aboveTheRest(rows: readonly SampleRow[], above: number): string[] {
  if (above === 0) return [];
  const [first, below] = [rows[0], rows[above]].map((row) => shown(row?.fields ?? []));
  const those = above === 1 ? `the first row (${first}) is` : `the first ${above} rows (${first}, …) are`;
  return [`${those} neither a header nor data, and a load has no comments; delete what is above ${below}`];
}

/** A first row that a separator does not separate. */
function wrongSeparator(
  first: readonly string[],
  separator: string,
  table: readonly TableColumn[] | undefined,
  called: OptionName,
): string[] {
  const [only = ""] = first;
  if (first.length !== 1 || table === undefined || table.length < 2) return [];
  const better = [",", ";", "\t", "|"].find((each) => only.split(each).length === table.length);
  return [
    `with the separator ${quote(separator)} the first row is one field, ${quote(only)}, and the table has ${table.length} columns` +
      `; give ${called("field_separator")}${better === undefined ? "" : `: is it ${quote(better)}?`}`,
  ];
}

/**
 * Whether the first row is a header: it has names of the table's columns, or something that is not of its types above
 * rows that are. Undefined: nothing tells, because every column is text.
 */
function headerOf(
  rows: readonly SampleRow[],
  types: readonly string[],
  table: readonly TableColumn[] | undefined,
  sniffed: boolean,
): boolean | undefined {
  const [first = [], ...rest] = rows.map(({ fields }) => fields);
  if (first.length === 0) return undefined;
  const isText = types.every((type) => fits(type, "x") === undefined);
  if (table === undefined) return isText ? undefined : sniffed;
  if (isHeader(first, table)) return true;
  if (isText) return undefined;
  return types.some((type, index) => {
    const others = rest.map((row) => row[index] ?? "").filter((value) => value !== "");
    const fitting = others.filter((value) => fits(type, value) !== false);
    return fits(type, first[index] ?? "") === false && fitting.length * 2 > others.length;
  });
}

/** Whether a value may be of a type; undefined where any text may be. */
function fits(type: string, value: string): boolean | undefined {
  if (/INT|DOUBLE|FLOAT|REAL|DECIMAL|NUMERIC|DATE|TIME/.test(type))
    return /^[\s(]*[-+]?\d/.test(value) || value === "" || namedMonth.test(value);
  if (type === "BOOLEAN") return value === "" || booleansOf([value]) !== undefined;
  return undefined;
}

const namedMonth = /^[A-Za-z]{3,9} \d/;

function differentWidths(
  names: readonly string[],
  width: number,
  table: readonly TableColumn[] | undefined,
  called: OptionName,
): string[] {
  if (table === undefined) return [];
  if (names.length > 0 && names.length < table.length)
    return [
      `the file has ${pluralize(names.length, "column")}, the table ${table.length}; ${called("flexible")} makes the others null`,
    ];
  if (width > table.length)
    return [
      `the file has ${pluralize(width, "column")}, the table ${table.length}; ${called("flexible")} drops the rest`,
    ];
  return [];
}

/** Columns are loaded by their position, whatever the header calls them. */
function movedColumns(names: readonly string[], table: readonly TableColumn[] | undefined): string[] {
  if (table === undefined) return [];
  const at = (name: string): number => table.findIndex((column) => lettersOf(column.name) === lettersOf(name));
  const moved = names.filter((name, index) => ![-1, index].includes(at(name)));
  if (moved.length === 0) return [];
  return [
    `columns are loaded by position, and in the file ${moved.map(formatName).join(", ")} ` +
      `${moved.length === 1 ? "is" : "are"} elsewhere than in the table (${table.map(({ name }) => name).join(", ")}); ` +
      "write the file in the order of the table",
  ];
}

/** A column of a table, with its type as SQL has it: `BIGINT`, `DECIMAL(9,2)`. */
export interface TableColumn {
  readonly name: string;
  readonly type: string;
}

import { CsvError, Parser } from "csv-parse";
import { distance } from "fastest-levenshtein";
import { IncompleteReadError, InputError } from "#errors.ts";
import type { Dialect } from "./options.ts";

/** A longer row probably has a quote that is never closed; memory must not grow with the file. */
const longestRow = 16 * 1024 * 1024;

/** One row: its fields and the line on which it starts. */
export interface Row {
  readonly line: number;
  readonly fields: readonly string[];
}

/**
 * The rows of a text, header included, without blank lines, in groups as the text arrives. Moves `place` to the line of
 * the row after them.
 * @throws {InputError} quotes are not balanced
 */
export async function* rowsOf(
  text: AsyncIterable<string>,
  dialect: Pick<Dialect, "delimiter" | "quote">,
  place: Place,
): AsyncGenerator<readonly Row[]> {
  let records: string[][] = [];
  const parser = new Parser({
    delimiter: dialect.delimiter,
    quote: dialect.quote === "" ? null : dialect.quote,
    escape: dialect.quote === "" ? null : dialect.quote,
    record_delimiter: ["\r\n", "\n", "\r"],
    relax_column_count: true,
    max_record_size: longestRow,
    // Not from the stream's readable side, so that the rows before an error are known with it.
    on_record: (record: string[]) => {
      records.push(record);
      return null;
    },
  });
  // `write` and `end` report errors to their callbacks as well.
  parser.on("error", () => {});

  const taken = (): readonly Row[] => {
    const rows: Row[] = [];
    for (const fields of records) {
      if (fields.length !== 1 || fields[0] !== "") rows.push({ line: place.line, fields });
      place.line += 1 + breaksIn(fields);
    }
    records = [];
    return rows;
  };

  try {
    for await (const piece of text) {
      await settled((done) => parser.write(piece, done));
      yield taken();
    }
    await settled((done) => parser.end(done));
    yield taken();
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    taken();
    // Without the cause: it holds values of the file.
    throw new InputError(`${at(place)}: ${problems[error.code] ?? error.code}`);
  } finally {
    parser.destroy();
  }
}

function settled(action: (done: (error?: Error | null) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    action((error) => (error ? reject(error) : resolve()));
  });
}

/** The line breaks within the fields of a row; `\r\n` is one, as in an editor. */
function breaksIn(fields: readonly string[]): number {
  let breaks = 0;
  for (const field of fields) {
    if (field.includes("\n") || field.includes("\r")) breaks += field.match(/\r\n|\n|\r/g)?.length ?? 0;
  }
  return breaks;
}

/** By the parser's error code. */
const problems: Readonly<Record<string, string>> = {
  CSV_QUOTE_NOT_CLOSED: "the row that starts here has an opening quote that is never closed",
  CSV_INVALID_CLOSING_QUOTE:
    "the row that starts here has a quote inside a quoted field; a quote that is data is doubled, and the row's " +
    "quotes must pair up",
  INVALID_OPENING_QUOTE:
    "the row that starts here has a quote inside a field that does not start with one; enclose the whole field in " +
    'quotes and double the inner ones, or set quote to "" if the file quotes nothing',
  CSV_MAX_RECORD_SIZE:
    "the row that starts here is longer than 16 MiB; it probably has an opening quote that is never closed",
};

/** `sep=;` with its line end, as Excel understands it and some exports write it. */
const sepLine = /^sep=([^\r\n])(?:\r\n|\r|\n)/iu;
const longest = "sep=🦉\r\n".length;

/**
 * The text without a first line like `sep=;`, and the dialect with that delimiter. Moves `place` past the line.
 * @throws {InputError} there is such a line and `sepLine` does not allow it
 */
export async function withoutSepLine(
  text: AsyncGenerator<string>,
  dialect: Dialect,
  place: Place,
): Promise<{ readonly dialect: Dialect; readonly text: AsyncIterable<string> }> {
  let start = "";
  while (start.length < longest) {
    const { done, value } = await text.next();
    if (done === true) break;
    start += value;
  }
  const [line, delimiter] = sepLine.exec(start) ?? [];
  if (line === undefined || delimiter === undefined) return { dialect, text: following(start, text) };
  if (!dialect.sepLine || delimiter === dialect.quote) {
    await text.return(undefined);
    const problem = dialect.sepLine
      ? "the delimiter it names is also the quote"
      : "is a line that says what the delimiter is (sep=…); set sepLine to true";
    throw new InputError(`${at(place)}: ${problem}`);
  }
  place.line++;
  return { dialect: { ...dialect, delimiter }, text: following(start.slice(line.length), text) };
}

async function* following(start: string, rest: AsyncGenerator<string>): AsyncGenerator<string> {
  if (start !== "") yield start;
  yield* rest;
}

/** The columns of a file, by name. */
export interface Header {
  /** How many fields every row has. */
  readonly width: number;
  /** Every column that has a name, in the file's order. */
  readonly columns: readonly Column[];
  /**
   * The index of a column in a row.
   * @throws {InputError} the header has no such column
   */
  indexOf(name: string): number;
}

export interface Column {
  readonly name: string;
  readonly index: number;
}

/** The settings that concern the header. */
type HeaderRules = Pick<Dialect, "ignoreCase" | "duplicateColumns" | "trailingDelimiters">;

const strictHeader: HeaderRules = { ignoreCase: false, duplicateColumns: "error", trailingDelimiters: false };

/**
 * Makes a header of a row. Names are compared without surrounding spaces and in Unicode form NFC. If the header line is
 * missing, the cells are values, which no message may show.
 * @throws {InputError} two columns have one name
 */
export function headerOf(row: Row, file: string, rules: HeaderRules = strictHeader): Header {
  const place: Place = { file, line: row.line };
  const comparable = (name: string): string => (rules.ignoreCase ? plain(name).toLowerCase() : plain(name));
  const byName = new Map<string, Column>();
  for (const [index, field] of row.fields.entries()) {
    let name = plain(field);
    if (name === "") continue;
    const earlier = byName.get(comparable(name));
    if (earlier !== undefined) {
      if (rules.duplicateColumns === "error") {
        const same = rules.ignoreCase && plain(row.fields[earlier.index] ?? "") !== name ? "but for case " : "";
        throw new InputError(
          `${at(place)}: columns ${earlier.index + 1} and ${index + 1} of the header have ${same}the same name; ` +
            "rename one, or set duplicateColumns to first, last or numbered",
        );
      }
      if (rules.duplicateColumns === "first") continue;
      if (rules.duplicateColumns === "numbered")
        name = numbered(name, (candidate) => byName.has(comparable(candidate)));
    }
    byName.set(comparable(name), { name, index });
  }
  return {
    width: rules.trailingDelimiters ? row.fields.findLastIndex((field) => plain(field) !== "") + 1 : row.fields.length,
    columns: [...byName.values()],
    indexOf(name) {
      const column = byName.get(comparable(name));
      if (column !== undefined) return column.index;
      const names = [...byName.values()].map((column) => column.name);
      throw new InputError(
        `${at(place)}: the header has no column ${JSON.stringify(name)}; ${hint(name, row.fields, names)}`,
      );
    },
  };
}

function numbered(name: string, isTaken: (candidate: string) => boolean): string {
  for (let number = 2; ; number++) if (!isTaken(`${name}_${number}`)) return `${name}_${number}`;
}

function plain(name: string): string {
  return name.trim().normalize("NFC");
}

/** The usual reason why a header lacks a column. */
function hint(name: string, fields: readonly string[], names: readonly string[]): string {
  if (fields.some((field) => field.includes("\0"))) return "this looks like UTF-16: set encoding";
  const delimiter = [";", "\t", "|", ","].find((candidate) => fields.length === 1 && fields[0]?.includes(candidate));
  if (delimiter !== undefined) return `this looks like a single column: set delimiter to ${JSON.stringify(delimiter)}`;
  // So similar to a configured name that it is not a value.
  const near = names.find((candidate) => distance(candidate.toLowerCase(), plain(name).toLowerCase()) <= 2);
  if (near !== undefined && near.toLowerCase() === plain(name).toLowerCase())
    return `it is written ${JSON.stringify(near)} there: write it so, or set ignoreCase`;
  if (near !== undefined && name.length > 2) return `did you mean ${JSON.stringify(near)}?`;
  return "is the header line missing, or does the column have another name?";
}

/**
 * The row with as many fields as the header has columns; undefined for a row to skip.
 * @throws {InputError} it has more or fewer fields and no setting allows it
 */
export function shaped(row: Row, width: number, file: string, dialect: Dialect): Row | undefined {
  const { fields } = row;
  if (dialect.skipBlankRows && fields.every((field) => field.trim() === "")) return undefined;
  if (fields.length === width) return row;
  if (fields.length < width && dialect.shortRows) {
    return { ...row, fields: [...fields, ...Array.from({ length: width - fields.length }, () => "")] };
  }
  const isBlankBeyond = fields.length > width && fields.slice(width).every((field) => field.trim() === "");
  if (isBlankBeyond && dialect.trailingDelimiters) return { ...row, fields: fields.slice(0, width) };
  const advice = fields.every((field) => field.trim() === "")
    ? "a row without any value is skipped with skipBlankRows: true"
    : fields.length < width
      ? "missing fields are empty with shortRows: true"
      : isBlankBeyond
        ? "empty fields at the end are dropped with trailingDelimiters: true"
        : "a field that holds a delimiter is quoted";
  throw new InputError(
    `${at({ file, line: row.line })}: has ${fields.length} fields, the header has ${width}; ${advice}`,
  );
}

/** Recognises the last row of a file, which says how many rows come before it. */
export interface Trailer {
  /**
   * Whether the row is the trailer.
   * @throws {InputError} the trailer came before this row
   */
  take(row: Row): boolean;
  /** @throws {IncompleteReadError} there was no trailer, or its count is not `rows` */
  assertCount(rows: number): void;
}

/** @param pattern matches a row, its fields joined by `delimiter`, and captures the count; undefined: there is no trailer */
export function trailerOf(pattern: RegExp | undefined, delimiter: string, file: string): Trailer {
  let found: { readonly place: Place; readonly count: string | undefined } | undefined;
  return {
    take(row) {
      if (pattern === undefined) return false;
      if (found !== undefined) {
        const message = "the setting trailer matches this row, but others follow it; make it match the last row alone";
        throw new InputError(`${at(found.place)}: ${message}`);
      }
      const match = pattern.exec(row.fields.join(delimiter));
      if (match === null) return false;
      found = { place: { file, line: row.line }, count: match[1] };
      return true;
    },
    assertCount(rows) {
      if (pattern === undefined) return;
      if (found === undefined) {
        throw new IncompleteReadError(
          `${file} has no last row that the setting trailer matches; the file is incomplete, or its last row has another form`,
        );
      }
      const { place, count } = found;
      if (count === undefined || !/^\d+$/.test(count)) {
        throw new InputError(`${at(place)}: what the setting trailer captures is not a number of rows`);
      }
      if (BigInt(count) === BigInt(rows)) return;
      throw new IncompleteReadError(`${at(place)}: counts ${BigInt(count)} rows, and there are ${rows} before it`);
    },
  };
}

/** The current position of a read, for messages and origins. Moves as rows are read. */
export interface Place {
  /** As in the configuration. */
  readonly file: string;
  /** The line, from 1, on which the current row starts, as an editor counts. */
  line: number;
}

/** `people.csv:17` */
export function at(place: Place): string {
  return `${place.file}:${place.line}`;
}

import { CsvError, Parser } from "csv-parse";
import { IncompleteReadError, InputError } from "#errors.ts";
import { formatNumber, pluralize } from "#text.ts";
import type { Dialect } from "./options.ts";

/** A longer row probably has a quote that is never closed; memory must not grow with the file. */
const longestRow = 16 * 1024 * 1024;

/** Blank lines cost time and give nothing. */
const mostBlankLines = 100_000;

/** As many as a sheet of Excel has. */
const mostColumns = 16_384;

/** @throws {InputError} a header has too many columns: it is none */
export function assertColumns(fields: readonly string[], place: string): void {
  if (fields.length <= mostColumns) return;
  throw new InputError(
    `${place}: the header has ${formatNumber(fields.length)} columns, and ${formatNumber(mostColumns)} are the most; is this the header, and the delimiter right?`,
  );
}

/** One row: its fields and the line on which it starts. */
export interface Row {
  readonly line: number;
  readonly fields: readonly string[];
  /** For a sheet: what its cells are, besides their text. */
  readonly notes?: readonly CellNote[] | undefined;
}

/** What a cell of a sheet is, besides its text. */
export type CellNote =
  | { readonly column: number; readonly is: "number" }
  /** It has no value that could be read. */
  | { readonly column: number; readonly is: "problem"; readonly problem: string };

/** Rows that follow each other. */
export interface RowGroup {
  /** The line on which the first of them starts. */
  readonly line: number;
  /** Their text, where none of it is quoted: each row is a line, and ends with `\n`. */
  readonly text?: string | undefined;
  /**
   * The rows, without blank lines.
   * @throws {InputError} there are too many blank lines
   */
  rows(): readonly Row[];
}

/** A row without quotes may be so long, in UTF-16 units; what is longer is the parser's. */
const longestPlainRow = 64 * 1024;

/** The rows of a text as `rowGroupsOf` gives them. */
export async function* rowsOf(
  text: AsyncIterable<string>,
  dialect: Pick<Dialect, "delimiter" | "quote">,
  place: Place,
): AsyncGenerator<readonly Row[]> {
  for await (const group of rowGroupsOf(text, dialect, place)) yield group.rows();
}

/**
 * The rows of a text, header included, in groups as the text arrives. Moves `place` to the line of the row after them.
 *
 * Up to the first quote a row is a line and a delimiter ends a field, for which no parser is needed. From there on csv-parse
 * reads, which gives the same rows and takes at least twice as long.
 * @throws {InputError} quotes are not balanced
 */
export async function* rowGroupsOf(
  text: AsyncIterable<string>,
  dialect: Pick<Dialect, "delimiter" | "quote">,
  place: Place,
): AsyncGenerator<RowGroup> {
  const { delimiter, quote } = dialect;
  const countBlank = blankLineCounter(place.file);
  const pieces = text[Symbol.asyncIterator]();
  /** Whole lines, each with its end. */
  const group = (lines: string): RowGroup => {
    const { line } = place;
    const texts = lines.split("\n");
    texts.pop();
    place.line += texts.length;
    return {
      line,
      text: lines,
      rows: () => {
        const rows: Row[] = [];
        for (const [index, each] of texts.entries()) {
          if (each === "") countBlank(line + index);
          else rows.push({ line: line + index, fields: each.split(delimiter) });
        }
        return rows;
      },
    };
  };
  try {
    /** The row whose end is yet to come. */
    let rest = "";
    for (;;) {
      const { done = false, value = "" } = await pieces.next();
      const all = rest + value;
      const end = done ? all.length : all.lastIndexOf("\n") + 1;
      const lines = all.slice(0, end).replaceAll("\r\n", "\n");
      const isPlain = (quote === "" || !value.includes(quote)) && !lines.includes("\r");
      if (!isPlain || all.length - end > longestPlainRow) {
        yield* parsedGroupsOf(following(all, pieces), dialect, { place, countBlank });
        return;
      }
      rest = all.slice(end);
      if (lines !== "") yield group(lines.endsWith("\n") ? lines : `${lines}\n`);
      if (done) return;
    }
  } finally {
    await pieces.return?.();
  }
}

/** Called with the line of each blank line. @throws {InputError} there are too many */
function blankLineCounter(file: string): (line: number) => void {
  let count = 0;
  return (line) => {
    count += 1;
    if (count <= mostBlankLines) return;
    throw new InputError(
      `${at({ file, line })}: more than ${formatNumber(mostBlankLines)} blank lines; is this the export?`,
    );
  };
}

/** Like `rowGroupsOf`, whatever is quoted. */
async function* parsedGroupsOf(
  text: AsyncIterable<string>,
  dialect: Pick<Dialect, "delimiter" | "quote">,
  { place, countBlank }: { readonly place: Place; readonly countBlank: (line: number) => void },
): AsyncGenerator<RowGroup> {
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

  const taken = (): RowGroup => {
    const { line } = place;
    const rows: Row[] = [];
    for (const fields of records) {
      if (fields.length !== 1 || fields[0] !== "") rows.push({ line: place.line, fields });
      else countBlank(place.line);
      place.line += 1 + breaksIn(fields);
    }
    records = [];
    return { line, rows: () => rows };
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
    // The header may be among them, and say better what is wrong.
    yield taken();
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

/** `sep=;` with its line end, as Excel understands it and some exports write it, in quotes where they quote everything. */
const sepLine = /^("?)sep=([^\r\n])\1(?:\r\n|\r|\n)/iu;
const longest = '"sep=🦉"\r\n'.length;

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
  const [line, , delimiter] = sepLine.exec(start) ?? [];
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

/** The text without so many lines at its start, whatever they hold. Moves `place` past them. */
export async function* withoutLines(text: AsyncIterable<string>, count: number, place: Place): AsyncGenerator<string> {
  let left = count;
  // A line end of two characters may be in two pieces.
  let isAfterReturn = false;
  for await (const piece of text) {
    let start = isAfterReturn && piece.startsWith("\n") ? 1 : 0;
    isAfterReturn &&= piece === "";
    while (left > 0 && start < piece.length) {
      const end = piece.slice(start).search(/[\r\n]/);
      if (end === -1) {
        start = piece.length;
        break;
      }
      start += end + 1;
      left--;
      place.line++;
      if (piece[start - 1] !== "\r") continue;
      if (start === piece.length) isAfterReturn = true;
      else if (piece[start] === "\n") start++;
    }
    if (start < piece.length) yield piece.slice(start);
  }
}

/** Notes whether the text ends within a line. */
export async function* noting(text: AsyncIterable<string>, end: { isOpen: boolean }): AsyncGenerator<string> {
  for await (const piece of text) {
    if (piece !== "") end.isOpen = !/[\r\n]$/.test(piece);
    yield piece;
  }
}

async function* following(start: string, rest: AsyncIterator<string>): AsyncGenerator<string> {
  if (start !== "") yield start;
  yield* { [Symbol.asyncIterator]: () => rest };
}

/**
 * The row with as many fields as the header has columns; undefined for a row to skip.
 * @throws {InputError} it has more or fewer fields and no setting allows it
 */
export function shaped(row: Row, width: number, file: string, dialect: Dialect): Row | undefined {
  const { fields } = row;
  const isBlank = fields.every((field) => field.trim() === "");
  if (isBlank && dialect.skipBlankRows) return undefined;
  if (fields.length === width && !isBlank) return row;
  if (fields.length < width && dialect.shortRows) {
    return { ...row, fields: [...fields, ...Array.from({ length: width - fields.length }, () => "")] };
  }
  const isBlankBeyond = fields.length > width && fields.slice(width).every((field) => field.trim() === "");
  if (isBlankBeyond && dialect.trailingDelimiters) return { ...row, fields: fields.slice(0, width) };
  if (isBlank) {
    throw new InputError(
      `${at({ file, line: row.line })}: a row without any value; such rows are skipped with skipBlankRows: true`,
    );
  }
  const advice =
    fields.length < width
      ? "missing fields are empty with shortRows: true"
      : isBlankBeyond
        ? "empty fields at the end are dropped with trailingDelimiters: true"
        : "a field that holds a delimiter is quoted";
  throw new InputError(
    `${at({ file, line: row.line })}: has ${pluralize(fields.length, "field")}, the header has ${width}; ${advice}`,
  );
}

/** Recognises the last row of a file, which says how many rows come before it. */
export class Trailer {
  readonly #pattern: RegExp | undefined;
  readonly #delimiter: string;
  readonly #file: string;
  #found: { readonly place: Place; readonly count: string | undefined } | undefined;

  /** @param dialect.trailer matches a row, its fields joined by the delimiter, and captures the count; undefined: there is none */
  constructor({ trailer, delimiter }: Dialect, file: string) {
    this.#pattern = trailer;
    this.#delimiter = delimiter;
    this.#file = file;
  }

  /**
   * Whether the row is the trailer.
   * @throws {InputError} the trailer came before this row
   */
  take({ fields, line }: Row): boolean {
    if (this.#pattern === undefined) return false;
    if (this.#found !== undefined) {
      const message = "the setting trailer matches this row, but others follow it; make it match the last row alone";
      throw new InputError(`${at(this.#found.place)}: ${message}`);
    }
    const match = this.#pattern.exec(fields.join(this.#delimiter));
    if (match === null) return false;
    this.#found = { place: { file: this.#file, line }, count: match[1] };
    return true;
  }

  /** @throws {IncompleteReadError} there was no trailer, or its count is not `rows` */
  assertCount(rows: number): void {
    if (this.#pattern === undefined) return;
    if (this.#found === undefined) {
      throw new IncompleteReadError(
        `${this.#file} has no last row that the setting trailer matches; the file is incomplete, or its last row has another form`,
      );
    }
    const { place, count } = this.#found;
    if (count === undefined || !/^\d+$/.test(count)) {
      throw new InputError(`${at(place)}: what the setting trailer captures is not a number of rows`);
    }
    if (BigInt(count) === BigInt(rows)) return;
    throw new IncompleteReadError(`${at(place)}: counts ${BigInt(count)} rows, and there are ${rows} before it`);
  }
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

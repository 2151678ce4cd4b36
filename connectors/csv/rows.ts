import { CsvError, Parser } from "csv-parse";
import { InputError } from "#errors.ts";
import type { Dialect } from "./options.ts";
import { at, type Place } from "./place.ts";
import { breaksIn, isBlank, type Row, wellFormedIn } from "./well-formed.ts";

export type { Row };

/** Longer rows are taken for a quote that is never closed: what is held in memory must not grow with the file. */
const longestRow = 16 * 1024 * 1024;

/** A row of which so much, in UTF-16 units, has no end yet is left to the parser, which does not begin it anew. */
const longRow = 1024 * 1024;

type Writing = Pick<Dialect, "delimiter" | "quote">;

/**
 * The rows of a text, the header's too, without blank lines; those of one piece of text at once.
 * Keeps `place` at the line of the row after them.
 *
 * A parser looks at each byte by itself, and reads a few megabytes a second: it gets what is odd, from the row on where
 * that begins, and says what is wrong with it.
 * @throws {InputError} when quotes are not balanced
 */
export async function* rowsOf(
  text: AsyncIterable<string>,
  dialect: Writing,
  place: Place,
): AsyncGenerator<readonly Row[]> {
  const readWellFormed = wellFormedIn(dialect, place);
  const pieces = text[Symbol.asyncIterator]();
  let rest = "";
  try {
    for (;;) {
      const { done = false, value } = await pieces.next();
      if (!done) rest += value;
      const { rows, end, isOdd } = readWellFormed(rest, done);
      yield rows;
      rest = rest.slice(end);
      if (isOdd || rest.length > longRow) yield* parsed(following(rest, pieces), dialect, place);
      if (done || isOdd || rest.length > longRow) return;
    }
  } finally {
    await pieces.return?.();
  }
}

async function* following(start: string, rest: AsyncIterator<string>): AsyncGenerator<string> {
  yield start;
  for (;;) {
    const { done, value } = await rest.next();
    if (done === true) return;
    yield value;
  }
}

async function* parsed(text: AsyncIterable<string>, dialect: Writing, place: Place): AsyncGenerator<readonly Row[]> {
  let records: string[][] = [];
  const parser = new Parser({
    delimiter: dialect.delimiter,
    quote: dialect.quote === "" ? null : dialect.quote,
    escape: dialect.quote === "" ? null : dialect.quote,
    record_delimiter: ["\r\n", "\n", "\r"],
    relax_column_count: true,
    max_record_size: longestRow,
    // Taken here, and not from the stream's readable side, so that the rows before an error are known when it is.
    on_record: (record: string[]) => {
      records.push(record);
      return null;
    },
  });
  // What `write` and `end` report is also emitted.
  parser.on("error", () => {});

  const taken = (): readonly Row[] => {
    const rows: Row[] = [];
    for (const fields of records) {
      if (!isBlank(fields)) rows.push({ line: place.line, fields });
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
    yield taken();
    // Without the cause, whose message and properties hold values of the file.
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

/** By the parser's code. */
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

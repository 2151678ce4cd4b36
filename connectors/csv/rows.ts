import { CsvError, Parser } from "csv-parse";
import { InputError } from "#errors.ts";
import type { Dialect } from "./options.ts";
import { at, type Place } from "./place.ts";

/** Longer rows are taken for a quote that is never closed: what is held in memory must not grow with the file. */
const longestRow = 16 * 1024 * 1024;

/** One row: its fields and the line on which it starts. */
export interface Row {
  readonly line: number;
  readonly fields: readonly string[];
}

/**
 * The rows of a text, the header's too, without blank lines; those of one piece of text at once.
 * Keeps `place` at the line of the row after them.
 * @throws {InputError} when quotes are not balanced
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

/** The line breaks within the fields of a row; `\r\n` is one, as in an editor. */
function breaksIn(fields: readonly string[]): number {
  let breaks = 0;
  for (const field of fields) {
    if (field.includes("\n") || field.includes("\r")) breaks += field.match(/\r\n|\n|\r/g)?.length ?? 0;
  }
  return breaks;
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

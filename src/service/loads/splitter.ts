import type { LoadFormat } from "./format.ts";

/** What a splitter needs to know of a load. */
export interface SplitOptions {
  readonly format: LoadFormat;
  /** The names of the table's columns, in its order. */
  readonly columnNames: readonly string[];
  /** The end of a row of the chunk: it was sent in the bytes from `from` to `to`, its end of line included. */
  readonly onRow: (from: number, to: number) => void;
}

/**
 * Finds the rows and fields of one chunk, exactly as A.7, A.15 to A.17 and A.23 have them, and writes them anew in a
 * form that leaves nothing open: `flaw,"field","field"` and `\n`. Every field is in double quotes, doubled inside,
 * unless it is null; of a row that cannot be split the flaw says why (`"column c: …"`), and its fields are null.
 */
export interface Splitter {
  /** The next bytes of the chunk. */
  scan(bytes: Uint8Array): void;
  /** The chunk is complete. */
  end(): void;
  /** The complete rows written since the last call, valid until the next bytes. */
  take(): Uint8Array;
  /** Whether a field that was written holds a newline. */
  readonly hasNewline: boolean;
  /** The length of the longest row written so far, in bytes. */
  readonly longest: number;
  /** Whether an enclosing character was missing at the end. */
  readonly unterminated: boolean;
}

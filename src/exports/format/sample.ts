import { randomUUID } from "node:crypto";
import { RowRanges } from "#row-scan.ts";
import { syntaxOf } from "#service/loads/load-format.ts";
import { Splitter } from "#service/loads/split.ts";
import type { LoadFormat } from "#service/loads/load-format.ts";

/** How many rows are looked at, the header included. */
const looked = 1000;
const blockSize = 64 * 1024;
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/** A row as the service splits it. */
export interface SampleRow {
  readonly fields: readonly string[];
  /** Why the service would reject it; then it has no fields. */
  readonly flaw: string | undefined;
  /** A lone `\r` outside of enclosing characters, which ends no row (A.7). */
  readonly hasReturn: boolean;
}

/**
 * The first rows of a file, split by what splits them when they are loaded.
 * @param bytes whole lines; `isWhole`: there are no others. A row that goes on behind them is left out
 * @param columns how many the table has, if that is known: a table of one column has rows without any character
 */
export function readRows(
  bytes: Buffer,
  format: LoadFormat,
  columns: number | undefined,
  isWhole: boolean,
): SampleRow[] {
  // Nothing is null here, and no row has too many fields.
  const raw = { ...format, flexible: true, nullValue: randomUUID() };
  const start = bytes.subarray(0, byteOrderMark.length).equals(byteOrderMark) ? byteOrderMark.length : 0;
  const text = bytes.subarray(start);
  const ranges = new RowRanges(syntaxOf(raw), columns !== 1);
  for (let at = 0; at < text.length && ranges.rows.length < looked; at += blockSize)
    ranges.scan(text.subarray(at, at + blockSize));
  if (ranges.rows.length < looked) ranges.end();
  const found = ranges.unterminated && !isWhole ? ranges.rows.slice(0, -1) : ranges.rows;
  return found.slice(0, looked).map(({ from, to, hasReturn }) => splitRow(text.subarray(from, to), raw, hasReturn));
}

/** One row, split by the service's splitter into as many fields as it has. */
function splitRow(row: Buffer, format: LoadFormat, hasReturn: boolean): SampleRow {
  const width = row.toString().split(format.fieldSeparator).length;
  const columnNames = Array.from({ length: width }, () => "");
  const splitter = new Splitter(format, columnNames);
  splitter.scan(row);
  splitter.end();
  // `flaw,"field","field"`: a field that is not there has no quotes.
  const [flaw, ...fields] = Array.from(
    `,${Buffer.from(splitter.take()).toString()}`.matchAll(/,(?:"((?:[^"]|"")*)")?/g),
    ([, field]) => field?.replaceAll('""', '"'),
  );
  return { fields: fields.filter((field) => field !== undefined), flaw: flaw?.replace(/^column : /, ""), hasReturn };
}

import { open, stat } from "node:fs/promises";
import { InputError } from "#errors.ts";
import { RowRanges } from "#row-scan.ts";
import type { RowRange } from "#row-scan.ts";
import { syntaxOf } from "./load-format.ts";
import type { LoadFormat } from "./load-format.ts";
import { loneReturnFlaw } from "./split.ts";

/** The rows of one chunk: its bytes without a byte order mark and without the header (A.7). */
export interface Section {
  readonly path: string;
  /** Where the rows begin, in bytes. */
  readonly from: number;
  /** How many lines precede the rows: 1 with a header. */
  readonly lines: number;
  /** Whether only a byte order mark and a header in one line that ends with `\n` precede the rows. */
  readonly isPlain: boolean;
}

const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);
/** A longer header is not searched for in later chunks, in bytes. */
const longestHeader = 1024 * 1024;
const blockSize = 128 * 1024;

/**
 * The bytes of a file from an offset on, in blocks. A block is valid until the next one is requested.
 * @throws the signal's reason
 */
export async function* blocks(path: string, from: number, signal: AbortSignal): AsyncGenerator<Buffer> {
  await using file = await open(path);
  const buffer = Buffer.allocUnsafe(blockSize);
  for (let at = from; ;) {
    signal.throwIfAborted();
    const { bytesRead } = await file.read(buffer, 0, blockSize, at);
    if (bytesRead === 0) return;
    at += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/**
 * Finds where the rows of each chunk begin. Empty lines do not count, not even before the header.
 * @throws {InputError} when rows would be dropped with the header, because lines end in `\r` alone
 */
export async function findSections(
  chunks: readonly string[],
  format: LoadFormat,
  width: number,
  signal: AbortSignal,
): Promise<Section[]> {
  const sections: Section[] = [];
  let header: Buffer | undefined;
  for (const path of chunks) {
    const start = (await read(path, 0, byteOrderMark.length)).equals(byteOrderMark) ? byteOrderMark.length : 0;
    let from = start;
    if (format.hasHeaderRow && header === undefined) {
      const row = await firstRow(path, from, format, width, signal);
      if (row !== undefined) {
        const isTrailing = format.trailingFieldSeparator && row.endsEmpty && row.fields > 1;
        const fields = isTrailing ? row.fields - 1 : row.fields;
        if (row.hasReturn && (fields !== width || row.to === (await stat(path)).size))
          throw new InputError(`the first row would be dropped as the header, but ${loneReturnFlaw}`);
        const bytes = await read(path, row.from, Math.min(row.to - row.from, longestHeader + 2));
        header = bytes.subarray(0, bytes.length - endOfLine(bytes));
        from = row.to;
      }
    } else if (header !== undefined && header.length <= longestHeader) {
      const bytes = await read(path, from, header.length + 2);
      const rest = bytes.subarray(header.length);
      const ends = rest.length === 0 || rest[0] === 0x0a || rest.equals(Buffer.from("\r\n"));
      if (ends && bytes.subarray(0, header.length).equals(header)) {
        from += header.length + (rest.length === 0 ? 0 : rest[0] === 0x0a ? 1 : 2);
      }
    }
    const before = await read(path, start, Math.min(from - start, longestHeader + 2));
    const isLine =
      from - start === before.length &&
      before.indexOf(0x0a) === before.length - 1 &&
      endOfLine(before) === 1 &&
      isSkipped(before, format, start > 0);
    sections.push({ path, from, lines: from === start ? 0 : 1, isPlain: from === start || isLine });
  }
  return sections;
}

/**
 * Whether DuckDB skips such a header correctly: it ends lines at a lone `\r`, and heeds enclosing characters when it
 * skips lines, but in another way after a byte order mark.
 */
function isSkipped(header: Buffer, format: LoadFormat, hasMark: boolean): boolean {
  if (header.includes(0x0d)) return false;
  const enclosing = format.type === "csv" ? format.enclosingCharacter : "";
  if (enclosing === "") return true;
  if (!header.includes(enclosing)) return true;
  return !hasMark && isQuotedByTheBook(header, format);
}

/** Whether enclosing characters only surround whole fields, and are doubled inside them. */
function isQuotedByTheBook(header: Buffer, { fieldSeparator, enclosingCharacter }: LoadFormat): boolean {
  const [mark = "", separator = ""] = [enclosingCharacter, fieldSeparator].map((text) =>
    Buffer.from(text).toString("latin1"),
  );
  // Every other part is the inside of a field; between a doubled one there is nothing.
  const parts = header.toString("latin1", 0, header.length - 1).split(mark);
  const last = parts.length - 1;
  return (
    last % 2 === 0 &&
    parts.every(
      (part, i) =>
        i % 2 === 1 ||
        part === "" ||
        ((i === 0 || part.startsWith(separator)) && (i === last || part.endsWith(separator))),
    )
  );
}

/** How many bytes at the end are the end of a line. */
function endOfLine(bytes: Buffer): number {
  if (bytes.at(-1) !== 0x0a) return 0;
  return bytes.at(-2) === 0x0d ? 2 : 1;
}

async function read(path: string, from: number, length: number): Promise<Buffer> {
  await using file = await open(path);
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, from);
  return buffer.subarray(0, bytesRead);
}

/** Where the first row is in a file; its first line, when an enclosing character in it has no second one. */
async function firstRow(
  path: string,
  start: number,
  format: LoadFormat,
  width: number,
  signal: AbortSignal,
): Promise<RowRange | undefined> {
  const ranges = new RowRanges(syntaxOf(format), width > 1);
  for await (const block of blocks(path, start, signal)) {
    ranges.scan(block);
    if (ranges.rows.length > 0) break;
  }
  if (ranges.rows.length === 0) ranges.end();
  const [found] = ranges.rows;
  if (found === undefined) return undefined;
  const row = { ...found, from: start + found.from, to: start + found.to };
  return ranges.unterminated ? { ...row, to: await endOfFirstLine(path, row, signal) } : row;
}

/** Where the first line of a row ends: not that of an empty line before it. */
async function endOfFirstLine(path: string, row: RowRange, signal: AbortSignal): Promise<number> {
  let at = row.from;
  for await (const block of blocks(path, at, signal)) {
    const newline = block.indexOf(0x0a);
    if (newline !== -1) return at + newline + 1;
    at += block.length;
  }
  return row.to;
}

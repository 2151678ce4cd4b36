import type { LoadFormat } from "./format.ts";
import { createRowScan } from "./row-scan.ts";
import type { RegularRows } from "./row-scan.ts";

const newline = 0x0a;
const byteOrderMark = [0xef, 0xbb, 0xbf];

/** What was seen of a chunk. Undefined where rows are not regular. */
export interface Scanned {
  /** Where its first line begins, behind a byte order mark, and where it ends, in bytes. */
  readonly from: number;
  readonly firstLineEnd: number;
  /** The first line by itself: it may be a header. */
  readonly firstLine: RegularRows | undefined;
  readonly rest: RegularRows | undefined;
}

/** Looks at the bytes of a chunk as they arrive, so that they need not be looked at when it is loaded. */
export interface Scan {
  take(bytes: Uint8Array): void;
  /** The chunk is complete. */
  end(): Scanned;
}

/** @param width the number of the table's columns. The format must be one that `isPlain`. */
export function createScan(format: LoadFormat, width: number): Scan {
  const rows = createRowScan(format, width);
  let start: Uint8Array = new Uint8Array();
  let from: number | undefined;
  let offset = 0;
  let firstLine: RegularRows | undefined;
  let firstLineEnd: number | undefined;

  /** Drops a byte order mark. */
  function begin(bytes: Uint8Array): Uint8Array | undefined {
    const all = Buffer.concat([start, bytes]);
    const isMark = byteOrderMark.every((byte, i) => i >= all.length || all[i] === byte);
    if (isMark && all.length < byteOrderMark.length) {
      start = all;
      return undefined;
    }
    from = isMark ? byteOrderMark.length : 0;
    offset = from;
    return all.subarray(from);
  }

  function endFirstLine(end: number): void {
    firstLine = rows.end();
    firstLineEnd = end;
  }

  function take(bytes: Uint8Array): void {
    let rest = bytes;
    if (firstLineEnd === undefined) {
      const end = rest.indexOf(newline) + 1;
      if (end > 0) {
        rows.take(rest.subarray(0, end));
        endFirstLine(offset + end);
        offset += end;
        rest = rest.subarray(end);
      }
    }
    rows.take(rest);
    offset += rest.length;
  }

  return {
    take: (bytes) => {
      const rest = from === undefined ? begin(bytes) : bytes;
      if (rest !== undefined) take(rest);
    },
    end: () => {
      if (from === undefined) {
        from = 0;
        take(start);
      }
      if (firstLineEnd === undefined) endFirstLine(offset);
      return { from, firstLineEnd: firstLineEnd ?? offset, firstLine, rest: rows.end() };
    },
  };
}

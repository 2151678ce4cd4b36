import type { LoadParameters } from "#wire/loads.ts";
import { blockSize } from "./reading.ts";
import { createRowEnds } from "./row-ends.ts";
import type { RowEnds } from "./row-ends.ts";

/** Where one source may be cut into chunks. Its blocks are shown in their order. */
export interface Cuts {
  /**
   * Goes on in a block, from `start` on, to where a chunk may end. There, the next call goes on.
   * @param from the least index that is of use
   * @returns the index behind the chunk; -1 when there is none: then the next block follows
   */
  find(block: Buffer, start: number, from: number): number;
}

/** The cuts of the next source, which begins with this block; undefined: it is not cut. */
export type CutsOf = (firstBlock: Buffer) => Cuts | undefined;

const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);
/** A header that does not end in the first block, or is longer than this, is not looked for: then no source is cut. */
const longestHeader = 64 * 1024;

/**
 * The cuts of the sources of one load. A chunk may not begin with what the service would drop there: a byte order mark,
 * or a line that is the header once more (A.7).
 */
export function createCuts(parameters: LoadParameters): CutsOf {
  const { has_header_row: hasHeader } = parameters.format;
  /** The load's header, without its row end; unclear: a source was there whose first row was not found. */
  let header: Buffer | "unclear" | undefined;

  function isDropped(block: Buffer, at: number): boolean {
    if (startsWith(block, at, byteOrderMark)) return true;
    if (header === undefined || header === "unclear") return false;
    return isLine(block, at, header) || isLine(block, at, Buffer.alloc(0));
  }

  return (firstBlock) => {
    const ends = createRowEnds(parameters);
    if (ends === undefined) return undefined;
    const begin = startsWith(firstBlock, 0, byteOrderMark) ? byteOrderMark.length : 0;
    let first = begin;
    if (hasHeader && header === undefined) {
      const row = firstRow(ends, firstBlock, begin);
      if (row === undefined) return undefined;
      ({ header, end: first } = row);
    }
    if (header === "unclear") return undefined;
    const lookahead = Math.max(byteOrderMark.length, (header?.length ?? 0) + 2);
    let isFirst = true;
    return {
      find: (block, start, from) => {
        const at = isFirst ? Math.max(start, first) : start;
        isFirst = false;
        return ends.find(block, at, from, (end) => end + lookahead <= block.length && !isDropped(block, end));
      },
    };
  };
}

/** The first row of a source that is not empty; undefined: the source is. */
function firstRow(
  ends: RowEnds,
  block: Buffer,
  begin: number,
): { header: Buffer | "unclear"; end: number } | undefined {
  let at = begin;
  for (;;) {
    const end = ends.find(block, at, at, () => true);
    if (end === -1) break;
    if (end - at > longestHeader) return { header: "unclear", end };
    const length = end - at - (block[end - 2] === 0x0d && end - at > 1 ? 2 : 1);
    if (length > 0) return { header: Buffer.from(block.subarray(at, at + length)), end };
    at = end;
  }
  const rest = block.subarray(at);
  const end = block.length;
  // A block that is not full is the whole source.
  if (end >= blockSize || rest.length > longestHeader || rest.includes(0x0a)) return { header: "unclear", end };
  return rest.length === 0 ? undefined : { header: Buffer.from(rest), end };
}

function startsWith(block: Buffer, at: number, bytes: Buffer): boolean {
  return bytes.compare(block, at, Math.min(block.length, at + bytes.length)) === 0;
}

/** Whether these bytes are a line of the block, at `at`. */
function isLine(block: Buffer, at: number, bytes: Buffer): boolean {
  if (!startsWith(block, at, bytes)) return false;
  const end = at + bytes.length;
  return block[end] === 0x0a || (block[end] === 0x0d && block[end + 1] === 0x0a);
}

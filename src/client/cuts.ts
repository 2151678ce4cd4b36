import { InputError } from "#errors.ts";
import { RowEnds, rowSyntax } from "#row-scan.ts";
import type { LoadParameters } from "#wire/loads.ts";

/** How many bytes are read, searched and sent at a time. */
export const blockSize = 1024 * 1024;

const newline = 0x0a;
const carriageReturn = 0x0d;

/** Undefined: the format uses characters of several bytes. Such data is not cut. */
function rowEndsOf({ format }: LoadParameters, lineEnd = newline): RowEnds | undefined {
  const { field_separator: separator, enclosing_character: enclosing, escape_character: escape } = format;
  return RowEnds.of(rowSyntax(format.type, { separator, enclosing, escape }), lineEnd);
}

/** Where one source may be cut into chunks. Its blocks are shown in their order. */
export interface Cuts {
  /**
   * Searches a block, from `start`, for the next place where a chunk may end. The next call continues there.
   * @param from the least index that is of use
   * @returns the index after the chunk; -1 if there is none: then the next block follows
   */
  find(block: Buffer, start: number, from: number): number;
}

/** The cuts of the next source, which begins with this block; undefined: it is not cut. */
export type CutsOf = (firstBlock: Buffer) => Cuts | undefined;

const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);
/** If the header does not end in the first block, or is longer than this, no source is cut. */
const longestHeader = 64 * 1024;

/**
 * The cuts of the sources of one load. A chunk must not begin with something that the service would drop there: a
 * byte order mark, or a repetition of the header line (A.7).
 */
export function createCuts(parameters: LoadParameters): CutsOf {
  const { has_header_row: hasHeader } = parameters.format;
  /** The load's header, without its row end; unclear: the first row of some source was not found. */
  let header: Buffer | "unclear" | undefined;

  function isDropped(block: Buffer, at: number): boolean {
    if (startsWith(block, at, byteOrderMark)) return true;
    if (header === undefined || header === "unclear") return false;
    return isLine(block, at, header) || isLine(block, at, Buffer.alloc(0));
  }

  return (firstBlock) => {
    const ends = rowEndsOf(parameters);
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

/** The first row of a source; undefined if the source is empty. */
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

/** The error of a source in which rows, or what is taken for a header, end in a return alone. */
export function endingInReturns(name: string): InputError {
  return new InputError(
    `${name}: lines end in a carriage return (\\r) without a newline, which ends no row; ` +
      `convert them, for instance: tr '\\r' '\\n'`,
  );
}

/**
 * A first line like `sep=;`, which tells spreadsheets the separator, would be loaded as a row or taken for the header.
 * @throws {InputError} when a source begins with one
 */
export function refuseSeparatorLine(name: string, start: Buffer): void {
  const text = start.toString("utf8", 0, 64);
  const line = /^(?:\uFEFF)?(?<line>("?)sep=[^\r\n]\2)\r?\n/iu.exec(text)?.groups?.["line"];
  if (line !== undefined)
    throw new InputError(
      `${name} begins with a line for spreadsheets (${line}), which would be loaded as a row or taken for the header; ` +
        "remove it, for instance: tail -n +2",
    );
}

/** What the beginning of a source says of its rows. */
export interface RowsOfSource {
  /** Its lines seem to end in a carriage return alone, which ends no row (A.7): as rows, or before the header ends. */
  readonly endInReturns: boolean;
  /** There is more than a header. */
  readonly hasRows: boolean;
}

/** Looks at the first block of one source after the other. `isWhole`: there is nothing after it. */
export function createLook(parameters: LoadParameters): (block: Buffer, isWhole: boolean) => RowsOfSource {
  const { has_header_row: hasHeader } = parameters.format;
  let header: Buffer | undefined;
  return (block, isWhole) => {
    let begin = startsWith(block, 0, byteOrderMark) ? byteOrderMark.length : 0;
    while (block[begin] === newline || (block[begin] === carriageReturn && block[begin + 1] === newline)) begin += 1;
    const ends = rowEndsOf(parameters);
    const first = ends === undefined ? undefined : firstRow(ends, block, begin);
    if (first === undefined) return { endInReturns: false, hasRows: ends === undefined && block.length > 0 };
    const isOnly = block[first.end - 1] !== newline;
    const looked = isOnly || hasHeader ? block.subarray(begin, first.end) : Buffer.alloc(0);
    const returns = rowEndsOf(parameters, carriageReturn)?.find(looked, 0, 0, (end) =>
      end === looked.length ? isWhole : looked[end] !== newline,
    );
    if (hasHeader && header === undefined && first.header !== "unclear") header = first.header;
    const isHeader = first.header !== "unclear" && header?.equals(first.header) === true;
    const rest = block.subarray(first.end);
    return {
      endInReturns: returns !== undefined && returns !== -1,
      hasRows: !isHeader || !isWhole || rest.some((byte) => byte !== newline && byte !== carriageReturn),
    };
  };
}

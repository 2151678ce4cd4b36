import { InputError } from "#errors.ts";
import { RowRanges, rowSyntax } from "#row-scan.ts";
import type { RowSyntax } from "#row-scan.ts";
import type { LoadParameters } from "#wire/loads.ts";

/** How many bytes are read, searched and sent at a time. */
export const blockSize = 1024 * 1024;

const newline = 0x0a;
const carriageReturn = 0x0d;

/** What the beginning of a source says of its rows. */
export interface SourceStart {
  /** Its lines seem to end in a carriage return alone, which ends no row (A.7): as rows, or before the header ends. */
  readonly endInReturns: boolean;
  /** There is more than a header. */
  readonly hasRows: boolean;
  /** Where it may be cut into chunks; undefined: nowhere. */
  readonly cuts?: Cuts | undefined;
}

/**
 * The places in a block where a chunk may end: the indexes after it. All blocks of a source are shown in their order.
 * @param isWanted whether a chunk is to end there, if it may
 */
export type Cuts = (block: Buffer, isWanted: (end: number) => boolean) => Iterable<number>;

const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);
/** If the header does not end in the first block, or is longer than this, no source is cut. */
const longestHeader = 64 * 1024;

/** Reads the first block of one source of a load after the other. `isWhole`: there is nothing after it. */
export function createStarts(parameters: LoadParameters): (block: Buffer, isWhole: boolean) => SourceStart {
  const { format } = parameters;
  const { has_header_row: hasHeader, type } = format;
  const syntax = rowSyntax(type, {
    separator: format.field_separator,
    enclosing: format.enclosing_character,
    escape: format.escape_character,
  });
  /** The load's header, without its row end; unclear: the first row of some source was not found. */
  let header: FirstRow["text"] | undefined;
  return (block, isWhole) => {
    const begin = startsWith(block, 0, byteOrderMark) ? byteOrderMark.length : 0;
    const row = firstRow(block, begin, syntax, isWhole);
    const isFirst = hasHeader && header === undefined;
    if (isFirst) header = row?.text;
    const isHeader = header instanceof Buffer && row?.text instanceof Buffer && header.equals(row.text);
    return {
      endInReturns: row !== undefined && row.hasReturn && (hasHeader || row.isOpen),
      hasRows: row !== undefined && !(isHeader && isWhole && row.isLast),
      cuts:
        header === "unclear" || (hasHeader && header === undefined)
          ? undefined
          : cutsOf(syntax, begin, isFirst ? row?.end : 0, header),
    };
  };
}

interface FirstRow {
  /** Without its end; unclear: it is too long, or nobody knows where it ends. */
  readonly text: Buffer | "unclear";
  /** The index after it. */
  readonly end: number;
  /** No newline ends it. */
  readonly isOpen: boolean;
  /** Nothing but empty lines follows in the block. */
  readonly isLast: boolean;
  /** It has a carriage return that ends no row and is neither enclosed nor escaped. */
  readonly hasReturn: boolean;
}

/** The first row of a source; undefined if the source is empty. */
function firstRow(block: Buffer, begin: number, syntax: RowSyntax, isWhole: boolean): FirstRow | undefined {
  // A newline may follow the last return.
  const known = !isWhole && block.at(-1) === carriageReturn ? block.subarray(0, -1) : block;
  const ranges = new RowRanges(syntax, true);
  ranges.scan(known.subarray(begin));
  ranges.end();
  const [row, ...others] = ranges.rows;
  if (row === undefined)
    return isWhole ? undefined : { text: "unclear", end: block.length, isOpen: true, isLast: true, hasReturn: false };
  const bytes = known.subarray(begin + row.from, begin + row.to);
  const isOpen = bytes.at(-1) !== newline;
  const isLast = others.length === 0;
  // The service takes the first line for the header where an enclosing character has no second one.
  const isUnclear = (!isWhole && isOpen) || (ranges.unterminated && isLast && bytes.includes(newline));
  const length = bytes.length - (isOpen ? 0 : bytes.at(-2) === carriageReturn ? 2 : 1);
  return {
    text: isUnclear || bytes.length > longestHeader ? "unclear" : Buffer.from(bytes.subarray(0, length)),
    end: begin + row.to,
    isOpen,
    isLast,
    hasReturn: row.hasReturn,
  };
}

/**
 * The cuts of a source. A chunk must not begin with something that the service would drop there: a byte order mark, or a
 * repetition of the header line (A.7).
 * @param begin where its rows begin in the first block
 * @param after where the header ends there; a chunk has more than that
 */
function cutsOf(syntax: RowSyntax, begin: number, after = 0, header?: Buffer): Cuts {
  const ranges = new RowRanges(syntax, true);
  const lookahead = Math.max(byteOrderMark.length, (header?.length ?? 0) + 2);
  /** Where the block begins, counted as the ranges are. */
  let offset = -begin;
  let least = after;

  function isDropped(block: Buffer, at: number): boolean {
    if (startsWith(block, at, byteOrderMark)) return true;
    return header !== undefined && (isLine(block, at, header) || isLine(block, at, Buffer.alloc(0)));
  }

  return function* cuts(block, isWanted) {
    ranges.scan(block.subarray(Math.max(0, -offset)));
    for (const { to } of ranges.rows) {
      const end = to - offset;
      const isPossible = end > least && end + lookahead <= block.length;
      if (isPossible && isWanted(end) && !isDropped(block, end)) yield end;
    }
    ranges.rows = [];
    offset += block.length;
    least = 0;
  };
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

import type { LoadFormat } from "./load-format.ts";

/** A longer row is rejected: DuckDB holds a row in memory, several times. In bytes. */
const longestRow = 64 * 1024 * 1024;

const tooLong = `the row is longer than ${longestRow / 1024 / 1024} MiB`;
/** What a row with a lone `\r` may be: rows of a system that ends lines so (A.7). */
export const loneReturn = "it has a carriage return (\\r) without a newline, which ends no row";
const notUtf8 = "bytes that are not UTF-8";

const newline = 0x0a;
const carriageReturn = 0x0d;
const quote = 0x22;
const comma = 0x2c;

const atField = 0;
const inText = 1;
const inQuotes = 2;
const afterQuotes = 3;
const afterEscape = 4;

export function createSplitter({ format, columnNames, onRow }: SplitOptions): Splitter {
  const encoder = new TextEncoder();
  const isCsv = format.type === "csv";
  const separator = encoder.encode(format.fieldSeparator);
  const enclosing = encoder.encode(isCsv ? format.enclosingCharacter : "");
  const escape = encoder.encode(isCsv ? "" : format.escapeCharacter);
  const separatorByte = separator[0] ?? -1;
  const enclosingByte = enclosing[0] ?? -1;
  const escapeByte = escape[0] ?? -1;
  /** How many bytes must be there to know what the first of them is. */
  const lookahead = Math.max(2, separator.length, enclosing.length, escape.length);
  const nullText = encoder.encode(format.nullValue);
  /** Raw bytes are kept only where a null cannot be told without them: `\N` is escaped. */
  const keepsRaw = !isCsv && escape.length > 0 && format.nullValue.includes(format.escapeCharacter);
  const raw = new Uint8Array(nullText.length + 1);
  const width = columnNames.length;
  const utf8 = createUtf8Check();

  const ordinary = new Uint8Array(256).fill(1, 0, 0x80);
  for (const byte of [newline, carriageReturn, quote, separatorByte, enclosingByte, escapeByte]) {
    if (byte >= 0) ordinary[byte] = 0;
  }

  let out = new Uint8Array(64 * 1024);
  let position = 0;
  /** Where the current row, and the content of the current field, begin in `out`. */
  let row = 0;
  let field = 0;

  let state = atField;
  /** How many fields of the row are complete. */
  let fields = 0;
  let flaw: string | undefined;
  /** Whether the row has a carriage return outside of enclosing characters that ends no row. */
  let hasReturn = false;
  /** Where the row and the field begin in the chunk, and how many bytes of the chunk were scanned before. */
  let rowFrom = 0;
  let fieldFrom = 0;
  let offset = 0;
  let rawLength = 0;
  let isEscaped = false;
  let longest = 0;
  let hasNewline = false;
  let unterminated = false;
  let rest: Uint8Array = new Uint8Array();

  beginRow(0);

  function reserve(bytes: number): void {
    if (position + bytes <= out.length) return;
    const larger = new Uint8Array(Math.max(position + bytes, out.length * 2));
    larger.set(out.subarray(0, position));
    out = larger;
  }

  function beginRow(from: number): void {
    rowFrom = from;
    fieldFrom = from;
    fields = 0;
    flaw = undefined;
    hasReturn = false;
    row = position;
    out[position++] = comma;
    out[position++] = quote;
    field = position;
    rawLength = 0;
    isEscaped = false;
    utf8.reset();
  }

  function writeText(text: Uint8Array): void {
    for (const byte of text) {
      out[position++] = byte;
      if (byte === quote) out[position++] = quote;
    }
  }

  function blame(what: string): void {
    const column = columnNames[Math.min(fields, width - 1)] ?? "";
    flaw ??= `column ${column}: ${what}`;
  }

  function isNull(): boolean {
    if (keepsRaw) return rawLength === nullText.length && equal(raw, 0, nullText);
    if (isEscaped) return false;
    let at = field;
    for (const byte of nullText) {
      if (at >= position || out[at++] !== byte) return false;
      if (byte === quote && out[at++] !== quote) return false;
    }
    return at === position;
  }

  /** @param to where the field ends in the chunk */
  function endField(to: number): void {
    if (!utf8.isComplete()) blame(notUtf8);
    if (fields >= width || flaw !== undefined || isNull()) position = field - 1;
    else out[position++] = quote;
    fields++;
    if (fields < width) out[position++] = comma;
    out[position++] = quote;
    field = position;
    fieldFrom = to;
    rawLength = 0;
    isEscaped = false;
  }

  /**
   * @param to where the text of the row ends in the chunk
   * @param next where the next row begins
   */
  function endRow(to: number, next: number): void {
    if (to === rowFrom && width > 1) {
      position = row;
      beginRow(next);
      return;
    }
    let trailing = false;
    if (format.trailingFieldSeparator) {
      trailing = fieldFrom === to && fields > 0;
      if (!trailing) blame(`no ${JSON.stringify(format.fieldSeparator)} at the end of the row`);
    }
    if (!trailing) endField(to);
    // The quote that would open another field.
    position = field - 1;
    const returns = hasReturn ? `; ${loneReturn}` : "";
    if (fields > width && !format.flexible) {
      blame(`the row has ${fields} fields, the table ${width} ${width === 1 ? "column" : "columns"}${returns}`);
    } else if (fields < width && !format.flexible) {
      blame(`missing: the row has ${fields} of ${width} fields${returns}`);
    }
    if (position - row > longestRow) blame(tooLong);
    if (flaw === undefined) {
      // A separator was written behind each field but the last column's.
      for (let i = fields + 1; i < width; i++) out[position++] = comma;
    } else {
      const text = encoder.encode(`"${flaw.replaceAll('"', '""')}"`);
      // The names of columns may hold one.
      if (text.includes(newline)) hasNewline = true;
      position = row;
      reserve(text.length + width + 8);
      out.set(text, position);
      position += text.length;
      for (let i = 0; i < width; i++) out[position++] = comma;
    }
    out[position++] = newline;
    longest = Math.max(longest, position - row);
    onRow(rowFrom, next, fields, hasReturn);
    beginRow(next);
  }

  /** Most bytes are ordinary. Locals make this several times faster. */
  function copyOrdinary(bytes: Uint8Array, from: number, end: number): number {
    const target = out;
    let to = position;
    let at = from;
    for (; at < end; at++) {
      const byte = bytes[at] as number;
      if (ordinary[byte] === 0) break;
      target[to++] = byte;
    }
    position = to;
    return at;
  }

  /** @param isLast whether no bytes follow: then nothing is looked for beyond them */
  function scanBytes(bytes: Uint8Array, isLast: boolean): number {
    const { length } = bytes;
    const end = isLast ? length : length - lookahead + 1;
    // What a byte may become at most, with a short row around it.
    const room = width + 16;
    reserve((end > 0 ? end * 4 : 0) + room);
    let at = 0;
    while (at < end) {
      if ((state === inText || state === inQuotes) && !keepsRaw && !utf8.isOpen()) {
        at = copyOrdinary(bytes, at, end);
        if (at === end) break;
      }
      const byte = bytes[at] as number;
      if (state === inQuotes) {
        if (byte === enclosingByte && equal(bytes, at, enclosing)) {
          state = afterQuotes;
          if (!utf8.isComplete()) blame(notUtf8);
          at += enclosing.length;
          continue;
        }
      } else if (state === afterEscape) {
        state = inText;
      } else {
        if (byte === newline || (byte === carriageReturn && bytes[at + 1] === newline)) {
          const next = byte === newline ? at + 1 : at + 2;
          endRow(offset + at, offset + next);
          state = atField;
          at = next;
          reserve((end - at) * 4 + room);
          continue;
        }
        if (byte === carriageReturn) hasReturn = true;
        if (byte === separatorByte && equal(bytes, at, separator)) {
          at += separator.length;
          endField(offset + at);
          state = atField;
          continue;
        }
        if (byte === enclosingByte && state !== inText && equal(bytes, at, enclosing)) {
          if (state === afterQuotes) {
            writeText(enclosing);
          }
          state = inQuotes;
          at += enclosing.length;
          continue;
        }
        if (state === afterQuotes) blame(`text after the closing ${format.enclosingCharacter}`);
        if (byte === escapeByte && equal(bytes, at, escape)) {
          state = afterEscape;
          isEscaped = true;
          at += escape.length;
          if (keepsRaw) for (const part of escape) if (rawLength < raw.length) raw[rawLength++] = part;
          if (!utf8.isComplete()) blame(notUtf8);
          continue;
        }
        state = inText;
      }
      if ((byte >= 0x80 || utf8.isOpen()) && !utf8.accepts(byte)) blame(notUtf8);
      out[position++] = byte;
      if (byte === newline) hasNewline = true;
      if (byte === quote) out[position++] = quote;
      if (keepsRaw && rawLength < raw.length) raw[rawLength++] = byte;
      at++;
    }
    if (position - row > longestRow) blame(tooLong);
    // Nothing more is needed of a row that is rejected.
    if (flaw !== undefined) position = field;
    offset += at;
    return at;
  }

  function scan(bytes: Uint8Array, isLast: boolean): void {
    const all = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
    // A copy: a Buffer's own slice would share its memory.
    rest = new Uint8Array(all.subarray(scanBytes(all, isLast)));
  }

  return {
    scan: (bytes) => {
      scan(bytes, false);
    },
    end: () => {
      scan(new Uint8Array(), true);
      if (offset === rowFrom) return;
      if (state === inQuotes) {
        unterminated = true;
        blame(`no closing ${format.enclosingCharacter} before the end of the chunk`);
      }
      if (state === afterEscape) {
        reserve(escape.length + width + 16);
        writeText(escape);
      }
      reserve(width + 16);
      endRow(offset, offset);
    },
    take: () => {
      // What has been written of the current row moves to the front.
      const complete = out.slice(0, row);
      out.copyWithin(0, row, position);
      position -= row;
      field -= row;
      row = 0;
      return complete;
    },
    get hasNewline() {
      return hasNewline;
    },
    get longest() {
      return longest;
    },
    get unterminated() {
      return unterminated;
    },
  };
}

/** What a splitter needs to know of a load. */
export interface SplitOptions {
  readonly format: LoadFormat;
  /** The names of the table's columns, in its order. */
  readonly columnNames: readonly string[];
  /**
   * The end of a row of the chunk: it was sent in the bytes from `from` to `to`, its end of line included. `hasReturn`:
   * there is a lone `\r` outside of enclosing characters.
   */
  readonly onRow: (from: number, to: number, fields: number, hasReturn: boolean) => void;
}

/**
 * Finds the rows and fields of one chunk exactly as A.7, A.15 to A.17 and A.23 define them, and rewrites them in an
 * unambiguous form: `flaw,"field","field"` and `\n`. Every field is in double quotes, doubled inside, unless it is null.
 * For a row that cannot be split, the flaw says why (`"column c: …"`) and the fields are null.
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

/** Checks text byte by byte. */
export interface Utf8Check {
  /** Whether a character has begun and is not complete, or the text was broken before. */
  isOpen(): boolean;
  /** Whether the text may go on with this byte. After the first one that may not, nothing is checked. */
  accepts(byte: number): boolean;
  /** Whether the text may end here. */
  isComplete(): boolean;
  reset(): void;
}

/** UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
function createUtf8Check(): Utf8Check {
  /** How many bytes the character still needs, and what the next of them may be. */
  let missing = 0;
  let lowest = 0x80;
  let highest = 0xbf;

  function begin(byte: number): boolean {
    lowest = 0x80;
    highest = 0xbf;
    if (byte < 0x80) return true;
    if (byte < 0xc2 || byte > 0xf4) return false;
    missing = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    if (byte === 0xe0) lowest = 0xa0;
    if (byte === 0xed) highest = 0x9f;
    if (byte === 0xf0) lowest = 0x90;
    if (byte === 0xf4) highest = 0x8f;
    return true;
  }

  return {
    isOpen: () => missing > 0,
    accepts: (byte) => {
      if (missing === 0) return begin(byte);
      const is = byte >= lowest && byte <= highest;
      missing = is ? missing - 1 : 0;
      lowest = 0x80;
      highest = 0xbf;
      return is;
    },
    isComplete: () => missing === 0,
    reset: () => {
      missing = 0;
    },
  };
}

/** Whether `part` stands at `at`. */
function equal(bytes: Uint8Array, at: number, part: Uint8Array): boolean {
  for (let i = 0; i < part.length; i++) if (bytes[at + i] !== part[i]) return false;
  return true;
}

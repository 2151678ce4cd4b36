import type { LoadFormat } from "#service/loads/load-format.ts";

/** Bits for the kinds of bytes in the fields of a column. Fields that stand for null do not count. */
export const digits = 1;
export const minus = 2;
export const point = 4;
/** Slashes and colons. */
export const marks = 8;
export const spaces = 16;
const others = 32;
/** There are empty fields. */
export const empties = 64;
/** There are fields like `2024-02-29`, like `2024-02-29 23:59:59`, and others; of a column with `others`, not all are told. */
export const days = 128;
export const moments = 256;
export const shapeless = 512;

/** A separator, enclosing character or line end. */
const special = 1024;

const newline = 0x0a;
const carriageReturn = 0x0d;

const zero = 0x30;
const two = 0x32;
const three = 0x33;
const nine = 0x39;
const colon = 0x3a;
const dash = 0x2d;
const space = 0x20;
/** The longest field whose shape matters: `2024-02-29 23:59:59`. */
const longestShape = 19;

const atField = 0;
const inText = 1;
const inQuotes = 2;
const afterQuotes = 3;

/**
 * Rows with as many fields as the table, correctly quoted and ending with `\n`. DuckDB's CSV reader accepts more than
 * that, in its own way: it drops spaces around quotes and an extra empty field, and ends rows at a lone `\r`; and it
 * reads a quoted newline correctly only with one thread.
 */
export interface RegularRows {
  readonly count: number;
  /** What the fields of each column are made of. */
  readonly kinds: Uint16Array;
}

/** Checks whether all rows are regular, and of what kinds of bytes their fields are made. */
interface RowScan {
  take(bytes: Uint8Array): void;
  /** The next bytes begin a row. */
  end(): void;
  /** Whether all rows were regular so far. */
  readonly isRegular: boolean;
  /** The rows so far. */
  rows(): RegularRows;
}

/** A scan of whole rows, without header and byte order mark. */
export function createRowScan(format: LoadFormat, width: number): RowScan {
  const separator = format.fieldSeparator.charCodeAt(0);
  const mark = format.type === "csv" && format.enclosingCharacter !== "" ? format.enclosingCharacter.charCodeAt(0) : -1;
  const nullText = Buffer.from(format.nullValue);
  const kindOf = kindsOf(separator, mark);
  /** One more than columns, for extra fields. */
  const kinds = new Uint16Array(width + 1);
  let state = atField;
  let fields = 1;
  let count = 0;
  /** Of the field so far, and how many bytes of it were in blocks before. */
  let kind = 0;
  let begun = 0;
  let isRegular = true;
  /** The last bytes before this block: a field that stands for null may begin there. */
  let before = Buffer.alloc(0);

  /** Whether the bytes before `at` are a field that stands for null. */
  function isNull(bytes: Uint8Array, at: number): boolean {
    const from = at - nullText.length;
    for (let i = from; i < at; i++) if (byteAt(bytes, i) !== nullText[i - from]) return false;
    const last = byteAt(bytes, from - 1);
    return last === separator || last === newline || last === undefined;
  }

  /** What a field looks like that begins in the block before. */
  function shapeAcross(bytes: Uint8Array, from: number, to: number): number {
    if (to - from > longestShape) return shapeless;
    return shapeOf(
      Uint8Array.from({ length: to - from }, (_, i) => byteAt(bytes, from + i) ?? 0),
      0,
      to - from,
    );
  }

  function byteAt(bytes: Uint8Array, at: number): number | undefined {
    return at < 0 ? before[before.length + at] : bytes[at];
  }

  function remember(bytes: Uint8Array): void {
    const enough = Math.max(nullText.length + 1, longestShape);
    before = Buffer.concat([before, bytes.subarray(-enough)]).subarray(-enough);
  }

  function scan(bytes: Uint8Array): boolean {
    const { length } = bytes;
    // Locals and inner loops make this several times faster.
    let now = state;
    let field = fields;
    let seen = kind;
    let at = 0;
    let from = -begun;
    while (at < length) {
      if (now === atField) {
        const byte = bytes[at] as number;
        if (byte === mark) {
          now = inQuotes;
          seen = others;
          at++;
        } else if ((kindOf[byte] as number) < special) {
          now = inText;
        }
      }
      if (now === inQuotes) {
        let byte = mark;
        while (at < length && (byte = bytes[at] as number) !== mark && byte > carriageReturn) at++;
        if (at === length) break;
        if (byte === mark) now = afterQuotes;
        else if (byte === newline || byte === carriageReturn || byte === 0) return false;
        at++;
        continue;
      }
      if (now === inText) {
        let one = special;
        while (at < length && (one = kindOf[bytes[at] as number] as number) < special) {
          seen |= one;
          at++;
        }
        if (at === length) break;
      }
      const byte = bytes[at++] as number;
      if (byte === separator || byte === newline) {
        if (now === atField) seen = empties;
        if (byte === separator || field === width) {
          if (field > width) return false;
          const known = kinds[field - 1] as number;
          if ((known & seen) !== seen && !(now === inText && isNull(bytes, at - 1))) kinds[field - 1] = known | seen;
          if (((known & (shapeless | others)) | (seen & (others | empties))) === 0) {
            kinds[field - 1] =
              known | seen | (from < 0 ? shapeAcross(bytes, from, at - 1) : shapeOf(bytes, from, at - 1));
          }
        }
        if (byte === separator) {
          field++;
        } else {
          // An empty line has one field, empty, and is skipped.
          if (field === width) count++;
          else if (field !== 1 || now !== atField) return false;
          field = 1;
        }
        now = atField;
        seen = 0;
        from = at;
      } else if (byte === mark && now === afterQuotes) {
        now = inQuotes;
      } else {
        return false;
      }
    }
    state = now;
    fields = field;
    kind = seen;
    begun = length - from;
    return true;
  }

  return {
    take: (bytes) => {
      if (!isRegular) return;
      isRegular = scan(bytes);
      remember(bytes);
    },
    end: () => {
      // The last row may end without a newline.
      if (isRegular && (fields > 1 || state !== atField)) {
        isRegular = state !== inQuotes && scan(Uint8Array.of(newline));
      }
      state = atField;
      fields = 1;
      kind = 0;
      begun = 0;
      before = Buffer.alloc(0);
    },
    get isRegular() {
      return isRegular;
    },
    rows: () => ({ count, kinds: kinds.slice(0, width) }),
  };
}

/** What a field looks like that has nothing but digits, spaces and the marks of dates. */
function shapeOf(bytes: Uint8Array, from: number, to: number): number {
  const length = to - from;
  if (length !== 10 && length !== longestShape) return shapeless;
  if (bytes[from + 4] !== dash || bytes[from + 7] !== dash) return shapeless;
  if (!hasDigits(bytes, from, 4) || !hasDigits(bytes, from + 5, 2) || !hasDigits(bytes, from + 8, 2)) return shapeless;
  if (length === 10) return days;
  if (bytes[from + 10] !== space || bytes[from + 13] !== colon || bytes[from + 16] !== colon) return shapeless;
  for (let at = from + 11; at < to; at += 3) if (!hasDigits(bytes, at, 2)) return shapeless;
  // DuckDB takes 24:00:00 for the next day.
  return bytes[from + 11] === two && (bytes[from + 12] as number) > three ? shapeless : moments;
}

function hasDigits(bytes: Uint8Array, from: number, count: number): boolean {
  for (let at = from; at < from + count; at++) {
    const byte = bytes[at] as number;
    if (byte < zero || byte > nine) return false;
  }
  return true;
}

function kindsOf(separator: number, mark: number): Uint16Array {
  const kindOf = new Uint16Array(256).fill(others);
  kindOf.fill(digits, 0x30, 0x3a);
  kindOf[0x2d] = minus;
  kindOf[0x2e] = point;
  kindOf[0x2f] = marks;
  kindOf[0x3a] = marks;
  kindOf[0x20] = spaces;
  for (const byte of [0, newline, carriageReturn, separator, mark]) if (byte >= 0) kindOf[byte] = special;
  return kindOf;
}

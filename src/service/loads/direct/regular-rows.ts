import { atField, inQuotes, inText, loneReturn, returnAtEnd, RowScanner, stray, unfinished } from "#row-scan.ts";
import { syntaxOf } from "#service/loads/load-format.ts";
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

/** NUL and ends of lines, and enclosing characters: where there are such in a field, or outside of the enclosing ones. */
const control = 1024;
const enclosing = 2048;
const irregular = control | loneReturn | returnAtEnd;

const zero = 0x30;
const two = 0x32;
const three = 0x33;
const nine = 0x39;
const colon = 0x3a;
const dash = 0x2d;
const space = 0x20;
/** The longest field whose shape matters: `2024-02-29 23:59:59`. */
const longestShape = 19;

/**
 * Looks whether rows, without header and byte order mark, are regular: with as many fields as the table, correctly quoted and
 * ending with `\n`. DuckDB's CSV reader accepts more than that, in its own way: it drops spaces around quotes and an extra empty
 * field, and ends rows at a lone `\r`; and it reads a quoted newline correctly only with one thread.
 */
export class RegularRows extends RowScanner {
  /** Whether all rows were regular so far. */
  isRegular = true;
  /** How many there were. */
  count = 0;
  /** What the fields of each column are made of. */
  readonly kinds: Uint16Array;

  readonly #width: number;
  readonly #nullText: Uint8Array;
  #fields = 0;
  /** What came before of a field that goes on: its kinds, and its bytes as far as they matter. */
  #begun = 0;
  #before: Uint8Array = new Uint8Array();

  constructor(format: LoadFormat, width: number) {
    const syntax = syntaxOf(format);
    super(syntax, kindsOf(syntax.enclosing[0]), false);
    this.#width = width;
    this.#nullText = Buffer.from(format.nullValue);
    this.kinds = new Uint16Array(width);
  }

  protected override part(bytes: Uint8Array, from: number, to: number, kinds: number, why: number): void {
    if (why === stray || (kinds & irregular) !== 0) this.isRegular = false;
    // What enclosing characters hold does not matter.
    if (why !== unfinished) return;
    this.#begun |= kinds;
    const enough = Math.max(longestShape, this.#nullText.length) + 1 - this.#before.length;
    this.#before = Buffer.concat([this.#before, bytes.subarray(from, Math.min(to, from + enough))]);
  }

  protected override field(bytes: Uint8Array, from: number, to: number, kinds: number, state: number): void {
    const column = this.#fields++;
    if (column < this.#width && this.#begun === 0) this.#look(column, bytes, from, to, kinds, state);
    else this.#lookAtLong(column, bytes, from, to, kinds, state);
  }

  protected override row(bytes: Uint8Array, from: number, to: number, kinds: number, state: number): void {
    if (this.#fields + 1 === this.#width && state !== inQuotes) {
      this.count++;
      this.field(bytes, from, to, kinds, state);
    } else if (this.#fields > 0 || state !== atField || kinds !== 0) this.isRegular = false;
    // Otherwise it is an empty line, which is skipped.
    this.#fields = 0;
  }

  /** A field that began in an earlier block, or one too many. */
  #lookAtLong(column: number, bytes: Uint8Array, from: number, to: number, kinds: number, state: number): void {
    if (column >= this.#width) {
      this.isRegular = false;
      return;
    }
    const whole = Buffer.concat([this.#before, bytes.subarray(from, Math.min(to, from + longestShape))]);
    this.#look(column, whole, 0, whole.length, kinds | this.#begun, state);
    this.#begun = 0;
    this.#before = new Uint8Array();
  }

  #look(column: number, bytes: Uint8Array, from: number, to: number, kinds: number, state: number): void {
    const seen = state === inText ? kinds : state === atField ? empties : others;
    if (((kinds & irregular) | (seen & enclosing)) !== 0) this.isRegular = false;
    const columns = this.kinds;
    const known = columns[column] as number;
    if ((known & seen) !== seen && !(state === inText && this.#isNull(bytes, from, to))) columns[column] = known | seen;
    if (((known & (shapeless | others)) | (seen & (others | empties))) === 0)
      columns[column] = known | seen | shapeOf(bytes, from, to);
  }

  #isNull(bytes: Uint8Array, from: number, to: number): boolean {
    const nullText = this.#nullText;
    if (to - from !== nullText.length) return false;
    for (let i = 0; i < nullText.length; i++) if (bytes[from + i] !== nullText[i]) return false;
    return true;
  }
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

function kindsOf(mark: number | undefined): Uint16Array {
  const kindOf = new Uint16Array(256).fill(others);
  kindOf.fill(digits, zero, nine + 1);
  kindOf[dash] = minus;
  kindOf[0x2e] = point;
  kindOf[0x2f] = marks;
  kindOf[colon] = marks;
  kindOf[space] = spaces;
  for (const byte of [0, 0x0a, 0x0d]) kindOf[byte] = control;
  if (mark !== undefined) kindOf[mark] = enclosing;
  return kindOf;
}

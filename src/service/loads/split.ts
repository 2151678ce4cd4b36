import { isUtf8 } from "node:buffer";
import { afterEscape, atField, escaped, inQuotes, loneReturn, RowScanner, stray } from "#row-scan.ts";
import { syntaxOf } from "./load-format.ts";
import type { LoadFormat } from "./load-format.ts";

/** A longer row is rejected: DuckDB holds a row in memory, several times. In bytes. */
const longestRow = 64 * 1024 * 1024;

const tooLong = `the row is longer than ${longestRow / 1024 / 1024} MiB`;
/** What a row with a lone `\r` may be: rows of a system that ends lines so (A.7). */
export const loneReturnFlaw = "it has a carriage return (\\r) without a newline, which ends no row";

const newline = 0x0a;
const quote = 0x22;
const comma = 0x2c;

/** Kinds of bytes. */
const quotes = 1;
const newlines = 2;
/** Not ASCII. */
const wide = 4;

const kindOf = new Uint16Array(256).fill(wide, 0x80);
kindOf[quote] = quotes;
kindOf[newline] = newlines;

/** Beyond this, copying a content with one call is faster, in bytes. */
const shortContent = 40;

/**
 * Finds the rows and fields of one chunk exactly as A.7, A.15 to A.17 and A.23 define them, and rewrites them in an
 * unambiguous form: `flaw,"field","field"` and `\n`. Every field is in double quotes, doubled inside, unless it is null.
 * For a row that cannot be split, the flaw says why (`"column c: …"`) and the fields are null.
 */
export class Splitter extends RowScanner {
  /** Whether a field that was written holds a newline. */
  hasNewline = false;
  /** The length of the longest row written so far, in bytes. */
  longest = 0;

  readonly #format: LoadFormat;
  readonly #columnNames: readonly string[];
  readonly #width: number;
  readonly #escape: Uint8Array;
  readonly #nullText: Uint8Array;
  /** The field as it was sent, where a null cannot be told without it: `\N` is escaped. One byte more than the null text has. */
  readonly #raw: Uint8Array | undefined;
  #rawLength = 0;
  #isEscaped = false;

  #out = new Uint8Array(64 * 1024);
  #position = 0;
  /** Where the current row, and the content of the current field, begin in `out`. */
  #row = 0;
  #field = 0;
  /** How many fields of the row are complete. */
  #fields = 0;
  #flaw: string | undefined;
  #hasReturn = false;

  constructor(format: LoadFormat, columnNames: readonly string[]) {
    const syntax = syntaxOf(format);
    // In a table of one column it is an empty value.
    super(syntax, kindOf, columnNames.length > 1);
    this.#format = format;
    this.#columnNames = columnNames;
    this.#width = columnNames.length;
    this.#escape = syntax.escape;
    this.#nullText = new TextEncoder().encode(format.nullValue);
    const { escapeCharacter } = format;
    if (syntax.escape.length > 0 && format.nullValue.includes(escapeCharacter))
      this.#raw = new Uint8Array(this.#nullText.length + 1);
    this.#beginRow();
  }

  override scan(bytes: Uint8Array): void {
    super.scan(bytes);
    this.#bound();
  }

  override end(): void {
    super.end();
    this.#bound();
  }

  /** The complete rows written since the last call, valid until the next bytes. */
  take(): Uint8Array {
    // What has been written of the current row moves to the front.
    const complete = this.#out.slice(0, this.#row);
    this.#out.copyWithin(0, this.#row, this.#position);
    this.#position -= this.#row;
    this.#field -= this.#row;
    this.#row = 0;
    return complete;
  }

  protected override part(bytes: Uint8Array, from: number, to: number, kinds: number, why: number): void {
    this.#write(bytes, from, to, kinds);
    if (why === stray) this.#blame(`text after the closing ${this.#format.enclosingCharacter}`);
    if (why !== escaped) return;
    this.#isEscaped = true;
    this.#keepRaw(this.#escape, 0, this.#escape.length);
  }

  protected override field(bytes: Uint8Array, from: number, to: number, kinds: number): void {
    this.#write(bytes, from, to, kinds);
    this.#endField();
  }

  protected override row(bytes: Uint8Array, from: number, to: number, kinds: number, state: number): void {
    const { trailingFieldSeparator, fieldSeparator, enclosingCharacter, flexible } = this.#format;
    const width = this.#width;
    if (state === inQuotes) this.#blame(`no closing ${enclosingCharacter} before the end of the chunk`);
    this.#write(bytes, from, to, kinds);
    if (state === afterEscape) this.#copy(this.#escape, 0, this.#escape.length, quotes);
    const isTrailing = trailingFieldSeparator && state === atField && this.#fields > 0;
    if (trailingFieldSeparator && !isTrailing)
      this.#blame(`no ${JSON.stringify(fieldSeparator)} at the end of the row`);
    if (!isTrailing) this.#endField();
    const fields = this.#fields;
    // The quote that would open another field.
    this.#position = this.#field - 1;
    const returns = this.#hasReturn ? `; ${loneReturnFlaw}` : "";
    if (fields > width && !flexible)
      this.#blame(`the row has ${fields} fields, the table ${width} ${width === 1 ? "column" : "columns"}${returns}`);
    else if (fields < width && !flexible) this.#blame(`missing: the row has ${fields} of ${width} fields${returns}`);
    if (this.#position - this.#row > longestRow) this.#blame(tooLong);
    if (this.#flaw !== undefined) this.#writeFlaw(this.#flaw);
    // A separator was written behind each field but the last column's.
    else for (let i = fields + 1; i < width; i++) this.#out[this.#position++] = comma;
    this.#out[this.#position++] = newline;
    this.longest = Math.max(this.longest, this.#position - this.#row);
    this.#beginRow();
  }

  #beginRow(): void {
    this.#fields = 0;
    this.#flaw = undefined;
    this.#hasReturn = false;
    this.#reserve(0);
    this.#row = this.#position;
    this.#out[this.#position++] = comma;
    this.#beginField();
  }

  #beginField(): void {
    this.#out[this.#position++] = quote;
    this.#field = this.#position;
    this.#rawLength = 0;
    this.#isEscaped = false;
  }

  #endField(): void {
    this.#reserve(0);
    if (this.#fields >= this.#width || this.#flaw !== undefined || this.#isNull()) this.#position = this.#field - 1;
    else this.#out[this.#position++] = quote;
    this.#fields++;
    if (this.#fields < this.#width) this.#out[this.#position++] = comma;
    this.#beginField();
  }

  #writeFlaw(flaw: string): void {
    const text = new TextEncoder().encode(`"${flaw.replaceAll('"', '""')}"`);
    // The names of columns may hold one.
    if (text.includes(newline)) this.hasNewline = true;
    this.#position = this.#row;
    this.#reserve(text.length);
    this.#out.set(text, this.#position);
    this.#position += text.length;
    for (let i = 0; i < this.#width; i++) this.#out[this.#position++] = comma;
  }

  /** Writes content of a field. */
  #write(bytes: Uint8Array, from: number, to: number, kinds: number): void {
    if ((kinds & loneReturn) !== 0) this.#hasReturn = true;
    // Nothing more is needed of a row that is rejected.
    if (from >= to || this.#flaw !== undefined) return;
    if ((kinds & wide) !== 0 && !isUtf8(bytes.subarray(from, to))) this.#blame("bytes that are not UTF-8");
    if ((kinds & newlines) !== 0) this.hasNewline = true;
    this.#keepRaw(bytes, from, to);
    this.#copy(bytes, from, to, kinds);
  }

  #copy(bytes: Uint8Array, from: number, to: number, kinds: number): void {
    this.#reserve(2 * (to - from));
    const out = this.#out;
    let position = this.#position;
    if ((kinds & quotes) !== 0) {
      for (let at = from; at < to; at++) {
        const byte = bytes[at] as number;
        out[position++] = byte;
        if (byte === quote) out[position++] = quote;
      }
    } else if (to - from > shortContent) {
      out.set(bytes.subarray(from, to), position);
      position += to - from;
    } else for (let at = from; at < to; at++) out[position++] = bytes[at] as number;
    this.#position = position;
  }

  #keepRaw(bytes: Uint8Array, from: number, to: number): void {
    const raw = this.#raw;
    if (raw === undefined) return;
    for (let at = from; at < to && this.#rawLength < raw.length; at++) raw[this.#rawLength++] = bytes[at] as number;
  }

  #isNull(): boolean {
    const nullText = this.#nullText;
    if (this.#raw !== undefined)
      return this.#rawLength === nullText.length && nullText.every((byte, i) => this.#raw?.[i] === byte);
    if (this.#isEscaped) return false;
    const out = this.#out;
    let at = this.#field;
    for (let i = 0; i < nullText.length; i++) {
      const byte = nullText[i];
      if (at >= this.#position || out[at++] !== byte) return false;
      if (byte === quote && out[at++] !== quote) return false;
    }
    return at === this.#position;
  }

  #blame(what: string): void {
    const column = this.#columnNames[Math.min(this.#fields, this.#width - 1)] ?? "";
    this.#flaw ??= `column ${column}: ${what}`;
  }

  /** Rejects a row as soon as it is too long. */
  #bound(): void {
    if (this.#position - this.#row > longestRow) this.#blame(tooLong);
    if (this.#flaw !== undefined) this.#position = this.#field;
  }

  /** Room for so many bytes, and the ends of a field and of a row. */
  #reserve(bytes: number): void {
    const wanted = this.#position + bytes + this.#width + 16;
    if (wanted <= this.#out.length) return;
    const larger = new Uint8Array(Math.max(wanted, this.#out.length * 2));
    larger.set(this.#out.subarray(0, this.#position));
    this.#out = larger;
  }
}

/** What tells fields and rows apart (A.7, A.23): one character each, in UTF-8. Empty: there is none. */
export interface RowSyntax {
  readonly separator: Uint8Array;
  readonly enclosing: Uint8Array;
  readonly escape: Uint8Array;
}

/** The syntax of rows, from the words of the interface. Only `csv` has an enclosing character, only `delimited` an escape. */
export function rowSyntax(
  type: "csv" | "delimited",
  characters: Readonly<Record<"separator" | "enclosing" | "escape", string>>,
): RowSyntax {
  const encoder = new TextEncoder();
  return {
    separator: encoder.encode(characters.separator),
    enclosing: encoder.encode(type === "csv" ? characters.enclosing : ""),
    escape: encoder.encode(type === "csv" ? "" : characters.escape),
  };
}

const newline = 0x0a;
const carriageReturn = 0x0d;

/** How far a field has been scanned: not at all, in text, between enclosing characters, behind the last of them, behind an escape. */
export const atField = 0;
export const inText = 1;
export const inQuotes = 2;
const afterQuotes = 3;
export const afterEscape = 4;

/** Kinds of bytes that the scanner itself tells: a `\r` that ends no row and is neither enclosed nor escaped; a row that ends in `\r\n`. */
export const loneReturn = 1 << 13;
export const returnAtEnd = 1 << 14;
/** In a table of kinds: what may end the content. The kinds that a scan asks for are below all of these. */
const special = 1 << 15;
const asked = loneReturn - 1;

/** What follows a part of a field: other bytes; the second of two enclosing characters, an escape character, text after the last enclosing one. */
export const unfinished = 0;
const doubled = 1;
export const escaped = 2;
export const stray = 3;

/**
 * Finds the fields and rows of a sequence of bytes as A.7 and A.23 define them, however it is cut into blocks. What is done with
 * them is up to the classes that extend it: each content is the bytes from `from` to `to`, and `kinds` are those of its bytes.
 */
export abstract class RowScanner {
  /** The bytes of the current row: when it is told, from its first one to the one behind its end. */
  protected rowFrom = 0;
  protected rowTo = 0;
  /** An enclosing character was missing at the end. */
  unterminated = false;

  readonly #syntax: RowSyntax;
  /** What a byte means outside of enclosing characters, and between them. */
  readonly #outside: Uint16Array;
  readonly #inside: Uint16Array;
  readonly #kindsOfMark: number;
  readonly #skipsEmpty: boolean;
  #state = atField;
  /** How many bytes were scanned before the current block. */
  #offset = 0;
  #rest: Uint8Array = new Uint8Array();

  /**
   * @param kinds bits below `loneReturn` for each byte: what has to be known of the bytes of a field
   * @param skipsEmpty whether a line without any character is no row
   */
  constructor(syntax: RowSyntax, kinds: Uint16Array, skipsEmpty: boolean) {
    this.#syntax = syntax;
    this.#skipsEmpty = skipsEmpty;
    this.#kindsOfMark = syntax.enclosing.reduce((found, byte) => found | (kinds[byte] ?? 0), 0);
    this.#outside = Uint16Array.from(kinds);
    this.#inside = Uint16Array.from(kinds);
    for (const byte of [newline, carriageReturn, syntax.separator[0], syntax.escape[0]])
      if (byte !== undefined) this.#outside[byte] = (kinds[byte] ?? 0) | special;
    const [mark] = syntax.enclosing;
    if (mark !== undefined) this.#inside[mark] = (kinds[mark] ?? 0) | special;
  }

  /** Content of a field that goes on, and what follows it. */
  protected abstract part(bytes: Uint8Array, from: number, to: number, kinds: number, why: number): void;
  /** The rest of a field that a separator ends. `state`: `atField` when there is nothing at all of it. */
  protected abstract field(bytes: Uint8Array, from: number, to: number, kinds: number, state: number): void;
  /** The rest of the last field of a row. */
  protected abstract row(bytes: Uint8Array, from: number, to: number, kinds: number, state: number): void;

  /** The next bytes. */
  scan(bytes: Uint8Array): void {
    const all = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    const end = all.length - undecided(all);
    this.#scan(all, end, false);
    // A copy: a Buffer's own slice would share its memory.
    this.#rest = new Uint8Array(all.subarray(end));
  }

  /** Nothing follows: the last row may end without a newline. The next bytes begin a row. */
  end(): void {
    this.#scan(this.#rest, this.#rest.length, true);
    this.unterminated = this.#state === inQuotes;
    this.#rest = new Uint8Array();
    this.#state = atField;
    this.rowFrom = this.#offset;
  }

  #scan(bytes: Uint8Array, end: number, isLast: boolean): void {
    const { separator, enclosing, escape } = this.#syntax;
    const [separatorByte, enclosingByte, escapeByte] = [separator[0], enclosing[0], escape[0]];
    // Locals and inner loops make this several times faster.
    const [outside, inside] = [this.#outside, this.#inside];
    let [state, at] = [this.#state, 0];
    /** The content that has not been told, and its kinds. */
    let [from, to, kinds] = [0, 0, 0];
    while (at < end) {
      if (state === atField && (outside[bytes[at] as number] as number) < special && bytes[at] !== enclosingByte)
        state = inText;
      if (state === inText || state === inQuotes) {
        const table = state === inText ? outside : inside;
        let kind = special;
        while (at < end && (kind = table[bytes[at] as number] as number) < special) {
          kinds |= kind;
          at++;
        }
        to = at;
        if (at === end) break;
      }
      let byte = bytes[at] as number;
      if (state === inQuotes && byte === enclosingByte && equal(bytes, at, enclosing)) {
        state = afterQuotes;
        at += enclosing.length;
        if (at === end) break;
        byte = bytes[at] as number;
      }
      if (state === inQuotes) {
        // Only the beginning of an enclosing character.
      } else if (state === afterEscape) {
        state = inText;
      } else if (byte === separatorByte && equal(bytes, at, separator)) {
        this.field(bytes, from, to, kinds, state);
        state = atField;
        at += separator.length;
        from = to = at;
        kinds = 0;
        continue;
      } else if (byte === newline || (byte === carriageReturn && bytes[at + 1] === newline)) {
        at += byte === newline ? 1 : 2;
        this.#endRow(bytes, from, to, byte === newline ? kinds : kinds | returnAtEnd, state, at);
        state = atField;
        from = to = at;
        kinds = 0;
        continue;
      } else if (byte === enclosingByte && state !== inText && equal(bytes, at, enclosing)) {
        // Doubled, it is content.
        if (state === afterQuotes) {
          this.part(bytes, from, to, kinds, doubled);
          kinds = this.#kindsOfMark;
        }
        from = state === afterQuotes ? at : at + enclosing.length;
        state = inQuotes;
        at += enclosing.length;
        to = at;
        continue;
      } else if (byte === escapeByte && equal(bytes, at, escape)) {
        this.part(bytes, from, to, kinds, escaped);
        state = afterEscape;
        at += escape.length;
        from = to = at;
        kinds = 0;
        continue;
      } else {
        if (state === afterQuotes) {
          this.part(bytes, from, to, kinds, stray);
          from = at;
          kinds = 0;
        }
        if (byte === carriageReturn) kinds |= loneReturn;
        state = inText;
      }
      kinds |= (outside[byte] as number) & asked;
      to = ++at;
    }
    this.#state = state;
    this.#offset += end;
    this.#endBlock(bytes, from, to, kinds, isLast);
  }

  #endBlock(bytes: Uint8Array, from: number, to: number, kinds: number, isLast: boolean): void {
    if (isLast && this.#offset > this.rowFrom) {
      this.rowTo = this.#offset;
      this.row(bytes, from, to, kinds, this.#state);
    } else if (from < to) this.part(bytes, from, to, kinds, unfinished);
  }

  /** @param next where the next row begins in the bytes */
  #endRow(bytes: Uint8Array, from: number, to: number, kinds: number, state: number, next: number): void {
    const length = this.#offset + next - this.rowFrom;
    this.rowTo = this.#offset + next;
    const isEmpty = state === atField && length === (kinds === returnAtEnd ? 2 : 1);
    if (!isEmpty || !this.#skipsEmpty) this.row(bytes, from, to, kinds, state);
    this.rowFrom = this.rowTo;
  }
}

/** A row: the bytes from `from` to `to`, its end included. */
export interface RowRange {
  readonly from: number;
  readonly to: number;
  /** How many it has, and whether there is nothing at all of the last one: the row may have a separator at its end. */
  readonly fields: number;
  readonly endsEmpty: boolean;
  /** It has a `\r` outside of enclosing characters that ends no row. */
  readonly hasReturn: boolean;
}

/** Where rows are. */
export class RowRanges extends RowScanner {
  /** Complete rows. The reader may take them away. */
  rows: RowRange[] = [];
  #fields = 1;
  #kinds = 0;

  constructor(syntax: RowSyntax, skipsEmpty: boolean) {
    super(syntax, new Uint16Array(256), skipsEmpty);
  }

  protected override part(_bytes: Uint8Array, _from: number, _to: number, kinds: number): void {
    this.#kinds |= kinds;
  }

  protected override field(_bytes: Uint8Array, _from: number, _to: number, kinds: number): void {
    this.#kinds |= kinds;
    this.#fields++;
  }

  protected override row(_bytes: Uint8Array, _from: number, _to: number, kinds: number, state: number): void {
    this.rows.push({
      from: this.rowFrom,
      to: this.rowTo,
      fields: this.#fields,
      endsEmpty: state === atField,
      hasReturn: ((this.#kinds | kinds) & loneReturn) !== 0,
    });
    this.#fields = 1;
    this.#kinds = 0;
  }
}

/** Whether `part` stands at `at`, where its first byte does. */
function equal(bytes: Uint8Array, at: number, part: Uint8Array): boolean {
  for (let i = 1; i < part.length; i++) if (bytes[at + i] !== part[i]) return false;
  return true;
}

/** How many bytes at the end tell nothing before others follow: a `\r`, or a character that is not complete. */
function undecided(bytes: Uint8Array): number {
  const { length } = bytes;
  if (bytes[length - 1] === carriageReturn) return 1;
  for (let count = 1; count <= 3 && count <= length; count++) {
    const byte = bytes[length - count] as number;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return (byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4) > count ? count : 0;
  }
  return 0;
}

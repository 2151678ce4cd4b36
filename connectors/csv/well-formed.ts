import type { Dialect } from "./options.ts";
import type { Place } from "./place.ts";

/** One row: its fields and the line on which it starts. */
export interface Row {
  readonly line: number;
  readonly fields: readonly string[];
}

/** The rows at the start of a text that are whole and written as they should be, without blank lines. */
export interface WellFormed {
  readonly rows: readonly Row[];
  /** Where the first row begins that is not one of them; the text's length when there is none. */
  readonly end: number;
  /** True: that row is not as it should be, whatever follows. False: its end is not there yet. */
  readonly isOdd: boolean;
}

/** One row, or why there is none. */
type RowAt = { readonly fields: string[]; readonly end: number } | "odd" | "unfinished";

/**
 * How to read rows as nearly all are written: without quotes, or with quotes around whole fields alone. What is odd is
 * for a parser that can say what is wrong with it. What is read begins with a row; `place` is kept at the line of the
 * row after those that were read.
 */
export function wellFormedIn(
  { delimiter, quote }: Pick<Dialect, "delimiter" | "quote">,
  place: Place,
): (text: string, isLast: boolean) => WellFormed {
  const plain = new RegExp(`[^\\r\\n${classOf(delimiter)}${classOf(quote)}]*`, "uy");

  /** A field that nothing encloses ends before the next delimiter, line end or quote. */
  function endOfPlain(text: string, from: number): number {
    plain.lastIndex = from;
    plain.test(text);
    return plain.lastIndex;
  }

  /** A row with quotes in it. */
  function quotedRow(text: string, from: number, isLast: boolean): RowAt {
    const fields: string[] = [];
    for (let at = from; ; at += delimiter.length) {
      let value = "";
      if (text.startsWith(quote, at)) {
        for (let open = at + quote.length; ; open = at + quote.length) {
          const close = text.indexOf(quote, open);
          if (close < 0) return isLast ? "odd" : "unfinished";
          at = close + quote.length;
          const isDoubled = text.startsWith(quote, at);
          value += text.slice(open, isDoubled ? at : close);
          if (!isDoubled) break;
        }
      } else {
        const end = endOfPlain(text, at);
        value = text.slice(at, end);
        at = end;
      }
      fields.push(value);
      if (text.startsWith(delimiter, at)) continue;
      const end = endOfLine(text, at, isLast);
      return typeof end === "number" ? { fields, end } : end;
    }
  }

  return (text, isLast) => {
    const rows: Row[] = [];
    const next = (what: string, from: number): number => {
      const found = text.indexOf(what, from);
      return found < 0 ? text.length : found;
    };
    let [lf, cr] = [next("\n", 0), next("\r", 0)];
    let quoted = quote === "" ? text.length : next(quote, 0);
    for (let at = 0; ;) {
      if (at === text.length) return { rows, end: at, isOdd: false };
      if (lf < at) lf = next("\n", at);
      if (cr < at) cr = next("\r", at);
      if (quoted < at) quoted = next(quote, at);
      const lineEnd = Math.min(lf, cr);
      let row: RowAt | undefined;
      if (quoted < lineEnd) {
        row = quotedRow(text, at, isLast);
      } else {
        const end = endOfLine(text, lineEnd, isLast);
        row = typeof end === "number" ? { fields: text.slice(at, lineEnd).split(delimiter), end } : end;
      }
      if (typeof row === "string") return { rows, end: at, isOdd: row === "odd" };
      const { fields, end } = row;
      if (!isBlank(fields)) rows.push({ line: place.line, fields });
      place.line += quoted < lineEnd ? 1 + breaksIn(fields) : 1;
      at = end;
    }
  };
}

/** Where the next row begins, when a row ends at `at`. */
function endOfLine(text: string, at: number, isLast: boolean): number | "odd" | "unfinished" {
  if (at === text.length) return isLast ? at : "unfinished";
  if (text[at] === "\n") return at + 1;
  if (text[at] !== "\r") return "odd";
  // A line feed may belong to it.
  if (at + 1 === text.length && !isLast) return "unfinished";
  return text[at + 1] === "\n" ? at + 2 : at + 1;
}

/** Is it a line with nothing in it? */
export function isBlank(fields: readonly string[]): boolean {
  return fields.length === 1 && fields[0] === "";
}

/** The line breaks within the fields of a row; `\r\n` is one, as in an editor. */
export function breaksIn(fields: readonly string[]): number {
  let breaks = 0;
  for (const field of fields) {
    if (field.includes("\n") || field.includes("\r")) breaks += field.match(/\r\n|\n|\r/g)?.length ?? 0;
  }
  return breaks;
}

/** A character in a class of a regular expression. */
function classOf(character: string): string {
  return character.replace(/[\\\]^-]/, String.raw`\$&`);
}

import { literal } from "#plan/database.ts";
import type { LoadFormat } from "./format.ts";
import { blocks } from "./sections.ts";
import type { Section } from "./sections.ts";

const newline = 0x0a;
const carriageReturn = 0x0d;

const atField = 0;
const inText = 1;
const inQuotes = 2;
const afterQuotes = 3;

/**
 * Whether DuckDB's CSV reader and the splitter are of one mind on every chunk in a format like this that `isRegular`.
 * What the reader does otherwise: it has one byte each for separator and enclosing character, no escape apart from
 * doubling, and it matches a null after unescaping.
 */
export function isPlain(format: LoadFormat, width: number): boolean {
  const { fieldSeparator, enclosingCharacter, nullValue } = format;
  const mark = format.type === "csv" ? enclosingCharacter : "";
  return (
    (format.type === "csv" || format.escapeCharacter === "") &&
    width > 1 &&
    !format.flexible &&
    !format.trailingFieldSeparator &&
    /^[!-~\t]$/.test(fieldSeparator) &&
    /^[!-~]?$/.test(mark) &&
    /^[ -~]+$/.test(nullValue) &&
    !nullValue.includes(fieldSeparator) &&
    (mark === "" || !nullValue.includes(mark))
  );
}

/**
 * The number of rows of a section when each of them has as many fields as the table, is quoted by the book and ends with `\n`,
 * undefined when not. DuckDB's CSV reader takes more than that, in its own way: it drops spaces around quotes and an empty field too many, and ends
 * rows at a lone `\r`; and it reads a quoted newline right only with one thread.
 * @throws the signal's reason
 */
export async function regularRows(
  section: Section,
  format: LoadFormat,
  width: number,
  signal: AbortSignal,
): Promise<number | undefined> {
  const separator = format.fieldSeparator.charCodeAt(0);
  const mark = format.type === "csv" && format.enclosingCharacter !== "" ? format.enclosingCharacter.charCodeAt(0) : -1;
  let state = atField;
  let fields = 1;
  let rows = 0;

  const special = new Uint8Array(256);
  for (const byte of [0, newline, carriageReturn, separator, mark]) if (byte >= 0) special[byte] = 1;

  function scan(bytes: Uint8Array): boolean {
    const { length } = bytes;
    // Locals and inner loops make this several times faster.
    let now = state;
    let count = fields;
    let at = 0;
    while (at < length) {
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
        while (at < length && special[bytes[at] as number] === 0) at++;
        if (at === length) break;
      }
      const byte = bytes[at++] as number;
      if (byte === separator) {
        now = atField;
        count++;
      } else if (byte === newline) {
        // An empty line has one field, empty, and is skipped.
        if (count === width) rows++;
        else if (count !== 1 || now !== atField) return false;
        now = atField;
        count = 1;
      } else if (byte === mark) {
        if (now === inText) return false;
        now = inQuotes;
      } else {
        if (now === afterQuotes || byte === carriageReturn || byte === 0) return false;
        now = inText;
      }
    }
    state = now;
    fields = count;
    return true;
  }

  for await (const block of blocks(section.path, section.from, signal)) {
    if (!scan(block)) return undefined;
  }
  if (fields === 1 && state === atField) return rows;
  return state === inQuotes || fields !== width ? undefined : rows + 1;
}

/** An SQL table expression with the columns `flaw` and `f0`, `f1`… VARCHAR: the rows of a regular section. */
export function readingRegular(section: Section, format: LoadFormat, width: number): string {
  const mark = format.type === "csv" ? format.enclosingCharacter : "";
  const columns = Array.from({ length: width }, (_, i) => `'f${String(i)}': 'VARCHAR'`).join(", ");
  return `(SELECT NULL::VARCHAR AS flaw, * FROM read_csv(${literal(section.path)}, auto_detect = false, header = false,
    skip = ${String(section.lines)}, delim = ${literal(format.fieldSeparator)}, quote = ${literal(mark)}, escape = ${literal(mark)},
    nullstr = ${literal(format.nullValue)}, new_line = '\\n', strict_mode = true, columns = {${columns}}))`;
}

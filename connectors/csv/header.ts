import { InputError } from "#errors.ts";
import { at, type Place } from "./place.ts";
import type { Row } from "./rows.ts";

/** The columns of a file, by name. */
export interface Header {
  /** How many fields every row has. */
  readonly width: number;
  /** Every column that has a name, in the file's order. */
  readonly columns: readonly Column[];
  /**
   * Where a column is in a row.
   * @throws {InputError} when the header has no such column
   */
  indexOf(name: string): number;
}

export interface Column {
  readonly name: string;
  readonly index: number;
}

const listed = 20;

/**
 * The header that a row is. Names are compared without the spaces around them, and whether accents are part of a
 * letter or follow it.
 * @throws {InputError} when two columns have one name
 */
export function headerOf(row: Row, file: string): Header {
  const place: Place = { file, line: row.line };
  const columns = row.fields
    .map((field, index) => ({ name: plain(field), index }))
    .filter((column) => column.name !== "");
  const byName = new Map<string, number>();
  for (const { name, index } of columns) {
    const earlier = byName.get(name);
    if (earlier !== undefined) {
      const positions = `${earlier + 1} and ${index + 1}`;
      throw new InputError(`${at(place)}: columns ${positions} are both named ${JSON.stringify(name)}; rename one`);
    }
    byName.set(name, index);
  }
  return {
    width: row.fields.length,
    columns,
    indexOf(name) {
      const index = byName.get(plain(name));
      if (index !== undefined) return index;
      const names = columns.slice(0, listed).map((column) => JSON.stringify(column.name).slice(0, 80));
      const more = columns.length > listed ? `, and ${columns.length - listed} more` : "";
      throw new InputError(
        `${at(place)}: the header has no column ${JSON.stringify(name)}; it has ${names.join(", ")}${more}` +
          hint(row.fields),
      );
    },
  };
}

function plain(name: string): string {
  return name.trim().normalize("NFC");
}

/** What is usually wrong with a header that looks like this. */
function hint(fields: readonly string[]): string {
  const text = fields.join("");
  if (text.includes("\0")) return " (this looks like UTF-16; set encoding)";
  const other = [";", "\t", "|", ","].find((delimiter) => fields.length === 1 && text.includes(delimiter));
  return other === undefined ? "" : ` (this looks like one column; set delimiter to ${JSON.stringify(other)})`;
}

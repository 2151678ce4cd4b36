import { distance } from "fastest-levenshtein";
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

/**
 * The header that a row is. Names are compared without the spaces around them, and whether accents are part of a
 * letter or follow it. Where the header line is missing its cells are values, which no message may show.
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
      throw new InputError(`${at(place)}: columns ${positions} of the header have the same name; rename one`);
    }
    byName.set(name, index);
  }
  return {
    width: row.fields.length,
    columns,
    indexOf(name) {
      const index = byName.get(plain(name));
      if (index !== undefined) return index;
      throw new InputError(
        `${at(place)}: the header has no column ${JSON.stringify(name)}; ${hint(name, row.fields, [...byName.keys()])}`,
      );
    },
  };
}

function plain(name: string): string {
  return name.trim().normalize("NFC");
}

/** What is usually wrong with a header that lacks a column. */
function hint(name: string, fields: readonly string[], names: readonly string[]): string {
  if (fields.some((field) => field.includes("\0"))) return "this looks like UTF-16: set encoding";
  const delimiter = [";", "\t", "|", ","].find((candidate) => fields.length === 1 && fields[0]?.includes(candidate));
  if (delimiter !== undefined) return `this looks like a single column: set delimiter to ${JSON.stringify(delimiter)}`;
  // So near to a name of the configuration that it is no value.
  const near = names.find((candidate) => distance(candidate.toLowerCase(), plain(name).toLowerCase()) <= 2);
  if (near !== undefined && name.length > 2) return `did you mean ${JSON.stringify(near)}?`;
  return "is the header line missing, or the column named otherwise there?";
}

import { distance } from "fastest-levenshtein";
import { InputError } from "#errors.ts";
import type { Dialect } from "./options.ts";
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

/** What of a dialect concerns its header. */
type HeaderRules = Pick<Dialect, "ignoreCase" | "duplicateColumns" | "trailingDelimiters">;

const strictHeader: HeaderRules = { ignoreCase: false, duplicateColumns: "error", trailingDelimiters: false };

/**
 * The header that a row is. Names are compared without the spaces around them, and whether accents are part of a
 * letter or follow it. Where the header line is missing its cells are values, which no message may show.
 * @throws {InputError} when two columns have one name
 */
export function headerOf(row: Row, file: string, rules: HeaderRules = strictHeader): Header {
  const place: Place = { file, line: row.line };
  const comparable = (name: string): string => (rules.ignoreCase ? plain(name).toLowerCase() : plain(name));
  const byName = new Map<string, Column>();
  for (const [index, field] of row.fields.entries()) {
    let name = plain(field);
    if (name === "") continue;
    const earlier = byName.get(comparable(name));
    if (earlier !== undefined) {
      if (rules.duplicateColumns === "error") {
        const same = rules.ignoreCase && plain(row.fields[earlier.index] ?? "") !== name ? "but for case " : "";
        throw new InputError(
          `${at(place)}: columns ${earlier.index + 1} and ${index + 1} of the header have ${same}the same name; ` +
            "rename one, or set duplicateColumns to first, last or numbered",
        );
      }
      if (rules.duplicateColumns === "first") continue;
      if (rules.duplicateColumns === "numbered")
        name = numbered(name, (candidate) => byName.has(comparable(candidate)));
    }
    byName.set(comparable(name), { name, index });
  }
  return {
    width: rules.trailingDelimiters ? row.fields.findLastIndex((field) => plain(field) !== "") + 1 : row.fields.length,
    columns: [...byName.values()],
    indexOf(name) {
      const column = byName.get(comparable(name));
      if (column !== undefined) return column.index;
      const names = [...byName.values()].map((column) => column.name);
      throw new InputError(
        `${at(place)}: the header has no column ${JSON.stringify(name)}; ${hint(name, row.fields, names)}`,
      );
    },
  };
}

function numbered(name: string, isTaken: (candidate: string) => boolean): string {
  for (let number = 2; ; number++) if (!isTaken(`${name}_${number}`)) return `${name}_${number}`;
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
  if (near !== undefined && near.toLowerCase() === plain(name).toLowerCase())
    return `it is written ${JSON.stringify(near)} there: write it so, or set ignoreCase`;
  if (near !== undefined && name.length > 2) return `did you mean ${JSON.stringify(near)}?`;
  return "is the header line missing, or the column named otherwise there?";
}

import { InputError } from "#errors.ts";
import { nearest } from "#text.ts";
import type { Dialect } from "./options.ts";
import { assertColumns, at } from "./rows.ts";
import type { Place, Row } from "./rows.ts";

/** The columns of a file, by name. */
export interface Header {
  /** How many fields every row has. */
  readonly width: number;
  /** Every column that has a name, in the file's order. */
  readonly columns: readonly Column[];
  readonly line: number;
  /**
   * The index of a column in a row.
   * @throws {InputError} the header has no such column
   */
  indexOf(name: string): number;
  /** Whether two names are the same to this header. */
  same(one: string, other: string): boolean;
  /** Whether a row is the header again. */
  isRepeatedBy(row: Row): boolean;
}

export interface Column {
  readonly name: string;
  readonly index: number;
}

/** The settings that concern the header. */
type HeaderRules = Pick<Dialect, "ignoreCase" | "duplicateColumns" | "trailingDelimiters">;

const strictHeader: HeaderRules = { ignoreCase: false, duplicateColumns: "error", trailingDelimiters: false };

/**
 * Makes a header of a row. Names are compared without surrounding spaces and in Unicode form NFC. If the header line is
 * missing, the cells are values, which no message may show.
 * @throws {InputError} two columns have one name
 */
export function headerOf(row: Row, file: string, rules: HeaderRules = strictHeader): Header {
  const place: Place = { file, line: row.line };
  const comparable = (name: string): string => (rules.ignoreCase ? plain(name).toLowerCase() : plain(name));
  assertColumns(row.fields, at(place));
  const byName = new Map<string, Column>();
  const lastNumbers = new Map<string, number>();
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
        name = numbered(name, lastNumbers, (candidate) => byName.has(comparable(candidate)));
    }
    byName.set(comparable(name), { name, index });
  }
  return {
    width: rules.trailingDelimiters ? row.fields.findLastIndex((field) => plain(field) !== "") + 1 : row.fields.length,
    columns: [...byName.values()],
    line: row.line,
    same: (one, other) => comparable(one) === comparable(other),
    isRepeatedBy: ({ fields }) =>
      fields.length === row.fields.length &&
      fields.every((field, index) => plain(field) === plain(row.fields[index] ?? "")),
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

/** @param last the number that each name got last: beginning at 2 again would take minutes with thousands of them */
function numbered(name: string, last: Map<string, number>, isTaken: (candidate: string) => boolean): string {
  for (let number = (last.get(name) ?? 1) + 1; ; number++) {
    last.set(name, number);
    if (!isTaken(`${name}_${number}`)) return `${name}_${number}`;
  }
}

function plain(name: string): string {
  return name.trim().normalize("NFC");
}

/** The usual reason why a header lacks a column. */
function hint(name: string, fields: readonly string[], names: readonly string[]): string {
  if (fields.some((field) => field.includes("\0"))) return "this looks like UTF-16: set encoding";
  const delimiter = [";", "\t", "|", ","].find((candidate) => fields.length === 1 && fields[0]?.includes(candidate));
  if (delimiter !== undefined) return `this looks like a single column: set delimiter to ${JSON.stringify(delimiter)}`;
  const alike = resembling(name, names);
  if (alike !== undefined) return alike;
  // So similar to a configured name that it is not a value.
  const near = nearest(plain(name), names);
  if (near !== undefined) return `did you mean ${JSON.stringify(near)}?`;
  return "is the header line missing, or does the column have another name?";
}

/** Of names that look the same, what is different; undefined: none looks the same. */
export function resembling(name: string, names: readonly string[]): string | undefined {
  const own = plain(name);
  const cased = names.find((candidate) => candidate.toLowerCase() === own.toLowerCase());
  if (cased !== undefined) return `it is written ${JSON.stringify(cased)} there: write it so, or set ignoreCase`;
  const found = names.find((candidate) => visible(candidate).toLowerCase() === visible(name).toLowerCase());
  return found === undefined ? undefined : writtenWith(found, own);
}

/** Characters that look like nothing or like a space, in what Excel and web pages give. */
const invisibleCharacters: Readonly<Record<string, string>> = {
  "\u{A0}": "a no-break space (U+00A0)",
  "\u{AD}": "a soft hyphen (U+00AD)",
  "\u{2007}": "a figure space (U+2007)",
  "\u{200B}": "a zero-width space (U+200B)",
  "\u{202F}": "a narrow no-break space (U+202F)",
  "\u{2060}": "a word joiner (U+2060)",
  "\u{FEFF}": "a byte order mark (U+FEFF)",
};

function visible(name: string): string {
  return plain(name)
    .replaceAll(/[\u{A0}\u{2007}\u{202F}\s]+/gu, " ")
    .replaceAll(/[\u{AD}\u{200B}\u{2060}\u{FEFF}]/gu, "")
    .trim();
}

function writtenWith(found: string, name: string): string {
  const kinds = [...new Set(found)].filter((character) => !name.includes(character));
  const what = kinds.map((character) => invisibleCharacters[character] ?? "another space").join(" and ");
  const written = found.replaceAll(/[^\S ]|[\u{AD}\u{200B}\u{2060}]/gu, (each) => {
    return `\\u${each.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
  });
  return `there is one written with ${what === "" ? "other spaces" : what}: "${written}"; write it so, in double quotes`;
}

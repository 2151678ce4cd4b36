import { InputError } from "#errors.ts";
import { nearest, printableJson, withoutUnseen } from "#text.ts";
import type { Dialect } from "./options.ts";
import { assertColumns, at } from "./rows.ts";
import type { Place, Row } from "./rows.ts";

export interface Column {
  readonly name: string;
  readonly index: number;
}

/** The settings that concern the header. */
type HeaderRules = Pick<Dialect, "ignoreCase" | "duplicateColumns" | "trailingDelimiters">;

const strictHeader: HeaderRules = { ignoreCase: false, duplicateColumns: "error", trailingDelimiters: false };

/**
 * The columns of a file, by name. Names are compared without surrounding spaces and in Unicode form NFC. If the header line
 * is missing, the cells are values, which no message may show.
 */
export class Header {
  /** How many fields every row has. */
  readonly width: number;
  readonly line: number;
  readonly #row: Row;
  readonly #place: Place;
  readonly #rules: HeaderRules;
  readonly #byName = new Map<string, Column>();

  /** @throws {InputError} two columns have one name */
  constructor(row: Row, file: string, rules: HeaderRules = strictHeader) {
    const { fields, line } = row;
    this.line = line;
    this.width = rules.trailingDelimiters ? fields.findLastIndex((field) => plain(field) !== "") + 1 : fields.length;
    this.#row = row;
    this.#place = { file, line };
    this.#rules = rules;
    assertColumns(fields, at(this.#place));
    const lastNumbers = new Map<string, number>();
    for (const [index, field] of fields.entries()) {
      const name = plain(field);
      const earlier = this.#byName.get(this.#comparable(name));
      if (name === "" || (earlier !== undefined && rules.duplicateColumns === "first")) continue;
      if (earlier !== undefined && rules.duplicateColumns === "error") throw this.#duplicate(earlier, { name, index });
      const own =
        earlier !== undefined && rules.duplicateColumns === "numbered"
          ? numbered(name, lastNumbers, (candidate) => this.#byName.has(this.#comparable(candidate)))
          : name;
      this.#byName.set(this.#comparable(own), { name: own, index });
    }
  }

  /** Every column that has a name, in the file's order. */
  get columns(): readonly Column[] {
    return [...this.#byName.values()];
  }

  /**
   * The index of a column in a row.
   * @throws {InputError} the header has no such column
   */
  indexOf(name: string): number {
    const column = this.#byName.get(this.#comparable(name));
    if (column !== undefined) return column.index;
    const names = this.columns.map((column) => column.name);
    throw new InputError(
      `${at(this.#place)}: the header has no column ${JSON.stringify(name)}; ${hint(name, this.#row.fields, names)}`,
    );
  }

  /** Whether two names are the same to this header. */
  same(one: string, other: string): boolean {
    return this.#comparable(one) === this.#comparable(other);
  }

  /** Whether a row is the header again; in another spelling, too, unless it is a single word. */
  isRepeatedBy({ fields }: Row): boolean {
    const own = this.#row.fields;
    const read = own.length === 1 ? plain : seen;
    return fields.length === own.length && fields.every((field, index) => read(field) === read(own[index] ?? ""));
  }

  #comparable(name: string): string {
    return this.#rules.ignoreCase ? plain(name).toLowerCase() : plain(name);
  }

  #duplicate(earlier: Column, { name, index }: Column): InputError {
    const { ignoreCase } = this.#rules;
    const same = ignoreCase && plain(this.#row.fields[earlier.index] ?? "") !== name ? "but for case " : "";
    return new InputError(
      `${at(this.#place)}: columns ${earlier.index + 1} and ${index + 1} of the header have ${same}the same name; ` +
        "rename one, or set duplicateColumns to first, last or numbered",
    );
  }
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

/** How a name differs from one that looks the same; undefined: none looks the same. */
export function resembling(name: string, names: readonly string[]): string | undefined {
  const own = plain(name);
  const cased = names.find((candidate) => candidate.toLowerCase() === own.toLowerCase());
  if (cased !== undefined) return `it is written ${JSON.stringify(cased)} there: write it so, or set ignoreCase`;
  const found = names.find((candidate) => seen(candidate) === seen(name));
  if (found === undefined) return undefined;
  const hidden = withoutUnseen(found) === found ? "other spaces" : "invisible characters";
  return `there is one written with ${hidden}: ${printableJson(JSON.stringify(found))}; write it so, in double quotes`;
}

/** What a person sees of a name. */
function seen(name: string): string {
  return withoutUnseen(plain(name)).replaceAll(/\s+/g, " ").toLowerCase();
}

import type { Entry, MemberReference, Membership } from "#connector.ts";
import { InputError } from "#errors.ts";
import type { AttributeValue } from "#principals/entry.ts";
import type { Kind } from "#principals/principal.ts";
import { nearest, nfc } from "#text.ts";
import type { Cell } from "./dialect.ts";
import type { GroupsOptions, MembershipsOptions, UsersOptions } from "./options.ts";

type Row = readonly Cell[];

/** The columns of a query, by their names. */
export class Columns {
  readonly names: readonly string[];
  /** For messages: `users`. */
  readonly part: string;
  /** For origins: `hr.example.com:5432/hr, users`. */
  readonly place: string;
  readonly #indexes = new Map<string, number>();

  /** @throws {InputError} two columns have one name, or one has a name that no attribute can have */
  constructor(names: readonly string[], part: string, place: string) {
    this.names = names.map(nfc);
    this.part = part;
    this.place = place;
    for (const [index, name] of this.names.entries()) {
      if (this.#indexes.has(name))
        throw new InputError(
          `${place}: the query has two columns ${JSON.stringify(name)}; rename one: … AS another_name`,
        );
      if (name === "__proto__")
        throw new InputError(
          `${place}: "__proto__" cannot be the name of an attribute; rename the column: … AS other_name`,
        );
      this.#indexes.set(name, index);
    }
  }

  /** @throws {InputError} the query has no such column */
  indexOf(name: string): number {
    const index = this.#indexes.get(nfc(name));
    if (index !== undefined) return index;
    throw new InputError(`${this.place}: the query has no column ${JSON.stringify(name)}; ${this.hint(name)}`);
  }

  has(name: string): boolean {
    return this.#indexes.has(nfc(name));
  }

  /** What may have been meant by a name. */
  hint(name: string): string {
    const cased = this.names.find((other) => other.toLowerCase() === nfc(name).toLowerCase());
    if (cased !== undefined) return `it is written ${JSON.stringify(cased)} there`;
    const near = nearest(name, this.names);
    const all = this.names.slice(0, listed).join(", ");
    return near === undefined
      ? `it has ${all}${this.names.length > listed ? ", …" : ""}`
      : `did you mean ${JSON.stringify(near)}?`;
  }

  /**
   * The text of a cell that is an id, a key or a reference: without surrounding spaces, in Unicode form NFC.
   * @throws {InputError} it is empty, or none
   */
  key(row: Row, index: number, number: number): string {
    const key = textIn(row[index] ?? null);
    if (key !== undefined && key !== "") return key;
    const what = key === "" ? "is empty" : "is no id: it is a list, or has bytes that are no text in UTF-8";
    throw new InputError(
      `${this.place}, row ${number}: column ${JSON.stringify(this.names[index])} ${what}; every row needs one`,
    );
  }
}

/** How many columns a message lists. */
const listed = 20;

/**
 * Returns a function that makes an entry of a row.
 * @param wanted the columns that rules read; undefined: all
 * @throws {InputError} at once when the query lacks a column; for a row whose id is empty
 */
export function entryOf(
  kind: Kind,
  options: UsersOptions | GroupsOptions,
  columns: Columns,
  wanted: ReadonlySet<string> | undefined,
) {
  const attributes = Object.entries(options.columns ?? Object.fromEntries(columns.names.map((name) => [name, name])))
    .map(([name, column]) => [nfc(name), columns.indexOf(column)] as const)
    .filter(([name]) => wanted?.has(name) ?? true);
  const id = columns.indexOf(options.id);
  const keys = options.keys?.map((name) => columns.indexOf(name));
  const memberOf = referencesIn(options.memberOf, columns);
  const memberOptions = "members" in options ? options.members : undefined;
  const members = referencesIn(memberOptions, columns);
  return (row: Row, number: number): Entry => {
    const own = columns.key(row, id, number);
    return {
      kind,
      id: own,
      origin: `${columns.place} with ${options.id} ${own}`,
      attributes: attributesOf(row, attributes),
      keys: keys?.map((index) => textIn(row[index] ?? null)).filter(isFull) ?? [own],
      memberOf: memberOf(row, number),
      members: members(row, number).map((key) => reference(key, memberOptions?.kind)),
    };
  };
}

/**
 * Returns a function that makes a membership of a row.
 * @throws {InputError} at once when the query lacks a column; for a row without group, member or kind
 */
export function membershipOf(options: MembershipsOptions, columns: Columns) {
  const group = columns.indexOf(options.group);
  const member = columns.indexOf(options.member);
  const kindOf = memberKindIn(options.kind, columns);
  return (row: Row, number: number): Membership => ({
    kind: "membership",
    group: columns.key(row, group, number),
    member: reference(columns.key(row, member, number), kindOf(row, number)),
    origin: `${columns.place}, row ${number}`,
  });
}

function attributesOf(row: Row, attributes: readonly (readonly [string, number])[]): Record<string, AttributeValue> {
  const values: Record<string, AttributeValue> = {};
  for (const [name, index] of attributes) {
    const value = row[index] ?? null;
    if (value === null || value === "" || (Array.isArray(value) && value.length === 0)) continue;
    values[name] = value;
  }
  return values;
}

function memberKindIn(options: MembershipsOptions["kind"], columns: Columns) {
  if (typeof options !== "object") return () => options;
  const index = columns.indexOf(options.column);
  return (row: Row, number: number): Kind => {
    const value = columns.key(row, index, number);
    if (value === options.user) return "user";
    if (value === options.group) return "group";
    const expected = `${JSON.stringify(options.user)} or ${JSON.stringify(options.group)}`;
    throw new InputError(
      `${columns.place}, row ${number}: column ${JSON.stringify(options.column)}: expected ${expected}`,
    );
  };
}

const none: readonly never[] = [];

function referencesIn(options: { column: string; separator: string } | undefined, columns: Columns) {
  if (options === undefined) return () => none;
  const index = columns.indexOf(options.column);
  return (row: Row, number: number): readonly string[] => {
    const cell = row[index] ?? null;
    if (cell === null || cell === "") return none;
    const parts = Array.isArray(cell)
      ? (cell as readonly string[])
      : columns.key(row, index, number).split(options.separator);
    return parts.map((part) => nfc(part.trim())).filter(isFull);
  };
}

function reference(key: string, kind: Kind | undefined): MemberReference {
  return kind === undefined ? { key } : { kind, key };
}

/** The cell as text, numbers included; undefined: it is a list, or bytes that are not UTF-8. */
function textIn(cell: Cell): string | undefined {
  if (cell === null) return "";
  if (Array.isArray(cell)) return undefined;
  const text = nfc(String(cell).trim());
  return text.includes("\u{FFFD}") ? undefined : text;
}

function isFull(text: string | undefined): text is string {
  return text !== undefined && text !== "";
}

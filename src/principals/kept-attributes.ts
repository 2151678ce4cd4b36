import { literal } from "#duckdb/database.ts";
import { nfc } from "#text.ts";
import { isUnreadable } from "./entry.ts";
import type { AttributeValue, Entry } from "./entry.ts";
import { attributeOf } from "./expression.ts";
import type { Kind } from "./principal.ts";

/** The attributes that rules read, by kind; undefined where a rule may read any. */
type AttributesRead = Readonly<Record<"users" | "groups", readonly string[] | undefined>>;

const jsonMark = "\u0001";

/**
 * What the rules read of each entry, as `stage` keeps it: a column for each attribute, since making JSON of each entry in JavaScript
 * takes a sixth of a read. What has more than text is JSON there, after `jsonMark`.
 */
export class KeptAttributes {
  /**
   * The columns as DDL, each after a comma. `all_read` is JSON where a rule may read any attribute, empty where the attributes
   * have their columns, and NULL where nothing is kept.
   */
  readonly ddl: string;
  /** SQL over these columns that gives the attributes as one JSON object; NULL where nothing is kept. */
  readonly json: string;
  /** The values of these columns where nothing is kept. */
  readonly none: readonly null[];
  readonly #names: readonly string[];
  readonly #layouts: Readonly<Record<Kind, { readonly all: Layout; readonly scope: Layout }>>;

  /**
   * @param read what any rule reads
   * @param scope of that, what decides who is in scope
   */
  constructor(read: AttributesRead, scope: AttributesRead) {
    const lists = [read.users, read.groups, scope.users, scope.groups];
    const names = [...new Set(lists.flatMap((each) => each ?? []))];
    const columns = names.map((name, index) => ({ name, column: `read_${index}` }));
    const layoutOf = (wanted: readonly string[] | undefined): Layout =>
      wanted && names.map((name) => (wanted.includes(name) ? name : undefined));
    this.#names = names;
    this.#layouts = {
      user: { all: layoutOf(read.users), scope: layoutOf(scope.users) },
      group: { all: layoutOf(read.groups), scope: layoutOf(scope.groups) },
    };
    const members = columns.map(
      ({ name, column }) =>
        `${literal(`${JSON.stringify(name)}:`)} || if(starts_with(${column}, chr(1)), substr(${column}, 2), to_json(${column}))`,
    );
    this.none = [null, ...names.map(() => null)];
    this.ddl = ["all_read", ...columns.map(({ column }) => column)].map((column) => `, ${column} VARCHAR`).join("");
    this.json = `CASE WHEN all_read = '' THEN concat('{', concat_ws(',', ${["NULL", ...members].join(", ")}), '}') ELSE all_read END`;
  }

  /** The values of these columns. `isExcluded`: only what decides about the scope is kept. */
  valuesOf({ kind, attributes }: Entry, isExcluded: boolean): readonly (string | null)[] {
    const layout = this.#layouts[kind][isExcluded ? "scope" : "all"];
    if (layout === undefined) return [jsonOf(attributes), ...this.#names.map(() => null)];
    const values: (string | null)[] = [""];
    for (const name of layout) values.push(name === undefined ? null : kept(attributeOf(attributes, name)));
    return values;
  }
}

/** For each column the attribute in it, or undefined where that is not kept; undefined: all are, in `attributes`. */
type Layout = readonly (string | undefined)[] | undefined;

function kept(value: AttributeValue | undefined): string | null {
  if (value === undefined) return null;
  return typeof value === "string" && !value.startsWith(jsonMark)
    ? nfc(value)
    : jsonMark + JSON.stringify(normal(value));
}

/** In Unicode form NFC, and without lone surrogates, whose escapes are not valid JSON. */
function normal(value: AttributeValue): AttributeValue {
  if (typeof value === "string") return nfc(value).toWellFormed();
  if (isUnreadable(value)) return { unreadable: normal(value.unreadable) as string };
  return typeof value === "object" ? value.map((each) => nfc(each).toWellFormed()) : value;
}

function jsonOf(attributes: Entry["attributes"]): string {
  const all = Object.entries(attributes).map(([name, value]) => [nfc(name).toWellFormed(), normal(value)] as const);
  return JSON.stringify(Object.fromEntries(all));
}

import type { Entry, MemberReference, Membership, MembershipLines } from "#connector.ts";
import { InputError } from "#errors.ts";
import type { Kind } from "#principals/principal.ts";
import { holdsSpoilt, nfc, spoilt } from "#text.ts";
import type { GroupsOptions, MembershipsOptions, UsersOptions } from "./options.ts";
import type { NamedAttributes } from "./attributes.ts";
import type { Column, Header } from "./header.ts";
import type { Row, RowGroup } from "./rows.ts";
import { at } from "./rows.ts";

/**
 * Returns a function that makes an entry of a row.
 * @throws {InputError} at once when the header lacks a column; for a row whose id is empty, or spoilt by Excel, as a reference may be
 */
export function entryOf(
  kind: Kind,
  options: UsersOptions | GroupsOptions,
  header: Header,
  file: string,
  named?: NamedAttributes,
) {
  const columns = columnsOf(options, header, file);
  const memberOptions = "members" in options ? options.members : undefined;
  const members = memberOptions && referencesIn(memberOptions, header);
  const keyIndexes = options.keys?.map((name) => header.indexOf(name));
  const layout = {
    id: header.indexOf(options.id),
    keysOf: keyIndexes && ((row: Row) => keyIndexes.map((index) => key(row, index)).filter((value) => value !== "")),
    attributesOf: attributesOf(named?.columns(columns, header, file) ?? columns),
    memberOf: referencesIn(options.memberOf, header),
    members: (row: Row) => members?.(row).map((value) => reference(value, memberOptions?.kind)) ?? none,
  };
  return (row: Row): Entry => {
    const origin = at({ file, line: row.line });
    const id = key(row, layout.id);
    if (id === "")
      throw new InputError(`${origin}: column ${JSON.stringify(options.id)} is empty; every row needs an id`);
    const keys = layout.keysOf?.(row) ?? none;
    assertUnspoilt([id, ...keys], origin, "an id or key");
    const memberOf = layout.memberOf(row);
    const members = layout.members(row);
    assertUnspoilt(memberOf, origin, "a reference");
    for (const each of members) assertUnspoilt([each.key], origin, "a reference");
    const attributes = layout.attributesOf(row);
    const entry = { kind, id, origin, attributes, keys: layout.keysOf === undefined ? [id] : keys, memberOf, members };
    named?.count(entry);
    return entry;
  };
}

/**
 * Returns a function that makes a membership of a row.
 * @throws {InputError} at once when the header lacks a column; for a row without group, member or kind
 */
export function membershipOf(options: MembershipsOptions, header: Header, file: string) {
  const groupIndex = header.indexOf(options.group);
  const memberIndex = header.indexOf(options.member);
  const kindOf = memberKindIn(options.kind, header);

  return (row: Row): Membership => {
    const origin = at({ file, line: row.line });
    const group = key(row, groupIndex);
    const member = key(row, memberIndex);
    if (group === "" || member === "") {
      const empty = group === "" ? options.group : options.member;
      throw new InputError(`${origin}: column ${JSON.stringify(empty)} is empty; every row names a group and a member`);
    }
    assertUnspoilt([group, member], origin, "a reference");
    return { kind: "membership", group, member: reference(member, kindOf(row, origin)), origin };
  };
}

/** @throws {InputError} a spreadsheet has spoilt one of them: it refers to nobody, although it did */
function assertUnspoilt(values: readonly string[], origin: string, what: string): void {
  for (const value of values) {
    const reason = spoilt(value);
    if (reason !== undefined) throw new InputError(`${origin}: ${what} is ${reason}`);
  }
}

/** How much text is handed over at a time, in UTF-16 units: a statement for less takes longer than its rows. */
const longestLines = 256 * 1024;

/** What the lines of a file are made of. */
interface LineLayout {
  readonly header: Header;
  /** The row of the header: a repeated one may be the start of another file. */
  readonly row: Row;
  readonly delimiter: string;
  readonly file: string;
}

/**
 * Hands groups of rows over as lines where every one of them is beyond doubt: as many fields as the header, a group, and a
 * member, without space around them.
 */
export class LineTaker {
  readonly #takeLines: (lines: MembershipLines) => Promise<void>;
  readonly #columns: Pick<MembershipLines, "delimiter" | "file" | "group" | "kind" | "member">;
  readonly #plainLine: RegExp;
  /** In lower case, as below. */
  readonly #headerLine: string;
  #text = "";
  #line = 0;
  #count = 0;

  /** @returns undefined where the kind of members is in a column */
  static of(
    options: MembershipsOptions,
    layout: LineLayout,
    takeLines: (lines: MembershipLines) => Promise<void>,
  ): LineTaker | undefined {
    return typeof options.kind === "object" ? undefined : new LineTaker(options.kind, options, layout, takeLines);
  }

  private constructor(
    kind: Kind | undefined,
    options: MembershipsOptions,
    { header, row, delimiter, file }: LineLayout,
    takeLines: (lines: MembershipLines) => Promise<void>,
  ) {
    const [group, member] = [header.indexOf(options.group), header.indexOf(options.member)];
    this.#takeLines = takeLines;
    this.#columns = { delimiter, group, member, kind, file };
    this.#plainLine = linePattern(header.width, [group, member], delimiter);
    this.#headerLine = row.fields.join(delimiter).toLowerCase();
  }

  /** @returns how many rows a group has, or undefined when they have to be looked at one by one */
  async take(rows: RowGroup): Promise<number | undefined> {
    const found = rows.text === undefined ? undefined : this.#plainLines(rows.text);
    if (found === undefined) return undefined;
    // Lines are counted from the first one.
    if (rows.line !== this.#line + this.#count) await this.end();
    if (this.#text === "") this.#line = rows.line;
    this.#text += rows.text;
    this.#count += found;
    if (this.#text.length >= longestLines) await this.end();
    return found;
  }

  /** Hands over what is left. */
  async end(): Promise<void> {
    if (this.#text === "") return;
    const lines = { text: this.#text.slice(0, -1), count: this.#count, line: this.#line, ...this.#columns };
    this.#text = "";
    this.#count = 0;
    await this.#takeLines(lines);
  }

  /** How many lines there are, if all are beyond doubt. */
  #plainLines(lines: string): number | undefined {
    const pattern = this.#plainLine;
    let found = 0;
    for (pattern.lastIndex = 0; pattern.lastIndex < lines.length; found++) if (!pattern.test(lines)) return undefined;
    const isJoined = lines.includes("\u{FEFF}") || `\n${lines.toLowerCase()}`.includes(`\n${this.#headerLine}\n`);
    return nfc(lines) === lines && !isJoined && !holdsSpoilt(lines) ? found : undefined;
  }
}

/** One line of so many fields, of which some are neither empty nor have space around them. Where a test fails it ends at 0. */
function linePattern(width: number, keys: readonly number[], delimiter: string): RegExp {
  const end = `\\u{${delimiter.codePointAt(0)?.toString(16)}}`;
  const key = String.raw`[^\s${end}](?:[^\n${end}]*[^\s${end}])?`;
  const fields = Array.from({ length: width }, (_, index) => (keys.includes(index) ? key : `[^\\n${end}]*`));
  return new RegExp(String.raw`${fields.join(end)}\n`, "uy");
}

/** The columns that are attributes, by the names of these. */
function columnsOf(options: UsersOptions, header: Header, file: string): readonly Column[] {
  const columns =
    options.columns === undefined
      ? header.columns
      : Object.entries(options.columns).map(([name, column]) => ({ name, index: header.indexOf(column) }));
  if (columns.some(({ name }) => name === "__proto__")) {
    throw new InputError(`${file}: "__proto__" cannot be the name of an attribute; map the column to another name`);
  }
  return columns;
}

function attributesOf(columns: readonly Column[]) {
  return (row: Row): Record<string, string> => {
    const attributes: Record<string, string> = {};
    for (const { name, index } of columns) {
      const value = row.fields[index];
      if (value !== undefined && value !== "") attributes[name] = value;
    }
    return attributes;
  };
}

/** The columns that must be there: those that the options name. */
export function namedColumns(options: UsersOptions | GroupsOptions | MembershipsOptions): readonly string[] {
  const others = "member" in options ? [] : Object.values(options.columns ?? {});
  const kinds = "member" in options && typeof options.kind === "object" ? [options.kind.column] : [];
  return [...idColumns(options), ...kinds, ...others];
}

/** The ones among them with ids, keys and references. */
export function idColumns(options: UsersOptions | GroupsOptions | MembershipsOptions): readonly string[] {
  if ("member" in options) return [options.group, options.member];
  const members = "members" in options ? options.members : undefined;
  const references = [options.memberOf, members].flatMap((each) => each?.column ?? []);
  return [options.id, ...(options.keys ?? []), ...references];
}

const none: readonly never[] = [];

function referencesIn(options: { column: string; separator: string } | undefined, header: Header) {
  if (options === undefined) return () => none;
  const index = header.indexOf(options.column);
  return (row: Row): readonly string[] =>
    (row.fields[index] ?? "")
      .split(options.separator)
      .map(comparable)
      .filter((value) => value !== "");
}

function memberKindIn(options: MembershipsOptions["kind"], header: Header) {
  if (typeof options !== "object") return () => options;
  const index = header.indexOf(options.column);
  const user = comparable(options.user);
  const group = comparable(options.group);
  return (row: Row, origin: string): Kind => {
    const value = key(row, index);
    if (value === user) return "user";
    if (value === group) return "group";
    const expected = `${JSON.stringify(user)} or ${JSON.stringify(group)}`;
    throw new InputError(`${origin}: column ${JSON.stringify(options.column)}: expected ${expected}`);
  };
}

function reference(key: string, kind: Kind | undefined): MemberReference {
  return kind === undefined ? { key } : { kind, key };
}

function key(row: Row, index: number): string {
  return comparable(row.fields[index] ?? "");
}

/** Ids, keys and references are compared without surrounding spaces and in Unicode form NFC. */
function comparable(value: string): string {
  return nfc(value.trim());
}

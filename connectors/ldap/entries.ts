import { isUtf8 } from "node:buffer";
import type { Entry, MemberReference } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import type { Kind } from "#principals/principal.ts";
import { enter, readBytes, readText, readTexts, tags, windowOn } from "./message.ts";
import type { Cursor, TextAt } from "./message.ts";
import type { Options } from "./options.ts";
import { guidOf, sidOf } from "./attributes.ts";
import type { Form, Selection, AttributeUse } from "./attributes.ts";

/** What one message says about an entry. */
export interface ParsedEntry {
  /** Without the members in `lists` and the values in `rest`. */
  readonly entry: Entry;
  /** Where its members are in the message: there may be very many. */
  readonly lists: readonly ValueList[];
  /** Values that did not fit and must be requested (range retrieval). */
  readonly rest: readonly RemainingValues[];
  /** Differs after every change of the entry, for values that come in ranges (Active Directory). */
  readonly revision?: string | undefined;
  /** The security identifier (Active Directory). */
  readonly sid?: string | undefined;
  /** The SID of the user's primary group, which does not list its members (Active Directory). */
  readonly primaryGroup?: string | undefined;
  /** It is a group without the members that the standard wants it to have. */
  readonly memberless?: Memberless | undefined;
}

/** The values of an attribute, as offsets in the message. */
export interface ValueList {
  readonly use: AttributeUse;
  readonly at: number;
  readonly end: number;
}

/** Values that are still to be requested, from number `next` on. */
export interface RemainingValues {
  readonly use: AttributeUse;
  readonly next: number;
}

/** How the messages of users, or of groups, become records. */
export interface Reader {
  readonly kind: Kind;
  readonly selection: Selection;
  readonly dnKey: (dn: string) => string;
  readonly options: Options;
  /** @param about what is counted together: `values are not UTF-8` */
  warn(about: string, message: string): void;
  /** The rank of the attribute that is the id, after the first entry. */
  idRank?: number;
}

/**
 * The entry in a SearchResultEntry message.
 * @throws {IncompleteReadError} it has no id
 * @throws {InputError} a text is not UTF-8
 */
export function recordOf(message: Buffer, reader: Reader): ParsedEntry {
  const { kind, selection, dnKey } = reader;
  const fields = new Fields(message, reader);
  const { dn } = fields;
  const attributes: { [name: string]: Entry["attributes"][string] } = {};
  const keys = [dnKey(dn)];
  const memberOf: string[] = [];
  const members: MemberReference[] = [];
  const lists: ValueList[] = [];
  const rest: RemainingValues[] = [];
  let id: { readonly rank: number; readonly value: string } | undefined;
  let sid = "";
  let primary = "";
  let revision: string | undefined;
  let disabled: boolean | undefined;
  let isConflict = selection.derived.conflict && hasConflictName(dn);
  let isSearch = false;
  let classes: readonly string[] = [];
  const memberTypes = new Set<string>();

  for (let use = fields.next(); use !== undefined; use = fields.next()) {
    if (use.range?.next !== undefined) rest.push({ use, next: use.range.next });
    if (isMembers(use)) memberTypes.add(use.name.toLowerCase());
    if (use.names.length === 0 && isMembers(use)) {
      const { at, end } = fields;
      if (at < end) lists.push({ use, at, end });
      continue;
    }
    const values = fields.values(use);
    const first = values[0];
    if (first === undefined) continue;
    for (const name of use.names) attributes[name] = values.length === 1 ? first : values;
    if (isMembers(use)) members.push(...values.map((value) => referenceOf(use, value, dnKey)));
    for (const role of use.roles) {
      if (role === "id" && (id === undefined || use.rank < id.rank)) {
        id = { rank: use.rank, value: first };
        if (values.length > 1) warnOfSeveralIds(dn, use.name, reader);
      } else if (role === "memberOf") for (const value of values) memberOf.push(dnKey(value));
      else if (role === "login") for (const value of values) keys.push(loginKey(value));
      else if (role === "sid") sid = first;
      else if (role === "primaryGroup") primary = first;
      else if (role === "accountControl") disabled = (Number(first) & accountDisabled) !== 0;
      else if (role === "revision") revision = first;
      else if (role === "accountLock") disabled ??= first.toUpperCase() === "TRUE";
      else if (role === "conflict") isConflict = true;
      else if (role === "class") classes = values;
      else if (role === "memberSearch") isSearch = true;
    }
  }
  if (selection.derived.dn) attributes["dn"] = dn;
  isConflict ||= classes.some((name) => conflictClasses.has(name.toLowerCase()));
  if (selection.derived.conflict) attributes["conflict"] = isConflict;
  if (selection.derived.disabled && disabled !== undefined) attributes["disabled"] = disabled;
  if (isSearch) {
    const remedy = "let the server do the search (OpenLDAP: dynlist), or leave the group out with groups.filter";
    reader.warn(
      "groups have a search for members",
      `${dn}: its members are a search (memberURL): only those that the server lists are read; ${remedy}`,
    );
  }
  return {
    entry: { kind, id: idOf(id, dn, reader), origin: dn, attributes, keys, memberOf, members },
    lists,
    rest,
    revision,
    sid: sid === "" ? undefined : sid,
    primaryGroup: sid === "" || primary === "" ? undefined : sid.replace(/\d+$/, primary),
    memberless: kind === "group" ? memberlessIn(dn, classes, memberTypes, reader) : undefined,
  };
}

/** A group without the attribute of its members, which its class wants. */
export interface Memberless {
  readonly dn: string;
  readonly className: string;
  readonly attribute: string;
}

/** The classes of groups that the standard wants to have members (RFC 4519, 3.5 and 3.6), each with their attribute. */
const memberOfClass = new Map<string, "member" | "uniqueMember">([
  ["groupofnames", "member"],
  ["groupofuniquenames", "uniqueMember"],
]);

/** @param has the attributes of members that the group shows, in lower case */
function memberlessIn(
  dn: string,
  classes: readonly string[],
  has: ReadonlySet<string>,
  { options: { membership } }: Reader,
): Memberless | undefined {
  for (const className of classes) {
    const attribute = memberOfClass.get(className.toLowerCase());
    if (attribute !== undefined && membership.includes(attribute) && !has.has(attribute.toLowerCase()))
      return { dn, className, attribute };
  }
  return undefined;
}

/** Active Directory and Samba put `CNF:` and an id after the name of the loser; others put the id before it. */
const conflictNames = [/(?:\\0A|\n)CNF:/i, /^(?:(?:[^\\,]|\\.)*\+)? *(?:nsuniqueid|entryuuid) *=/is];

/** A set has no order: another order would make another record of the entry. */
function warnOfSeveralIds(dn: string, name: string, reader: Reader): void {
  reader.warn(
    "ids have several values",
    `${dn}: ${name} has several values, and the first one that the server sends is the id; name an attribute of one value as ${reader.kind}s.id`,
  );
}

function hasConflictName(dn: string): boolean {
  return conflictNames.some((pattern) => pattern.test(dn));
}

/** What replication puts in the place of an entry that it lacks, or cannot keep as it is, in lower case. */
const conflictClasses = new Set(["glue", "ds-sync-conflict-entry", "unknown"]);

/** ACCOUNTDISABLE in Active Directory's `userAccountControl`. */
const accountDisabled = 0x2;

/** A range of an attribute's values. */
export interface ValueRange {
  readonly use: AttributeUse;
  readonly values: readonly string[];
  readonly revision: string | undefined;
}

/** The range of an attribute's values in a message; undefined when there is none. */
export function rangeIn(message: Buffer, name: string, reader: Reader): ValueRange | undefined {
  const fields = new Fields(message, reader);
  let part: Omit<ValueRange, "revision"> | undefined;
  let revision: string | undefined;
  for (let use = fields.next(); use !== undefined; use = fields.next()) {
    const isPart = use.range !== undefined && use.name.toLowerCase() === name.toLowerCase();
    if (!isPart && !use.roles.includes("revision")) continue;
    const values = fields.values(use);
    if (isPart) part = { use, values };
    else [revision] = values;
  }
  return part && { ...part, revision };
}

/** The first values of the attributes that can be the id, by their rank. */
export function idsIn(message: Buffer, reader: Reader): ReadonlyMap<number, string> {
  const fields = new Fields(message, reader);
  const ids = new Map<number, string>();
  for (let use = fields.next(); use !== undefined; use = fields.next()) {
    const [value] = use.roles.includes("id") ? fields.values(use) : [];
    if (value !== undefined) ids.set(use.rank, value);
  }
  return ids;
}

/** The members in a list, at most `size` at a time. */
export function* referencesIn(
  message: Buffer,
  list: ValueList,
  reader: Reader,
  size: number,
): Generator<MemberReference[]> {
  const cursor: Cursor = { bytes: message, at: list.at };
  const textAt = windowOn(message);
  while (cursor.at < list.end) {
    const references: MemberReference[] = [];
    while (cursor.at < list.end && references.length < size) {
      const value = textOf(cursor, textAt);
      if (value !== "") references.push(referenceOf(list.use, value, reader.dnKey));
    }
    yield references;
  }
}

/** Whether the values are members of a group. */
export function isMembers({ roles }: AttributeUse): boolean {
  return roles.length > 0 && (roles.includes("member") || roles.includes("memberUid"));
}

/** The reference in one value of a member attribute. */
export function referenceOf(use: AttributeUse, value: string, dnKey: (dn: string) => string): MemberReference {
  return use.roles.includes("memberUid") ? { kind: "user", key: loginKey(value) } : { key: dnKey(memberDn(value)) };
}

/** The DN of the entry in a message. */
export function dnOf(message: Buffer): string {
  return readText(enterEntry(message));
}

/** Whether the entry in a message, which has its object classes and no more, stands for another one (RFC 4512, 2.6). */
export function isAlias(message: Buffer): boolean {
  const cursor = enterEntry(message);
  readText(cursor);
  for (const end = enter(cursor, tags.sequence); cursor.at < end;) {
    enter(cursor, tags.sequence);
    readText(cursor);
    if (readTexts(cursor, tags.set).some((name) => /^(?:alias|2\.5\.6\.1)$/i.test(name))) return true;
  }
  return false;
}

function enterEntry(bytes: Buffer): Cursor {
  const cursor: Cursor = { bytes, at: 0 };
  enter(cursor, tags.sequence);
  cursor.at = enter(cursor, tags.integer);
  enter(cursor, tags.searchEntry);
  return cursor;
}

/** The attributes of an entry that have a use, in turn. */
class Fields {
  readonly dn: string;
  /** Where the values of the attribute are that `next` has found. */
  at = 0;
  end = 0;
  readonly #reader: Reader;
  readonly #cursor: Cursor;
  readonly #textAt: TextAt;
  /** Where the attribute begins that comes next, and where the last one ends. */
  #next: number;
  readonly #last: number;

  /** @throws {InputError} the name of the entry is not UTF-8 */
  constructor(message: Buffer, reader: Reader) {
    const cursor = enterEntry(message);
    const start = cursor.at;
    this.#reader = reader;
    this.#cursor = cursor;
    this.#textAt = windowOn(message);
    this.dn = textOf(cursor, this.#textAt);
    if (this.dn.includes("\uFFFD") && !isUtf8(readBytes({ bytes: message, at: start })))
      throw new InputError(`${this.dn}: the name of the entry is not UTF-8; correct it in the directory`);
    this.#last = enter(cursor, tags.sequence);
    this.#next = cursor.at;
  }

  /** Moves to the next one. @returns undefined after the last */
  next(): AttributeUse | undefined {
    const cursor = this.#cursor;
    while (this.#next < this.#last) {
      cursor.at = this.#next;
      this.#next = enter(cursor, tags.sequence);
      const typeEnd = enter(cursor, tags.octets);
      const use = this.#reader.selection.useAt(cursor.bytes, cursor.at, typeEnd);
      if (use === undefined) continue;
      cursor.at = typeEnd;
      this.end = enter(cursor, tags.set);
      this.at = cursor.at;
      return use;
    }
    return undefined;
  }

  /** Its values that are not empty. */
  values(use: AttributeUse): readonly string[] {
    const cursor = this.#cursor;
    let values: string[] | undefined;
    for (cursor.at = this.at; cursor.at < this.end;) {
      const end = enter(cursor, tags.octets);
      if (end > cursor.at) {
        const value = this.#value(cursor.at, end, use);
        // Most have one: an array that grows takes several times the memory.
        if (values === undefined) values = [value];
        else values.push(value);
      }
      cursor.at = end;
    }
    return values ?? [];
  }

  #value(from: number, to: number, use: AttributeUse): string {
    const { bytes } = this.#cursor;
    if (use.form !== "text") return binaryOf(bytes.subarray(from, to), use.form);
    const text = this.#textAt(from, to);
    if (!text.includes("\uFFFD") || isUtf8(bytes.subarray(from, to))) return text;
    if (this.#reader.options.invalidUtf8 === "latin1") {
      this.#reader.warn("values are not UTF-8", `${this.dn}: ${use.name} is not UTF-8; read as Windows-1252`);
      return latin1.decode(bytes.subarray(from, to));
    }
    const remedy = "correct it in the directory, name it in `binary`, or set `invalidUtf8: latin1`";
    throw new InputError(`${this.dn}: ${use.name} has a value that is not UTF-8; ${remedy}`);
  }
}

function textOf(cursor: Cursor, textAt: TextAt): string {
  const end = enter(cursor, tags.octets);
  const text = textAt(cursor.at, end);
  cursor.at = end;
  return text;
}

const latin1 = new TextDecoder("windows-1252");

function binaryOf(bytes: Buffer, form: Form): string {
  const readable = form === "guid" ? guidOf(bytes) : form === "sid" ? sidOf(bytes) : undefined;
  return readable ?? bytes.toString("base64");
}

function idOf(id: { rank: number; value: string } | undefined, dn: string, reader: Reader): string {
  const { kind, options } = reader;
  if (id === undefined) {
    const part = kind === "user" ? options.users : options.groups;
    const wanted = part?.id ?? "entryUUID, objectGUID, nsUniqueId or GUID";
    const reason =
      options.file !== undefined
        ? "; export operational attributes too (ldapsearch … '*' '+')"
        : ", or this login may not see it";
    throw new IncompleteReadError(
      `${dn} has no ${wanted}${reason}, or name an attribute that every entry has, and keeps, as ${kind}s.id`,
    );
  }
  reader.idRank ??= id.rank;
  if (id.rank !== reader.idRank) {
    throw new IncompleteReadError(
      `${dn} has another id attribute than the entries before it; name the attribute to use as ${kind}s.id`,
    );
  }
  return id.value;
}

/** Without the unique identifier that may follow the DN in `uniqueMember` (RFC 4517, 3.3.21): `…#'0101'B`. */
function memberDn(value: string): string {
  return value.endsWith("'B") ? value.replace(/#'[01]*'B$/, "") : value;
}

function loginKey(value: string): string {
  return value.trim().toLowerCase();
}

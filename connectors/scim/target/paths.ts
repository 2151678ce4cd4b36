import { isDeepStrictEqual } from "node:util";
import type { PrincipalValue } from "#principals/principal.ts";
import { isObject } from "#values.ts";
import { flagOf } from "../resource.ts";
import type { Resource } from "../schema.ts";

/** Where an attribute is in a resource: `urn:…:User:department`, `name.givenName`, `addresses[type eq "work"].locality`. */
export interface Path {
  /** The extension that it is in. Absent: it is the resource's own. */
  readonly urn?: string | undefined;
  readonly attribute: string;
  /** In a list: the value with this type. */
  readonly type?: string | undefined;
  readonly sub?: string | undefined;
}

const form = /^(?:(urn:[^[\]"\s]+):)?([A-Za-z$][\w$-]*)(?:\[type eq "([^"\\]+)"\])?(?:\.([A-Za-z$][\w$-]*))?$/i;

/** What is not an attribute of anybody's: it is the server's, the sync's, or secret. */
const reserved = new Set(["id", "meta", "schemas", "members", "groups", "username", "password"]);

/** Reads a path; undefined: it is none, or none that may be written. */
export function parsePath(text: string): Path | undefined {
  const [, urn, attribute, type, sub] = form.exec(text) ?? [];
  if (attribute === undefined || (urn === undefined && reserved.has(attribute.toLowerCase()))) return undefined;
  return { urn, attribute, type, sub };
}

/** The path as a PATCH names it. */
export function writePath({ urn, attribute, sub }: Path): string {
  return `${urn === undefined ? "" : `${urn}:`}${attribute}${sub === undefined ? "" : `.${sub}`}`;
}

/** The value of a key, however it is written: names have no case (RFC 7643, 2.1). */
export function member(object: unknown, key: string): unknown {
  if (typeof object !== "object" || object === null) return undefined;
  if (Object.hasOwn(object, key)) return (object as Resource)[key];
  const other = Object.keys(object).find((each) => each.toLowerCase() === key.toLowerCase());
  return other === undefined ? undefined : (object as Resource)[other];
}

/** The attribute that a path leads to, whole: a list, where it is one of several values. */
export function whole(resource: Resource, { urn, attribute }: Path): unknown {
  return member(urn === undefined ? resource : member(resource, urn), attribute);
}

/** A text or flag at a path; undefined: there is none. */
export function single(resource: Resource, path: Path, type: "text" | "boolean"): PrincipalValue | undefined {
  const found = whole(resource, path);
  const of = path.type?.toLowerCase();
  if (of !== undefined) {
    const item = itemsOf(found).find((each) => typeOf(each) === of);
    return valueOf(member(item, path.sub ?? "value"), type);
  }
  return valueOf(path.sub === undefined ? found : member(found, path.sub), type);
}

function valueOf(found: unknown, type: "text" | "boolean"): PrincipalValue | undefined {
  // An object such as `manager` stands for its `value`.
  const value = isObject(found) ? member(found, "value") : found;
  if (type === "boolean") return flagOf(value);
  if (typeof value === "string") return value === "" ? undefined : value;
  return typeof value === "number" || typeof value === "boolean" ? String(value) : undefined;
}

/** A value of a list. */
export type Item = Readonly<Record<string, unknown>>;

/** The values of a list as objects; some servers send one object, or texts. */
export function itemsOf(list: unknown): readonly Item[] {
  if (list === undefined || list === null) return [];
  return ([list].flat() as (string | number | Item | null)[])
    .filter((item): item is string | number | Item => item !== null && item !== "")
    .map((item) => (typeof item === "object" ? item : { value: String(item) }));
}

function typeOf(item: Item): string | undefined {
  const type = member(item, "type");
  return typeof type === "string" && type !== "" ? type.toLowerCase() : undefined;
}

/** The texts of a list, as principals have them; undefined: there are none. @param reserved types that are others' */
export function texts(list: unknown, reserved: ReadonlySet<string>): readonly string[] | undefined {
  const all = itemsOf(list).flatMap((item) => {
    const value = valueOf(member(item, "value"), "text");
    const type = typeOf(item);
    return typeof value !== "string" || (type !== undefined && reserved.has(type)) ? [] : [value];
  });
  if (all.length === 0) return undefined;
  return [...new Set(all)].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

/** The item that is the primary one, else the first. */
export function primary(list: unknown): Item | undefined {
  const items = itemsOf(list);
  return items.find((item) => flagOf(member(item, "primary")) === true) ?? items[0];
}

/** What of a list is planned. Null: there should be none; undefined: it stays. */
export interface PlannedList {
  readonly values?: readonly string[] | null | undefined;
  /** The value that is the primary one. */
  readonly primary?: string | null | undefined;
  /** Parts of the values with these types. */
  readonly typed: readonly { readonly path: Path; readonly value: string | null }[];
  /** The types that `values` says nothing of. */
  readonly reserved: ReadonlySet<string>;
  /** One of the values is the primary one. */
  readonly hasPrimary: boolean;
}

/** The type of the first value that a list gets: `work`. */
const usualType = "work";

/** The list as it will be. What is not planned stays, with everything that each value has beside it. */
export function plannedList(before: unknown, planned: PlannedList): readonly Item[] {
  const { values, primary: first, typed, reserved } = planned;
  let items = [...itemsOf(before)];
  const isReserved = (item: Item): boolean => reserved.has(typeOf(item) ?? "");
  if (values !== undefined) {
    const wanted = new Set(values ?? []);
    items = items.filter((item) => isReserved(item) || wanted.has(String(member(item, "value"))));
    const there = new Set(items.filter((item) => !isReserved(item)).map((item) => String(member(item, "value"))));
    for (const value of wanted) if (!there.has(value)) items.push(newItem(value, items, reserved));
  }
  for (const { path, value } of typed) items = withTyped(items, path, value);
  // Without a primary value the next one would be read as it.
  if (first === null && values === undefined) items = items.filter(isReserved);
  if (typeof first === "string") items = withPrimary(items, first, { isWhole: values !== undefined, reserved });
  return planned.hasPrimary ? withOnePrimary(items) : items;
}

function newItem(value: string, items: readonly Item[], reserved: ReadonlySet<string>): Item {
  const isFirst = !reserved.has(usualType) && items.every((item) => typeOf(item) !== usualType);
  return { value, type: isFirst ? usualType : "other" };
}

function withTyped(items: readonly Item[], { type = "", sub = "value" }: Path, value: string | null): Item[] {
  const found = items.find((item) => typeOf(item) === type.toLowerCase());
  if (value === null) {
    if (found === undefined) return [...items];
    const { [sub]: _, ...rest } = found;
    const isEmpty = Object.keys(rest).every((key) => key === "type" || key === "primary");
    return items.flatMap((item) => (item !== found ? [item] : isEmpty ? [] : [rest]));
  }
  if (found === undefined) return [...items, { type, [sub]: value }];
  return items.map((item) => (item === found ? { ...item, [sub]: value } : item));
}

/**
 * @param list.isWhole the other values are planned, too, so none is replaced
 * @param list.reserved types whose value is another attribute's, which is not replaced either
 */
function withPrimary(
  items: readonly Item[],
  value: string,
  { isWhole, reserved }: { readonly isWhole: boolean; readonly reserved: ReadonlySet<string> },
): Item[] {
  const old = primary(items);
  const same = items.find((item) => String(member(item, "value")).toLowerCase() === value.toLowerCase());
  const isReserved = (item: Item | undefined): boolean => item !== undefined && reserved.has(typeOf(item) ?? "");
  const chosen = same ?? (isWhole || isReserved(old) ? undefined : old);
  // What was the primary value gives way to that of another attribute, as it does to a new one.
  const gone = !isWhole && isReserved(same) && !isReserved(old) ? old : undefined;
  const others = items.flatMap((item) => (item === chosen || item === gone ? [] : [{ ...item, primary: false }]));
  const next = { ...(chosen ?? newItem(value, items, reserved)), value, primary: true };
  const at = chosen === undefined ? 0 : items.filter((item) => item !== gone).indexOf(chosen);
  return others.toSpliced(at, 0, next);
}

/** The first is the primary one, unless another is. */
function withOnePrimary(items: readonly Item[]): Item[] {
  const isPrimary = (item: Item): boolean => flagOf(member(item, "primary")) === true;
  const one = items.find(isPrimary) ?? items[0];
  return items.map((item) => {
    const { primary: _, ...rest } = item;
    return item === one ? { ...rest, primary: true } : rest;
  });
}

/** A copy of the resource with a value at a path; null: without it. */
export function placed(resource: Resource, { urn, attribute, sub }: Path, value: unknown): Resource {
  const container = urn === undefined ? resource : member(resource, urn);
  const held = sub === undefined ? value : having(member(container, attribute), sub, value);
  const changed = having(container, attribute, isDeepStrictEqual(held, {}) ? null : held);
  return urn === undefined ? changed : having(resource, urn, isDeepStrictEqual(changed, {}) ? null : changed);
}

/** A copy of an object with a value; null: without it. */
function having(object: unknown, key: string, value: unknown): Resource {
  const entries = typeof object === "object" && object !== null ? Object.entries(object) : [];
  const others = entries.filter(([name]) => name.toLowerCase() !== key.toLowerCase());
  return Object.fromEntries(value === null ? others : [...others, [key, value]]);
}

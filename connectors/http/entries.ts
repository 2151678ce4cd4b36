import type { Entry, MemberReference, ReadContext, SourceRecord } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import type { AttributeValue } from "#principals/entry.ts";
import type { Kind } from "#principals/principal.ts";
import { quote } from "#text.ts";
import type { Item } from "./content.ts";
import type { Found } from "./lists.ts";
import type { EntryOptions, GroupsOptions, MemberKind, MembershipsOptions } from "./options.ts";
import { attributeIn, flattened, hasObjects, keyIn, keysIn, valueAt } from "./path.ts";
import type { Path } from "./path.ts";

/** The id of a record. @throws {InputError} it has none */
export function idIn({ item, place, subject }: Found, { id }: Pick<EntryOptions, "id">): string {
  const found = keyIn(valueAt(item, id));
  if (found !== undefined) return found;
  const names = Object.keys(item).slice(0, 10).join(", ");
  throw new InputError(
    `${subject}: ${place}: a record without an id at ${id.text} (id); it has ${names === "" ? "nothing" : names}`,
  );
}

/**
 * The entry of a record.
 * @throws {InputError} it has no id
 * @throws {IncompleteReadError} it has nothing but that: it is there, and the account may not read it
 */
export function entryOf(
  kind: Kind,
  found: Found,
  options: EntryOptions | GroupsOptions,
  { attributes: wanted }: Pick<ReadContext, "attributes">,
): Entry {
  const { item, place, subject } = found;
  const id = idIn(found, options);
  const origin = `${place}, id ${id}`;
  assertReadable(item, options, `${subject}: ${origin}`);
  const names = wanted === undefined ? undefined : new Set(wanted[`${kind}s`]);
  const members = "members" in options ? options.members : undefined;
  return {
    kind,
    id,
    origin,
    attributes: attributesOf(item, options, names, origin),
    keys: options.keys === undefined ? [id] : options.keys.flatMap((key) => keysIn(valuesAt(item, key, origin))),
    memberOf: options.memberOf === undefined ? [] : keysIn(valuesAt(item, options.memberOf.path, origin)),
    members: members !== undefined && "path" in members ? membersIn(item, members, origin) : [],
  };
}

/** Where a record has keys, and refers to others. */
export function referencesOf(options: EntryOptions | GroupsOptions): Path[] {
  const { keys = [], memberOf } = options;
  const members = "members" in options ? options.members : undefined;
  const listed = members !== undefined && "path" in members ? members : undefined;
  return [...keys, ...[memberOf, listed].flatMap((each) => each?.path ?? [])];
}

function membersIn(
  item: Item,
  { path, kind }: Extract<GroupsOptions["members"], { path: unknown }>,
  origin: string,
): MemberReference[] {
  return keysIn(valuesAt(item, path, origin)).map((key) => (kind === undefined ? { key } : { kind, key }));
}

/**
 * One value or several.
 * @throws {InputError} there are objects: what the path means is in them
 */
function valuesAt(item: Item, path: Path, origin: string): unknown {
  const value = valueAt(item, path);
  if (!hasObjects(value)) return value;
  const names = [value].flat().flatMap((each: unknown) => Object.keys(each ?? {}));
  const some = [...new Set(names)].slice(0, 10).map((name) => `${path.text}.${name}`);
  throw new InputError(
    `${origin}: ${path.text} has objects, not values; say which of their values${some.length === 0 ? "" : `: ${some.join(", ")}`}`,
  );
}

/** @param names those that rules read; undefined: all */
function attributesOf(
  item: Item,
  { attributes }: EntryOptions,
  names: ReadonlySet<string> | undefined,
  origin: string,
): Record<string, AttributeValue> {
  const isWanted = (name: string): boolean => names === undefined || names.has(name);
  const all: (readonly [string, AttributeValue])[] = [];
  if (attributes === undefined) all.push(...flattened(item));
  for (const [name, path] of Object.entries(attributes ?? {})) {
    const value = isWanted(name) ? attributeIn(valuesAt(item, path, origin)) : undefined;
    if (value !== undefined) all.push([name, value]);
  }
  return Object.fromEntries(all.filter(([name]) => isWanted(name)));
}

/** Some services answer for a record that the account may not read with its id, and null for all else. */
function assertReadable(item: Item, { id }: EntryOptions, origin: string): void {
  const [first] = id.steps;
  const others = Object.entries(item).filter(
    ([name]) => first === undefined || !("name" in first) || name !== first.name,
  );
  const isBlank = others.length > 0 && others.every(([name, value]) => value === null || name.startsWith("@"));
  if (!isBlank || !others.some(([, value]) => value === null)) return;
  throw new IncompleteReadError(
    `${origin}: every value but the id is null, so the account may not read it: grant it the rights to all users and groups`,
  );
}

/**
 * The membership that a record of a group's own list means.
 * @throws {InputError} it does not say who, or what, the member is
 */
export function memberOf(
  group: string,
  found: Found,
  options: { id: MembershipsOptions["member"]; kind?: MemberKind },
): SourceRecord {
  const key = keyIn(valueAt(found.item, options.id));
  if (key === undefined)
    throw new InputError(`${found.subject}: ${found.place}: a member without a reference at ${options.id.text} (id)`);
  const kind = kindIn(found, options.kind);
  return { kind: "membership", group, member: kind === undefined ? { key } : { kind, key }, origin: found.place };
}

/** The membership that a pair means. @throws {InputError} it lacks one of both */
export function pairOf(found: Found, { group, member, kind }: MembershipsOptions): SourceRecord {
  const key = keyIn(valueAt(found.item, group));
  if (key === undefined)
    throw new InputError(`${found.subject}: ${found.place}: a membership without a group at ${group.text}`);
  return memberOf(key, found, { id: member, kind });
}

function kindIn({ item, place, subject }: Found, kind: MemberKind): Kind | undefined {
  if (typeof kind !== "object") return kind;
  const value = keyIn(valueAt(item, kind.path));
  if (value === kind.user) return "user";
  if (value === kind.group) return "group";
  throw new InputError(
    `${subject}: ${place}: ${kind.path.text} is ${value === undefined ? "missing" : quote(value)}; expected ${quote(kind.user)} or ${quote(kind.group)}`,
  );
}

import type { Entry } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import type { AttributeValue } from "#principals/entry.ts";

/** A user or a group as Okta sends it. */
export type Item = Readonly<Record<string, unknown>>;

/** Attributes that a user has beside the profile. `fields` names them. */
const ofUsers = new Set([
  "id",
  "status",
  "created",
  "activated",
  "statusChanged",
  "lastLogin",
  "lastUpdated",
  "passwordChanged",
  "type.id",
]);
const ofGroups = new Set(["id", "type", "created", "lastUpdated", "lastMembershipUpdated"]);

/** What is read of every user: nobody is without a login. */
const always = ["id", "status"];
const login = "login";

/** The parameter `fields` for users with these attributes; undefined: whole users. */
export function fieldsFor(wanted: ReadonlySet<string> | undefined): string | undefined {
  if (wanted === undefined) return undefined;
  const own = [...wanted].filter((name) => ofUsers.has(name)).map((name) => name.replace(/\..*/, ""));
  const profile = [...wanted].filter((name) => !ofUsers.has(name)).map((name) => name.replace(/^profile\./, ""));
  // A name with another character would end the list.
  const named = [login, ...profile].filter((name) => /^\w+$/.test(name));
  return `${[...new Set([...always, ...own])].join(",")},profile:(${[...new Set(named)].join(",")})`;
}

/** @throws {InputError} what came is not a list of objects that have an id */
export function itemsIn(value: unknown, title: string): readonly Item[] {
  if (!Array.isArray(value))
    throw new InputError(`${title}: the answer is JSON but not a list; does the url lead to Okta?`);
  for (const item of value) idOf(item, title);
  return value as readonly Item[];
}

/** @throws {InputError} */
export function idOf(item: unknown, title: string): string {
  const id = typeof item === "object" && item !== null && "id" in item ? item.id : undefined;
  if (typeof id === "string" && id !== "") return id;
  throw new InputError(`${title}: a record without an id`);
}

/** @throws {IncompleteReadError} it has none, though all have one */
export function statusOf(item: Item, title: string): string {
  const { status } = item;
  if (typeof status === "string" && status !== "") return status;
  throw new IncompleteReadError(
    `${title}: the user ${idOf(item, title)} has no status, so it is not known who is in scope`,
  );
}

/** @throws {IncompleteReadError} the profile may not be read: what is not shown is not empty */
export function userOf(user: Item, origin: string, wanted: ReadonlySet<string> | undefined): Entry {
  assertShown(user, login, origin, "okta.users.read for all attributes of profiles");
  return entryOf("user", user, origin, wanted, ofUsers);
}

/** @throws {IncompleteReadError} the profile may not be read */
export function groupOf(group: Item, origin: string, wanted: ReadonlySet<string> | undefined): Entry {
  assertShown(group, "name", origin, "okta.groups.read");
  return entryOf("group", group, origin, wanted, ofGroups);
}

function assertShown({ profile }: Item, name: string, origin: string, permission: string): void {
  const value = typeof profile === "object" && profile !== null ? (profile as Item)[name] : undefined;
  if (typeof value === "string" && value !== "") return;
  throw new IncompleteReadError(
    `${origin}: it has no profile.${name}, which everyone of its kind has, so the credentials may not read it; grant ${permission}`,
  );
}

function entryOf(
  kind: Entry["kind"],
  item: Item,
  origin: string,
  wanted: ReadonlySet<string> | undefined,
  own: ReadonlySet<string>,
): Entry {
  const id = idOf(item, origin);
  const attributes: Record<string, AttributeValue> = {};
  const add = (name: string, value: unknown): void => {
    const shown = attributeOf(value);
    if (shown !== undefined && (wanted === undefined || wanted.has(name))) attributes[name] = shown;
  };
  for (const [name, value] of Object.entries(item["profile"] ?? {})) {
    // The name of one of Okta's own attributes is that one's.
    if (!own.has(name)) add(name, value);
    if (own.has(name) || wanted?.has(`profile.${name}`) === true) add(`profile.${name}`, value);
  }
  for (const name of own) {
    const [first = "", second] = name.split(".");
    const value = item[first];
    add(name, second === undefined ? value : (value as Item | null | undefined)?.[second]);
  }
  return { kind, id, origin, attributes, keys: [id], memberOf: [], members: [] };
}

/** What is null, empty or an object is left out; a list is texts. */
function attributeOf(value: unknown): AttributeValue | undefined {
  if (typeof value === "string") return value === "" ? undefined : value;
  if (typeof value === "number" || typeof value === "boolean") return value;
  if (!Array.isArray(value)) return undefined;
  const texts = value.filter((one) => one !== null && one !== "" && typeof one !== "object").map(String);
  return texts.length === 0 ? undefined : texts;
}

import type { Entry, MemberReference } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import type { AttributeValue } from "#principals/entry.ts";
import { decoded, quote } from "#text.ts";
import type { Kind } from "#principals/principal.ts";
import { isObject } from "#values.ts";
import { attributeNames, enterprise, spellings, words } from "./schema.ts";
import type { Resource } from "./schema.ts";

/** How resources become entries. */
export interface EntryOptions {
  /** The attributes to keep, by kind; undefined: all. */
  readonly wanted: Readonly<Record<Kind, ReadonlySet<string> | undefined>>;
  /** The option `memberships`. */
  readonly memberships: "members" | "groups" | "both";
}

/**
 * The entry for a resource.
 * @param origin where the resource was found
 * @throws {InputError} it has no id, or a member has neither value nor $ref
 * @throws {IncompleteReadError} it has nothing but its id: it is there, and the account may not read it
 */
export function entryOf(kind: Kind, resource: Resource, origin: string, entryOptions: EntryOptions): Entry {
  const id = idOf(resource);
  if (id === undefined)
    throw new InputError(`${origin}: a ${kind} without an id; every resource has one (RFC 7643, 3.1)`);
  if (isBlank(resource))
    throw new IncompleteReadError(
      `${origin}, id ${id}: every value of the ${kind} but the id is null, so the account may not read it: grant it the rights to all users and groups`,
    );
  const { memberships, wanted } = entryOptions;
  return {
    kind,
    id,
    origin,
    attributes: attributesOf(resource, wanted[kind]),
    keys: [id],
    memberOf: kind === "user" && memberships !== "members" ? groupsOf(resource, memberships === "groups") : [],
    members: kind === "group" && memberships !== "groups" ? membersOf(resource, origin) : [],
  };
}

/** What every resource has, whatever the account may read. */
const common = new Set(["id", "externalId", "meta", "schemas"]);

/** Whether all else is null. Some servers answer so for a resource that the account may not read. */
function isBlank(resource: Resource): boolean {
  let hasNull = false;
  for (const name in resource) {
    const value = resource[name];
    if (common.has(name) || (Array.isArray(value) && value.length === 0)) continue;
    if (value !== null) return false;
    hasNull = true;
  }
  return hasNull;
}

/** The id of a resource; some servers send numbers. */
export function idOf(resource: Resource): string | undefined {
  const { id } = resource;
  if (typeof id === "number") return String(id);
  return typeof id === "string" && id !== "" ? id : undefined;
}

/** Whether what came is an error (RFC 7644, 3.12), whatever the HTTP status says. */
export function isError({ schemas }: Resource): boolean {
  return [schemas].flat().some((schema) => /^urn:ietf:params:scim:api:messages:2\.0:Error$/i.test(String(schema)));
}

/** The kind of a resource; undefined when it does not say, `other` when it is neither user nor group. */
export function typeOf(resource: Resource): Kind | { readonly other: string } | undefined {
  const meta = resource["meta"];
  const type = typeof meta === "object" && meta !== null && "resourceType" in meta ? meta.resourceType : undefined;
  if (typeof type === "string" && type !== "") return kindOf(type) ?? { other: type };
  const schemas = Array.isArray(resource["schemas"]) ? resource["schemas"].map(String) : [];
  const core = schemas.find((schema) => /^urn:ietf:params:scim:schemas:core:/i.test(schema));
  const word = core?.split(":").at(-1);
  return word === undefined ? undefined : (kindOf(word) ?? { other: word });
}

function kindOf(word: string): Kind | undefined {
  if (/^users?$/i.test(word)) return "user";
  return /^groups?$/i.test(word) ? "group" : undefined;
}

/**
 * The groups a user is directly in. A membership without a type may be indirect: it counts only where groups of users
 * are the only source of memberships.
 */
function groupsOf(resource: Resource, untold: boolean): string[] {
  return valuesOf(resource["groups"]).flatMap((group) => {
    const type = typeof group["type"] === "string" ? group["type"].toLowerCase() : undefined;
    const isDirect = type === "direct" || (type !== "indirect" && untold);
    const key = isDirect ? keyOf(group) : undefined;
    return key === undefined ? [] : [key];
  });
}

/** @throws {InputError} a member has neither value nor $ref */
export function membersOf(resource: Resource, origin: string): MemberReference[] {
  return valuesOf(resource["members"]).map((member) => {
    const key = keyOf(member);
    if (key === undefined)
      throw new InputError(`${origin}: a member has neither value nor $ref; it must say who it is`);
    const kind = memberKindOf(member);
    return kind === undefined ? { key } : { kind, key };
  });
}

function memberKindOf({ type, $ref }: Resource): Kind | undefined {
  const said = typeof type === "string" ? kindOf(type) : undefined;
  return said ?? (typeof $ref === "string" ? kindOf($ref.split("/").at(-2) ?? "") : undefined);
}

/** The id of a member: its value, or the end of its reference. */
export function keyOf({ value, $ref }: Resource): string | undefined {
  if (typeof value === "number") return String(value);
  if (typeof value === "string" && value !== "") return value;
  if (typeof $ref !== "string") return undefined;
  const last = $ref.split(/[?#]/, 1)[0]?.split("/").at(-1) ?? "";
  return last === "" ? undefined : (decoded(last) ?? last);
}

/** The items of a multi-valued attribute; plain values become `{ value }`. */
function valuesOf(attribute: unknown): readonly Resource[] {
  if (attribute === undefined || attribute === null) return [];
  return [attribute]
    .flat()
    .map((item) => (typeof item === "object" && item !== null ? (item as Resource) : { value: item }));
}

/** Short names for rules. */
const shortNames: Readonly<Record<string, string>> = {
  mail: "emails.primary",
  givenName: "name.givenName",
  familyName: "name.familyName",
};

/** Memberships are not attributes of an entry. */
const memberships = new Set(["members", "groups"]);

/** What the standard has as lists of objects (RFC 7643, 4.1.2); some servers send one object, or texts. */
const lists = new Set([
  "emails",
  "phoneNumbers",
  "ims",
  "photos",
  "addresses",
  "entitlements",
  "roles",
  "x509Certificates",
]);
/** The lists where a lone text is the value of such an object: nobody asks for the primary role. */
const withPrimary = new Set(["emails", "phoneNumbers", "ims", "photos"]);

/** What the standard has as texts. Some servers send a number where all its characters are digits. */
const ownTexts = `
  id externalId userName displayName nickName profileUrl title userType preferredLanguage locale timezone
  name.formatted name.familyName name.givenName name.middleName name.honorificPrefix name.honorificSuffix`;
const enterpriseTexts = "employeeNumber costCenter organization division department manager manager.displayName";
const textNames = [ownTexts, enterpriseTexts].flatMap(words);
const texts = [...textNames, ...enterpriseTexts.split(" ").map((name) => `${enterprise}:${name}`)];

/**
 * What a value says where the standard has true or false. Entra ID sends `"True"`, others what their database holds.
 * Undefined: neither.
 */
export function flagOf(value: unknown): boolean | undefined {
  const word = typeof value === "string" ? value.trim().toLowerCase() : value;
  if (word === true || word === 1 || word === "true" || word === "1") return true;
  return word === false || word === 0 || word === "false" || word === "0" ? false : undefined;
}

function notFlag(value: unknown): string {
  return `is ${quote(typeof value === "string" ? value : (JSON.stringify(value) ?? ""))}, which is neither true nor false`;
}

/**
 * The attributes of a resource, flat:
 * - `name: {givenName}` is `name.givenName`; a `value` in it is the attribute itself (`manager`);
 * - of `emails: [{value, type, primary}]`, `emails` is all values, `emails.primary` the primary one's (else the first's),
 *   `emails.work` that of the first of this type, also if it is written `Work`; what else they have is
 *   `addresses.work.locality`;
 * - an extension's are `urn:…:User:department`, and `department` where the name is free, the enterprise extension's first;
 * - and the short names.
 * What is null or empty is left out. `active` is true, false or unreadable, and what the standard has as texts are texts.
 * @param wanted the names to keep; undefined: all
 */
export function attributesOf(
  resource: Resource,
  wanted: ReadonlySet<string> | undefined,
): Record<string, AttributeValue> {
  const all = new Map<string, AttributeValue>();
  const extensions: string[] = [];
  for (const [key, value] of Object.entries(resource)) {
    if (/^urn:/i.test(key)) extensions.push(key);
    else if (lists.has(key)) flattenValues(key, listOf(key, value), all);
    else if (!memberships.has(key)) flatten(key, value, all);
  }
  extensions.sort((a, b) => Number(b === enterprise) - Number(a === enterprise) || (a < b ? -1 : 1));
  for (const urn of extensions) {
    const own = new Map<string, AttributeValue>();
    for (const [key, value] of entriesOf(resource[urn])) flatten(key, value, own);
    for (const [name, value] of own) {
      all.set(`${urn}:${name}`, value);
      if (!all.has(name)) all.set(name, value);
    }
  }
  const active = resource["active"] ?? all.get("active");
  if (active !== undefined) all.set("active", readFlag(active));
  for (const name of texts) {
    const value = all.get(name);
    if (typeof value === "number") all.set(name, String(value));
  }
  for (const [short, long] of Object.entries(shortNames)) {
    const value = all.get(long);
    if (value !== undefined && !all.has(short)) all.set(short, value);
  }
  const kept = wanted === undefined ? all : [...all].filter(([name]) => wanted.has(name));
  return Object.fromEntries(kept);
}

function readFlag(value: unknown): AttributeValue {
  const said = typeof value === "object" && value !== null && "value" in value ? value.value : value;
  return flagOf(said) ?? { unreadable: notFlag(said) };
}

function listOf(name: string, value: unknown): readonly unknown[] {
  if (value === undefined || value === null) return [];
  const all = [value].flat();
  return withPrimary.has(name) ? valuesOf(all.filter((item) => item !== null && item !== "")) : all;
}

function flatten(name: string, value: unknown, into: Map<string, AttributeValue>): void {
  if (Array.isArray(value)) flattenValues(name, value, into);
  else if (typeof value === "object") {
    for (const [key, inner] of entriesOf(value)) {
      if (key === "value") flatten(name, inner, into);
      else if (key !== "$ref") flatten(`${name}.${key}`, inner, into);
    }
  } else set(name, value, into);
}

function flattenValues(name: string, values: readonly unknown[], into: Map<string, AttributeValue>): void {
  const texts = values
    .map((item) => (typeof item === "object" && item !== null ? (item as Resource)["value"] : item))
    .filter((item) => isScalar(item) && item !== "")
    .map(String);
  if (texts.length > 0) into.set(name, texts);
  const complex = values.filter((item): item is Resource => typeof item === "object" && item !== null);
  // One of them may have no value, such as the work address of somebody who has none. Postal addresses have no values at all.
  const valued = complex.filter(({ value }) => isScalar(value) && value !== "");
  const candidates = valued.length === 0 ? complex : valued;
  const primary = candidates.find((item) => flagOf(item["primary"]) === true);
  const doubtful = candidates.find(
    (item) => (item["primary"] ?? false) !== false && flagOf(item["primary"]) === undefined,
  );
  const [first] = candidates;
  if (primary === undefined && doubtful !== undefined) {
    const unreadable = `is not known: \`primary\` of one of the ${name} ${notFlag(doubtful["primary"])}`;
    const own = new Map<string, AttributeValue>();
    for (const item of candidates) flattenValue(`${name}.primary`, item, own);
    for (const key of own.keys()) into.set(key, { unreadable });
  } else if (first !== undefined) flattenValue(`${name}.primary`, primary ?? first, into);
  for (const item of complex) {
    const { type } = item;
    if (typeof type !== "string" || type === "" || /^primary$/i.test(type)) continue;
    flattenValue(`${name}.${type}`, item, into);
    // The types of the standard have no case (RFC 7643, 2.2), and rules name them as it does.
    if (type !== type.toLowerCase()) flattenValue(`${name}.${type.toLowerCase()}`, item, into);
  }
}

/** When several values have one type, the first counts. */
function flattenValue(name: string, item: Resource, into: Map<string, AttributeValue>): void {
  const own = new Map<string, AttributeValue>();
  for (const [key, value] of Object.entries(item)) {
    if (key === "value") flatten(name, typeof value === "number" ? String(value) : value, own);
    else if (key !== "type" && key !== "primary" && key !== "$ref") flatten(`${name}.${key}`, value, own);
  }
  for (const [key, value] of own) if (!into.has(key)) into.set(key, value);
}

function set(name: string, value: unknown, into: Map<string, AttributeValue>): void {
  if (isScalar(value) && value !== "" && name !== "__proto__") into.set(name, value);
}

function isScalar(value: unknown): value is string | number | boolean {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}

function entriesOf(value: unknown): readonly (readonly [string, unknown])[] {
  return typeof value === "object" && value !== null ? Object.entries(value) : [];
}

/** The names of RFC 7643, and those of messages and configurations (RFC 7644, RFC 9865). */
const written = spellings([
  ...attributeNames,
  ...words(`resourceType created lastModified location version filter maxResults pagination cursor index
    defaultPaginationMethod maxPageSize totalResults itemsPerPage startIndex nextCursor detail status scimType`),
]);

/** The value with its attribute names spelled as in the standard: they are case-insensitive. */
function normalised(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(normalised);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [written.get(key.toLowerCase()) ?? key, normalised(inner)]),
  );
}

/** A resource or a ListResponse; undefined when it is not an object. */
export function objectOf(value: unknown): Resource | undefined {
  return isObject(value) ? (normalised(value) as Resource) : undefined;
}

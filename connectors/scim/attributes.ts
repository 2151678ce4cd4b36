import type { AttributeValue } from "#principals/entry.ts";

/** A resource as it stands in JSON. */
export type Resource = Readonly<Record<string, unknown>>;

const enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";

/** Names under which rules also find what has a longer one. */
const shortNames: Readonly<Record<string, string>> = {
  mail: "emails.primary",
  givenName: "name.givenName",
  familyName: "name.familyName",
};

/** Of these the attributes of an entry say nothing: they are memberships. */
const memberships = new Set(["members", "groups"]);

/**
 * The attributes of a resource, flat:
 * - `name: {givenName}` is `name.givenName`; a `value` in it is the attribute itself (`manager`);
 * - of `emails: [{value, type, primary}]`, `emails` is all values, `emails.primary` the primary one's (else the first's),
 *   `emails.work` that of the first of this type; what else they have is `addresses.work.locality`;
 * - an extension's are `urn:…:User:department`, and `department` where the name is free, the enterprise extension's first;
 * - and the short names.
 * What is null or empty is left out.
 * @param wanted the names to keep; undefined: all
 */
export function attributesOf(
  resource: Resource,
  wanted: ReadonlySet<string> | undefined,
): Record<string, AttributeValue> {
  const all = new Map<string, AttributeValue>();
  const extensions: string[] = [];
  for (const [key, value] of Object.entries(resource)) {
    if (key.startsWith("urn:")) extensions.push(key);
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
  for (const [short, long] of Object.entries(shortNames)) {
    const value = all.get(long);
    if (value !== undefined && !all.has(short)) all.set(short, value);
  }
  const kept = wanted === undefined ? all : [...all].filter(([name]) => wanted.has(name));
  return Object.fromEntries(kept);
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
  const primary = complex.find((item) => item["primary"] === true) ?? complex[0];
  if (primary !== undefined) flattenValue(`${name}.primary`, primary, into);
  for (const item of complex) {
    const { type } = item;
    if (typeof type === "string" && type !== "" && type !== "primary") flattenValue(`${name}.${type}`, item, into);
  }
}

/** Of several values of one type the first counts. */
function flattenValue(name: string, item: Resource, into: Map<string, AttributeValue>): void {
  const own = new Map<string, AttributeValue>();
  for (const [key, value] of Object.entries(item)) {
    if (key === "value") flatten(name, value, own);
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

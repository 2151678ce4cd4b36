import type { Entry, MemberReference } from "#connector.ts";
import { IncompleteReadError } from "#errors.ts";
import type { AttributeValue } from "#principals/entry.ts";
import type { Kind } from "#principals/principal.ts";

/** A user, a group or a member as parsed from JSON. */
export type Resource = Readonly<Record<string, unknown>>;

/** Short names for rules, by kind. */
const shortNames: Readonly<Record<Kind, Readonly<Record<string, string>>>> = {
  user: {
    mail: "primaryEmail",
    displayName: "name.fullName",
    givenName: "name.givenName",
    familyName: "name.familyName",
    department: "organizations.primary.department",
    title: "organizations.primary.title",
    costCenter: "organizations.primary.costCenter",
    employeeId: "externalIds.organization",
    manager: "relations.manager",
  },
  group: { mail: "email", displayName: "name" },
};

/** The fields of the Directory API that may be asked for; a mask with any other is refused. */
const fields: Readonly<Record<Kind, ReadonlySet<string>>> = {
  user: new Set(
    `addresses agreedToTerms aliases archivalTime archived changePasswordAtNextLogin creationTime customerId customSchemas
    deletionTime emails externalIds gender guestAccountInfo id ims includeInGlobalAddressList ipWhitelisted isAdmin
    isDelegatedAdmin isEnforcedIn2Sv isEnrolledIn2Sv isGuestUser isMailboxSetup keywords languages lastLoginTime locations
    name nonEditableAliases notes organizations orgUnitPath phones posixAccounts primaryEmail recoveryEmail recoveryPhone
    relations sshPublicKeys suspended suspensionReason suspensionTime thumbnailPhotoUrl websites`.split(/\s+/),
  ),
  group: new Set(
    "adminCreated aliases description directMembersCount email externalIds id name nonEditableAliases".split(" "),
  ),
};

/** What tells a record from one of which somebody may see no more than its id. */
const always: Readonly<Record<Kind, readonly string[]>> = {
  user: ["id", "primaryEmail", "suspended"],
  group: ["id", "email", "directMembersCount"],
};

/** What to ask for, so that rules can read these attributes. @param wanted undefined: all of them */
export function fieldsFor(kind: Kind, wanted: readonly string[] | undefined): readonly string[] {
  if (wanted === undefined) return [...fields[kind]];
  const asked = wanted.map((name) => (shortNames[kind][name] ?? name).split(".", 1)[0] ?? "");
  return [...new Set([...always[kind], ...asked.filter((name) => fields[kind].has(name))])];
}

/**
 * The entry of a user or a group.
 * @param origin where it was found
 * @param wanted the attributes to keep; undefined: all
 * @throws {IncompleteReadError} it lacks what every one has: the subject may not read it
 */
export function entryOf(
  kind: Kind,
  resource: Resource,
  { origin, wanted }: { readonly origin: string; readonly wanted: ReadonlySet<string> | undefined },
  links: { readonly memberOf?: readonly string[]; readonly members?: readonly MemberReference[] } = {},
): Entry {
  const [id, email] = [resource["id"], resource[kind === "user" ? "primaryEmail" : "email"]];
  if (!isText(id) || !isText(email) || (kind === "user" && typeof resource["suspended"] !== "boolean")) {
    const missing = isText(id) ? (isText(email) ? "suspended" : "an address") : "an id";
    throw new IncompleteReadError(
      `${origin}: a ${kind} without ${missing}, which every ${kind} has: the subject must be an administrator who may read all of it`,
    );
  }
  const attributes = attributesOf(kind, resource, wanted);
  return { kind, id, origin, attributes, keys: [id], memberOf: links.memberOf ?? [], members: links.members ?? [] };
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

/**
 * The attributes of a user or a group, flat:
 * - `name: {givenName}` is `name.givenName`; a custom field is `customSchemas.Schema.field`;
 * - of `emails: [{address, type, primary}]`, `emails` is all addresses, `emails.primary` the primary one's (else the
 *   first's), `emails.work` that of the first of this type; what else they have is `organizations.primary.department`;
 * - and the short names.
 */
function attributesOf(
  kind: Kind,
  resource: Resource,
  wanted: ReadonlySet<string> | undefined,
): Readonly<Record<string, AttributeValue>> {
  const all = new Map<string, AttributeValue>();
  for (const [key, value] of Object.entries(resource)) if (fields[kind].has(key)) flatten(key, value, all);
  for (const [short, long] of Object.entries(shortNames[kind])) {
    const value = all.get(long);
    if (value !== undefined) all.set(short, value);
  }
  return Object.fromEntries(wanted === undefined ? all : [...all].filter(([name]) => wanted.has(name)));
}

function flatten(name: string, value: unknown, into: Map<string, AttributeValue>): void {
  if (Array.isArray(value)) flattenList(name, value, into);
  else if (typeof value === "object" && value !== null) {
    for (const [key, inner] of Object.entries(value)) flatten(key === "value" ? name : `${name}.${key}`, inner, into);
  } else if (isText(value) || typeof value === "number" || typeof value === "boolean") into.set(name, value);
}

/** When several have one type, the first counts. */
function flattenList(name: string, values: readonly unknown[], into: Map<string, AttributeValue>): void {
  const objects = values.filter((item): item is Resource => typeof item === "object" && item !== null);
  const texts = values.map((item) => (typeof item === "object" && item !== null ? mainOf(item as Resource) : item));
  const kept = texts.filter((item) => isText(item) || typeof item === "number").map(String);
  if (kept.length > 0) into.set(name, kept);
  const first = objects.find(({ primary }) => primary === true) ?? objects[0];
  for (const item of first === undefined ? [] : [first]) flattenItem(`${name}.primary`, item, into);
  for (const item of objects) {
    const type = item["type"] === "custom" && isText(item["customType"]) ? item["customType"] : item["type"];
    if (isText(type) && type !== "primary") flattenItem(`${name}.${type}`, item, into);
  }
}

/** What an item of a list is about: an address, a number, an id. */
function mainOf({ value, address }: Resource): unknown {
  return value ?? address;
}

function flattenItem(name: string, item: Resource, into: Map<string, AttributeValue>): void {
  const own = new Map<string, AttributeValue>();
  flatten(name, mainOf(item), own);
  for (const [key, value] of Object.entries(item))
    if (!["value", "address", "type", "customType", "primary"].includes(key)) flatten(`${name}.${key}`, value, own);
  for (const [key, value] of own) if (!into.has(key)) into.set(key, value);
}

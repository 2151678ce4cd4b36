import type { Entry, ReadContext } from "#connector.ts";
import { InputError } from "#errors.ts";
import { didYouMean } from "#text.ts";
import { isObject } from "#values.ts";
import type { Options } from "./options.ts";

/** An object of Graph, as it came. */
export type GraphObject = Readonly<Record<string, unknown>>;

const names = (text: string): readonly string[] => text.trim().split(/\s+/);

const onPremises = names(
  "DistinguishedName DomainName ExtensionAttributes ImmutableId LastSyncDateTime SamAccountName SecurityIdentifier SyncEnabled UserPrincipalName",
).map((name) => `onPremises${name}`);

/** What lists of users can show; of the rest of their properties Graph shows one user's at a time. */
const userProperties = [
  ...names(`accountEnabled ageGroup assignedLicenses businessPhones city companyName consentProvidedForMinor country
    createdDateTime creationType department displayName employeeHireDate employeeId employeeLeaveDateTime employeeOrgData
    employeeType externalUserState externalUserStateChangeDateTime faxNumber givenName id identities imAddresses
    isManagementRestricted isResourceAccount jobTitle lastPasswordChangeDateTime legalAgeGroupClassification mail
    mailNickname mobilePhone officeLocation otherMails passwordPolicies postalCode preferredDataLocation
    preferredLanguage proxyAddresses securityIdentifier showInAddressList signInActivity
    signInSessionsValidFromDateTime state streetAddress surname usageLocation userPrincipalName userType`),
  ...onPremises,
];

const groupProperties = [
  ...names(`assignedLicenses classification createdDateTime description displayName expirationDateTime groupTypes id
    isAssignableToRole isManagementRestricted mail mailEnabled mailNickname membershipRule
    membershipRuleProcessingState onPremisesNetBiosName preferredDataLocation preferredLanguage proxyAddresses
    renewedDateTime resourceBehaviorOptions resourceProvisioningOptions securityEnabled securityIdentifier theme
    uniqueName visibility`),
  ...names("DomainName LastSyncDateTime SamAccountName SecurityIdentifier SyncEnabled").map(
    (name) => `onPremises${name}`,
  ),
];

const properties = { user: userProperties, group: groupProperties };

/** Without these a record is not readable, or not known for what it is. */
const always = {
  user: ["id", "userPrincipalName", "displayName", "accountEnabled", "userType"],
  group: ["id", "displayName", "visibility"],
};

/** Only where somebody asks: a permission or a licence of its own, or smaller pages. */
const onRequest = new Set(["signInActivity", "employeeLeaveDateTime"]);

/** Short names, by the property that holds them. */
const within: Readonly<Record<string, RegExp>> = {
  onPremisesExtensionAttributes: /^extensionAttribute(?:[1-9]|1[0-5])$/,
  employeeOrgData: /^(?:division|costCenter)$/,
};

/** Properties that a tenant has added: directory and schema extensions. */
const extension = /^ext(?:ension_[0-9a-f]{32}_|[a-z0-9]{8}_)\w+$/i;

/** What to ask for of each object. */
export interface Selection {
  /** For `$select`. */
  readonly properties: readonly string[];
  /** The manager is a relation, which `$expand` brings. */
  readonly manager: boolean;
}

/**
 * What to request: what rules read, and what the options name besides.
 * @throws {InputError} a rule needs an attribute that users (groups) of Entra ID do not have
 */
function selectionOf(
  kind: Entry["kind"],
  { attributes: configured = [] }: { readonly attributes?: readonly string[] | undefined },
  { attributes, required }: Pick<ReadContext, "attributes" | "required">,
  subject: string,
): Selection {
  const more = configured.map((name) => propertyOf(kind, name) ?? name);
  const wanted = attributes?.[`${kind}s`];
  if (wanted === undefined) return chosen(kind, [...properties[kind].filter((name) => !onRequest.has(name)), ...more]);
  for (const name of required?.[`${kind}s`] ?? []) {
    if (propertyOf(kind, name) !== undefined || more.includes(name.split(".")[0] ?? "")) continue;
    throw new InputError(
      `${subject}: a rule reads entry.${name}, which ${kind}s of Entra ID do not have; ${didYouMean(name, properties[kind])}; a property that is new may be listed under ${kind}s: { attributes }`,
    );
  }
  // Other names may be those of another source.
  return chosen(kind, [...wanted.flatMap((name) => propertyOf(kind, name) ?? []), ...more]);
}

function chosen(kind: Entry["kind"], wanted: readonly string[]): Selection {
  const all = new Set([...always[kind], ...wanted]);
  return { properties: [...all].filter((name) => name !== "manager"), manager: all.has("manager") };
}

/** The property that holds an attribute of rules; undefined: there is none. */
function propertyOf(kind: Entry["kind"], name: string): string | undefined {
  const [first = ""] = name.split(".");
  if (kind === "user" && first === "manager") return first;
  if (properties[kind].includes(first) || extension.test(first)) return first;
  return kind === "user" ? Object.keys(within).find((property) => within[property]?.test(name)) : undefined;
}

export function parametersOf({ properties, manager }: Selection): Readonly<Record<string, string>> {
  return {
    $select: properties.join(","),
    ...(manager && { $expand: "manager($select=id,displayName,userPrincipalName,mail)" }),
  };
}

/** The largest page: with sign-ins Graph sends fewer at a time. */
export function pageSizeOf({ properties }: Selection): number {
  return properties.includes("signInActivity") ? 120 : 999;
}

/** Attributes as rules see them: flat, without what is null or empty. */
export function attributesOf(object: GraphObject): Entry["attributes"] {
  const found: Record<string, Entry["attributes"][string]> = {};
  const add = (name: string, value: unknown): void => {
    if (Array.isArray(value)) addList(name, value);
    else if (isObject(value)) addObject(name, value);
    else if ((typeof value === "string" && value !== "") || typeof value === "number" || typeof value === "boolean")
      found[name] = value;
  };
  const addObject = (name: string, object: GraphObject): void => {
    for (const [key, value] of Object.entries(object)) {
      if (key.startsWith("@")) continue;
      add(`${name}.${key}`, value);
      if (within[name]?.test(key) === true) add(key, value);
    }
  };
  const addList = (name: string, list: readonly unknown[]): void => {
    const objects = list.filter(isObject);
    for (const key of new Set(objects.flatMap((one) => Object.keys(one))))
      addList(
        `${name}.${key}`,
        objects.map((one) => one[key]),
      );
    const texts = list.flatMap((one) => (isScalar(one) && one !== "" ? [String(one)] : []));
    if (texts.length > 0) found[name] = texts;
  };
  for (const [name, value] of Object.entries(object)) {
    if (name.startsWith("@")) continue;
    if (name === "manager" && isObject(value)) add("manager", value["id"]);
    add(name, value);
  }
  return found;
}

function isScalar(value: unknown): value is string | number | boolean {
  return ["string", "number", "boolean"].includes(typeof value);
}

/** What rules read of users and groups. */
export interface Selections {
  readonly user: Selection;
  readonly group: Selection;
}

/** @throws what `selectionOf` throws */
export function selectionsOf(
  { users, groups }: Options,
  context: Pick<ReadContext, "attributes" | "required">,
  subject: string,
): Selections {
  return {
    user: selectionOf("user", users, context, subject),
    group: selectionOf("group", groups === false ? {} : groups, context, subject),
  };
}

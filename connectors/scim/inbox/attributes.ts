/*
 * The attributes of SCIM users and groups (RFC 7643, 4) as far as an inbox must know them. Others are kept as they came.
 */

/** A JSON object as a provider sends it. */
export type Resource = Readonly<Record<string, unknown>>;

export const coreSchemas = {
  user: "urn:ietf:params:scim:schemas:core:2.0:User",
  group: "urn:ietf:params:scim:schemas:core:2.0:Group",
} as const;
export const enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";

/** Attributes that hold several values. */
const multiValued = new Set([
  "emails",
  "phoneNumbers",
  "ims",
  "photos",
  "addresses",
  "groups",
  "entitlements",
  "roles",
  "x509Certificates",
  "members",
]);

/** Attributes, or parts of one, that are true or false. */
const booleans = new Set(["active", "primary"]);

/** As RFC 7643 spells them. Names are compared without case, and clients do differ. */
const spelled = new Map(
  [
    ...multiValued,
    ...booleans,
    ..."id externalId meta schemas userName name displayName nickName profileUrl title userType preferredLanguage".split(
      " ",
    ),
    ..."locale timezone password formatted familyName givenName middleName honorificPrefix honorificSuffix".split(" "),
    ..."value display type streetAddress locality region postalCode country".split(" "),
    ..."employeeNumber costCenter organization division department manager".split(" "),
    coreSchemas.user,
    coreSchemas.group,
    enterprise,
  ].map((name) => [name.toLowerCase(), name]),
);

export function isMultiValued(attribute: string): boolean {
  return multiValued.has(attribute);
}

export function isBoolean(attribute: string): boolean {
  return booleans.has(attribute);
}

/** The name under which an object has an attribute, or should have it. */
export function nameIn(holder: Resource, attribute: string): string {
  if (Object.hasOwn(holder, attribute)) return attribute;
  const lower = attribute.toLowerCase();
  return Object.keys(holder).find((key) => key.toLowerCase() === lower) ?? spelled.get(lower) ?? attribute;
}

/** An attribute with its known spelling, `Emails` as `emails`. */
export function spelling(attribute: string): string {
  return spelled.get(attribute.toLowerCase()) ?? attribute;
}

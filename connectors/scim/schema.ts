import type { Kind } from "#principals/principal.ts";

/* The names of RFC 7643, which are written once: they are compared without case, and servers and clients do differ. */

/** A JSON object as it came. */
export type Resource = Readonly<Record<string, unknown>>;

export const coreSchemas: Readonly<Record<Kind, string>> = {
  user: "urn:ietf:params:scim:schemas:core:2.0:User",
  group: "urn:ietf:params:scim:schemas:core:2.0:Group",
};
export const enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";

/** Attributes of users and groups that hold several values (RFC 7643, 4). */
export const multiValued = words(
  "emails phoneNumbers ims photos addresses groups entitlements roles x509Certificates members",
);

/** The attributes of users and groups, and their parts, as RFC 7643 spells them. */
export const attributeNames = [
  ...multiValued,
  ...words(`schemas id externalId meta userName name formatted familyName givenName middleName honorificPrefix
    honorificSuffix displayName nickName profileUrl title userType preferredLanguage locale timezone active value type
    primary display streetAddress locality region postalCode country employeeNumber costCenter organization division
    department manager`),
];

/** Names by their lower case. */
export function spellings(names: readonly string[]): ReadonlyMap<string, string> {
  return new Map(names.map((name) => [name.toLowerCase(), name]));
}

/** The words of a text. */
export function words(text: string): readonly string[] {
  return text.trim().split(/\s+/);
}

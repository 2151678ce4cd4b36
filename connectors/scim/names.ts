import type { Resource } from "./attributes.ts";

/** The attributes of RFC 7643 and 7644, as they are written there. */
const names = `
  schemas id externalId meta resourceType created lastModified location version
  userName name formatted familyName givenName middleName honorificPrefix honorificSuffix
  displayName nickName profileUrl title userType preferredLanguage locale timezone
  active emails phoneNumbers ims photos addresses groups entitlements roles
  x509Certificates members value type primary display streetAddress locality region
  postalCode country employeeNumber costCenter organization division department manager
  filter maxResults pagination cursor maxPageSize
  totalResults itemsPerPage startIndex nextCursor detail status scimType`;
const written = new Map(
  names
    .trim()
    .split(/\s+/)
    .map((name) => [name.toLowerCase(), name]),
);

/** The value with the names of its attributes written as in the standard, where case does not tell them apart. */
function normalised(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(normalised);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [written.get(key.toLowerCase()) ?? key, normalised(inner)]),
  );
}

/** A resource or an envelope; undefined when it is no object. */
export function objectOf(value: unknown): Resource | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (normalised(value) as Resource)
    : undefined;
}

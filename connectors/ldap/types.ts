/** The names and numbers of attribute types that servers and people write in one of several ways (RFC 4519, RFC 4524). */
const names: readonly (readonly [string, ...string[]])[] = [
  ["cn", "commonname", "2.5.4.3"],
  ["sn", "surname", "2.5.4.4"],
  ["serialnumber", "2.5.4.5"],
  ["c", "countryname", "2.5.4.6"],
  ["l", "localityname", "2.5.4.7"],
  ["st", "stateorprovincename", "2.5.4.8"],
  ["street", "2.5.4.9"],
  ["o", "organizationname", "2.5.4.10"],
  ["ou", "organizationalunitname", "2.5.4.11"],
  ["title", "2.5.4.12"],
  ["description", "2.5.4.13"],
  ["name", "2.5.4.41"],
  ["givenname", "gn", "2.5.4.42"],
  ["initials", "2.5.4.43"],
  ["generationqualifier", "2.5.4.44"],
  ["dnqualifier", "2.5.4.46"],
  ["uid", "userid", "0.9.2342.19200300.100.1.1"],
  ["mail", "rfc822mailbox", "0.9.2342.19200300.100.1.3"],
  ["dc", "domaincomponent", "0.9.2342.19200300.100.1.25"],
  ["mobile", "mobiletelephonenumber", "0.9.2342.19200300.100.1.41"],
  ["pager", "pagertelephonenumber", "0.9.2342.19200300.100.1.42"],
  ["emailaddress", "email", "1.2.840.113549.1.9.1"],
];

const canonical = new Map(names.flatMap(([name, ...others]) => [name, ...others].map((other) => [other, name])));

/** One name for an attribute type, in lower case, whichever of its names and numbers is given. */
export function canonicalType(type: string): string {
  // Most are written like this already.
  const known = canonical.get(type);
  if (known !== undefined) return known;
  const lower = type.toLowerCase();
  return canonical.get(lower) ?? canonical.get(lower.replace(/^oid\./, "")) ?? lower;
}

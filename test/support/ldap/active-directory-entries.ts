/** An object of Active Directory. */
export interface AdEntry {
  readonly dn: string;
  readonly attributes: Record<string, readonly (string | Buffer)[]>;
}

const domain = "DC=example,DC=com";
/** The SID of the domain, the prefix of its objects' SIDs. */
const domainSid = "S-1-5-21-1004336348-1177238915-682003330";
/** The default primary group. */
export const domainUsers = 513;

/** The flags of `userAccountControl`. */
export const accountFlags = { disabled: 0x2, normal: 0x200, passwordNeverExpires: 0x1_0000 } as const;

export interface AdUser {
  readonly name: string;
  /** The last part of the `objectSid`, and of the `objectGUID`. */
  readonly rid: number;
  readonly flags?: number;
  readonly primaryGroup?: number;
  readonly attributes?: AdEntry["attributes"];
}

/** The objects of a domain besides users and groups. */
export function adContainers(): AdEntry[] {
  return [
    { dn: domain, attributes: { objectClass: ["top", "domain", "domainDNS"], dc: ["example"], ...ids(1) } },
    { dn: `CN=Users,${domain}`, attributes: { objectClass: ["top", "container"], cn: ["Users"], ...ids(2) } },
  ];
}

export function adUser({
  name,
  rid,
  flags = accountFlags.normal,
  primaryGroup = domainUsers,
  attributes = {},
}: AdUser): AdEntry {
  return {
    dn: adDn(name),
    attributes: {
      objectClass: ["top", "person", "organizationalPerson", "user"],
      cn: [name],
      distinguishedName: [adDn(name)],
      displayName: [name],
      sAMAccountName: [name.replaceAll(/\W/g, "").slice(0, 20)],
      userPrincipalName: [`${name.replaceAll(/\W/g, "").toLowerCase()}@example.com`],
      userAccountControl: [String(flags)],
      primaryGroupID: [String(primaryGroup)],
      objectCategory: [`CN=Person,CN=Schema,CN=Configuration,${domain}`],
      ...ids(rid),
      ...attributes,
    },
  };
}

export function adGroup(name: string, rid: number, members: readonly string[]): AdEntry {
  return {
    dn: adDn(name),
    attributes: {
      objectClass: ["top", "group"],
      cn: [name],
      distinguishedName: [adDn(name)],
      sAMAccountName: [name],
      groupType: ["-2147483646"],
      objectCategory: [`CN=Group,CN=Schema,CN=Configuration,${domain}`],
      ...ids(rid),
      primaryGroupToken: [String(rid)],
      ...(members.length === 0 ? {} : { member: members }),
    },
  };
}

/** What replication makes of the loser when two servers make an object of one name: a line feed, and its identifier. */
export function inConflict(entry: AdEntry, guid: string): AdEntry {
  const [name] = entry.attributes["cn"] ?? [];
  const mangled = `${String(name)}\nCNF:${guid}`;
  const dn = adDn(mangled);
  return {
    dn,
    attributes: { ...entry.attributes, cn: [mangled], distinguishedName: [dn], objectGUID: [guidBytes(guid)] },
  };
}

/** As Active Directory writes it: a line feed as `\0A`. */
function adDn(name: string): string {
  return `CN=${name.replaceAll(/[\\,+"<>;=]/g, String.raw`\$&`).replaceAll("\n", String.raw`\0A`)},CN=Users,${domain}`;
}

export function guidOf(rid: number): string {
  return `8e2a0c1f-4b3d-4f5a-9c7e-${rid.toString(16).padStart(12, "0")}`;
}

export function sidOf(rid: number): string {
  return `${domainSid}-${rid}`;
}

function ids(rid: number): AdEntry["attributes"] {
  return {
    objectGUID: [guidBytes(guidOf(rid))],
    objectSid: [sidBytes(sidOf(rid))],
    uSNChanged: [String(12_000 + rid)],
  };
}

/** The first three parts are little-endian. */
function guidBytes(guid: string): Buffer {
  const [one = "", two = "", three = "", ...rest] = guid.split("-");
  const reversed = [one, two, three].map((part) => Buffer.from(part, "hex").reverse());
  return Buffer.concat([...reversed, Buffer.from(rest.join(""), "hex")]);
}

/** A revision, a count, an authority of six bytes, and that many numbers, little-endian. */
function sidBytes(sid: string): Buffer {
  const [revision = 0, authority = 0, ...numbers] = sid.split("-").slice(1).map(Number);
  const bytes = Buffer.alloc(8 + 4 * numbers.length);
  bytes.writeUInt8(revision, 0);
  bytes.writeUInt8(numbers.length, 1);
  bytes.writeUIntBE(authority, 2, 6);
  for (const [index, number] of numbers.entries()) bytes.writeUInt32LE(number, 8 + 4 * index);
  return bytes;
}

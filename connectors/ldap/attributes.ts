import type { WantedAttributes } from "#connector.ts";
import type { Kind } from "#principals/principal.ts";
import { partOptions } from "./options.ts";
import type { Options } from "./options.ts";
import { canonicalType } from "#principals/dn.ts";

/** What the connector itself does with an attribute. */
export type Role =
  | "id"
  | "member"
  | "memberUid"
  | "memberOf"
  | "login"
  | "sid"
  | "primaryGroup"
  | "accountControl"
  | "accountLock"
  | "revision";

/** What is done with the values of an attribute of an entry. */
export interface Use {
  /** The attribute's name as the server has it, without a range. */
  readonly name: string;
  /** Under which names rules see it. */
  readonly names: readonly string[];
  readonly roles: readonly Role[];
  readonly form: Form;
  /** Among several attributes that can be the id, which: the lowest. */
  readonly rank: number;
  /** Where in the values of the attribute these begin, when the server sends them in parts; `next` of how to go on. */
  readonly range?: { readonly from: number; readonly next?: number };
}

/** Which attributes are asked for, and what is done with each. */
export interface Selection {
  readonly request: readonly string[];
  /** What rules can see besides what the server sends. */
  readonly derived: { readonly dn: boolean; readonly conflict: boolean; readonly disabled: boolean };
  /** @param type as the server writes it */
  useOf(type: string): Use | undefined;
  /** The same for a type that stands in bytes. */
  useAt(bytes: Buffer, from: number, to: number): Use | undefined;
}

/** Attributes that identify an entry for good, the most certain first. */
const idAttributes = ["entryUUID", "objectGUID", "nsUniqueId", "GUID"];

/** Rules can name anything; servers take offence at what is no name of an attribute. */
const isAttribute = /^(?:[a-z][a-z0-9-]*|\d+(?:\.\d+)*)(?:;[a-z0-9-]+)*$/i;

/** Changes whenever an entry of Active Directory does. */
export const revision = "uSNChanged";

const derivedNames = new Set(["dn", "conflict", "disabled"]);

/**
 * @param wanted what rules use; undefined: everything
 */
export function selectionOf(kind: Kind, options: Options, wanted: WantedAttributes | undefined): Selection {
  const part = partOptions(kind, options);
  const asked =
    wanted === undefined ? undefined : [...(kind === "user" ? wanted.users : wanted.groups), ...part.attributes];
  const isAsked = (name: string): boolean => asked === undefined || asked.some((one) => one.toLowerCase() === name);
  const ids = part.id === undefined ? idAttributes : [part.id];
  const roles = rolesOf(kind, options, ids, isAsked("disabled"));
  const binary = new Set(options.binary.map(normalName));
  const spellings = spellingsOf(asked ?? part.attributes);
  const needed = [...roles.values()].map(({ name }) => name);
  const read = (asked ?? part.attributes).filter(
    (name) => isAttribute.test(name) && !derivedNames.has(name.toLowerCase()),
  );

  const useOf = (type: string): Use | undefined => {
    const { name, range } = withoutRange(type);
    const key = normalName(name);
    const bare = key.split(";", 1)[0] ?? key;
    const form = binary.has(bare) || key.endsWith(";binary") ? "bytes" : formOf(bare);
    if (form === "secret") return undefined;
    const role = roles.get(key);
    const named = spellings.get(key) ?? (key === bare ? spellings.get(canonicalType(bare)) : undefined);
    // Whole lists of members are for the connector, unless a rule names them.
    const names = named ?? (asked === undefined && !isMembership(role?.roles ?? []) ? [name] : []);
    if (names.length === 0 && role === undefined) return undefined;
    return {
      name,
      names,
      roles: role?.roles ?? [],
      form,
      rank: ids.findIndex((id) => normalName(id) === key),
      ...(range === undefined ? {} : { range }),
    };
  };
  return {
    request: unique([...(asked === undefined ? ["*"] : []), ...read, ...needed]),
    derived: { dn: isAsked("dn"), conflict: isAsked("conflict"), disabled: isAsked("disabled") },
    useOf,
    useAt: remembering(useOf),
  };
}

/** Which attributes the connector itself needs, by their normal name. */
function rolesOf(kind: Kind, { groups, membership, users }: Options, ids: readonly string[], disabled: boolean) {
  const roles = new Map<string, { name: string; roles: Role[] }>();
  const add = (name: string, role: Role): void => {
    const known = roles.get(normalName(name)) ?? { name, roles: [] };
    known.roles.push(role);
    roles.set(normalName(name), known);
  };
  for (const id of ids) add(id, "id");
  add(revision, "revision");
  if (groups !== undefined) {
    if (membership.includes("memberOf")) add("memberOf", "memberOf");
    if (kind === "user") {
      if (membership.includes("memberUid")) add(users.login, "login");
      add("objectSid", "sid");
      add("primaryGroupID", "primaryGroup");
    } else {
      for (const name of ["member", "uniqueMember"] as const) if (membership.includes(name)) add(name, "member");
      if (membership.includes("memberUid")) add("memberUid", "memberUid");
    }
  }
  if (disabled && kind === "user") {
    add("userAccountControl", "accountControl");
    add("nsAccountLock", "accountLock");
  }
  return roles;
}

/** Case does not matter, nor does the order of options. */
function normalName(name: string): string {
  const [bare = "", ...options] = name.toLowerCase().split(";");
  return [bare, ...options.sort()].join(";");
}

/** The names that rules use, by what they mean: a rule may write `Mail` or `rfc822Mailbox` for what a server calls `mail`. */
function spellingsOf(names: readonly string[]): Map<string, string[]> {
  const spellings = new Map<string, string[]>();
  for (const name of unique(names)) {
    const key = normalName(name);
    for (const meaning of new Set([key, canonicalType(key)])) {
      const others = spellings.get(meaning);
      if (others === undefined) spellings.set(meaning, [name]);
      else others.push(name);
    }
  }
  return spellings;
}

/** Active Directory sends long lists of values in parts: `member;range=0-1499`, the last as `member;range=3000-*`. */
function withoutRange(type: string): { name: string; range?: { from: number; next?: number } } {
  const found = /;range=(\d+)-(\d+|\*)/i.exec(type);
  if (found === null) return { name: type };
  const [whole, from = "", to = ""] = found;
  const range = { from: Number(from), ...(to === "*" ? {} : { next: Number(to) + 1 }) };
  return { name: type.replace(whole, ""), range };
}

function isMembership(roles: readonly Role[]): boolean {
  return roles.some((role) => role === "member" || role === "memberUid" || role === "memberOf");
}

function unique(names: readonly string[]): string[] {
  return [...new Set(names)];
}

/** A schema has some hundreds of attributes; their parts are forgotten from time to time. */
const remembered = 5_000;

/** Compares bytes instead of making texts of them: the same few types stand in every entry. */
function remembering(useOf: Selection["useOf"]): Selection["useAt"] {
  interface Known {
    readonly type: Buffer;
    readonly use: Use | undefined;
  }
  const buckets = new Map<number, Known[]>();
  let count = 0;
  return (bytes, from, to) => {
    const hash = ((to - from) << 16) | ((bytes[from] ?? 0) << 8) | (bytes[to - 1] ?? 0);
    let bucket = buckets.get(hash);
    for (const known of bucket ?? []) if (isSame(known.type, bytes, from)) return known.use;
    const known = { type: Buffer.from(bytes.subarray(from, to)), use: useOf(bytes.toString("utf8", from, to)) };
    count += 1;
    if (count % remembered === 0) {
      buckets.clear();
      bucket = undefined;
    }
    if (bucket === undefined) buckets.set(hash, [known]);
    else bucket.push(known);
    return known.use;
  };
}

/** Of as many bytes. */
function isSame(type: Buffer, bytes: Buffer, from: number): boolean {
  for (let at = 0; at < type.length; at++) if (type[at] !== bytes[from + at]) return false;
  return true;
}

/** How the values of an attribute are written. */
export type Form =
  | "text"
  | "guid"
  | "sid"
  /** Rules see base64. */
  | "bytes"
  /** Nobody sees it. */
  | "secret";

/** Names in lower case. Where one is missing, people name it in the options. */
const names: Readonly<Record<Exclude<Form, "text">, string>> = {
  guid: "objectguid ms-ds-consistencyguid msexchmailboxguid guid",
  sid: "objectsid sidhistory tokengroups tokengroupsglobalanduniversal tokengroupsnogcacceptable securityidentifier",
  bytes: `
    jpegphoto thumbnailphoto thumbnaillogo photo audio usercertificate usersmimecertificate cacertificate
    crosscertificatepair certificaterevocationlist authorityrevocationlist logonhours ntsecuritydescriptor dnsrecord
    replpropertymetadata msds-allowedtoactonbehalfofotheridentity msexchmailboxsecuritydescriptor
    msexchsafesendershash msexchblockedsendershash msexchsaferecipientshash`,
  secret: `
    userpassword unicodepwd ntpwdhistory lmpwdhistory dbcspwd supplementalcredentials authpassword userpkcs12
    sambantpassword sambalmpassword sambapasswordhistory krbprincipalkey krbmkey ipanthash ipatokenotpkey
    ms-mcs-admpwd mslaps-password mslaps-encryptedpassword mslaps-encryptedpasswordhistory msds-managedpassword
    pwdhistory passwordhistory unixuserpassword msfve-recoverypassword msfve-keypackage nsds5replicacredentials
    olcrootpw`,
};

const forms = new Map(
  Object.entries(names).flatMap(([form, list]) =>
    list
      .trim()
      .split(/\s+/)
      .map((name) => [name, form as Form] as const),
  ),
);

/** @param name without options, in lower case */
export function formOf(name: string): Form {
  return forms.get(name) ?? "text";
}

/** The usual form of a GUID that Microsoft writes as bytes: its first three parts are written backwards. */
export function guidOf(bytes: Buffer): string | undefined {
  if (bytes.length !== 16) return undefined;
  const parts = [
    bytes.readUInt32LE(0).toString(16).padStart(8, "0"),
    bytes.readUInt16LE(4).toString(16).padStart(4, "0"),
    bytes.readUInt16LE(6).toString(16).padStart(4, "0"),
    bytes.toString("hex", 8, 10),
    bytes.toString("hex", 10),
  ];
  return parts.join("-");
}

/** `S-1-5-21-…`: the usual form of a security identifier. */
export function sidOf(bytes: Buffer): string | undefined {
  const count = bytes[1] ?? 0;
  if (bytes.length < 8 || bytes.length !== 8 + 4 * count) return undefined;
  const parts = Array.from({ length: count }, (_, index) => bytes.readUInt32LE(8 + 4 * index));
  return ["S", bytes[0], bytes.readUIntBE(2, 6), ...parts].join("-");
}

/** The bytes of a security identifier, each as `\xx` of a filter. */
export function sidInFilter(sid: string): string {
  const [, revision = 0, authority = 0, ...parts] = sid.split("-").map(Number);
  const bytes = Buffer.alloc(8 + 4 * parts.length);
  bytes[0] = revision;
  bytes[1] = parts.length;
  bytes.writeUIntBE(authority, 2, 6);
  for (const [index, part] of parts.entries()) bytes.writeUInt32LE(part, 8 + 4 * index);
  return bytes.toString("hex").replaceAll(/../g, "\\$&");
}

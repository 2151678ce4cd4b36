import type { WantedAttributes } from "#connector.ts";
import type { Kind } from "#principals/principal.ts";
import { partOptions } from "./options.ts";
import type { Options } from "./options.ts";
import { canonicalType } from "#principals/dn.ts";

/** What the connector itself uses an attribute for. */
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
  | "class"
  | "conflict"
  | "memberSearch"
  | "revision";

/** What the values of an attribute are used for. */
export interface AttributeUse {
  /** As the server writes it, without a range. */
  readonly name: string;
  /** The names under which rules see it. */
  readonly names: readonly string[];
  readonly roles: readonly Role[];
  readonly form: Form;
  /** Among attributes that can be the id, the lowest rank wins. */
  readonly rank: number;
  /** The number of the first value, where the server sends a range, and of the next range's; no `next` in the last. */
  readonly range?: { readonly from: number; readonly next?: number | undefined } | undefined;
}

/** The attributes to request, and the use of each. */
export interface Selection {
  readonly request: readonly string[];
  /** Attributes that rules see and no server sends. */
  readonly derived: { readonly dn: boolean; readonly conflict: boolean; readonly disabled: boolean };
  /** @param type as the server writes it */
  useOf(type: string): AttributeUse | undefined;
  /** The same for the bytes of a type. */
  useAt(bytes: Buffer, from: number, to: number): AttributeUse | undefined;
}

/** Attributes that identify an entry for good, the best first. */
export const idAttributes = ["entryUUID", "objectGUID", "nsUniqueId", "GUID"];

/** Rules can name anything, but servers refuse what is not an attribute description (RFC 4512, 2.5). */
const isAttribute = /^(?:[a-z][a-z0-9-]*|\d+(?:\.\d+)*)(?:;[a-z0-9-]+)*$/i;

/** Changes with every change of an Active Directory entry. */
export const revision = "uSNChanged";

const derivedNames = new Set(["dn", "conflict", "disabled"]);

/** @param wanted the attributes that rules use; undefined: all */
export function selectionOf(kind: Kind, options: Options, wanted: WantedAttributes | undefined): Selection {
  const part = partOptions(kind, options);
  const asked =
    wanted === undefined ? undefined : [...(kind === "user" ? wanted.users : wanted.groups), ...part.attributes];
  const isAsked = (name: string): boolean => asked === undefined || asked.some((one) => one.toLowerCase() === name);
  const ids = part.id === undefined ? idAttributes : [part.id];
  const roles = rolesOf(kind, options, ids, { disabled: isAsked("disabled"), conflict: isAsked("conflict") });
  const spellings = spellingsOf(asked ?? part.attributes);
  const needed = [...roles.values()].map(({ name }) => name);
  const read = (asked ?? part.attributes).filter(
    (name) => isAttribute.test(name) && !derivedNames.has(name.toLowerCase()),
  );

  const useOf = (type: string): AttributeUse | undefined => {
    const { name, range } = withoutRange(type);
    const key = normalName(name);
    const bare = key.split(";", 1)[0] ?? key;
    const form = formIn(options, name);
    if (form === "secret") return undefined;
    const role = roles.get(key);
    const named = spellings.get(key) ?? (key === bare ? spellings.get(canonicalType(bare)) : undefined);
    // Lists of members are not attributes, unless a rule names them.
    const names = named ?? (asked === undefined && !isMembership(role?.roles ?? []) ? [role?.name ?? name] : []);
    if (names.length === 0 && role === undefined) return undefined;
    return {
      name,
      names,
      roles: role?.roles ?? [],
      form,
      rank: ids.findIndex((id) => normalName(id) === key),
      range,
    };
  };
  return {
    // Some servers know no other spelling.
    request: unique([...(asked === undefined ? ["*"] : []), ...read, ...needed].map((name) => name.toLowerCase())),
    derived: { dn: isAsked("dn"), conflict: isAsked("conflict"), disabled: isAsked("disabled") },
    useOf,
    useAt: remembering(useOf),
  };
}

/** The attributes that the connector itself needs, by their normal name. */
function rolesOf(
  kind: Kind,
  { groups, membership, users }: Options,
  ids: readonly string[],
  { disabled, conflict }: { readonly disabled: boolean; readonly conflict: boolean },
) {
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
    add("objectSid", "sid");
    if (kind === "user") {
      if (membership.includes("memberUid")) add(users.login, "login");
      add("primaryGroupID", "primaryGroup");
    } else {
      for (const name of ["member", "uniqueMember"] as const) if (membership.includes(name)) add(name, "member");
      if (membership.includes("memberUid")) add("memberUid", "memberUid");
      if (membership.includes("member") || membership.includes("uniqueMember")) add("objectClass", "class");
      if (membership.some((name) => name !== "memberOf")) for (const name of memberSearches) add(name, "memberSearch");
    }
  }
  if (disabled && kind === "user") {
    add("userAccountControl", "accountControl");
    add("nsAccountLock", "accountLock");
  }
  if (conflict) {
    if (!roles.has("objectclass")) add("objectClass", "class");
    for (const name of ["nsds5ReplConflict", "ds-sync-conflict"]) add(name, "conflict");
  }
  return roles;
}

/** Attributes of groups whose members are a search: `groupOfURLs`, and eDirectory's `dynamicGroup`. */
const memberSearches = ["memberURL", "memberQueryURL"];

/** The name in lower case, its options sorted. */
export function normalName(name: string): string {
  const [bare = "", ...options] = name.toLowerCase().split(";");
  return [bare, ...options.sort()].join(";");
}

/** The names in rules, by normal and by canonical name: a rule may write `Mail` or `rfc822Mailbox` for a server's `mail`. */
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

/** Active Directory sends long lists of values in ranges: `member;range=0-1499`, the last as `member;range=3000-*`. */
function withoutRange(type: string): Pick<AttributeUse, "name" | "range"> {
  const found = /;range=(\d+)-(\d+|\*)/i.exec(type);
  if (found === null) return { name: type };
  const [whole, from = "", to = ""] = found;
  const range = { from: Number(from), next: to === "*" ? undefined : Number(to) + 1 };
  return { name: type.replace(whole, ""), range };
}

function isMembership(roles: readonly Role[]): boolean {
  return roles.some((role) => role === "member" || role === "memberUid" || role === "memberOf");
}

function unique(names: readonly string[]): string[] {
  return [...new Set(names)];
}

/** A schema has some hundreds of types; ranges add more, so the memory is emptied after this many. */
const remembered = 5_000;

/** Compares bytes rather than decoding them: every entry has the same few types, mostly in the same order. */
function remembering(useOf: Selection["useOf"]): Selection["useAt"] {
  interface Known {
    readonly type: Buffer;
    readonly use: AttributeUse | undefined;
    /** The one that came after it the last time. */
    next?: Known;
  }
  const buckets = new Map<number, Known[]>();
  let count = 0;
  let last: Known | undefined;
  const find = (bytes: Buffer, from: number, to: number): Known => {
    const hash = ((to - from) << 16) | ((bytes[from] ?? 0) << 8) | (bytes[to - 1] ?? 0);
    const bucket = buckets.get(hash);
    for (const known of bucket ?? []) if (isSame(known.type, bytes, from)) return known;
    const known = { type: Buffer.from(bytes.subarray(from, to)), use: useOf(bytes.toString("utf8", from, to)) };
    count += 1;
    if (count % remembered === 0) buckets.clear();
    else if (bucket !== undefined) {
      bucket.push(known);
      return known;
    }
    buckets.set(hash, [known]);
    return known;
  };
  return (bytes, from, to) => {
    const likely = last?.next;
    if (likely !== undefined && likely.type.length === to - from && isSame(likely.type, bytes, from)) {
      last = likely;
      return likely.use;
    }
    const known = find(bytes, from, to);
    if (last !== undefined) last.next = known;
    last = known;
    return known.use;
  };
}

/** For types of equal length. */
function isSame(type: Buffer, bytes: Buffer, from: number): boolean {
  for (let at = 0; at < type.length; at++) if (type[at] !== bytes[from + at]) return false;
  return true;
}

/** How the values of an attribute are encoded. */
export type Form =
  | "text"
  | "guid"
  | "sid"
  /** Rules see base64. */
  | "bytes"
  /** Nobody sees it. */
  | "secret";

/** Names in lower case. What is missing here can be named in the option `binary`. */
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

/** The same, with the attributes that the options call binary. */
export function formIn({ binary }: Pick<Options, "binary">, type: string): Form {
  const key = normalName(type);
  const bare = key.split(";", 1)[0] ?? key;
  return key.endsWith(";binary") || binary.some((name) => normalName(name) === bare) ? "bytes" : formOf(bare);
}

/** A GUID in its usual form. Microsoft stores the first three parts little-endian. */
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

/** A security identifier in its usual form: `S-1-5-21-…`. */
export function sidOf(bytes: Buffer): string | undefined {
  const count = bytes[1] ?? 0;
  if (bytes.length < 8 || bytes.length !== 8 + 4 * count) return undefined;
  const parts = Array.from({ length: count }, (_, index) => bytes.readUInt32LE(8 + 4 * index));
  return ["S", bytes[0], bytes.readUIntBE(2, 6), ...parts].join("-");
}

/** The value of an attribute, as `binaryOf` or the directory writes it, escaped for a filter. */
export function inFilter(value: string, form: Form): string {
  if (form === "text") return value.replaceAll(/[\\()*\0]/g, (character) => escaped(Buffer.from(character)));
  if (form === "guid" && guidPattern.test(value)) return escaped(guidBytes(value));
  if (form === "sid" && value.startsWith("S-")) return sidInFilter(value);
  return escaped(Buffer.from(value, "base64"));
}

export const guidPattern = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Whether an attribute of this form can have the value. */
export function canBe(value: string, form: Form): boolean {
  return form !== "guid" || guidPattern.test(value);
}

/** The bytes of a GUID in its usual form, as Microsoft stores them. */
export function guidBytes(guid: string): Buffer {
  const [one = "", two = "", three = "", ...rest] = guid.split("-");
  const reversed = [one, two, three].map((part) => Buffer.from(part, "hex").reverse());
  return Buffer.concat([...reversed, Buffer.from(rest.join(""), "hex")]);
}

function escaped(bytes: Buffer): string {
  return bytes.toString("hex").replaceAll(/../g, "\\$&");
}

/** The bytes of a security identifier, escaped for a filter. */
export function sidInFilter(sid: string): string {
  return escaped(sidBytes(sid));
}

/** The bytes of a security identifier in its usual form. */
export function sidBytes(sid: string): Buffer {
  const [, revision = 0, authority = 0, ...parts] = sid.split("-").map(Number);
  const bytes = Buffer.alloc(8 + 4 * parts.length);
  bytes[0] = revision;
  bytes[1] = parts.length;
  bytes.writeUIntBE(authority, 2, 6);
  for (const [index, part] of parts.entries()) bytes.writeUInt32LE(part, 8 + 4 * index);
  return bytes;
}

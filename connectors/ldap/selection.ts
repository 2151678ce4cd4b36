import type { WantedAttributes } from "#connector.ts";
import type { Kind } from "#principals/principal.ts";
import type { Options, PartOptions } from "./options.ts";
import type { Query } from "./search.ts";
import { canonicalType } from "./types.ts";
import { type Form, formOf } from "./values.ts";

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

/** How many entries of groups are asked for at a time: one may have thousands of members. */
const groupsPerPage = 200;

/** What to ask a server for, in one place. */
export function queryOf(kind: Kind, options: Options, base: string, attributes: readonly string[]): Query {
  const { filter, scope } = partOf(kind, options);
  const pageSize = kind === "group" ? Math.min(groupsPerPage, options.pageSize) : options.pageSize;
  return { base, scope, filter, attributes, pageSize, what: `${kind}s below ${base}` };
}

/** The options of users or of groups. */
export function partOf(kind: Kind, { users, groups }: Options): PartOptions {
  return kind === "user" || groups === undefined ? users : groups;
}

/**
 * @param wanted what rules use; undefined: everything
 */
export function selectionOf(kind: Kind, options: Options, wanted: WantedAttributes | undefined): Selection {
  const part = partOf(kind, options);
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

import { z } from "zod";
import type { Kind } from "#principals/principal.ts";
import { decoded } from "#text.ts";
import { addProblem, patience, refused } from "#values.ts";
import { dnKey, isWithin, parseDn } from "#principals/dn.ts";
import { checks } from "#files/settle.ts";
import { parseFilter } from "./filter.ts";

/** The address of an LDAP server. */
export interface LdapUrl {
  readonly scheme: "ldap" | "ldaps" | "ldapi";
  /** An IPv6 address without brackets; empty for ldapi. */
  readonly host: string;
  readonly port: number;
  /** The socket file, for ldapi. */
  readonly path?: string | undefined;
  /** As written, for messages. */
  readonly text: string;
}

const expected = "expected ldaps://HOST, ldap://HOST or ldapi://%2Fpath%2Fto%2Fsocket";

/** A URL with no more than scheme, host and port. */
const ldapUrl = z.string({ error: expected }).transform((value, context) => {
  const url = URL.parse(value);
  if (url === null || !/^ldap[si]?:\/\/[^/]/i.test(value)) return refused(context, expected);
  if (url.username !== "" || url.password !== "")
    return refused(context, "expected a URL without a name and a password; they belong to bind");
  if (!["", "/"].includes(url.pathname) || url.search !== "" || url.hash !== "") {
    return refused(context, "expected a URL of no more than a host and a port; where to look belongs to users.base");
  }
  return serverOf(url, value.replace(/\/$/, "")) ?? refused(context, expected);
});

/** @returns undefined: a percent sign in the path of the socket encodes nothing */
function serverOf(url: URL, text: string): LdapUrl | undefined {
  const scheme = url.protocol.slice(0, -1) as LdapUrl["scheme"];
  if (scheme === "ldapi") {
    const path = decoded(url.hostname);
    return path === undefined ? undefined : { scheme, host: "", port: 0, path, text };
  }
  const port = url.port === "" ? (scheme === "ldaps" ? 636 : 389) : Number(url.port);
  return { scheme, host: url.hostname.replace(/^\[(.*)\]$/, "$1"), port, text };
}

/** An LDAP URL that a server refers to (RFC 4516). */
export interface Reference {
  readonly server: LdapUrl;
  /** Empty: the base of the search. */
  readonly base: string;
  readonly scope?: "base" | "one" | "sub" | undefined;
}

/** @returns undefined when it is not the URL of an LDAP server */
export function parseReference(text: string): Reference | undefined {
  const url = URL.parse(text);
  if (url === null || !/^ldaps?:\/\/[^/]/i.test(text)) return undefined;
  const base = decoded(url.pathname.slice(1));
  const server = serverOf(url, `${url.protocol}//${url.host}`);
  if (base === undefined || server === undefined) return undefined;
  const scope = url.search.slice(1).split("?")[1];
  return { server, base, scope: scope === "base" || scope === "one" || scope === "sub" ? scope : undefined };
}

const path = z.string().min(1, "expected a path");
const ldifFile = z.string().min(1, "expected a path or a pattern");
const text = (expected: string) => z.string({ error: `expected ${expected}` }).min(1, `expected ${expected}`);

const listOf = <Item extends z.ZodType>(item: Item) =>
  z.union([item.transform((one) => [one]), z.array(item).min(1, "expected at least one")]);

const attribute = z.string().regex(/^(?:[a-z][a-z0-9-]*|\d+(?:\.\d+)*)(?:;[a-z0-9-]+)*$/i, {
  error: "expected the name of an attribute, such as cn",
});

const dn = text("a distinguished name, such as ou=people,dc=example,dc=com").superRefine((value, context) => {
  try {
    parseDn(value);
  } catch (error) {
    const reason = (error as Error).message;
    addProblem(context, [], `expected a distinguished name, such as ou=people,dc=example,dc=com (${reason})`);
  }
});

const minEntries = z.int().min(0);

const base = z.strictObject({
  dn: dn.describe("The distinguished name."),
  minEntries: minEntries.default(0).describe("Fewer entries below it fail the read. Default 0."),
});

/** One base or several, each a name or `{ dn, minEntries }`. */
const bases = z
  .union([
    dn.transform((name) => [{ dn: name, minEntries: 0 }]),
    base.transform((one) => [one]),
    z.array(z.union([dn.transform((name) => ({ dn: name, minEntries: 0 })), base])).min(1, "expected at least one"),
  ])
  .describe(
    "Where to search: a distinguished name, {dn, minEntries}, or a list. A base inside another one is searched separately. Default, of a file: all of it.",
  );

const filter = text("a filter, such as (objectClass=person)").superRefine((value, context) => {
  try {
    parseFilter(value);
  } catch (error) {
    const reason = (error as Error).message;
    addProblem(
      context,
      [],
      `expected a filter: (attribute=value), joined as in (&(…)(…)), special characters as \\28 \\29 \\2a \\5c (${reason})`,
    );
  }
});

const tls = z
  .strictObject({
    starttls: z.boolean().default(false).describe("Switch an ldap:// connection to TLS. Default false."),
    ca: listOf(path)
      .optional()
      .describe("Files of certificates (PEM) of the authorities to trust. Default: those that Node.js trusts."),
    cert: path.optional().describe("The file of the client certificate, PEM, with its chain."),
    key: path.optional().describe("The file with the key of `cert`, PEM."),
    serverName: text("a host name")
      .optional()
      .describe("The name to expect in the server's certificate. Default: the url's."),
    insecure: z
      .boolean()
      .default(false)
      .describe("Accept any certificate: anybody in between can read and change everything. Every run warns about it."),
  })
  .refine(({ cert, key }) => (cert === undefined) === (key === undefined), {
    error: "cert and key belong together",
    path: ["cert"],
  })
  .describe("How the connection is protected.");

const password = text("a password; without one, servers treat the login as anonymous").describe("Its password.");
const mechanism = "The SASL mechanism: EXTERNAL or PLAIN.";
const bind = z
  .union(
    [
      z.strictObject({
        dn: text("a name").describe("The account: a distinguished name; Active Directory also takes user@domain."),
        password,
      }),
      z.strictObject({ sasl: z.literal("EXTERNAL").describe(mechanism) }),
      z.strictObject({
        sasl: z.literal("PLAIN").describe(mechanism),
        username: text("a user name").describe("The user name in the server's SASL setup."),
        password,
      }),
    ],
    { error: "expected {dn, password}, {sasl: EXTERNAL} or {sasl: PLAIN, username, password}" },
  )
  .describe(
    "The login: {dn, password}, {sasl: EXTERNAL} (the client certificate, or a socket's user) or {sasl: PLAIN, username, password}. Default: anonymous.",
  );

const limits = z
  .strictObject({
    connect: patience.prefault("10s").describe("Time to connect, TLS and login included. Default 10s."),
    read: patience.prefault("60s").describe("How long a server may be silent in the middle of an answer. Default 60s."),
    search: patience.prefault("1h").describe("How long all pages of one search may take. Default 1h."),
  })
  .prefault({})
  .describe("Time limits.");

const part = (defaults: { filter: string }) => ({
  base: bases.default([]),
  filter: filter.default(defaults.filter).describe(`Which entries to read. Default ${defaults.filter}.`),
  scope: z
    .enum(["sub", "one", "base"], { error: "expected sub, one or base" })
    .default("sub")
    .describe("How deep: sub (everything below), one (directly below), base (itself). Default sub."),
  id: attribute
    .optional()
    .describe(
      "The attribute that identifies a record for good. Default: entryUUID, objectGUID, nsUniqueId or GUID, whichever there is.",
    ),
  attributes: z
    .array(attribute)
    .default([])
    .describe("Attributes to read besides those that rules use; operational ones are only read when they are named."),
  optionalAttributes: z
    .array(z.string().min(1, "expected the name of an attribute, such as mail"))
    .default([])
    .describe(
      "Attributes that rules name and that may be missing everywhere. Default: the read fails if ten or more had the attribute at the last good read, and none has it now.",
    ),
  minEntries: minEntries.default(1).describe("Fewer entries in all bases together fail the read. Default 1."),
});

const users = z
  .strictObject({
    ...part({
      filter: "(|(objectClass=inetOrgPerson)(objectClass=posixAccount)(&(objectCategory=person)(objectClass=user)))",
    }),
    login: attribute.default("uid").describe("The attribute that `memberUid` of groups refers to. Default uid."),
  })
  .describe("The users.");

const groups = z
  .strictObject(
    part({
      filter:
        "(|(objectClass=groupOfNames)(objectClass=groupOfUniqueNames)(objectClass=posixGroup)(objectClass=group))",
    }),
  )
  .describe("The groups.");

const membershipAttributes = ["member", "uniqueMember", "memberUid", "memberOf"] as const;

const referrals = z
  .strictObject({
    follow: z.array(ldapUrl).default([]).describe("Servers to follow references to, with the same login."),
    ignore: z
      .array(text("a host"))
      .default([])
      .describe("Hosts whose references are ignored: what they hold is not in scope."),
  })
  .prefault({})
  .describe("What to do with references to other servers. A host in neither list fails the read.");

/** The options beside `connector: ldap`. */
export const options = z
  .strictObject({
    url: listOf(ldapUrl)
      .default([])
      .describe("ldaps://HOST, ldap://HOST or ldapi://SOCKET; of several, the first that answers."),
    file: listOf(ldifFile)
      .optional()
      .describe(
        "Instead of url: a file in LDIF, relative to the configuration, or several: a pattern like people-*.ldif, or a list. Each may be compressed with gzip.",
      ),
    ...checks,
    tls: tls.prefault({}),
    proxy: z
      .never({
        error: "LDAP does not go through HTTP proxies; remove it, and let this machine reach the server directly",
      })
      .optional()
      .describe("Not possible: LDAP goes through no HTTP proxy, not even with TLS."),
    bind: bind.optional(),
    users,
    groups: groups.optional(),
    membership: z
      .array(z.enum(membershipAttributes, { error: `expected ${membershipAttributes.join(", ")}` }))
      .min(1, "expected at least one")
      .default(["member", "uniqueMember", "memberUid"])
      .describe(
        "The attributes that list memberships; their values are combined. Default member, uniqueMember, memberUid.",
      ),
    flatten: z
      .boolean()
      .default(false)
      .describe("Put users directly into every group that they are in through others, and no group into another."),
    emptyContainers: z
      .enum(["fail", "allowed"], { error: "expected fail or allowed" })
      .default("fail")
      .describe(
        "A base, or a container directly below one, that had entries at the last good read and has none now fails the read, or is allowed. Default fail.",
      ),
    limits,
    keepAlive: patience.prefault("30s").describe("After how long a silent connection is probed. Default 30s."),
    pageSize: z
      .int()
      .min(1)
      .max(100_000)
      .default(1_000)
      .describe("How many entries to ask for at a time. Default 1000."),
    referrals,
    binary: z
      .array(attribute)
      .default([])
      .describe("Attributes whose values are bytes, besides the well-known ones: rules see them in base64."),
    invalidUtf8: z
      .enum(["fail", "latin1"], { error: "expected fail or latin1" })
      .default("fail")
      .describe("A text that is not UTF-8 fails the read, or is read as Windows-1252 with a warning. Default fail."),
  })
  .superRefine((value, context) => {
    const problem = (path: string[], message: string): void => addProblem(context, path, message);
    if (value.file !== undefined) fileProblems(value, problem);
    else serverProblems(value, problem);
    const plain = value.url.filter(({ scheme }) => scheme === "ldap");
    if (value.tls.starttls && plain.length < value.url.length) {
      problem(["tls", "starttls"], "is for ldap:// only; ldaps:// has TLS from the start");
    }
    const unused = (["ca", "cert", "serverName"] as const).find((key) => value.tls[key] !== undefined);
    if (unused !== undefined && !value.tls.starttls && plain.length > 0) {
      problem(["tls", unused], "has no effect on ldap://: write ldaps://, or starttls: true");
    }
    for (const kind of ["users", "groups"] as const) {
      const names = (value[kind]?.base ?? []).map(({ dn: name }) => name);
      const again = names.find((name, index) => names.findIndex((other) => dnKey(other) === dnKey(name)) < index);
      if (again !== undefined) problem([kind, "base"], `${again} is there twice`);
    }
  });

export type Options = z.infer<typeof options>;

type Problem = (path: string[], message: string) => void;

function serverProblems({ url, users, groups, settled, checksum }: Options, problem: Problem): void {
  if (url.length === 0) return problem([], "expected url (a server) or file (LDIF)");
  if (settled !== undefined) problem(["settled"], "is for files");
  if (checksum !== undefined) problem(["checksum"], "is for files");
  for (const [kind, part] of [["users", users] as const, ["groups", groups] as const])
    if (part?.base.length === 0)
      problem([kind, "base"], "expected a distinguished name, such as ou=people,dc=example,dc=com");
}

function fileProblems(value: Options, problem: Problem): void {
  if (value.url.length > 0) problem(["file"], "expected one of url and file, not both");
  if (value.bind !== undefined) problem(["bind"], "is for servers; a file needs no login");
  const { starttls, insecure, ...others } = value.tls;
  if (starttls || insecure || Object.values(others).some((one) => one !== undefined))
    problem(["tls"], "is for servers");
  if (value.referrals.follow.length > 0) problem(["referrals", "follow"], "is for servers; export what they hold too");
}

export type PartOptions = Options["users"] | NonNullable<Options["groups"]>;

/** Where to search, and the keys of the bases inside it that are searched by themselves. */
export interface Place {
  readonly dn: string;
  readonly minEntries: number;
  readonly inner: readonly string[];
}

/** The bases of users or of groups: those inside others first, so that nothing there is taken for the outer one's. */
export function placesOf({ base: all, scope }: PartOptions): readonly Place[] {
  if (all.length === 0) return [{ dn: "", minEntries: 0, inner: [] }];
  const places = all.map((one) => {
    const own = dnKey(one.dn);
    const keys = scope === "sub" ? all.map(({ dn: name }) => dnKey(name)) : [];
    return { ...one, inner: keys.filter((key) => key !== own && isWithin(key, own)) };
  });
  return places.sort((a, b) => a.inner.length - b.inner.length);
}

/** The options of users or of groups. */
export function partOptions(kind: Kind, { users, groups }: Options): PartOptions {
  return kind === "user" || groups === undefined ? users : groups;
}

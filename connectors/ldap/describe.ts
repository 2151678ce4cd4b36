import { hash } from "node:crypto";
import { TLSSocket } from "node:tls";
import { Ber, BerWriter, Control, ExtendedRequest, SearchRequest } from "ldapts";
import type { OpenContext, ReadContext } from "#connector.ts";
import { RollcallError } from "#errors.ts";
import { dnKey, isWithin } from "#principals/dn.ts";
import { dnOf } from "./entries.ts";
import { codes } from "./errors.ts";
import { parseFilter } from "./filter.ts";
import { enter, readText, tags } from "./message.ts";
import type { Cursor } from "./message.ts";
import type { Options } from "./options.ts";
import { locate, lookUp } from "./search.ts";
import { loginName, openSession } from "./session.ts";
import type { Session } from "./session.ts";

/**
 * The server, its protection, the login, and what the server can do.
 * @throws {IncompleteReadError} a base does not exist
 * @throws what `openSession` throws
 */
export async function describe(options: Options, open: OpenContext, context: ReadContext): Promise<readonly string[]> {
  await using session = await openSession(options, open, context);
  const server = await readRootDse(session);
  const bases = [...options.users.base, ...(options.groups?.base ?? [])];
  for (const { dn: base } of bases) await locate(session, { base, what: `the base ${base}` });
  return [
    `${session.url.text}, ${protectionOf(session)}`,
    `as ${await whoAmI(session)}`,
    [productOf(server), contextsOf(server)].filter((part) => part !== "").join(", "),
    canPage(server)
      ? `read in pages of ${options.pageSize}`
      : "the server does not announce paging: a result over its limit fails the read",
    ...noteOnMemberOf(server, options),
  ];
}

/** How many places are offered. */
const mostPlaces = 100;

/** The naming contexts of the server, each with the containers below it. @throws what `openSession` throws */
export async function places(options: Options, open: OpenContext, context: ReadContext): Promise<readonly string[]> {
  await using session = await openSession(options, open, context);
  const contexts = (await readRootDse(session)).get("namingcontexts") ?? [];
  const below: string[] = [];
  for (const base of contexts) below.push(...(await containersBelow(session, base)));
  return [...new Set([...contexts, ...below])].slice(0, mostPlaces);
}

async function containersBelow(session: Session, base: string): Promise<readonly string[]> {
  const filter = "(|(objectClass=organizationalUnit)(objectClass=container))";
  const query = {
    base,
    scope: "sub",
    filter,
    attributes: ["objectClass"],
    pageSize: 100,
    what: `containers below ${base}`,
  } as const;
  try {
    return (await lookUp(session, query)).map(dnOf);
  } catch (error) {
    // Without the right to look, a person can still type the DN.
    if (error instanceof RollcallError) return [];
    throw error;
  }
}

/** How the connection is protected. */
function protectionOf({ connection, url, options }: Session): string {
  const { socket } = connection;
  if (!(socket instanceof TLSSocket)) return url.scheme === "ldapi" ? "a socket of this machine" : "not encrypted";
  const certificate = socket.getPeerCertificate();
  const name = [certificate.subject?.CN ?? certificate.subjectaltname ?? "no name"].join(", ");
  const issuer = [certificate.issuer?.CN ?? certificate.issuer?.O ?? "an authority without a name"].join(", ");
  const checked = options.tls.insecure ? ", not checked" : "";
  const valid = `certificate of ${name} by ${issuer}, valid until ${certificate.valid_to}${checked}`;
  return `${socket.getProtocol() ?? "TLS"}${options.tls.starttls ? " (StartTLS)" : ""}, ${valid}`;
}

const whoAmIName = "1.3.6.1.4.1.4203.1.11.3";

/** The identity that the server reports for us (RFC 4532); if it reports none, the configured login. */
async function whoAmI({ connection, options }: Session): Promise<string> {
  const { code, value } = await connection.request(new ExtendedRequest({ messageId: 0, oid: whoAmIName }));
  if (code !== codes.success) return loginName(options.bind);
  const text = value?.toString() ?? "";
  return text === "" ? "nobody (anonymous)" : text.replace(/^(?:dn|u):/, "");
}

const pagedResults = "1.2.840.113556.1.4.319";
const activeDirectory = "1.2.840.113556.1.4.800";

function canPage(server: RootDse): boolean {
  return server.get("supportedcontrol")?.includes(pagedResults) ?? false;
}

function productOf(server: RootDse): string {
  if (server.get("supportedcapabilities")?.includes(activeDirectory) === true) {
    const host = server.get("dnshostname")?.[0];
    return host === undefined ? "Active Directory" : `Active Directory (${host})`;
  }
  if (server.get("objectclass")?.some((name) => /^openldaprootdse$/i.test(name)) === true) return "OpenLDAP";
  const vendor = [...(server.get("vendorname") ?? []), ...(server.get("vendorversion") ?? [])].join(" ");
  return vendor === "" ? "an unidentified server" : vendor;
}

/** The memberOf plugin of 389 Directory Server (and FreeIPA) resolves nested groups unless it is told not to. */
function noteOnMemberOf(server: RootDse, { membership }: Options): string[] {
  const isTransitive = /389|fedora|red hat|freeipa/i.test(server.get("vendorname")?.join() ?? "");
  if (!isTransitive || !membership.includes("memberOf")) return [];
  return [
    "this server's memberOf usually includes indirect memberships; `membership: [member, uniqueMember, memberUid]` reads only direct ones",
  ];
}

function contextsOf(server: RootDse): string {
  const contexts = server.get("namingcontexts") ?? [];
  return contexts.length === 0 ? "" : `holds ${contexts.join(" and ")}`;
}

/**
 * A value that changes whenever something in the directory does: OpenLDAP's `contextCSN`, Active Directory's
 * `highestCommittedUSN`. It differs for another server, login or options. A change of the server's own configuration
 * (its access rules) does not show.
 * @returns undefined when the server does not say, or not for everything that is read
 * @throws what `openSession` throws
 */
export async function version(options: Options, open: OpenContext, context: ReadContext): Promise<string | undefined> {
  // Other servers change without this one noticing.
  if (options.referrals.follow.length > 0) return undefined;
  await using session = await openSession(options, open, context);
  const server = await readRootDse(session);
  const state = (await stateOfActiveDirectory(session, server)) ?? (await stateOfOpenLdap(session, server));
  if (state === undefined) return undefined;
  const { bind: _, ...rest } = options;
  const login = options.bind === undefined ? "" : { ...options.bind, password: undefined };
  const asked = JSON.stringify([rest, login, context.attributes ?? null, session.url.text]);
  return `${state} ${hash("sha256", asked).slice(0, 16)}`;
}

/** USNs belong to one server; after a restore from a backup they start again, under another invocation id. */
async function stateOfActiveDirectory(session: Session, server: RootDse): Promise<string | undefined> {
  const number = server.get("highestcommittedusn")?.[0];
  const service = server.get("dsservicename")?.[0];
  const host = server.get("dnshostname")?.[0];
  if (number === undefined || service === undefined || host === undefined) return undefined;
  const invocation = await valuesAt(session, service, "invocationid");
  if (invocation === undefined) return undefined;
  return `${host} ${invocation.map((id) => Buffer.from(id).toString("hex")).join()} ${number}`;
}

/** The last change by each server that accepts writes, in the database that holds everything that is read. */
async function stateOfOpenLdap(session: Session, server: RootDse): Promise<string | undefined> {
  const { users, groups } = session.options;
  const bases = [...users.base, ...(groups?.base ?? [])].map(({ dn }) => dnKey(dn));
  const contexts = (server.get("namingcontexts") ?? []).filter((name) => name !== "");
  const containing = contexts.filter((name) => bases.every((base) => isWithin(base, dnKey(name))));
  const [own] = containing.sort((a, b) => dnKey(b).length - dnKey(a).length);
  // A subordinate database has changes of its own.
  const isWhole = own !== undefined && contexts.every((name) => name === own || !isWithin(dnKey(name), dnKey(own)));
  if (!isWhole) return undefined;
  const isKept = await session.connection.request(syncRequest(own));
  if (isKept.code !== codes.success) return undefined;
  const numbers = await valuesAt(session, own, "contextcsn");
  return numbers?.toSorted().join(" ");
}

/**
 * A request that only a database with the `syncprov` overlay accepts: another may have a stale `contextCSN` from a
 * backup.
 */
function syncRequest(base: string): SearchRequest {
  return new SearchRequest({
    messageId: 0,
    baseDN: base,
    scope: "base",
    filter: parseFilter("(!(objectClass=*))"),
    attributes: ["1.1"],
    controls: [new SyncControl()],
  });
}

/** The Sync Request control (RFC 4533): refreshOnly, without a cookie. */
class SyncControl extends Control {
  constructor() {
    super("1.3.6.1.4.1.4203.1.9.1.1", { critical: true });
  }

  override writeControl(writer: BerWriter): void {
    const value = new BerWriter();
    value.startSequence();
    value.writeEnumeration(1);
    value.endSequence();
    writer.writeBuffer(value.buffer, Ber.OctetString);
  }
}

async function valuesAt(session: Session, dn: string, attribute: string): Promise<readonly string[] | undefined> {
  try {
    const entry = await readOne(session, dn, [attribute], `${attribute} of ${dn}`);
    const values = entry?.get(attribute);
    return values === undefined || values.length === 0 ? undefined : values;
  } catch (error) {
    session.origin.context.signal.throwIfAborted();
    // An account that may not see it reads everything each time.
    if (error instanceof RollcallError && error.advice === "fix") return undefined;
    throw error;
  }
}

/** The attributes of the root DSE, by name in lower case; empty where it cannot be read. */
export type RootDse = ReadonlyMap<string, readonly string[]>;

const attributes = [
  "supportedcontrol",
  "supportedcapabilities",
  "namingcontexts",
  "vendorname",
  "vendorversion",
  "objectclass",
  "dnshostname",
  "dsservicename",
  "highestcommittedusn",
];

async function readRootDse(session: Session): Promise<RootDse> {
  return new Map((await readOne(session, "", attributes, "the server's description of itself")) ?? []);
}

/** The attributes of one entry, by name in lower case; undefined when it does not exist. */
export async function readOne(
  session: Session,
  base: string,
  attributes: readonly string[],
  what: string,
): Promise<RootDse | undefined> {
  const [message] = await lookUp(session, { base, scope: "base", filter: "(objectClass=*)", attributes, what });
  return message === undefined ? undefined : new Map(textsOf(message));
}

function* textsOf(bytes: Buffer): Generator<[string, string[]]> {
  const cursor: Cursor = { bytes, at: 0 };
  enter(cursor, tags.sequence);
  cursor.at = enter(cursor, tags.integer);
  enter(cursor, tags.searchEntry);
  readText(cursor);
  const end = enter(cursor, tags.sequence);
  while (cursor.at < end) {
    enter(cursor, tags.sequence);
    const name = readText(cursor).toLowerCase();
    const valuesEnd = enter(cursor, tags.set);
    const values: string[] = [];
    while (cursor.at < valuesEnd) values.push(readText(cursor));
    yield [name, values];
  }
}

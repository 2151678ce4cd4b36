import { createServer, type Socket } from "node:net";
import { BerReader } from "ldapts";
import { type AdEntry } from "./active-directory-entries.ts";
import { parseSearch, type Search } from "./search.ts";
import {
  encode,
  entry as entryBody,
  type LdapControl,
  type LdapMessage,
  messagesOf,
  operation,
  page,
  pageOf,
  reference,
  result,
  resultCode,
} from "./message.ts";
import { listen, stop, track } from "../scripted-server.ts";

/**
 * An LDAP server with the behaviour of Active Directory: values in ranges, names with `CNF:`, binary identifiers, its
 * error texts, references after the last entry. It is read-only to clients; tests change `entries`.
 */
export interface ActiveDirectory extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** Its entries. Raise `usn` when changing them. */
  readonly entries: AdEntry[];
  usn: number;
  /** Called with every search before it is answered, so that a test can change the entries. */
  before: ((search: Search) => void) | undefined;
}

export interface ActiveDirectoryOptions {
  readonly entries: AdEntry[];
  /** The domain's policies MaxPageSize and MaxValRange. */
  readonly maxPageSize?: number;
  readonly maxValRange?: number;
  /** Continuation references of a search below the domain. */
  readonly references?: readonly string[];
}

export const domain = "DC=example,DC=com";
export const adReader = { dn: `CN=Reader,CN=Users,${domain}`, upn: "reader@example.com", password: "reader-is-secret" };
/** The references that every domain has. */
export const adReferences = ["ForestDnsZones", "DomainDnsZones"]
  .map((name) => `ldap://${name}.example.com/DC=${name},${domain}`)
  .concat(`ldap://example.com/CN=Configuration,${domain}`);

export async function startActiveDirectory(options: ActiveDirectoryOptions): Promise<ActiveDirectory> {
  const { maxPageSize = 1000, maxValRange = 1500, references = [], entries } = options;
  const server = createServer((socket) => void converse(socket).catch(() => socket.destroy()));
  const open = track(server);

  const converse = async (socket: Socket): Promise<void> => {
    let bound = false;
    for await (const message of messagesOf(socket)) {
      const send = (tag: number, body: Buffer, controls: readonly LdapControl[] = []): void =>
        void socket.write(encode(message.id, tag, body, controls));
      if (message.operation === operation.bindRequest) {
        const code = checkBind(message);
        bound = code === "simple";
        send(operation.bindResponse, code === "refused" ? badPassword : result(resultCode.success));
      } else if (message.operation === operation.searchRequest) {
        answerSearch(message, parseSearch(message.body), bound, send);
      } else if (message.operation === operation.extendedRequest) {
        send(operation.extendedResponse, result(resultCode.protocolError, "0000203D: LdapErr: DSID-0C09134A"));
      } else {
        socket.end();
      }
    }
  };

  const answerSearch = (message: LdapMessage, search: Search, bound: boolean, send: Send): void => {
    directory.before?.(search);
    const done = (body: Buffer, controls: readonly LdapControl[] = []): void =>
      send(operation.searchResultDone, body, controls);
    if (search.base === "" && search.scope === "base") {
      send(operation.searchResultEntry, entryBody("", selected(rootDse(directory.usn), search, maxValRange)));
      return done(result(resultCode.success));
    }
    if (!bound) return done(notBound);
    const own = [settings].find(({ dn }) => sameDn(dn, search.base));
    const base = own ?? entries.find(({ dn }) => sameDn(dn, search.base));
    if (base === undefined) return done(noObject);
    const found = (own === undefined ? entries : [own]).filter(
      (each) => inScope(each, base, search.scope) && search.matches(each.attributes),
    );
    const paged = pageOf(message);
    const from = paged === undefined || paged.cookie.length === 0 ? 0 : paged.cookie.readUInt32LE(8);
    const to = Math.min(found.length, from + Math.min(maxPageSize, paged?.size ?? maxPageSize));
    for (const each of found.slice(from, to)) {
      send(operation.searchResultEntry, entryBody(each.dn, selected(each.attributes, search, maxValRange)));
    }
    const more = to < found.length;
    if (!more && search.scope === "sub" && sameDn(search.base, domain)) {
      for (const url of references) send(operation.searchResultReference, reference([url]));
    }
    if (paged === undefined) return done(result(more ? resultCode.sizeLimitExceeded : resultCode.success));
    const cookie = Buffer.alloc(more ? 24 : 0, 1);
    if (more) cookie.writeUInt32LE(to, 8);
    done(result(resultCode.success), [page(0, cookie)]);
  };

  const port = await listen(server);
  const directory: ActiveDirectory = {
    url: `ldap://127.0.0.1:${port}`,
    port,
    entries,
    usn: 16_403,
    before: undefined,
    [Symbol.asyncDispose]: () => stop(server, open),
  };
  return directory;
}

type Send = (tag: number, body: Buffer, controls?: readonly LdapControl[]) => void;

// Its texts end with a zero byte.
const badPassword = result(
  resultCode.invalidCredentials,
  "80090308: LdapErr: DSID-0C09044E, comment: AcceptSecurityContext error, data 52e, v4563\0",
);
const notBound = result(
  resultCode.operationsError,
  "000004DC: LdapErr: DSID-0C090A5C, comment: In order to perform this operation a successful bind must be completed on the connection., data 0, v4563\0",
);
const noObject = result(
  resultCode.noSuchObject,
  `0000208D: NameErr: DSID-0310028F, problem 2001 (NO_OBJECT), data 0, best match of:\n\t'${domain}'\n\0`,
);

function checkBind({ body }: LdapMessage): "simple" | "anonymous" | "refused" {
  const reader = new BerReader(body);
  reader.readInt();
  const name = reader.readString() ?? "";
  const password = reader.peek() === 0x80 ? reader.readString(0x80) : null;
  if (name === "" && password === "") return "anonymous";
  const known = [adReader.dn, adReader.upn, String.raw`EXAMPLE\reader`];
  const accepted = known.some((each) => sameDn(each, name)) && password === adReader.password;
  return accepted ? "simple" : "refused";
}

/** Of the server, in a part of the directory that is not below the domain though its name is. */
const settings: AdEntry = {
  dn: `CN=NTDS Settings,CN=DC1,CN=Servers,CN=Default-First-Site-Name,CN=Sites,CN=Configuration,${domain}`,
  attributes: { objectClass: ["top", "nTDSDSA"], invocationId: [Buffer.alloc(16, 7)] },
};

function rootDse(usn: number): AdEntry["attributes"] {
  return {
    currentTime: ["20261121070000.0Z"],
    subschemaSubentry: [`CN=Aggregate,CN=Schema,CN=Configuration,${domain}`],
    dsServiceName: [settings.dn],
    namingContexts: [domain, `CN=Configuration,${domain}`, `CN=Schema,CN=Configuration,${domain}`],
    defaultNamingContext: [domain],
    configurationNamingContext: [`CN=Configuration,${domain}`],
    rootDomainNamingContext: [domain],
    supportedControl: ["1.2.840.113556.1.4.319", "1.2.840.113556.1.4.801", "1.2.840.113556.1.4.473"],
    supportedLDAPVersion: ["3", "2"],
    supportedSASLMechanisms: ["GSSAPI", "GSS-SPNEGO", "EXTERNAL", "DIGEST-MD5"],
    supportedCapabilities: ["1.2.840.113556.1.4.800", "1.2.840.113556.1.4.1670", "1.2.840.113556.1.4.1791"],
    highestCommittedUSN: [String(usn)],
    dnsHostName: ["DC1.example.com"],
    ldapServiceName: ["example.com:dc1$@EXAMPLE.COM"],
    serverName: [`CN=DC1,CN=Servers,CN=Default-First-Site-Name,CN=Sites,CN=Configuration,${domain}`],
    isSynchronized: ["TRUE"],
    isGlobalCatalogReady: ["TRUE"],
    domainFunctionality: ["7"],
  };
}

/** Computed attributes, returned only when requested by name. */
const constructed = new Set(["primarygrouptoken", "canonicalname", "tokengroups"]);

/**
 * The requested attributes. One with more values than a range holds is empty, followed by its first range; a requested
 * range comes alone, and ends with `*` if it is the last.
 */
function* selected(
  attributes: AdEntry["attributes"],
  { attributes: wanted }: Search,
  maxValRange: number,
): Generator<[string, readonly (string | Buffer)[]]> {
  const all = wanted.length === 0 || wanted.includes("*");
  const asked = wanted.map((each) => {
    const [name = "", low, high] = each.toLowerCase().split(/;range=|-(?=\d+$|\*$)/);
    return { name, low: low === undefined ? undefined : Number(low), high: high === "*" ? Infinity : Number(high) };
  });
  for (const [name, values] of Object.entries(attributes)) {
    const lower = name.toLowerCase();
    const request = asked.find((each) => each.name === lower);
    if (request === undefined && (!all || constructed.has(lower))) continue;
    const ranged = request?.low !== undefined;
    const low = request?.low ?? 0;
    const high = Math.min(low + maxValRange - 1, ranged ? (request?.high ?? Infinity) : Infinity);
    if (!ranged && values.length <= maxValRange) {
      yield [name, values];
      continue;
    }
    if (!ranged) yield [name, []];
    const last = high >= values.length - 1;
    if (low < values.length) yield [`${name};range=${low}-${last ? "*" : high}`, values.slice(low, high + 1)];
  }
}

function sameDn(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

function inScope({ dn }: AdEntry, base: AdEntry, scope: Search["scope"]): boolean {
  if (sameDn(dn, base.dn)) return scope !== "one";
  if (scope === "base" || !dn.toLowerCase().endsWith(`,${base.dn.toLowerCase()}`)) return false;
  const above = dn.slice(0, -(base.dn.length + 1));
  return scope === "sub" || !/(?<!\\),/.test(above);
}

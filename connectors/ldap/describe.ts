import { TLSSocket } from "node:tls";
import { ExtendedRequest } from "ldapts";
import type { OpenContext, ReadContext } from "#connector.ts";
import { codes } from "./errors.ts";
import type { Options } from "./options.ts";
import { readOne, readRootDse, type RootDse } from "./rootdse.ts";
import { loginName, openSession, type Session } from "./session.ts";

/**
 * What is reached, how it is protected, as whom, and what the server can do.
 * @throws {IncompleteReadError} when a base does not exist
 * @throws what `openSession` throws
 */
export async function describe(options: Options, open: OpenContext, context: ReadContext): Promise<readonly string[]> {
  const session = await openSession(options, open, context);
  try {
    const server = await readRootDse(session);
    const bases = [...options.users.base, ...(options.groups?.base ?? [])];
    for (const base of bases) await readOne(session, base, ["1.1"], `the base ${base}`);
    return [
      `${session.url.text}, ${protectionOf(session)}`,
      `as ${await whoAmI(session)}`,
      [productOf(server), contextsOf(server)].filter((part) => part !== "").join(", "),
      canPage(server)
        ? `read in pages of ${options.pageSize}`
        : "the server does not say that it can page: what exceeds its limit fails the read",
    ];
  } finally {
    await session.close();
  }
}

/** The tops of the trees that the server holds. @throws what `openSession` throws */
export async function places(options: Options, open: OpenContext, context: ReadContext): Promise<readonly string[]> {
  const session = await openSession(options, open, context);
  try {
    return (await readRootDse(session)).get("namingcontexts") ?? [];
  } finally {
    await session.close();
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

/** As whom the server takes this login (RFC 4532); where it does not tell, as whom it was tried. */
async function whoAmI({ connection, options }: Session): Promise<string> {
  const { code, value } = await connection.ask(new ExtendedRequest({ messageId: 0, oid: whoAmIName }));
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
  return vendor === "" ? "a server that does not say what it is" : vendor;
}

function contextsOf(server: RootDse): string {
  const contexts = server.get("namingcontexts") ?? [];
  return contexts.length === 0 ? "" : `holds ${contexts.join(" and ")}`;
}

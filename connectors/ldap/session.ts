import type { Socket } from "node:net";
import { BindRequest, ExtendedRequest } from "ldapts";
import type { OpenContext, ReadContext } from "#connector.ts";
import { messageOf, RollcallError, UnavailableError } from "#errors.ts";
import { isLoopback } from "#http/listening.ts";
import { formatDuration } from "#text.ts";
import { Connection, openSocket, readTlsMaterial, secure } from "./connection.ts";
import type { TlsMaterial } from "./connection.ts";
import { codes, connectionError, resultError } from "./errors.ts";
import type { LdapUrl, Options } from "./options.ts";

/** A connection after its bind. */
export interface Session {
  readonly connection: Connection;
  readonly url: LdapUrl;
  readonly options: Options;
  /** The start of messages: `source corp, ldaps://ldap.example.com`. */
  readonly place: string;
  /** For sessions with further servers. */
  readonly origin: Origin;
  [Symbol.asyncDispose](): Promise<void>;
}

/** What the sessions of one read share. */
export interface Origin {
  readonly options: Options;
  readonly name: string;
  readonly tls: TlsMaterial;
  readonly context: ReadContext;
}

/**
 * Binds to the first of the source's servers that answers.
 * @throws {UnavailableError} none answers
 * @throws {RefusedError} the bind or the certificate is refused
 * @throws {InputError} a file of the options cannot be read
 */
export async function openSession(options: Options, open: OpenContext, context: ReadContext): Promise<Session> {
  context.signal.throwIfAborted();
  const tls = await readTlsMaterial(options.tls, open.folder);
  const origin: Origin = { options, name: open.name, tls, context };
  const failures: UnavailableError[] = [];
  for (const url of options.url) {
    try {
      return await openSessionTo(url, origin);
    } catch (error) {
      context.signal.throwIfAborted();
      // The other servers would refuse too, and lock the account in the end.
      if (!(error instanceof UnavailableError)) throw error;
      failures.push(error);
      if (options.url.length > 1) context.warn(error.message);
    }
  }
  const [first] = failures;
  if (first !== undefined && failures.length === 1) throw first;
  throw new UnavailableError(`source ${open.name}: no server answers: ${failures.map(messageOf).join("; ")}`);
}

/** A session with one server. @throws what `openSession` throws */
export async function openSessionTo(url: LdapUrl, origin: Origin): Promise<Session> {
  const { options, context } = origin;
  const { signal } = context;
  const place = `source ${origin.name}, ${url.text}`;
  let connection: Connection | undefined;
  let socket: Socket | undefined;
  const stop = (reason: unknown): void => {
    connection?.drop(reason);
    socket?.destroy();
  };
  const abort = (): void => stop(signal.reason);
  signal.throwIfAborted();
  signal.addEventListener("abort", abort, { once: true });
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    stop(new Error("too late"));
  }, options.limits.connect);
  const close = async (): Promise<void> => {
    signal.removeEventListener("abort", abort);
    if (connection === undefined) socket?.destroy();
    else await connection.close();
  };
  warnAboutProtection(url, options, place, context);
  try {
    const opened = await openSocket(url, origin.tls, (one) => {
      socket = one;
    });
    connection = new Connection(opened, options.limits.read);
    if (options.tls.starttls && url.scheme === "ldap") await startTls(connection, url, origin.tls, place);
    await bindTo(connection, options.bind, place);
    return { connection, url, options, place, origin, [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    signal.throwIfAborted();
    if (late) {
      throw new UnavailableError(
        `${place}: no connection within ${formatDuration(options.limits.connect)} (limits.connect); check the network and its firewalls`,
      );
    }
    throw error instanceof RollcallError ? error : connectionError(place, error, url, otherPort(url));
  } finally {
    clearTimeout(timer);
  }
}

function otherPort({ scheme }: LdapUrl): string {
  if (scheme === "ldapi") return "";
  return scheme === "ldaps" ? "is it ldap://, or another port?" : "is it ldaps://, or another port?";
}

const startTlsName = "1.3.6.1.4.1.1466.20037";

async function startTls(connection: Connection, url: LdapUrl, tls: TlsMaterial, place: string): Promise<void> {
  const result = await connection.request(new ExtendedRequest({ messageId: 0, oid: startTlsName }));
  if (result.code !== codes.success) {
    throw resultError(`${place}: StartTLS was refused; perhaps the server has ldaps:// instead`, result);
  }
  await connection.upgrade((plain) => secure(plain, url, tls));
}

async function bindTo(connection: Connection, bind: Options["bind"], place: string): Promise<void> {
  // An LDAP connection is anonymous until a bind.
  if (bind === undefined) return;
  const result = await connection.request(bindRequest(bind));
  if (result.code === codes.success) return;
  throw resultError(`${place}: login as ${loginName(bind)}`, result);
}

function bindRequest(bind: NonNullable<Options["bind"]>): BindRequest {
  if ("dn" in bind) return new BindRequest({ messageId: 0, dn: bind.dn, password: bind.password });
  if (bind.sasl === "EXTERNAL") return new BindRequest({ messageId: 0, mechanism: "EXTERNAL" });
  return new BindRequest({ messageId: 0, mechanism: "PLAIN", password: `\0${bind.username}\0${bind.password}` });
}

/** The identity of a session, for messages. */
export function loginName(bind: Options["bind"]): string {
  if (bind === undefined) return "nobody (anonymous)";
  if ("dn" in bind) return bind.dn;
  return bind.sasl === "EXTERNAL" ? "the identity of the connection (SASL EXTERNAL)" : `${bind.username} (SASL PLAIN)`;
}

/** Warns at every read about a connection that is not protected. */
function warnAboutProtection(url: LdapUrl, { tls, bind }: Options, place: string, { warn }: ReadContext): void {
  const isSecured = url.scheme === "ldaps" || tls.starttls;
  if (isSecured && tls.insecure) {
    warn(
      `${place}: the server's certificate is not checked (tls.insecure): anyone in between can read and change the data`,
    );
  }
  if (!isSecured && bind !== undefined && "password" in bind && url.scheme === "ldap" && !isLoopback(url.host)) {
    warn(`${place}: the password goes over the network unprotected; use ldaps:// or tls: { starttls: true }`);
  }
}

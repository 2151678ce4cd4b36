import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { connect as connectPlain, isIP, type Socket } from "node:net";
import { resolve } from "node:path";
import { connect as connectTls, type ConnectionOptions, createSecureContext, type TLSSocket } from "node:tls";
import { InputError, messageOf } from "#errors.ts";
import type { Options } from "./options.ts";
import type { LdapUrl } from "./url.ts";

/** What TLS needs, read from the files that the options name. */
export type TlsMaterial = Pick<ConnectionOptions, "ca" | "cert" | "key" | "rejectUnauthorized" | "servername">;

/** @throws {InputError} when a file cannot be read, or does not hold what it should */
export async function readTlsMaterial(tls: Options["tls"], folder: string): Promise<TlsMaterial> {
  const read = async (key: string, path: string): Promise<Buffer> => {
    try {
      return await readFile(resolve(folder, path));
    } catch (error) {
      throw new InputError(`tls.${key}: ${path} cannot be read: ${messageOf(error)}`, { cause: error });
    }
  };
  const { serverName, insecure } = tls;
  const ca = tls.ca === undefined ? undefined : await Promise.all(tls.ca.map((path) => read("ca", path)));
  const cert = tls.cert === undefined ? undefined : await read("cert", tls.cert);
  const key = tls.key === undefined ? undefined : await read("key", tls.key);
  // Node takes a file without certificates for one that trusts nobody, and says so of the server's certificate.
  for (const [index, file] of (ca ?? []).entries()) {
    if (!isCertificate(file)) throw new InputError(`tls.ca: ${tls.ca?.[index]} holds no certificate in PEM form`);
  }
  if (cert !== undefined && key !== undefined) checkPair(cert, key, tls);
  return {
    rejectUnauthorized: !insecure,
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(serverName === undefined ? {} : { servername: serverName }),
  };
}

function isCertificate(pem: Buffer): boolean {
  try {
    return new X509Certificate(pem).subject !== undefined;
  } catch {
    return false;
  }
}

function checkPair(cert: Buffer, key: Buffer, names: Options["tls"]): void {
  try {
    createSecureContext({ cert, key });
  } catch (error) {
    // Without the cause: it may quote the key.
    throw new InputError(
      `tls: ${names.cert} and ${names.key} are no certificate and its key in PEM form: ${codeOf(error)}`,
    );
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : messageOf(error);
}

/** Connects, with TLS for `ldaps`. The socket is the caller's to destroy, also when this fails. */
export function openSocket(url: LdapUrl, tls: TlsMaterial, opened: (socket: Socket) => void): Promise<Socket> {
  if (url.scheme === "ldaps") {
    const socket = connectTls({ host: url.host, port: url.port, ...tlsOptions(url, tls) });
    opened(socket);
    return ready(socket, "secureConnect");
  }
  const socket = url.path === undefined ? connectPlain(url.port, url.host) : connectPlain(url.path);
  opened(socket);
  return ready(socket, "connect");
}

/** Goes on with TLS on a connection that is there. */
export function secure(plain: Socket, url: LdapUrl, tls: TlsMaterial): Promise<TLSSocket> {
  return ready(connectTls({ socket: plain, host: url.host, ...tlsOptions(url, tls) }), "secureConnect");
}

function tlsOptions(url: LdapUrl, tls: TlsMaterial): ConnectionOptions {
  // Addresses are not for announcing; the certificate is compared with them all the same.
  return { ...(isIP(url.host) === 0 ? { servername: url.host } : {}), ...tls };
}

function ready<Kind extends Socket>(socket: Kind, event: string): Promise<Kind> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error): void => reject(error);
    socket.once("error", fail);
    socket.once("close", () => reject(Object.assign(new Error("the connection was closed"), { code: "ECONNRESET" })));
    socket.once(event, () => {
      socket.off("error", fail);
      resolve(socket);
    });
  });
}

import { readFile } from "node:fs/promises";
import { connect as connectPlain, isIP, type Socket } from "node:net";
import { resolve } from "node:path";
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from "node:tls";
import { InputError, messageOf } from "#errors.ts";
import type { Options } from "./options.ts";
import type { LdapUrl } from "./url.ts";

/** What TLS needs, read from the files that the options name. */
export type TlsMaterial = Pick<ConnectionOptions, "ca" | "cert" | "key" | "rejectUnauthorized" | "servername">;

/** @throws {InputError} when a file cannot be read */
export async function readTlsMaterial(tls: Options["tls"], folder: string): Promise<TlsMaterial> {
  const read = async (key: string, path: string): Promise<Buffer> => {
    try {
      return await readFile(resolve(folder, path));
    } catch (error) {
      throw new InputError(`tls.${key}: ${path} cannot be read: ${messageOf(error)}`, { cause: error });
    }
  };
  const { ca, cert, key, serverName, insecure } = tls;
  return {
    rejectUnauthorized: !insecure,
    ...(ca === undefined ? {} : { ca: await Promise.all(ca.map((path) => read("ca", path))) }),
    ...(cert === undefined ? {} : { cert: await read("cert", cert) }),
    ...(key === undefined ? {} : { key: await read("key", key) }),
    ...(serverName === undefined ? {} : { servername: serverName }),
  };
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

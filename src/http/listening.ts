import { lookup } from "node:dns/promises";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { BlockList, createServer, isIP } from "node:net";
import { X509Certificate } from "node:crypto";
import { createSecureContext, DEFAULT_CIPHERS } from "node:tls";
import { command } from "#commands.ts";
import { InputError, messageOf, reasonOf } from "#errors.ts";

/** Whose listener it is: the section of the configuration that a message names. */
export type Listening = "service" | "control";

export interface ListenOptions {
  readonly listen: { readonly host: string; readonly port: number };
  readonly tls?: unknown;
  readonly allowPlainHttp: boolean;
}

/**
 * The address to listen on.
 * @throws {InputError} when the host has none, or passwords would cross a network in the open (0.1)
 */
export async function addressToListenOn(
  { listen: { host }, tls, allowPlainHttp }: ListenOptions,
  section: Listening = "service",
): Promise<string> {
  const found = await lookup(host, { all: true }).catch((cause: unknown) => {
    throw new InputError(
      `${section}.listen: the host ${host} has no address (${messageOf(cause)}): expected an address of this machine`,
      { cause },
    );
  });
  const open = found.find(({ address }) => !isLoopback(address));
  if (open !== undefined && tls === undefined && !allowPlainHttp) {
    throw new InputError(
      `${section}.listen: ${host} (${open.address}) is not a loopback address, and plain HTTP would carry passwords over the network: ` +
        (section === "service"
          ? "configure `service.tls`, or set `service.allowPlainHttp: true` where something else encrypts, or listen on 127.0.0.1"
          : "set `control.allowPlainHttp: true` where nobody can listen in, or listen on 127.0.0.1"),
    );
  }
  const [first] = found.toSorted((a, b) => a.family - b.family);
  return first?.address ?? host;
}

/** Where clients on this machine reach a server that listens on an address. */
export function localUrl(scheme: "http" | "https", address: string, port: number): string {
  const reachable = address === "0.0.0.0" ? "127.0.0.1" : address === "::" ? "::1" : address;
  return `${scheme}://${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`;
}

/** What a server accepts of TLS: with RSA key exchange, anyone who gets the key later could read what was recorded. */
export const serverTls = { ciphers: `${DEFAULT_CIPHERS}:!kRSA` } as const;

/**
 * Reads certificate and key.
 * @throws {InputError} naming the file that cannot be read, or both when they do not fit
 */
export async function readCertificate(files: {
  readonly cert: string;
  readonly key: string;
}): Promise<{ cert: string; key: string }> {
  const read = (name: "cert" | "key"): Promise<string> =>
    readFile(files[name], "utf8").catch((cause: unknown) => {
      throw new InputError(`service.tls.${name}: ${files[name]} cannot be read: ${reasonOf(cause)}`, { cause });
    });
  const [cert, key] = await Promise.all([read("cert"), read("key")]);
  try {
    createSecureContext({ cert, key });
  } catch (cause) {
    throw new InputError(
      `service.tls: ${files.cert} and ${files.key} are not a certificate and its key in PEM form: ${messageOf(cause)}`,
      { cause },
    );
  }
  return { cert, key };
}

/** Why clients will refuse a certificate in PEM form that can be served all the same; undefined: its time has not come. */
export function expiryOf(cert: string): string | undefined {
  const { validToDate } = new X509Certificate(cert);
  if (validToDate.getTime() > Date.now()) return undefined;
  return `service.tls: the certificate was valid until ${validToDate.toISOString()}: renew it, then \`${command("reload")}\``;
}

/**
 * Listens for a moment.
 * @throws {InputError} when that cannot be
 */
export async function checkIsFree(host: string, port: number): Promise<void> {
  const server = createServer();
  try {
    await once(server.listen({ host, port }), "listening");
  } catch (error) {
    throw listenError(error, host, port);
  }
  server.close();
  await once(server, "close");
}

/** Says what a failed `listen` means. */
export function listenError(error: unknown, host: string, port: number, section: Listening = "service"): unknown {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  switch (code) {
    case "EADDRINUSE":
      return new InputError(
        `${section}.listen: another program listens on ${host}:${port} already: stop it, or choose another port`,
        { cause: error },
      );
    case "EACCES":
      return new InputError(`${section}.listen: permission denied for ${host}:${port}; choose a port above 1023`, {
        cause: error,
      });
    case "EADDRNOTAVAIL":
      return new InputError(`${section}.listen: ${host} is not an address of this machine`, { cause: error });
    default:
      return error;
  }
}

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addAddress("::1", "ipv6");

/**
 * Is what is sent to this host certain not to leave this machine? A name or an address, IPv6 with or without brackets,
 * also one that carries an IPv4 address (`::ffff:127.0.0.1`). Of names only `localhost`: what others mean, may change.
 */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, "$1");
  const version = isIP(bare);
  if (version === 0) return bare.toLowerCase() === "localhost";
  return loopback.check(bare, version === 4 ? "ipv4" : "ipv6");
}

function noSchemas(): never {
  throw new Error("a route has a schema: Fastify must bring its compilers");
}

/**
 * For Fastify, which would load its compilers of JSON schemas at every start, in a tenth of the time of it. No route has
 * a schema: what comes in is parsed by zod.
 */
export const withoutSchemas = {
  schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
};

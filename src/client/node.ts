import { RefusedError } from "#errors.ts";
import type { LoadStarted } from "#wire/loads.ts";
import { familyA } from "#wire/routes.ts";
import { endpointOf } from "./context.ts";
import type { Endpoint, EndpointOptions } from "./context.ts";

/**
 * The node that a load is to be sent to (specification 2.3), when it is another one than the service that was called.
 * The session goes there too, so it is followed only to the same host, and to hosts that were allowed.
 * @param allowed hosts, as `name` for any port of it or as `name:port`
 * @throws {RefusedError} another host, which is not among them
 */
export function nodeOf(
  { host, port }: LoadStarted["node_address"],
  service: Endpoint,
  options: EndpointOptions & { readonly name: string },
  allowed: readonly string[],
): Endpoint | undefined {
  const { url } = service;
  const plain = plainHost(host);
  const isSameHost = plain === plainHost(url.hostname);
  // A service behind a proxy that ends TLS takes the port of its own scheme for the one that was called (A.5).
  const isSamePort = url.port === "" ? port === 80 || port === 443 : Number(url.port) === port;
  if (isSameHost && isSamePort) return undefined;
  if (!isSameHost && !allowed.some((entry) => names(entry, plain, port))) {
    throw new RefusedError(
      `target ${options.name}: the service says that the load is to be sent to ${host}:${port}, another host than ` +
        `${url.hostname}; sessions and data go to other hosts only where they are allowed: add "${host}" to the ` +
        "target's `nodes`",
    );
  }
  const authority = plain.includes(":") ? `[${plain}]:${port}` : `${plain}:${port}`;
  return endpointOf({ ...options, url: `${url.protocol}//${authority}`, prefix: "" }, familyA);
}

function names(entry: string, host: string, port: number): boolean {
  const { name = entry, at } = /^(?<name>\[[^\]]+\]|[^:]+)(?::(?<at>\d+))?$/.exec(entry)?.groups ?? {};
  return plainHost(name) === host && (at === undefined || Number(at) === port);
}

function plainHost(host: string): string {
  return host.replace(/^\[|\]$/g, "").toLowerCase();
}

import { RefusedError } from "#errors.ts";
import { HttpClient } from "#http/client.ts";
import type { Answer, HttpClientOptions, RequestBody } from "#http/client.ts";
import type { LoadStarted } from "#wire/loads.ts";
import { familyA } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";

/** Where a service is and how it is reached. */
export interface EndpointOptions extends Omit<HttpClientOptions, "owner" | "keepAlive"> {
  /** `http://` or `https://`, host and port; its path stands before `prefix`. */
  readonly url: string;
  /** The path before the root of the interface, for example `/callosum/v1`. */
  readonly prefix: string;
}

/** One request to an endpoint. */
export interface Exchange {
  readonly route: Route;
  readonly cookie?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: RequestBody | undefined;
}

/** One family of the interface at a service. */
export class Endpoint {
  readonly url: URL;
  /** Where the family's paths begin, for messages. */
  readonly place: string;
  readonly #http: HttpClient;

  constructor({ url, prefix, ca, pinned, timeouts, proxy }: EndpointOptions, family: string) {
    this.url = new URL(url);
    this.place = this.url.origin + pathOf(this.url.pathname, prefix, family);
    this.#http = new HttpClient({ owner: "target", ca, pinned, timeouts, proxy });
  }

  /** Makes one request on a connection of its own. @throws what `HttpClient.exchange` throws */
  exchange<T>(
    { route: { method, path }, cookie, headers, body }: Exchange,
    use: (answer: Answer) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
    const request = {
      url: new URL(this.place + path),
      method,
      headers: {
        accept: "application/json",
        // Some servers of this interface refuse requests without it, as a protection against forged ones.
        "x-requested-by": "rollcall",
        cookie,
        ...headers,
      },
      body,
    };
    return this.#http.exchange(request, use, signal);
  }
}

function pathOf(...parts: string[]): string {
  return parts
    .map((part) => part.replace(/^\/+|\/+$/g, ""))
    .reduce((path, part) => (part === "" ? path : `${path}/${part}`), "");
}

/**
 * The node that takes a load (specification 2.3); undefined when it is the service that was called. The session is sent
 * there too, so only the same host and port and the allowed ones are accepted: another port may be another program.
 * @param allowed hosts, as `name` for any port or as `name:port`
 * @throws {RefusedError} for any other host or port
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
  // Behind a proxy that ends TLS, the service reports the port of its own scheme (A.5).
  const isSamePort = url.port === "" ? port === 80 || port === 443 : Number(url.port) === port;
  if (isSameHost && isSamePort) return undefined;
  if (!allowed.some((entry) => matches(entry, plain, port))) {
    throw new RefusedError(
      `target ${options.name}: the service says that the load is to be sent to ${host}:${port}, another ` +
        `${isSameHost ? `port than ${url.host}` : `host than ${url.hostname}`}; sessions and data go to other hosts and ports only where ` +
        `they are allowed: add "${isSameHost ? `${host}:${port}` : host}" to the target's \`nodes\``,
    );
  }
  const authority = plain.includes(":") ? `[${plain}]:${port}` : `${plain}:${port}`;
  return new Endpoint({ ...options, url: `${url.protocol}//${authority}`, prefix: "" }, familyA);
}

function matches(entry: string, host: string, port: number): boolean {
  const { name = entry, at } = /^(?<name>\[[^\]]+\]|[^:]+)(?::(?<at>\d+))?$/.exec(entry)?.groups ?? {};
  return plainHost(name) === host && (at === undefined || Number(at) === port);
}

function plainHost(host: string): string {
  return host.replace(/^\[|\]$/g, "").toLowerCase();
}

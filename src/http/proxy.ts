import { isIP } from "node:net";
import type { Socket } from "node:net";
import type { buildConnector as BuildConnector, Client as Connection, Dispatcher } from "undici";
import { codeOf } from "#files/disk.ts";
import { formatDuration } from "#text.ts";
import { isProxyUrl } from "#values.ts";
import { HttpError, requestProblem } from "./errors.ts";
import type { Advice, RequestContext } from "./errors.ts";
import { isLoopback } from "./listening.ts";
import type { Connect } from "./trust.ts";

/** The URL of a proxy, which may hold credentials; `false`: none. Absent: what the environment says. */
export type ProxySetting = string | false | undefined;

/** The proxies for each scheme, and the hosts that are reached without them, as undici's agent takes them. */
interface Proxies {
  readonly httpProxy: string;
  readonly httpsProxy: string;
  readonly noProxy: string;
}

/**
 * The proxies that requests to a URL may go through; undefined: none. What is on this machine goes through none that the
 * environment names: the embedded service, above all.
 * @throws {HttpError} a variable of the environment is not the address of a proxy
 */
export function proxiesFor(
  url: URL,
  setting: ProxySetting,
  environment: NodeJS.ProcessEnv = process.env,
): Proxies | undefined {
  if (setting === false) return undefined;
  if (setting !== undefined) return { httpProxy: setting, httpsProxy: setting, noProxy: "" };
  if (isLoopback(url.hostname)) return undefined;
  const [httpProxy, httpsProxy] = [addressIn("HTTP_PROXY", environment), addressIn("HTTPS_PROXY", environment)];
  if (httpProxy === "" && httpsProxy === "") return undefined;
  return { httpProxy, httpsProxy, noProxy: environment["no_proxy"] ?? environment["NO_PROXY"] ?? "" };
}

/** The lower-case variable comes first, as everywhere. Without a scheme it is http. */
function addressIn(name: string, environment: NodeJS.ProcessEnv): string {
  const value = (environment[name.toLowerCase()] ?? environment[name] ?? "").trim();
  if (value === "") return "";
  const address = value.includes("://") ? value : `http://${value}`;
  if (!isProxyUrl(address))
    throw new HttpError(
      "connect",
      `the environment variable ${name} is not the address of a proxy: expected one like http://proxy.example.com:3128`,
      "fix",
    );
  return address;
}

/** The connection to a server, perhaps through a proxy. */
export interface Route {
  readonly dispatcher: Dispatcher;
  /** The proxy as messages name it, once a connection to it is tried, and whether that succeeded. */
  readonly proxy?: { readonly name: string; readonly isReached: boolean } | undefined;
}

/** What a route needs of the client that it is for. */
export interface RouteOptions extends Proxies {
  readonly origin: string;
  readonly limits: Connection.Options;
  /** How the server's certificate is checked, and how long a connection may take. */
  readonly tls: BuildConnector.BuildOptions;
  /** Sees every connection to the server. */
  readonly observe: (connect: Connect) => Connect;
  /** Sees every socket to a proxy at once, so that it can be destroyed while it is connecting. */
  readonly opened: (socket: Socket) => void;
}

/** undici's agent decides by `noProxy`; HTTPS goes through a tunnel, plain HTTP is forwarded. */
export async function openProxied({ origin, limits, tls, observe, opened, ...proxies }: RouteOptions): Promise<Route> {
  const { Client, EnvHttpProxyAgent, buildConnector } = await import("undici");
  const { timeout } = tls;
  let proxy: Route["proxy"];
  const toProxy =
    ({ host: name }: URL, connect: Connect): Connect =>
    (target, callback) => {
      proxy = { name, isReached: false };
      // undici gives the proxy's host even where that is an address, which TLS does not take for a server's name.
      const servername = isIP(target.servername ?? "") === 0 ? target.servername : undefined;
      const socket = connect({ ...target, servername }, (...result) => {
        proxy = { name, isReached: result[0] === null };
        callback(...result);
      });
      opened(socket);
      return socket;
    };
  const dispatcher = new EnvHttpProxyAgent({
    ...proxies,
    connect: buildConnector(tls),
    requestTls: tls,
    proxyTls: { timeout, allowH2: false },
    // A proxy that takes longer to open a tunnel is one that cannot.
    clientFactory: (url, options) =>
      new Client(url.origin, { headersTimeout: timeout ?? 0, connect: toProxy(url, connectIn(options)) }),
    factory: (to, options) => {
      const server = new URL(to);
      const connect = connectIn(options);
      return new Client(server.origin, {
        ...limits,
        connect: observe(server.origin === origin ? connect : toProxy(server, connect)),
      });
    },
  });
  return {
    dispatcher,
    get proxy() {
      return proxy;
    },
  };
}

/** The connector that undici's agent gives to those who make its clients. */
function connectIn(options: object): Connect {
  if (!("connect" in options) || typeof options.connect !== "function") throw new TypeError("undici gave no connector");
  return options.connect as Connect;
}

/**
 * Why a request failed that goes through a proxy: whether it is the proxy, or the server behind it.
 * @param context `host`: the server's
 */
export function proxyProblem(
  error: unknown,
  phase: HttpError["phase"],
  { name, isReached }: NonNullable<Route["proxy"]>,
  context: RequestContext,
): { readonly reason: string; readonly advice: Advice } {
  const { host, timeouts } = context;
  const status = /^Proxy (?:response|Authentication Required) \((\d{3})\)/.exec(messageIn(error))?.[1];
  if (status !== undefined) return answerOfProxy(status, name, host);
  const cause = codeOf(error).startsWith("UND_ERR_PRX") && error instanceof Error ? error.cause : error;
  const isSlow = codeOf(error) === "UND_ERR_HEADERS_TIMEOUT";
  if (phase === "connect" && isReached && (isSlow || cause !== error)) {
    const within = isSlow ? ` within ${formatDuration(timeouts.connect)}` : "";
    return { reason: `the proxy ${name} opened no connection to ${host}${within}`, advice: "repeat" };
  }
  if (!isReached) {
    const settings = { ...context, host: name, authorities: "a file that NODE_EXTRA_CA_CERTS names" };
    const { reason, advice } = requestProblem(cause, "connect", settings);
    return { reason: `the proxy ${name}: ${reason}`, advice };
  }
  const { reason, advice } = requestProblem(error, phase, context);
  return { reason: `${reason}; through the proxy ${name}`, advice };
}

function messageIn(error: unknown): string {
  return error instanceof Error ? error.message : "";
}

function answerOfProxy(status: string, name: string, host: string): { reason: string; advice: Advice } {
  const said = `the proxy ${name} opened no connection to ${host} (${status})`;
  if (status === "407")
    return {
      reason: `the proxy ${name} refused the user name and password, or wants some (407): write them into its URL, http://USER:PASSWORD@${name}`,
      advice: "fix",
    };
  if (Number(status) >= 500)
    return { reason: `${said}: it cannot reach it; check the URL and the proxy`, advice: "repeat" };
  return { reason: `${said}: allow it there, or set \`proxy: none\` if it can be reached directly`, advice: "fix" };
}

import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { BlockList, isIP } from "node:net";
import type { Readable } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import { HttpError } from "./answers.ts";

/** What the server notes of every request before its route handles it. */
export interface Exchange {
  /** GUIDs that connect an answer with its log line (B.1, B.10). */
  readonly incident: string;
  readonly trace: string;
  /** In milliseconds, as `performance.now()` has it. */
  readonly started: number;
  /** The client's address: that of its socket (0.8), or what the proxies before it say, where they are trusted. */
  readonly address: string;
  /** The header as it was sent; Fastify does not see it. */
  readonly contentType: string | undefined;
}

declare module "fastify" {
  interface FastifyRequest {
    exchange: Exchange;
  }
}

/** Gives the request its `exchange`. */
export function beginExchange(request: FastifyRequest, addressOf: (request: IncomingMessage) => string): void {
  const { headers } = request.raw;
  request.exchange = {
    incident: randomUUID(),
    trace: randomUUID(),
    started: performance.now(),
    address: addressOf(request.raw),
    contentType: headers["content-type"],
  };
  // Routes judge the body once the caller is known. Fastify would refuse a malformed content type before that.
  delete headers["content-type"];
}

/** The path of a request, decoded where it can be, without its query. */
export function pathOf(request: FastifyRequest): string {
  const [path = ""] = request.url.replace(/^https?:\/\/[^/]*/i, "").split("?", 1);
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}

/** The query of a request. */
export function queryOf(request: FastifyRequest): URLSearchParams {
  const start = request.url.indexOf("?");
  return new URLSearchParams(start < 0 ? "" : request.url.slice(start));
}

/** An address without the wrapping that IPv4 has on a socket for both versions. */
export function plainAddress(address: string | undefined): string {
  return (address ?? "").replace(/^::ffff:(?=\d+\.)/i, "");
}

/**
 * Finds the address of the client that a request comes from. Every proxy appends the address it was called from to
 * `X-Forwarded-For`, and only what trusted ones say counts: from the right, up to the first one that is not trusted.
 * @param trustedProxies addresses and networks; without any, the header does not count
 */
export function createAddressOf(trustedProxies: readonly string[]): (request: IncomingMessage) => string {
  const trusted = new BlockList();
  for (const network of trustedProxies) {
    const [address = "", bits] = network.split("/");
    const family = isIP(address) === 4 ? "ipv4" : "ipv6";
    if (bits === undefined) trusted.addAddress(address, family);
    else trusted.addSubnet(address, Number(bits), family);
  }
  const isTrusted = (address: string): boolean => trusted.check(address, isIP(address) === 4 ? "ipv4" : "ipv6");

  return ({ headers, socket }) => {
    let address = plainAddress(socket.remoteAddress);
    if (trustedProxies.length === 0) return address;
    const said = String(headers["x-forwarded-for"] ?? "").split(",");
    while (isIP(address) !== 0 && isTrusted(address)) {
      const before = bareAddress(said.pop());
      if (before === undefined) break;
      address = before;
    }
    return address;
  };
}

/** An address of `X-Forwarded-For`, to which some proxies add the port. Undefined: it is none. */
function bareAddress(text: string | undefined): string | undefined {
  const { v6, v4 } = /^(?:\[(?<v6>[^\]]+)\]|(?<v4>[\d.]+))(?::\d+)?$/.exec(text?.trim() ?? "")?.groups ?? {};
  const address = plainAddress(v6 ?? v4 ?? text?.trim());
  return isIP(address) === 0 ? undefined : address;
}

/**
 * The parameters of a request by their names in lower case: case does not matter, the last of several wins over the
 * earlier, the form over the query (0.3).
 */
export function parametersOf(query: URLSearchParams, form: URLSearchParams): Readonly<Record<string, string>> {
  return Object.fromEntries([...query, ...form].map(([name, value]) => [name.toLowerCase(), value]));
}

/** Every value of one parameter, for those that may be given several times: the form's, else the query's (0.3). */
export function valuesOf(name: string, query: URLSearchParams, form: URLSearchParams): string[] {
  const values = (parameters: URLSearchParams): string[] =>
    [...parameters].flatMap(([given, value]) => (given.toLowerCase() === name ? [value] : []));
  const own = values(form);
  return own.length > 0 ? own : values(query);
}

/** The largest body that is read into memory, in bytes: a login, not a list. */
const limit = 64 * 1024;

/** How long it may take to arrive, in milliseconds. */
const patience = 30_000;

/**
 * Reads a small body as a whole.
 * @throws {HttpError} 413 when it is too large, 408 when it does not arrive; and what broke the connection
 */
export async function readBody(request: FastifyRequest): Promise<string> {
  const { raw } = request;
  const tooLarge = new HttpError(413, [`The body may have ${limit} bytes at the most.`]);
  if (Number(raw.headers["content-length"]) > limit) throw tooLarge;
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const pieces: Buffer[] = [];
  let length = 0;
  const timer = setTimeout(() => {
    reject(new HttpError(408, ["The body did not arrive in time."], { headers: { connection: "close" } }));
  }, patience);
  raw.on("data", (piece: Buffer) => {
    // The rest is read and dropped: a client that sends everything first still gets its answer.
    length += piece.length;
    if (length > limit) reject(tooLarge);
    else pieces.push(piece);
  });
  raw.once("end", () => {
    resolve(Buffer.concat(pieces).toString("utf8"));
  });
  const gone = (): void => {
    reject(raw.errored ?? new HttpError(408, ["The client went away."]));
  };
  // It may have gone while its session was looked up: then nothing happens on the request any more.
  if (raw.destroyed) gone();
  raw.once("error", reject).once("close", gone);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
  }
}

/** Aborted when the client disconnects before it has the whole answer. */
export function disconnectOf({ raw }: FastifyReply): AbortSignal {
  const controller = new AbortController();
  const abort = (): void => {
    if (!raw.writableFinished) controller.abort(new HttpError(408, ["The client went away."]));
  };
  if (raw.closed) abort();
  else raw.once("close", abort);
  return controller.signal;
}

/**
 * Destroys a stream when the signal is aborted, until disposed. `addAbortSignal` of Node.js listens until the stream has closed, of
 * which it is not told when a client goes away early; and a signal that depends on others is kept for as long as anybody listens.
 */
export function destroyOnAbort(signal: AbortSignal, stream: Readable): Disposable {
  const destroy = (): void => {
    // Whoever reads it is told; nobody may be reading it yet.
    stream.on("error", () => undefined).destroy(signal.reason as Error);
  };
  if (signal.aborted) destroy();
  signal.addEventListener("abort", destroy);
  return { [Symbol.dispose]: () => signal.removeEventListener("abort", destroy) };
}

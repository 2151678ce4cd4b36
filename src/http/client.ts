import { Socket } from "node:net";
import { pipeline, Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import type { Dispatcher } from "undici";
import { BoundError, highestRatio, isBomb, longestAnswer, mostValues, parseJson } from "#input-bounds.ts";
import { RollcallError } from "#errors.ts";
import { formatDuration } from "#text.ts";
import { HttpError, requestProblem, unusableAnswer } from "./errors.ts";
import type { Phase } from "./errors.ts";
import { isLoopback } from "./listening.ts";
import { openProxied, proxiesFor, proxyProblem } from "./proxy.ts";
import type { ProxySetting, Route } from "./proxy.ts";
import { createConnect, tlsOptions } from "./trust.ts";
import type { Connect, Trust } from "./trust.ts";

/** In milliseconds. */
export interface Timeouts {
  /** Until a connection is open, TLS included. Default: 10 s. */
  readonly connect: number;
  /** From the end of the request to the answer's header: a preview of a million principals takes minutes. Default: 10 min. */
  readonly headers: number;
  /** Between two pieces of an answer's body. Default: 2 min. */
  readonly body: number;
  /** From the start to the end of the answer's header, however slowly everything goes. Default: no limit. */
  readonly whole?: number | undefined;
}

export interface HttpClientOptions extends Trust {
  /** Whose setting `ca` is, as messages name it: `target`, `source`. */
  readonly owner: string;
  readonly timeouts?: Partial<Timeouts> | undefined;
  /** Absent: the proxy that the environment names for a server of another machine. A pinned server has none. */
  readonly proxy?: ProxySetting;
  /**
   * Keep a connection open for the next request to the same server, until `close`. Default: a connection for each
   * request. No idle connection can then have been closed by the server, which would leave open whether it got the request.
   */
  readonly keepAlive?: boolean | undefined;
}

/** A request body, made while it is sent. */
export interface RequestBody {
  /** Default: what the request's headers say. */
  readonly contentType?: string | undefined;
  /** Exactly how many bytes `chunks` yields, for servers that do not know chunked encoding. Absent: unknown. */
  readonly length?: number | undefined;
  /**
   * The bytes, from the start at every call. A block is valid until the second one after it is asked for. A `RollcallError` it
   * throws ends the request and is thrown as it is.
   */
  chunks(): AsyncIterable<Uint8Array>;
  /** The bytes can be read only once, so the request cannot be repeated. */
  readonly single?: boolean | undefined;
}

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface HttpRequest {
  readonly url: URL;
  /** Default: `GET`. */
  readonly method?: Method | undefined;
  readonly headers?: Readonly<Record<string, string | undefined>> | undefined;
  readonly body?: RequestBody | undefined;
}

/** An answer whose header has arrived. */
export interface Answer {
  readonly status: number;
  readonly headers: Dispatcher.ResponseData["headers"];
  /** Unpacked; can be read once. @throws {HttpError} */
  readonly body: AsyncIterable<Buffer>;
  readonly socket: Socket | undefined;
  /** Ends the exchange, read or not. */
  readonly close: () => void;
}

/** A connection to one server, which undici opens with the first request and again when it was lost. */
interface Link {
  readonly route: Route;
  isOpen: boolean;
  socket: Socket | undefined;
  destroy(): Promise<void>;
}

export class HttpClient {
  readonly #owner: string;
  readonly #keepAlive: boolean;
  readonly #timeouts: Timeouts;
  readonly #proxy: ProxySetting;
  readonly #trust: Trust;
  readonly #links = new Map<string, Promise<Link>>();

  constructor({ owner, keepAlive = false, timeouts, proxy, ...trust }: HttpClientOptions) {
    this.#owner = owner;
    this.#keepAlive = keepAlive;
    this.#timeouts = { connect: 10_000, headers: 600_000, body: 120_000, ...timeouts };
    this.#proxy = trust.pinned === true ? false : proxy;
    this.#trust = trust;
  }

  /**
   * Makes one request. Redirects are not followed and nothing is repeated. The answer must be closed.
   * @throws {HttpError} no answer; the signal's reason, at once, when it is aborted (also while the body is read)
   */
  async send(request: HttpRequest, signal: AbortSignal): Promise<Answer> {
    signal.throwIfAborted();
    const { url, body } = request;
    const link = await this.#linkTo(url);
    signal.throwIfAborted();
    const { whole } = this.#timeouts;
    const limit = whole === undefined ? undefined : AbortSignal.timeout(whole);
    const failure = (error: unknown, phase: Phase): unknown =>
      signal.aborted ? signal.reason : this.#failure(error, phase, { url, link, isLate: limit?.aborted === true });
    const destroy = (): void => {
      this.#links.delete(url.origin);
      void link.destroy();
    };
    const end = (): void => {
      signal.removeEventListener("abort", destroy);
      limit?.removeEventListener("abort", destroy);
      if (!this.#keepAlive) destroy();
    };
    // Not left to undici: it waits for a connection that is being opened before it notices.
    signal.addEventListener("abort", destroy);
    limit?.addEventListener("abort", destroy);
    let isSent = body === undefined;
    try {
      const response = await link.route.dispatcher.request(dispatched(request, () => (isSent = true)));
      response.body.on("error", () => undefined); // it may be left unread
      return {
        status: response.statusCode,
        headers: response.headers,
        body: bytesOf(response, (error) => failure(error, "receive")),
        socket: link.socket,
        close: () => {
          response.body.destroy();
          end();
        },
      };
    } catch (error) {
      end();
      throw failure(error, !link.isOpen ? "connect" : isSent ? "wait" : "send");
    }
  }

  /** `send`, with the answer closed after `use`. */
  async exchange<T>(request: HttpRequest, use: (answer: Answer) => Promise<T>, signal: AbortSignal): Promise<T> {
    const answer = await this.send(request, signal);
    try {
      return await use(answer);
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    } finally {
      answer.close();
    }
  }

  /** Closes the connections that are kept open. */
  async close(): Promise<void> {
    const all = await Promise.all(this.#links.values());
    this.#links.clear();
    await Promise.all(all.map((link) => link.destroy()));
  }

  #linkTo(url: URL): Promise<Link> {
    const known = this.#links.get(url.origin);
    if (known !== undefined) return known;
    const link = openLink(url.origin, this.#trust, this.#timeouts, proxiesFor(url, this.#proxy));
    if (this.#keepAlive) this.#links.set(url.origin, link);
    return link;
  }

  #failure(
    error: unknown,
    phase: Phase,
    { url, link, isLate }: { readonly url: URL; readonly link: Link; readonly isLate: boolean },
  ): unknown {
    if (error instanceof HttpError || error instanceof RollcallError) return error;
    const { whole = 0 } = this.#timeouts;
    if (isLate) return new HttpError(phase, `no answer within ${formatDuration(whole)}`, "later", { cause: error });
    const context = { host: url.host, timeouts: this.#timeouts, owner: this.#owner };
    const { proxy } = link.route;
    const { reason, advice } =
      proxy === undefined ? requestProblem(error, phase, context) : proxyProblem(error, phase, proxy, context);
    return new HttpError(phase, reason, advice, { cause: error });
  }
}

/** A request as undici takes it. @param sent called when only the last bytes of its body are left to go */
function dispatched(
  { url, method = "GET", headers, body }: HttpRequest,
  sent: () => void,
): Dispatcher.RequestOptions & { readonly origin: string } {
  return {
    origin: url.origin,
    method,
    path: url.pathname + url.search,
    headers: {
      "user-agent": "rollcall",
      // Between processes of one machine packing costs more than it saves.
      "accept-encoding": isLoopback(url.hostname) ? "identity" : "gzip",
      "content-type": body?.contentType,
      "content-length": body?.length?.toString(),
      ...headers,
    },
    body: body === undefined ? null : Readable.from(reporting(body, sent), { objectMode: false }),
  };
}

async function openLink(
  origin: string,
  trust: Trust,
  timeouts: Timeouts,
  proxies: ReturnType<typeof proxiesFor>,
): Promise<Link> {
  // Loaded with the first request: it takes a moment and some memory, which a program that makes none need not spend.
  const { Client, buildConnector } = await import("undici");
  const limits = { headersTimeout: timeouts.headers, bodyTimeout: timeouts.body };
  /** Every socket: one to a proxy, too. */
  const sockets = new Set<Socket>();
  const opened = (socket: Socket): void => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  };
  const observe =
    (connect: Connect): Connect =>
    (target, callback) => {
      link.isOpen = false;
      const socket = connect(target, (...result) => {
        link.isOpen = result[0] === null;
        link.socket = result[1] ?? undefined;
        callback(...result);
      });
      // Through a proxy there is none yet.
      if (socket instanceof Socket) opened(socket);
      return socket;
    };
  const route =
    proxies === undefined
      ? {
          dispatcher: new Client(origin, {
            ...limits,
            connect: observe(createConnect(trust, timeouts.connect, buildConnector)),
          }),
        }
      : await openProxied({ ...proxies, origin, limits, tls: tlsOptions(trust, timeouts.connect), observe, opened });
  const link: Link = {
    route,
    isOpen: false,
    socket: undefined,
    destroy: async () => {
      const open = [...sockets];
      const closed = route.dispatcher.destroy().catch(() => undefined);
      for (const socket of open) socket.destroy();
      await closed;
    },
  };
  return link;
}

/** The body's bytes. Calls `sent` when only the last of them are left to go. */
async function* reporting(body: RequestBody, sent: () => void): AsyncGenerator<Uint8Array> {
  let left = body.length ?? Infinity;
  for await (const chunk of body.chunks()) {
    left -= chunk.length;
    if (left === 0) sent();
    yield chunk;
  }
  sent();
}

async function* bytesOf(
  { headers, body }: Dispatcher.ResponseData,
  failure: (error: unknown) => unknown,
): AsyncGenerator<Buffer> {
  const encoding = headers["content-encoding"];
  const isPacked = encoding === "gzip" || encoding === "x-gzip";
  if (!isPacked && encoding !== undefined && encoding !== "identity") {
    throw unusableAnswer("the answer has a compression that was not requested", "fix");
  }
  try {
    // The pipeline passes the body's errors on to the reader.
    let length = 0;
    for await (const chunk of isPacked ? gunzipped(body) : (body as AsyncIterable<Buffer>)) {
      length += chunk.length;
      if (length > longestAnswer) throw unusableAnswer("the answer has more than 16 GiB, which is too much", "fix");
      yield chunk;
    }
  } catch (error) {
    throw failure(error);
  }
}

async function* gunzipped(body: Readable): AsyncGenerator<Buffer> {
  let unpacked = 0;
  const unpacking = createGunzip({ chunkSize: 64 * 1024 });
  for await (const chunk of pipeline(body, unpacking, () => {}) as AsyncIterable<Buffer>) {
    unpacked += chunk.length;
    // Another attempt would give the same.
    if (isBomb(unpacking.bytesWritten, unpacked))
      throw unusableAnswer(`the answer grows to more than ${highestRatio} times its size when it is unpacked`, "fix");
    yield chunk;
  }
}

/** The text of an answer, of which no more than about `limit` bytes are read. @throws {HttpError} */
export async function textOf({ body }: Pick<Answer, "body">, limit = 1024 * 1024): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > limit) break;
  }
  return Buffer.concat(chunks).toString();
}

/**
 * The value of an answer in JSON, within the bounds of `parseJson`.
 * @param limit the largest answer, in bytes; Infinity: from a service that is trusted
 * @throws {HttpError} it is too large, or beyond another bound; {SyntaxError} it is not JSON
 */
export async function jsonIn(answer: Pick<Answer, "body">, limit = 1024 * 1024): Promise<unknown> {
  const text = await textOf(answer, limit);
  if (text.length > limit)
    throw unusableAnswer(`the answer has more than ${Math.floor(limit / 2 ** 20)} MiB, which is too much`, "fix");
  try {
    return parseJson(text, limit === Infinity ? Infinity : mostValues);
  } catch (error) {
    if (error instanceof BoundError) throw unusableAnswer(`the answer ${error.message}`, "fix");
    throw error;
  }
}

/** The body of a form without files. */
export function formBody(fields: Readonly<Record<string, string>>): RequestBody {
  return bytesBody(new URLSearchParams(fields).toString(), "application/x-www-form-urlencoded");
}

export function jsonBody(value: unknown, contentType = "application/json"): RequestBody {
  return bytesBody(JSON.stringify(value), contentType);
}

export function bytesBody(content: string | Uint8Array, contentType?: string): RequestBody {
  const bytes = Buffer.from(content);
  return {
    contentType,
    length: bytes.length,
    chunks: async function* chunks() {
      yield bytes;
    },
  };
}

import type { Socket } from "node:net";
import { Readable } from "node:stream";
import type { Dispatcher } from "undici";
import type { Route } from "#wire/routes.ts";
import { isLoopback } from "./listening.ts";
import { createConnector } from "./trust.ts";
import type { Trust } from "./trust.ts";
import type { Body } from "#client/form.ts";
import { Client } from "./undici.ts";

/** In milliseconds. */
export interface Timeouts {
  /** Until a connection stands, TLS included. Default: 10 s. */
  readonly connect: number;
  /** From the end of the request to the answer's header: a preview of a million principals takes minutes. Default: 10 min. */
  readonly headers: number;
  /** Between two pieces of an answer's body. Default: 2 min. */
  readonly body: number;
}

export interface HttpOptions extends Trust {
  /** `http://` or `https://`, host and port; its path stands before `prefix`. */
  readonly url: string;
  /** What stands before the root of the interface, for example `/callosum/v1`. */
  readonly prefix: string;
  readonly timeouts?: Partial<Timeouts>;
}

export interface Exchange {
  readonly route: Route;
  readonly cookie?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Body;
}

/** An answer whose header has arrived. `body` can be read while `use` runs. */
export interface Answer {
  readonly status: number;
  readonly headers: Dispatcher.ResponseData["headers"];
  readonly body: Readable;
  readonly socket: Socket | undefined;
}

/** How far an exchange came. Before `wait` the server cannot have a whole request. */
export type Phase = "connect" | "send" | "wait" | "receive";

/** An exchange broke; `cause` says why. It is turned into an error for people by `ask`. */
export class Broken extends Error {
  readonly phase: Phase;

  constructor(phase: Phase, cause: unknown) {
    super(`the exchange broke: ${phase}`, { cause });
    this.phase = phase;
  }
}

export interface Http {
  readonly url: URL;
  readonly timeouts: Timeouts;
  /** Where the paths of the family begin, for messages. */
  readonly place: string;
  /**
   * Makes one request on a connection of its own and hands the answer to `use`. No connection is used twice: none can
   * have been closed by the server while it lay idle, which would leave it open whether a request arrived.
   * @throws {Broken} when there is no answer. When `signal` is aborted: its reason, at once
   */
  exchange<T>(exchange: Exchange, use: (answer: Answer) => Promise<T>, signal: AbortSignal): Promise<T>;
}

export function createHttp(options: HttpOptions, family: string): Http {
  const url = new URL(options.url);
  const base = pathOf(url.pathname, options.prefix, family);
  const timeouts = { connect: 10_000, headers: 600_000, body: 120_000, ...options.timeouts };
  const establish = createConnector(options, timeouts.connect);
  const headers = {
    accept: "application/json",
    // Between processes of one machine packing costs more than it saves.
    "accept-encoding": isLoopback(url.hostname) ? "identity" : "gzip",
    "user-agent": "rollcall",
    // Some servers of this interface refuse requests without it, to keep out forged ones.
    "x-requested-by": "rollcall",
  };

  async function exchange<T>(
    { route, cookie, headers: more, body }: Exchange,
    use: (answer: Answer) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
    signal.throwIfAborted();
    let phase: Phase = "connect";
    let socket: Socket | undefined;
    const client = new Client(url.origin, {
      headersTimeout: timeouts.headers,
      bodyTimeout: timeouts.body,
      connect: (target, callback) => {
        socket = establish(target, (...result) => {
          phase = result[0] !== null ? "connect" : body === undefined ? "wait" : "send";
          callback(...result);
        });
      },
    });
    const sent = (): void => {
      phase = "wait";
    };
    // Not left to `request`, which waits for a connection that is being opened before it notices.
    const end = (): void => {
      client.destroy().catch(() => undefined);
      socket?.destroy();
    };
    signal.addEventListener("abort", end);
    try {
      const response = await client
        .request({
          method: route.method,
          path: base + route.path,
          headers: {
            ...headers,
            ...more,
            ...(cookie === undefined ? {} : { cookie }),
            ...(body === undefined ? {} : { "content-type": body.contentType }),
            ...(body?.length === undefined ? {} : { "content-length": String(body.length) }),
          },
          body: body === undefined ? null : Readable.from(reporting(body, sent), { objectMode: false }),
        })
        .catch((error: unknown) => {
          throw new Broken(phase, error);
        });
      response.body.on("error", () => undefined); // it may be left unread
      return await use({ status: response.statusCode, headers: response.headers, body: response.body, socket });
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    } finally {
      signal.removeEventListener("abort", end);
      end();
    }
  }

  return { url, timeouts, place: `${url.origin}${base}`, exchange };
}

function pathOf(...parts: string[]): string {
  return parts
    .map((part) => part.replace(/^\/+|\/+$/g, ""))
    .reduce((path, part) => (part === "" ? path : `${path}/${part}`), "");
}

/** The body's bytes; calls `sent` when only the last of them are left to go. */
async function* reporting(body: Body, sent: () => void): AsyncGenerator<Uint8Array> {
  let left = body.length ?? Infinity;
  for await (const chunk of body.chunks()) {
    left -= chunk.length;
    if (left === 0) sent();
    yield chunk;
  }
  sent();
}

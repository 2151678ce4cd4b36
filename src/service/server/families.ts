import { ReadStream } from "node:fs";
import { pipeline, Readable } from "node:stream";
import type { Writable } from "node:stream";
import { constants, createGzip, gzipSync } from "node:zlib";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { messageOf } from "#errors.ts";
import { json } from "#http/answers.ts";
import { pathOf, plainAddress } from "#http/exchange.ts";
import { createServer } from "#http/server.ts";
import type { ServerOptions } from "#http/server.ts";
import { giveBack } from "#files/buffers.ts";
import { serviceHeaders } from "#wire/errors.ts";
import { familyA, familyB } from "#wire/routes.ts";
import { httpErrorOf, turnIntoError } from "./answers.ts";
import type { Family } from "./answers.ts";

export interface ServiceServerOptions extends Omit<ServerOptions, "answerError" | "finish"> {
  /** The prefixes of family B (0.2). */
  readonly prefixes: readonly string[];
}

/** Creates the service's server without routes, with what all answers of a family have in common (B.10, A.25, B.1). */
export async function createServiceServer({ prefixes, ...options }: ServiceServerOptions): Promise<FastifyInstance> {
  const { log } = options;
  // Loaded while the process of the databases starts.
  const [app, { default: cookie }] = await Promise.all([
    createServer({
      ...options,
      answerError: (thrown, request, reply) => {
        const error = httpErrorOf(thrown, request.exchange.incident);
        if (error.status >= 500 && error.cause !== undefined) {
          // A client that has disconnected is usually the whole cause, and the request is logged as broken off.
          const level = reply.raw.closed || request.raw.errored !== null ? "debug" : "error";
          const { incident } = request.exchange;
          const reason = messageOf(error.cause);
          // Only what nobody expected needs its stack.
          if (error.status === 500) log[level]({ err: error.cause, incident }, reason);
          else log[level]({ reason, incident }, error.message);
        }
        return turnIntoError(request, reply, familyOf(request, prefixes), error);
      },
      finish: (body, request, reply) => {
        if (familyOf(request, prefixes) !== "administration") return body;
        addHeaders(request, reply);
        return compressed(request, reply, body, log);
      },
    }),
    import("@fastify/cookie"),
  ]);
  await app.register(cookie);
  return app;
}

function familyOf(request: FastifyRequest, prefixes: readonly string[]): Family {
  const path = pathOf(request);
  if (isBelow(path, familyA)) return "data";
  return prefixes.some((prefix) => isBelow(path, prefix + familyB)) ? "administration" : "none";
}

function isBelow(path: string, root: string): boolean {
  return path === root || path.startsWith(`${root}/`);
}

/** The headers of family B (B.10). */
function addHeaders(request: FastifyRequest, reply: FastifyReply): void {
  const { incident, trace, started } = request.exchange;
  reply.headers({
    "cache-control": "no-cache, no-store, max-age=0, must-revalidate",
    pragma: "no-cache",
    [serviceHeaders.incident]: incident,
    [serviceHeaders.trace]: trace,
    [serviceHeaders.time]: Math.ceil((performance.now() - started) * 1000),
    [serviceHeaders.address]: plainAddress(request.raw.socket.localAddress),
  });
}

/** The body as it is sent: family B compresses JSON for clients that accept gzip (B.10). */
function compressed(request: FastifyRequest, reply: FastifyReply, body: unknown, log: Logger): unknown {
  const onError = (error: Error & { code?: string }): void => {
    // The client disconnected; `watch` logs that.
    if (error.code === "ERR_STREAM_PREMATURE_CLOSE") return;
    log.warn({ err: error, incident: request.exchange.incident }, `an answer broke off: ${messageOf(error)}`);
  };
  if (reply.getHeader("content-type") !== json) return body;
  reply.header("vary", "accept-encoding");
  const accepted = acceptsGzip(request.headers["accept-encoding"]);
  if (accepted) reply.header("content-encoding", "gzip");
  if (body instanceof Readable)
    return accepted ? gzipStream(body, onError) : freeSent(body, reply.raw).once("error", onError);
  return accepted && body instanceof Uint8Array ? gzipBytes(body) : body;
}

/** CPU time is worth more than the last percent of compression. */
const gzipOptions = { level: constants.Z_BEST_SPEED };

/**
 * Whether the client accepts gzip, even if it prefers something else
 * (B.10). `*` stands for every coding not named (RFC 9110, 12.5.3).
 */
export function acceptsGzip(header: string | undefined): boolean {
  const weights = new Map<string, number>();
  for (const part of (header ?? "").toLowerCase().split(",")) {
    const [coding = "", ...parameters] = part.split(";").map((piece) => piece.trim());
    const weight = parameters.find((parameter) => /^q\s*=/.test(parameter));
    weights.set(coding, weight === undefined ? 1 : Number(weight.slice(weight.indexOf("=") + 1)));
  }
  const weight = weights.get("gzip") ?? weights.get("x-gzip") ?? weights.get("*") ?? 0;
  return weight > 0;
}

/** Compresses a small body. */
function gzipBytes(body: Uint8Array): Buffer {
  return gzipSync(body, gzipOptions);
}

/** Compresses a stream as it flows. When either end breaks off, the other is destroyed. */
function gzipStream(body: Readable, onError: (error: Error) => void): Readable {
  const gzip = createGzip(gzipOptions);
  return pipeline(freeSent(body, gzip), gzip, (error) => {
    if (error) onError(error);
  });
}

/**
 * Frees the pieces of a file once `destination` has taken them. V8 counts them, although its heap is small: left to it, a list
 * of 20,000 users, compressed, has the whole heap collected every other time. Pieces of other streams may be somebody's.
 */
export function freeSent(body: Readable, destination: Writable): Readable {
  const pieces: Buffer[] = [];
  /** Of the pieces together. What the destination has not taken of them is the end. */
  let length = 0;
  const free = (piece: Buffer): void => {
    pieces.push(piece);
    length += piece.length;
    for (let [first] = pieces; first !== undefined; [first] = pieces) {
      if (destination.destroyed || length - first.length < destination.writableLength) return;
      length -= first.length;
      giveBack(first);
      pieces.shift();
    }
  };
  // From then on, a piece is written before it comes here.
  if (body instanceof ReadStream) destination.once("pipe", () => body.on("data", free));
  return body;
}

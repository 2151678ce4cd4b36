import { randomUUID } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import { familyA, familyB } from "#wire/routes.ts";
import { HttpError } from "./answers.ts";

/** Whose language an answer speaks: plain text (family A), error objects (family B), or neither's. */
export type Family = "data" | "administration" | "none";

/** What is known of a request before anybody looks at it. */
export interface Exchange {
  readonly family: Family;
  /** GUIDs by which the answer is found in the log (B.1, B.10). */
  readonly incident: string;
  readonly trace: string;
  /** In milliseconds, as `performance.now()` has it. */
  readonly started: number;
  /** The client's: its socket's, never what a header says (0.8). */
  readonly address: string;
  /** The header as it was sent. */
  readonly contentType: string | undefined;
}

declare module "fastify" {
  interface FastifyRequest {
    exchange: Exchange;
  }
}

/** Gives the request its `exchange`. `prefixes` are those of family B (0.2). */
export function beginExchange(request: FastifyRequest, prefixes: readonly string[]): void {
  const { headers, socket } = request.raw;
  request.exchange = {
    family: familyOf(pathOf(request), prefixes),
    incident: randomUUID(),
    trace: randomUUID(),
    started: performance.now(),
    address: plainAddress(socket.remoteAddress),
    contentType: headers["content-type"],
  };
  // What a body may be is decided by its route, after the caller is known. The framework would refuse a malformed header first.
  delete headers["content-type"];
}

function familyOf(path: string, prefixes: readonly string[]): Family {
  if (isBelow(path, familyA)) return "data";
  return prefixes.some((prefix) => isBelow(path, prefix + familyB)) ? "administration" : "none";
}

function isBelow(path: string, root: string): boolean {
  return path === root || path.startsWith(`${root}/`);
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

/** What a body may be that is read as a whole, in bytes: a login, not a list. */
const limit = 64 * 1024;

/** Within how many milliseconds it must have arrived. */
const patience = 30_000;

/**
 * Reads a small body as a whole.
 * @throws {HttpError} 413 when it is too large, 408 when it does not arrive
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
    // What follows is read and dropped, so that a client that sends all of it first gets its answer too.
    length += piece.length;
    if (length > limit) reject(tooLarge);
    else pieces.push(piece);
  });
  raw.once("end", () => {
    resolve(Buffer.concat(pieces).toString("utf8"));
  });
  raw.once("error", reject);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
  }
}

/** Aborted when the client goes away before it has the answer. */
export function disconnectOf({ raw }: FastifyReply): AbortSignal {
  const controller = new AbortController();
  const abort = (): void => {
    if (!raw.writableFinished) controller.abort(new HttpError(408, ["The client went away."]));
  };
  if (raw.closed) abort();
  else raw.once("close", abort);
  return controller.signal;
}

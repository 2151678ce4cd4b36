import { randomUUID } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { familyA, familyB } from "#wire/routes.ts";

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

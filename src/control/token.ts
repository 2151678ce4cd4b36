import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { FastifyRequest } from "fastify";

/** A secret of 256 random bits. */
export function createToken(): string {
  return randomBytes(32).toString("base64url");
}

/** The token of `Authorization: Bearer`; empty where that header holds none, undefined where there is no such header. */
export function bearerOf({ headers: { authorization } }: FastifyRequest): string | undefined {
  return authorization === undefined ? undefined : (/^Bearer +(\S+) *$/i.exec(authorization)?.[1] ?? "");
}

/** Takes the same time wherever they differ: digests are of one length. */
export function isSame(given: string, token: string): boolean {
  return timingSafeEqual(digestOf(given), digestOf(token));
}

function digestOf(value: string): Buffer {
  return createHash("sha256").update(value).digest();
}

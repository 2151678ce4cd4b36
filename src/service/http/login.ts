import type { FastifyReply, FastifyRequest } from "fastify";
import type { Credentials, Login } from "#service/session/login.ts";
import { sessionCookie } from "#wire/routes.ts";
import { authenticating, throttled } from "./answers.ts";

export interface LoginSettings {
  readonly login: Login;
  /** How long the cookie of a remembered session lasts, in milliseconds (0.5). */
  readonly remembered: number;
  /** The cookie travels over TLS only. */
  readonly secure: boolean;
}

/**
 * Logs in and sets the cookie (0.4), the same in both families.
 * @returns false when the name or the password is wrong
 * @throws {HttpError} 429 (0.8), 500 (A.25)
 */
export async function openSession(
  { login, remembered, secure }: LoginSettings,
  request: FastifyRequest,
  reply: FastifyReply,
  credentials: Credentials,
): Promise<boolean> {
  const result = await authenticating(() => login(credentials, request.exchange.address));
  if (result.outcome === "throttled") throw throttled(result.retryAfter);
  if (result.outcome === "wrong") return false;
  reply.setCookie(sessionCookie, result.token, {
    path: "/",
    httpOnly: true,
    sameSite: "lax",
    secure,
    ...(credentials.remembered ? { maxAge: Math.ceil(remembered / 1000) } : {}),
  });
  return true;
}

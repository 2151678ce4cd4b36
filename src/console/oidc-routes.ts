import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { answerOf } from "#control/answers.ts";
import { InputError, messageOf } from "#errors.ts";
import type { Logger } from "pino";
import { formOf } from "./context.ts";
import { noRole } from "#console/pages/sign-in.ts";
import { oidcPaths } from "./oidc-paths.ts";
import type { Attempt, Oidc } from "./oidc.ts";
import type { AllAccounts } from "./own-accounts.ts";
import type { Html } from "./html.ts";

/** How long somebody may take at the provider, in seconds. */
const longestAttempt = 600;

const kept = z.object({ state: z.string(), nonce: z.string(), verifier: z.string(), next: z.string() });

export interface OidcRoutes {
  readonly accounts: AllAccounts;
  readonly oidc: Oidc;
  readonly log: Logger;
  /** Where a link may lead after signing in. */
  readonly ownPath: (path: unknown) => string;
  readonly show: (request: FastifyRequest, reply: FastifyReply, title: string, page: Html) => FastifyReply;
  /** The sign-in page, with what went wrong. */
  readonly failed: (
    request: FastifyRequest,
    reply: FastifyReply,
    next: string,
    message: string,
  ) => Promise<FastifyReply>;
}

/** Adds what signs people in with the OpenID provider, and what the provider tells of their logout. */
export function addOidcRoutes(app: FastifyInstance, { accounts, oidc, log, ownPath, show, failed }: OidcRoutes): void {
  const { secure } = accounts.own;
  // The provider's answer comes from another site: with `strict`, the browser would not send it back.
  const options = { path: "/", httpOnly: true, sameSite: "lax", secure } as const;
  const cookie = secure ? "__Host-rollcall-oidc" : "rollcall_oidc";
  const failure = async (request: FastifyRequest, reply: FastifyReply, next: string, error: unknown) => {
    const { status, document } = answerOf(error);
    if (status === 500) throw error;
    return failed(request, reply.code(status), next, document.error.message);
  };

  app.get(oidcPaths.begin, async (request, reply) => {
    const { next } = request.query as { next?: unknown };
    try {
      const { url, attempt } = await oidc.begin(ownPath(next));
      const value = Buffer.from(JSON.stringify(attempt)).toString("base64url");
      return await reply.setCookie(cookie, value, { ...options, maxAge: longestAttempt }).redirect(url, 303);
    } catch (error) {
      return failure(request, reply, ownPath(next), error);
    }
  });

  app.get(oidcPaths.back, async (request, reply) => {
    const attempt = attemptIn(request.cookies[cookie]);
    reply.clearCookie(cookie, options);
    if (attempt === undefined)
      return failed(request, reply.code(400), "/", "This sign-in was not begun here, or took too long. Sign in again.");
    const next = ownPath(attempt.next);
    try {
      const vouched = await oidc.complete(request.url.slice(oidcPaths.back.length), attempt);
      if (vouched.role === undefined) {
        // What they had before, they have no more.
        await accounts.own.options.accounts.vouched(vouched);
        return await show(
          request,
          reply.code(403),
          "No role",
          noRole({ ...vouched, provider: oidc.name, roles: oidc.roles }),
        );
      }
      const token = await accounts.own.open(vouched, request.exchange.address);
      await accounts.keep(request, reply, accounts.own, token);
      return await reply.redirect(next, 303);
    } catch (error) {
      return failure(request, reply, next, error);
    }
  });

  app.post(oidcPaths.logout, async (request, reply) => {
    try {
      const logout = await oidc.readLogout(formOf(request).get("logout_token") ?? "");
      const count = await accounts.own.options.sessions.endOfProvider(logout);
      log.info({ sessions: count }, `the OpenID provider has ended ${count} sessions`);
      return await reply.send("");
    } catch (error) {
      if (!(error instanceof InputError)) throw error;
      log.warn(`a logout of the OpenID provider was refused: ${messageOf(error)}`);
      return reply
        .code(400)
        .type("application/json")
        .send({ error: "invalid_request", error_description: error.message });
    }
  });
}

function attemptIn(value: string | undefined): Attempt | undefined {
  try {
    return kept.parse(JSON.parse(Buffer.from(value ?? "", "base64url").toString()));
  } catch {
    return undefined;
  }
}

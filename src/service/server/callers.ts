import type { FastifyReply, FastifyRequest } from "fastify";
import type { DirectoryStore } from "#service/directory/store.ts";
import { logIn } from "#service/session/login.ts";
import type { Credentials, LoginContext } from "#service/session/login.ts";
import type { Sessions } from "#service/session/sessions.ts";
import { sessionCookie } from "#wire/routes.ts";
import { authenticating, forbidden, throttled, unverified } from "./answers.ts";

/** A privilege that an operation may require (0.6). */
export type Privilege = "administration" | "dataManagement";

export interface Caller {
  readonly id: string;
  readonly name: string;
  /** The value of the session's cookie. */
  readonly token: string;
}

export interface CallerOptions {
  readonly sessions: Sessions;
  readonly store: Pick<DirectoryStore, "account" | "effectiveGroups">;
  /** The bootstrap administrator's name: always has every privilege (0.7). */
  readonly administrator: string;
  /** The names of the groups that carry each privilege. */
  readonly privileges: Readonly<Record<Privilege, readonly string[]>>;
}

/**
 * Finds the caller of a request and their privileges, anew for every request (0.5, 0.6). All of it throws an `HttpError`: 500
 * when the session store fails (A.25).
 */
export class Callers {
  readonly #options: CallerOptions;

  constructor(options: CallerOptions) {
    this.#options = options;
  }

  /**
   * The user of the request's session; undefined without a session, or when the user has been deleted.
   * @param isUse whether this counts as a use of the session
   */
  find(request: FastifyRequest, isUse = true): Promise<Caller | undefined> {
    const { sessions, store } = this.#options;
    return authenticating(async () => {
      const token = request.cookies[sessionCookie];
      const user = token === undefined ? undefined : await sessions.find(token, isUse);
      if (token === undefined || user === undefined) return undefined;
      const account = await store.account(user.name);
      if (account?.id === user.id) return { id: user.id, name: user.name, token };
      await sessions.end(token);
      return undefined;
    });
  }

  /**
   * The caller, if they hold one of the privileges; if none is asked for, any caller with a session.
   * @throws {HttpError} 401, 403
   */
  async require(request: FastifyRequest, ...privileges: readonly Privilege[]): Promise<Caller> {
    const caller = await this.find(request);
    if (caller === undefined) throw unverified();
    if (privileges.length > 0 && !(await this.holds(caller, ...privileges))) throw forbidden();
    return caller;
  }

  /**
   * Requires a session that was opened on this machine, by someone who can read the data folder.
   * @throws {HttpError} 401, 403
   */
  async requireLocal(request: FastifyRequest): Promise<void> {
    const { token } = await this.require(request);
    if (!this.#options.sessions.isLocal(token)) throw forbidden();
  }

  /** Whether the caller has one of the privileges. */
  async holds({ name }: Caller, ...privileges: readonly Privilege[]): Promise<boolean> {
    if (name === this.#options.administrator) return true;
    const groups = await authenticating(() => this.#options.store.effectiveGroups(name));
    return privileges.some((privilege) => this.#options.privileges[privilege].some((group) => groups.has(group)));
  }
}

export interface LoginSettings {
  readonly login: LoginContext;
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
  const result = await authenticating(() => logIn(login, credentials, request.exchange.address));
  if (result.outcome === "throttled") throw throttled(result.retryAfter);
  if (result.outcome === "wrong") return false;
  reply.setCookie(sessionCookie, result.token, {
    path: "/",
    httpOnly: true,
    sameSite: "lax",
    secure,
    maxAge: credentials.remembered ? Math.ceil(remembered / 1000) : undefined,
  });
  return true;
}

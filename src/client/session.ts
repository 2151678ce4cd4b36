import { RefusedError } from "#errors.ts";
import { administrationRoutes, sessionCookie } from "#wire/routes.ts";
import { ask } from "./ask.ts";
import type { Context, Operation, Use } from "./ask.ts";
import { fieldsBody } from "./form.ts";
import type { Answer } from "./http.ts";

/** Who the client is: an account, or the value of the cookie of a session that somebody else opened and will end. */
export type Credentials = { readonly username: string; readonly password: string } | { readonly session: string };

/** A session, opened at the first request that needs it, and again when the service has ended it. */
export interface Session {
  /** For messages: `svc-rollcall`. */
  readonly caller: string;
  /** Opens a session now. */
  login(signal: AbortSignal): Promise<void>;
  /** `ask` with the session. A 401 opens a new one, once; an operation that was answered 401 was not carried out. */
  ask<T>(operation: Operation, use: Use<T>, signal: AbortSignal): Promise<T>;
  /** Ends the session, when this client has opened one. */
  logout(signal: AbortSignal): Promise<void>;
}

export function createSession(context: Context, credentials: Credentials): Session {
  const { name, retries } = context;
  const account = "username" in credentials ? credentials : undefined;
  let cookie = "session" in credentials ? `${sessionCookie}=${credentials.session}` : undefined;

  const login = async (signal: AbortSignal): Promise<void> => {
    if (account === undefined) return;
    const { username, password } = account;
    const title = `login as ${username}`;
    cookie = await ask(
      context,
      {
        title,
        route: administrationRoutes.login,
        body: fieldsBody({ username, password }),
        advice: { 401: "check username and password" },
        secrets: [password],
      },
      async (answer) => cookiesOf(answer),
      signal,
    );
    if (cookie === undefined) {
      throw new RefusedError(
        `target ${name}: ${title}: the answer has no session cookie (${sessionCookie}): check url and prefix`,
      );
    }
  };

  const withSession = async <T>(operation: Operation, use: Use<T>, signal: AbortSignal): Promise<T> => {
    if (cookie === undefined) await login(signal);
    return ask(context, { ...operation, ...(cookie === undefined ? {} : { cookie }) }, use, signal);
  };

  return {
    caller: account?.username ?? "the owner of the given session",
    login,
    ask: async (operation, use, signal) => {
      try {
        return await withSession(operation, use, signal);
      } catch (error) {
        if (!isUnauthorized(error) || account === undefined) throw error;
        context.log(`target ${name}: ${operation.title}: the session has ended; logging in again`);
        cookie = undefined;
        const advice = `the session that the login as ${account.username} has just opened is not valid; is this a cluster without sticky sessions?`;
        return await withSession({ ...operation, advice: { ...operation.advice, 401: advice } }, use, signal);
      }
    },
    logout: async (signal) => {
      if (account === undefined || cookie === undefined) return;
      const operation = { title: "logout", route: administrationRoutes.logout, cookie };
      cookie = undefined;
      await ask({ ...context, retries: { ...retries, attempts: 1 } }, operation, async () => undefined, signal).catch(
        (error: unknown) => {
          if (!isUnauthorized(error)) throw error;
        },
      );
    },
  };
}

function isUnauthorized(error: unknown): boolean {
  return error instanceof RefusedError && error.status === 401;
}

/** The `Cookie` header for the cookies that a login's answer sets; undefined when the session's is not among them. */
function cookiesOf({ headers }: Answer): string | undefined {
  const pairs = [headers["set-cookie"] ?? []]
    .flat()
    .map((header) => (header.split(";", 1)[0] ?? "").trim())
    .filter((pair) => /^[^=]+=./.test(pair));
  return pairs.some((pair) => pair.startsWith(`${sessionCookie}=`)) ? pairs.join("; ") : undefined;
}

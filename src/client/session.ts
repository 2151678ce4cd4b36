import { RefusedError } from "#errors.ts";
import { administrationRoutes, sessionCookie } from "#wire/routes.ts";
import { ask } from "./ask.ts";
import type { Context, Operation, Use } from "./ask.ts";
import { fieldsBody } from "./form.ts";
import type { Answer } from "./http.ts";

/** Who the client is: an account, or the cookie value of a session that somebody else has opened and will end. */
export type Credentials = Account | { readonly session: string };

interface Account {
  readonly username: string;
  readonly password: string;
}

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
  if ("session" in credentials) return givenSession(context, credentials.session);
  const { username } = credentials;
  let cookie: string | undefined;

  const login = async (signal: AbortSignal): Promise<string> => (cookie = await open(context, credentials, signal));

  return {
    caller: username,
    login: async (signal) => {
      await login(signal);
    },
    ask: async (operation, use, signal) => {
      const opened = cookie ?? (await login(signal));
      try {
        return await ask(context, { ...operation, cookie: opened }, use, signal);
      } catch (error) {
        if (!isUnauthorized(error)) throw error;
      }
      context.log(`target ${context.name}: ${operation.title}: the session has ended; logging in again`);
      const advice = `the session that the login as ${username} has just opened is not valid; is this a cluster without sticky sessions?`;
      const again = { ...operation, cookie: await login(signal), advice: { ...operation.advice, 401: advice } };
      return ask(context, again, use, signal);
    },
    logout: async (signal) => {
      if (cookie === undefined) return;
      const operation = { title: "logout", route: administrationRoutes.logout, cookie };
      cookie = undefined;
      const once = { ...context, retries: { ...context.retries, attempts: 1 } };
      await ask(once, operation, async () => undefined, signal).catch((error: unknown) => {
        if (!isUnauthorized(error)) throw error;
      });
    },
  };
}

function givenSession(context: Context, value: string): Session {
  const cookie = `${sessionCookie}=${value}`;
  const ended =
    "the session is not valid: the service that gave it has been started again or is another one; try again";
  return {
    caller: "the owner of the given session",
    login: async () => undefined,
    ask: (operation, use, signal) =>
      ask(context, { ...operation, cookie, advice: { 401: ended, ...operation.advice } }, use, signal),
    logout: async () => undefined,
  };
}

/** Logs in. Returns the `Cookie` header of the session. */
async function open(context: Context, { username, password }: Account, signal: AbortSignal): Promise<string> {
  const operation: Operation = {
    title: `login as ${username}`,
    route: administrationRoutes.login,
    body: fieldsBody({ username, password }),
    advice: { 401: "check username and password" },
    secrets: [password],
  };
  const cookie = await ask(context, operation, async (answer) => cookiesOf(answer), signal);
  if (cookie !== undefined) return cookie;
  throw new RefusedError(
    `target ${context.name}: ${operation.title}: the answer has no session cookie (${sessionCookie}): check url and prefix`,
  );
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

import { RefusedError } from "#errors.ts";
import { administrationRoutes, dataRoutes, sessionCookie } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import { send } from "./request.ts";
import type { Context, Operation, Use } from "./request.ts";
import { formBody, jsonBody } from "#http/client.ts";
import type { Answer, RequestBody } from "#http/client.ts";

/** What the client logs in with: an account, or a session opened by somebody else, who will also end it. */
export type Credentials = Account | GivenSession;

interface GivenSession {
  /** The value of its cookie. */
  readonly session: string;
  /** Whose session it is. */
  readonly username?: string | undefined;
  /** Gets a new session once this one is no longer valid. */
  readonly renew?: (() => Promise<string>) | undefined;
}

interface Account {
  readonly username: string;
  readonly password: string;
}

/** A session, opened by the first request that needs it, and again if the service has ended it. */
export interface Session {
  /** For messages: `svc-rollcall`. */
  readonly caller: string;
  /** Opens a session now. */
  login(signal: AbortSignal): Promise<void>;
  /** Calls `send` with the session. After a 401, opens a new one and repeats once: the first attempt had no effect. */
  send<T>(operation: Operation, use: Use<T>, signal: AbortSignal): Promise<T>;
  /** Ends the session if this client opened it. */
  logout(signal: AbortSignal): Promise<void>;
}

/** How an account logs in. A session of either family is valid in both (0.4). */
export interface Login {
  readonly route: Route;
  readonly body: (account: Account) => RequestBody;
}

/** Family B's. */
const administrationLogin: Login = {
  route: administrationRoutes.login,
  body: ({ username, password }) => formBody({ username, password }),
};

/** Family A's (A.1). */
export const dataLogin: Login = {
  route: dataRoutes.login,
  body: ({ username, password }) => jsonBody({ username, password }),
};

/** @param logoutContext family B, which has the logout */
export function createSession(
  context: Context,
  credentials: Credentials,
  login: Login = administrationLogin,
  logoutContext: Context = context,
): Session {
  if ("session" in credentials) return givenSession(context, credentials);
  const { username } = credentials;
  let cookie: string | undefined;

  const open = async (signal: AbortSignal): Promise<string> =>
    (cookie = await cookieFrom(login, context, credentials, signal));

  return {
    caller: username,
    login: async (signal) => {
      await open(signal);
    },
    send: async (operation, use, signal) => {
      const opened = cookie ?? (await open(signal));
      try {
        return await send(context, { ...operation, cookie: opened }, use, signal);
      } catch (error) {
        if (!isUnauthorized(error)) throw error;
      }
      context.log(`target ${context.name}: ${operation.title}: the session has ended; logging in again`);
      const advice = `the session just opened by logging in as ${username} is not valid; is this a cluster without sticky sessions?`;
      const again = { ...operation, cookie: await open(signal), advice: { ...operation.advice, 401: advice } };
      return send(context, again, use, signal);
    },
    logout: async (signal) => {
      if (cookie === undefined) return;
      const operation = { title: "logout", route: administrationRoutes.logout, cookie };
      cookie = undefined;
      const once = { ...logoutContext, retries: { ...logoutContext.retries, attempts: 1 } };
      await send(once, operation, async () => undefined, signal).catch((error: unknown) => {
        if (!isUnauthorized(error)) throw error;
      });
    },
  };
}

function givenSession(
  context: Context,
  { session, username = "the owner of the session", renew }: GivenSession,
): Session {
  let value = session;
  const ended = "the session is no longer valid: the service was restarted or replaced; try again";
  return {
    caller: username,
    login: async () => undefined,
    send: async (operation, use, signal) => {
      // It may be restarted again before the answer.
      for (;;) {
        const used = value;
        const advice = { 401: ended, ...operation.advice };
        try {
          return await send(context, { ...operation, cookie: `${sessionCookie}=${used}`, advice }, use, signal);
        } catch (error) {
          if (!isUnauthorized(error) || renew === undefined) throw error;
          value = await renew();
          if (value === used) throw error;
        }
        context.log(`target ${context.name}: ${operation.title}: the service was restarted; continuing`);
      }
    },
    logout: async () => undefined,
  };
}

/** Logs in. Returns the `Cookie` header of the session. */
async function cookieFrom(
  { route, body }: Login,
  context: Context,
  account: Account,
  signal: AbortSignal,
): Promise<string> {
  const operation: Operation = {
    title: `login as ${account.username}`,
    route,
    body: body(account),
    advice: { 401: "check username and password" },
    secrets: [account.password],
  };
  const cookie = await send(context, operation, async (answer) => cookiesOf(answer), signal);
  if (cookie !== undefined) return cookie;
  throw new RefusedError(
    `target ${context.name}: ${operation.title}: the answer has no session cookie (${sessionCookie}): check url and prefix`,
  );
}

function isUnauthorized(error: unknown): boolean {
  return error instanceof RefusedError && error.status === 401;
}

/** The `Cookie` header for the cookies that a login's answer sets; undefined if none of them is the session's. */
function cookiesOf({ headers }: Answer): string | undefined {
  const pairs = [headers["set-cookie"] ?? []]
    .flat()
    .map((header) => (header.split(";", 1)[0] ?? "").trim())
    .filter((pair) => /^[^=]+=./.test(pair));
  return pairs.some((pair) => pair.startsWith(`${sessionCookie}=`)) ? pairs.join("; ") : undefined;
}

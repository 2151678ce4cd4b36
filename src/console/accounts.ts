import { createHmac, randomBytes } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { checkMay, isSame } from "#control/access.ts";
import { Refusal } from "#control/answers.ts";
import { may } from "#roles.ts";
import type { Action, Role } from "#roles.ts";
import type { HostAccounts, LoginResult } from "#service/host.ts";
import type { Via } from "#state/record.ts";
import { digestOf } from "#control/proof.ts";
import { lifetimes, mostSessions } from "#control/sessions.ts";
import { Throttle } from "#throttle.ts";
import { sessionCookie } from "#wire/routes.ts";

/** Who looks at the console. */
export interface Visitor {
  readonly name: string;
  readonly address: string;
  /** For the audit log: the subject at the OpenID provider, with its issuer; the target whose user they are. */
  readonly id?: string | undefined;
  /** The id of their account, of those of Rollcall and the OpenID provider. */
  readonly account?: string | undefined;
  /** The value of the session's cookie. */
  readonly token: string;
  /** Absent: they may not look at the syncs. */
  readonly role?: Role | undefined;
  readonly via: Via;
  /** Whether they may load data (0.6); absent: no. */
  readonly mayLoad?: boolean | undefined;
  /** The only target whose runs they may decide; absent: all of them. */
  readonly target?: string | undefined;
}

/** What a person signs in with, and whose account it is: the `value` of a choice. */
export interface Credentials {
  readonly username: string;
  readonly password: string;
  readonly of: string;
}

/** Whose accounts somebody may choose from: `with an account of {label}`. */
export interface Choice {
  readonly value: string;
  readonly label: string;
}

/** Accounts that can sign in, with their sessions. */
export interface Accounts {
  /** The name of the session's cookie, and whether it travels over TLS only. */
  readonly cookie: string;
  readonly secure: boolean;
  choices(): Promise<readonly Choice[]>;
  /** Who is signed in. @param isUse whether this counts as a use of the session, from which its idle time begins anew */
  find(request: FastifyRequest, isUse: boolean): Promise<Visitor | undefined>;
  /** @throws {RollcallError} when the account cannot be checked */
  signIn(request: FastifyRequest, credentials: Credentials): Promise<SignInResult>;
  /** @returns where the browser ends the session at the OpenID provider, too */
  signOut(visitor: Visitor): Promise<string | undefined>;
}

export type SignInResult = LoginResult | { readonly outcome: "disabled" };

/** Whether they may do something with the syncs of a target: by default, approve, reject, run and undo. */
export function mayDecide({ role, target }: Visitor, of: string, action: Action = "decide"): boolean {
  return may(role, action) && (target === undefined || target === of);
}

/** @throws {Refusal} 403: they may not, with the reason and who may */
export function checkMayDecide(visitor: Visitor, of: string, action: Action = "decide"): void {
  checkMay(visitor, action);
  if (!mayDecide(visitor, of, action))
    throw new Refusal(403, `${visitor.name} is a user of the target ${visitor.target}; this is about the target ${of}`);
}

/**
 * Accounts may do something at every target: an account of one target could give itself the others.
 * @param targets those of the configuration. @throws {Refusal} 403
 */
export function checkMayManage(visitor: Visitor, targets: readonly string[]): void {
  checkMay(visitor, "manage accounts");
  const { name, target } = visitor;
  if (target !== undefined && targets.some((each) => each !== target))
    throw new Refusal(
      403,
      `${name} is a user of the target ${target}, and accounts are for all targets; sign in with an account of Rollcall`,
    );
}

/** An account among all. */
export function accountOf({ via, id = "", name }: Pick<Visitor, "via" | "id" | "name">): string {
  return JSON.stringify([via, id, name]);
}

/** What every form of a session carries: a page of another site cannot know it. It says nothing about the session. */
export function formToken({ token }: Pick<Visitor, "token">): string {
  return createHmac("sha256", token).update("forms of the console").digest("base64url");
}

/** @param given the token of a form. @throws {Refusal} 403 */
export function checkToken(visitor: Visitor, given: string | null | undefined): void {
  if (!isSame(given ?? "", formToken(visitor)))
    throw new Refusal(403, "the form is not from this session; open the page again");
}

/**
 * The accounts of the service whose listener has the console, with the sessions of its interface.
 * @param options.viewers whether those without the administration privilege may look
 * @param options.secure whether the session's cookie travels over TLS only
 */
export function serviceAccounts(
  host: HostAccounts,
  { viewers, secure }: { readonly viewers: boolean; readonly secure: boolean },
): Accounts {
  return {
    cookie: sessionCookie,
    secure,
    choices: async () => [{ value: ":service", label: "the service" }],
    find: async (request, isUse) => {
      const found = await host.find(request, isUse);
      if (found === undefined) return undefined;
      const { isAdministrator, ...user } = found;
      return { ...user, via: "service", role: roleOf(isAdministrator, viewers) };
    },
    signIn: (request, credentials) => host.signIn(request, credentials),
    signOut: async ({ token }) => {
      await host.signOut(token);
      return undefined;
    },
  };
}

function roleOf(isAdministrator: boolean, viewers: boolean): Role | undefined {
  if (isAdministrator) return "administrator";
  return viewers ? "viewer" : undefined;
}

/** Checks a name and a password with a target. @throws {RollcallError} when it does not answer */
export type VerifyAccount = (credentials: {
  readonly username: string;
  readonly password: string;
  readonly target: string;
}) => Promise<"administrator" | "user" | "wrong">;

export interface TargetAccountsOptions {
  /** The targets of the configuration, as it is now. */
  readonly targets: () => readonly string[];
  readonly verify: VerifyAccount;
  /** Whether those without the administration privilege may look. */
  readonly viewers: boolean;
  /** The session's cookie travels over TLS only. */
  readonly secure: boolean;
  /** In epoch milliseconds; default: the clock. */
  readonly now?: () => number;
}

/** Slower than a target is, so that no stranger uses up what the target allows this machine. */
const logins = { attempts: 5, window: 300_000, lockout: 300_000 } as const;

interface Session extends Omit<Visitor, "token" | "address"> {
  readonly opened: number;
  lastUsed: number;
}

/** The accounts of the targets, for a daemon alone. Its sessions are in memory: a restart ends them. */
export function targetAccounts({ targets, verify, viewers, secure, now = Date.now }: TargetAccountsOptions): Accounts {
  const sessions = new Map<string, Session>();
  const throttle = new Throttle({ ...logins, isKnown: () => false, now: () => performance.now() });
  const cookie = "rollcall_console";

  return {
    cookie,
    secure,
    choices: async () => targets().map((target) => ({ value: target, label: `the target ${target}` })),
    find: async (request, isUse) => {
      const token = request.cookies[cookie];
      const session = token === undefined ? undefined : sessions.get(digestOf(token));
      if (token === undefined || session === undefined) return undefined;
      const time = now();
      if (hasEnded(session, time)) {
        sessions.delete(digestOf(token));
        return undefined;
      }
      if (isUse) session.lastUsed = time;
      return { ...session, token, address: addressOf(request) };
    },
    signIn: async (request, credentials) => {
      const [only] = targets();
      const { username, password, of } = credentials;
      const target = targets().includes(of) ? of : (only ?? "");
      const end = await throttle.begin(`${target} ${username}`, addressOf(request));
      if (typeof end !== "function") return { outcome: "throttled", retryAfter: end.retryAfter };
      let is: Awaited<ReturnType<VerifyAccount>>;
      try {
        is = await verify({ username, password, target });
      } catch (error) {
        await end("undecided");
        throw error;
      }
      if (is === "wrong") {
        await end("failed");
        return { outcome: "wrong" };
      }
      await end("succeeded");
      const token = randomBytes(32).toString("base64url");
      const isAdministrator = is === "administrator";
      const time = now();
      const session: Session = {
        name: username,
        via: "target",
        role: roleOf(isAdministrator, viewers),
        // The page says where that is done.
        mayLoad: isAdministrator,
        target,
        id: target,
        opened: time,
        lastUsed: time,
      };
      for (const [digest, each] of sessions) if (hasEnded(each, time)) sessions.delete(digest);
      const own = [...sessions].filter(([, each]) => accountOf(each) === accountOf(session));
      const surplus = own
        .sort(([, a], [, b]) => a.lastUsed - b.lastUsed)
        .slice(0, Math.max(0, own.length + 1 - mostSessions));
      for (const [digest] of surplus) sessions.delete(digest);
      sessions.set(digestOf(token), session);
      return { outcome: "opened", token };
    },
    signOut: async ({ token }) => {
      sessions.delete(digestOf(token));
      return undefined;
    },
  };
}

function hasEnded({ opened, lastUsed }: Session, time: number): boolean {
  return time - lastUsed >= lifetimes.idle || time - opened >= lifetimes.most;
}

function addressOf({ exchange }: FastifyRequest): string {
  return exchange.address;
}

import type { Logger } from "pino";
import type { Throttle } from "#throttle.ts";
import { quote } from "#text.ts";
import type { KnownAddresses } from "./known-addresses.ts";
import type { Sessions, SessionUser } from "./sessions.ts";

export interface Credentials {
  readonly username: string;
  readonly password: string;
  readonly remembered: boolean;
}

/** The result of a login. */
export type LoginResult =
  /** `token` is the value of the session's cookie. */
  | { readonly outcome: "opened"; readonly token: string }
  | { readonly outcome: "wrong" }
  /** `retryAfter` in seconds. */
  | { readonly outcome: "throttled"; readonly retryAfter: number };

/** What logins need. */
export interface LoginContext {
  readonly account: (name: string) => Promise<(SessionUser & { readonly passwordHash: string }) | undefined>;
  readonly verify: (hash: string, password: string) => Promise<boolean>;
  /** The hash of a password nobody has. Logins of unknown users are checked against it, to take the same time (0.8). */
  readonly nobodysHash: string;
  readonly throttle: Throttle;
  readonly known: Pick<KnownAddresses, "add">;
  readonly sessions: Pick<Sessions, "open">;
  readonly log: Logger;
}

/** Logs in from an address. @throws only when the store fails */
export async function logIn(context: LoginContext, credentials: Credentials, address: string): Promise<LoginResult> {
  const { throttle, known, sessions, log } = context;
  const { username: name, remembered } = credentials;
  // Anybody may send any text as the name.
  const details = { name: name.slice(0, 80).toWellFormed(), address };
  const end = await throttle.begin(name, address);
  if (typeof end !== "function") {
    const { retryAfter } = end;
    log.warn(details, `login of ${quote(name)} from ${address} refused for ${retryAfter} s: too many failed`);
    return { outcome: "throttled", retryAfter };
  }
  let user: SessionUser | undefined;
  try {
    user = await verified(context, credentials);
  } catch (error) {
    await end("undecided");
    throw error;
  }
  if (user === undefined) {
    await end("failed");
    log.warn(details, `login of ${quote(name)} from ${address} failed: wrong name or password`);
    return { outcome: "wrong" };
  }
  await end("succeeded");
  await known.add(user.name, address);
  return { outcome: "opened", token: await sessions.open(user, { remembered }) };
}

/** The user, when the password is right. */
async function verified(
  { account, verify, nobodysHash }: LoginContext,
  { username, password }: Credentials,
): Promise<SessionUser | undefined> {
  const user = await account(username);
  const right = await verify(user?.passwordHash ?? nobodysHash, password);
  return right ? user : undefined;
}

import type { Logger } from "pino";
import { quote } from "#text.ts";
import type { Throttle } from "#http/throttle.ts";
import type { Sessions, SessionUser } from "./sessions.ts";
import type { KnownAddresses } from "./known-addresses.ts";

export interface Credentials {
  readonly username: string;
  readonly password: string;
  readonly remembered: boolean;
}

/** The result of a login. */
export type LoginResult =
  | { readonly outcome: "opened"; readonly token: string }
  | { readonly outcome: "wrong" }
  /** `retryAfter` in seconds. */
  | { readonly outcome: "throttled"; readonly retryAfter: number };

/** Logs in from an address. @throws only when the store fails */
export type Login = (credentials: Credentials, address: string) => Promise<LoginResult>;

export interface LoginOptions {
  readonly account: (name: string) => Promise<(SessionUser & { readonly passwordHash: string }) | undefined>;
  readonly verify: (hash: string, password: string) => Promise<boolean>;
  /** The hash of a password nobody has. Logins of unknown users are checked against it, to take the same time (0.8). */
  readonly nobodysHash: string;
  readonly throttle: Throttle;
  readonly known: KnownAddresses;
  readonly sessions: Sessions;
  readonly log: Logger;
}

export function createLogin({ account, verify, nobodysHash, throttle, known, sessions, log }: LoginOptions): Login {
  /** The user, when the password is right. */
  async function verified({ username, password }: Credentials): Promise<SessionUser | undefined> {
    const user = await account(username);
    const right = await verify(user?.passwordHash ?? nobodysHash, password);
    return right ? user : undefined;
  }

  return async (credentials, address) => {
    const attempt = await throttle.begin(credentials.username, address);
    const { username: name } = credentials;
    if ("retryAfter" in attempt) {
      const { retryAfter } = attempt;
      log.warn(
        { name: shortened(name), address },
        `login of ${quote(name)} from ${address} refused for ${retryAfter} s: too many failed`,
      );
      return { outcome: "throttled", retryAfter };
    }
    let user: SessionUser | undefined;
    try {
      user = await verified(credentials);
    } catch (error) {
      await attempt.undecided();
      throw error;
    }
    if (user === undefined) {
      await attempt.failed();
      log.warn(
        { name: shortened(name), address },
        `login of ${quote(name)} from ${address} failed: wrong name or password`,
      );
      return { outcome: "wrong" };
    }
    await attempt.succeeded();
    await known.add(user.name, address);
    return { outcome: "opened", token: await sessions.open(user, { remembered: credentials.remembered }) };
  };
}

/** Whoever tries may send any text as the name. */
function shortened(name: string): string {
  return name.slice(0, 80).toWellFormed();
}

import { createCipheriv, createDecipheriv, hash, randomBytes, randomUUID } from "node:crypto";
import { InputError } from "#errors.ts";
import type { Access, AccessToken, Account, Session } from "#state/access.ts";
import type { Actor } from "#state/record.ts";
import type { AccountsContext } from "./accounts.ts";
import { digestOf, nameOf, proofOf } from "./proof.ts";

/** How long a session lasts without a request, and at most, in milliseconds. */
export const lifetimes = { idle: 3 * 3_600_000, most: 12 * 3_600_000 } as const;

/** The most sessions of an account at a time. Of more, those end that have not been used for the longest. */
export const mostSessions = 100;

/** The most tokens of an account. */
const mostTokens = 50;

/** How long tokens are valid, in days: of the provider's people, who cannot be asked whether they are still there, not as long. */
export const tokenDays = { account: 365, oidc: 30 } as const;

/** The last use of a session or a token is written at most this often, in milliseconds. */
const writeInterval = 60_000;

/** How long a logout of the provider is remembered, in milliseconds: a second one like it is refused. */
const logoutsRemembered = 600_000;

/** Somebody who has proved who they are. */
export interface Found<Proof> {
  readonly account: Account;
  readonly proof: Proof;
}

/** The console's sessions, and the tokens of the command line. Both are known by digests, which are useless to a reader. */
export class Sessions {
  readonly #context: AccountsContext;
  readonly #issuer: string | undefined;
  /** By digest: the last use, in epoch milliseconds, until it is written. */
  readonly #used = new Map<string, number>();

  /** @param issuer of the OpenID provider of the configuration: people of any other, and of none, are nobody */
  constructor(context: AccountsContext, issuer?: string) {
    this.#context = context;
    this.#issuer = issuer;
  }

  /** Opens a session. @returns its token, for the cookie */
  async open(account: string, provider?: ProviderSession): Promise<string> {
    const token = randomBytes(32).toString("base64url");
    const at = timestamp(this.#now());
    const session: Session = {
      digest: digestOf(token),
      account,
      opened: at,
      used: at,
      ...(provider !== undefined && { provider: sealedIn(token, provider) }),
    };
    await this.#context.access.change((access) => {
      const lasting = access.sessions.filter((each) => !this.#hasEnded(each));
      const own = lasting.filter((each) => each.account === account).sort((a, b) => a.used.localeCompare(b.used));
      const surplus = new Set(own.slice(0, Math.max(0, own.length + 1 - mostSessions)));
      return [{ ...access, sessions: [...lasting.filter((each) => !surplus.has(each)), session] }, undefined];
    });
    return token;
  }

  /** Whose session it is: with their account as it is now. @param isUse whether its idle time begins anew */
  async find(token: string, isUse: boolean): Promise<Found<Session> | undefined> {
    const digest = digestOf(token);
    const access = await this.#context.access.read();
    const session = access.sessions.find((each) => each.digest === digest);
    const account = access.accounts.find(({ id }) => id === session?.account);
    if (session === undefined || !this.#maySignIn(account) || this.#hasEnded(session)) return undefined;
    if (isUse)
      await this.#use(session.digest, session.used, (used) => (all) => ({
        ...all,
        sessions: all.sessions.map((each) => (each.digest === digest ? { ...each, used } : each)),
      }));
    return { account, proof: session };
  }

  /** Replaces what a session knows of the provider. */
  async renew(token: string, provider: ProviderSession): Promise<void> {
    const digest = digestOf(token);
    await this.#change((access) => ({
      ...access,
      sessions: access.sessions.map((each) =>
        each.digest === digest ? { ...each, provider: sealedIn(token, provider) } : each,
      ),
    }));
  }

  async end(token: string): Promise<void> {
    const digest = digestOf(token);
    await this.#change((access) => ({ ...access, sessions: access.sessions.filter((each) => each.digest !== digest) }));
  }

  /** Ends a session that the provider has refused to go on with, and revokes the tokens of its owner, whom nobody vouches for any more. */
  async endRefused(token: string, owner: Account): Promise<void> {
    const digest = digestOf(token);
    const revoked = await this.#context.access.change((access) => {
      const [others, own] = withoutTokensOf(access, new Set([owner.id]));
      return [{ ...others, sessions: access.sessions.filter((each) => each.digest !== digest) }, own];
    });
    await this.#reportRevoked(revoked);
  }

  /**
   * Ends the sessions that a logout of the provider is about: one of its sessions, or all of a person. Revokes the tokens of
   * those people.
   * @returns how many sessions have ended
   * @throws {InputError} that logout was taken before
   */
  async endOfProvider(logout: {
    readonly id: string;
    readonly issuer: string;
    readonly sub?: string | undefined;
    readonly sid?: string | undefined;
  }): Promise<number> {
    const { id, issuer, sub, sid } = logout;
    const now = this.#now();
    const { ended, revoked } = await this.#context.access.change((access) => {
      const known = Object.entries(access.logouts).filter(([, until]) => Date.parse(until) > now);
      if (known.some(([each]) => each === id)) throw new InputError("this logout was taken before");
      const people = new Set(
        access.accounts
          .filter(({ subject }) => subject?.issuer === issuer && (sub === undefined || subject.sub === sub))
          .map((each) => each.id),
      );
      // A session that the provider gave no id may be the one that is meant: only its person is known.
      const isMeant = ({ account, provider }: Session): boolean =>
        provider !== undefined &&
        people.has(account) &&
        (sid === undefined || provider.sid === sid || (sub !== undefined && provider.sid === undefined));
      const [meant, sessions] = [access.sessions.filter(isMeant), access.sessions.filter((each) => !isMeant(each))];
      const logouts = Object.fromEntries([...known, [id, timestamp(now + logoutsRemembered)]]);
      // A logout of a session alone says by that session whose it is.
      const owners = sid === undefined ? people : new Set(meant.map(({ account }) => account));
      const [others, own] = withoutTokensOf(access, owners);
      return [
        { ...others, sessions, logouts },
        { ended: meant.length, revoked: own },
      ];
    });
    await this.#reportRevoked(revoked);
    return ended;
  }

  async #reportRevoked(tokens: readonly ListedToken[]): Promise<void> {
    const by = { name: "rollcall", from: "OpenID provider" };
    for (const { name, owner } of tokens)
      await this.#context.audit.append({ event: "token", by, change: "revoked", account: owner, token: name });
  }

  /**
   * Makes a token. It begins with `rollcall_`, by which scanners of secrets know it.
   * @param owner how they proved who they are: of a token, nobody makes another
   * @throws {InputError} the name does not do, or there are too many
   */
  async createToken(owner: Account, name: string, by: Actor): Promise<string> {
    const called = name.trim();
    if (called === "" || called.length > 80 || /\p{Cc}/u.test(called))
      throw new InputError("expected a name for the token, of 1 to 80 characters");
    const secret = `rollcall_${randomBytes(32).toString("base64url")}`;
    const now = this.#now();
    const token: AccessToken = {
      id: randomUUID(),
      digest: digestOf(secret),
      account: owner.id,
      name: called,
      created: timestamp(now),
      expires: timestamp(now + tokenDays[owner.via] * 86_400_000),
    };
    await this.#context.audit.append({ event: "token", by, change: "created", account: owner.name, token: called });
    await this.#context.access.change((access) => {
      const lasting = access.tokens.filter(({ expires }) => Date.parse(expires) > now);
      if (lasting.filter(({ account }) => account === owner.id).length >= mostTokens)
        throw new InputError(`${owner.name} has ${mostTokens} access tokens already: revoke one first`);
      return [{ ...access, tokens: [...lasting, token] }, undefined];
    });
    return secret;
  }

  /** Whose token it is, with their account as it is now. */
  async findToken(secret: string): Promise<Found<AccessToken> | undefined> {
    if (!secret.startsWith("rollcall_")) return undefined;
    const digest = digestOf(secret);
    const access = await this.#context.access.read();
    const token = access.tokens.find((each) => each.digest === digest);
    const account = access.accounts.find(({ id }) => id === token?.account);
    if (token === undefined || !this.#maySignIn(account)) return undefined;
    if (Date.parse(token.expires) <= this.#now()) return undefined;
    await this.#use(token.digest, token.used ?? token.created, (used) => (all) => ({
      ...all,
      tokens: all.tokens.map((each) => (each.digest === digest ? { ...each, used } : each)),
    }));
    return { account, proof: token };
  }

  /** The answer to a challenge of whoever holds a token. @param name of the token: `nameOf`. @returns undefined: there is none like it */
  async prove(name: string, challenge: string): Promise<string | undefined> {
    const { tokens } = await this.#context.access.read();
    const token = tokens.find(({ digest }) => nameOf(digest) === name);
    return token && proofOf(token.digest, challenge);
  }

  /** Tokens of an account, or all; without their digests, the newest first. */
  async tokens(account?: string): Promise<ListedToken[]> {
    return listedTokens(await this.#context.access.read(), account);
  }

  /**
   * @param key its id, or the beginning of it
   * @param own the account that may only revoke its own; absent: any
   * @throws {InputError} there is no such token
   */
  async revoke(key: string, by: Actor, own?: string): Promise<ListedToken> {
    const tokens = (await this.tokens(own)).filter(({ id }) => key !== "" && id.startsWith(key));
    const [token, ...others] = tokens;
    if (token === undefined) throw new InputError(`there is no access token ${key}`);
    if (others.length > 0) throw new InputError(`several access tokens begin with ${key}: give more of the id`);
    await this.#context.audit.append({
      event: "token",
      by,
      change: "revoked",
      account: token.owner,
      token: token.name,
    });
    await this.#change((access) => ({ ...access, tokens: access.tokens.filter(({ id }) => id !== token.id) }));
    return token;
  }

  async #use(digest: string, written: string, change: (used: string) => (access: Access) => Access): Promise<void> {
    const now = this.#now();
    this.#used.set(digest, now);
    if (now - Date.parse(written) < writeInterval) return;
    await this.#change(change(timestamp(now)));
    this.#used.delete(digest);
  }

  #change(work: (access: Access) => Access): Promise<void> {
    return this.#context.access.change((access) => [work(access), undefined]);
  }

  #maySignIn(account: Account | undefined): account is Account {
    if (account === undefined || account.disabled) return false;
    return account.subject === undefined || account.subject.issuer === this.#issuer;
  }

  #hasEnded({ digest, opened, used }: Session): boolean {
    const now = this.#now();
    const lastUsed = Math.max(Date.parse(used), this.#used.get(digest) ?? 0);
    return now - lastUsed >= lifetimes.idle || now - Date.parse(opened) >= lifetimes.most;
  }

  #now(): number {
    return this.#context.now?.() ?? Date.now();
  }
}

/** A token as its owner and administrators may see it. */
export interface ListedToken extends Omit<AccessToken, "digest"> {
  /** The name of its account. */
  readonly owner: string;
}

export function listedTokens({ tokens, accounts }: Access, account?: string): ListedToken[] {
  return tokens
    .filter((each) => account === undefined || each.account === account)
    .map(({ digest: _digest, ...token }): ListedToken =>
      Object.assign(token, { owner: accounts.find(({ id }) => id === token.account)?.name ?? "" }),
    )
    .sort((one, other) => other.created.localeCompare(one.created));
}

/** @returns the rest, and the tokens of these accounts */
function withoutTokensOf(access: Access, accounts: ReadonlySet<string>): [Access, ListedToken[]] {
  const own = listedTokens(access).filter(({ account }) => accounts.has(account));
  return [{ ...access, tokens: access.tokens.filter(({ account }) => !accounts.has(account)) }, own];
}

/** What a session knows of the provider's session. */
export interface ProviderSession {
  /** When to ask the provider again, in epoch milliseconds. */
  readonly until: number;
  readonly sid?: string | undefined;
  /** For the provider: what to ask with, and whose session to end there. Readable only with the session's own token. */
  readonly idToken: string;
  readonly refreshToken?: string | undefined;
}

function sealedIn(token: string, { until, sid, ...secrets }: ProviderSession): NonNullable<Session["provider"]> {
  const iv = randomBytes(12);
  const cipher = createCipheriv("aes-256-gcm", keyOf(token), iv);
  const text = Buffer.concat([cipher.update(JSON.stringify(secrets)), cipher.final()]);
  const sealed = Buffer.concat([iv, cipher.getAuthTag(), text]).toString("base64");
  return { until: timestamp(until), ...(sid !== undefined && { sid }), sealed };
}

/** What a session knows of the provider. @throws when it was sealed with another token */
export function unsealed(token: string, { until, sid, sealed }: NonNullable<Session["provider"]>): ProviderSession {
  const bytes = Buffer.from(sealed, "base64");
  const decipher = createDecipheriv("aes-256-gcm", keyOf(token), bytes.subarray(0, 12));
  decipher.setAuthTag(bytes.subarray(12, 28));
  const text = Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString();
  return { until: Date.parse(until), sid, ...(JSON.parse(text) as Pick<ProviderSession, "idToken" | "refreshToken">) };
}

/** The digest that is stored is another one, from which this key does not follow. */
function keyOf(token: string): Buffer {
  return hash("sha256", `seal ${token}`, "buffer");
}

function timestamp(time: number): string {
  return new Date(time).toISOString();
}

import type { FastifyReply, FastifyRequest } from "fastify";
import { actorFor } from "#state/access.ts";
import type { Accounts as LocalAccounts } from "#control/accounts.ts";
import { unsealed } from "#control/sessions.ts";
import type { Found, ProviderSession, Sessions } from "#control/sessions.ts";
import { InputError, UnavailableError } from "#errors.ts";
import { createKeyedQueue } from "#queue.ts";
import type { Session } from "#state/access.ts";
import type { Actor } from "#state/record.ts";
import type { AuditLog, Lease } from "#state/store.ts";
import type { Accounts, Choice, Credentials, SignInResult, Visitor } from "./accounts.ts";
import type { Oidc, Vouched } from "./oidc.ts";

export interface OwnAccountsOptions {
  readonly accounts: LocalAccounts;
  readonly sessions: Sessions;
  /** Where processes share the sessions, one at a time asks the provider about one. */
  readonly lease: Pick<Lease, "whileClaimed">;
  readonly audit: Pick<AuditLog, "append">;
  /** Absent: nobody signs in with a provider. */
  readonly oidc?: Oidc | undefined;
  /** The session's cookie travels over TLS only. */
  readonly secure: boolean;
}

/** The accounts of Rollcall, and the people of the OpenID provider. */
export class OwnAccounts implements Accounts {
  readonly cookie: string;
  readonly secure: boolean;
  readonly options: OwnAccountsOptions;
  readonly #renewals = createKeyedQueue();

  constructor(options: OwnAccountsOptions) {
    this.options = options;
    this.secure = options.secure;
    // With this beginning, no other site of the domain can set it.
    this.cookie = options.secure ? "__Host-rollcall" : "rollcall_session";
  }

  async choices(): Promise<readonly Choice[]> {
    const count = await this.options.accounts.count();
    return count === 0 ? [] : [{ value: ":rollcall", label: "Rollcall" }];
  }

  async find(request: FastifyRequest, isUse: boolean): Promise<Visitor | undefined> {
    const token = request.cookies[this.cookie];
    if (token === undefined) return undefined;
    const found = await this.#findCurrent(token, isUse);
    if (found === undefined) return undefined;
    const { account } = found;
    const { name, via, id } = actorFor(account, "");
    const { address } = request.exchange;
    return { name, via: via ?? account.via, id, token, role: account.role, account: account.id, address };
  }

  async signIn(request: FastifyRequest, { username, password }: Credentials): Promise<SignInResult> {
    const { accounts, sessions } = this.options;
    const { address } = request.exchange;
    const result = await accounts.signIn({ name: username, password }, address);
    if (result.outcome !== "right") return result;
    await accounts.signedIn(result.account, address);
    return { outcome: "opened", token: await sessions.open(result.account.id) };
  }

  /** Opens a session for somebody whom the provider has vouched for. @throws {InputError} they are disabled here */
  async open({ subject, name, role, session }: Vouched, address: string): Promise<string> {
    const { accounts, sessions } = this.options;
    const account = await accounts.vouched({ subject, name, role });
    await accounts.signedIn(account, address);
    return sessions.open(account.id, session);
  }

  async signOut({ token }: Visitor): Promise<string | undefined> {
    const { sessions, oidc } = this.options;
    const found = await sessions.find(token, false);
    await sessions.end(token);
    const provider = found?.proof.provider;
    return provider === undefined ? undefined : oidc?.logoutUrl(unsealed(token, provider));
  }

  /** The session, if it goes on: the provider is asked when it is time. */
  async #findCurrent(token: string, isUse: boolean): Promise<Found<Session> | undefined> {
    const { sessions } = this.options;
    const found = await sessions.find(token, isUse);
    if (found === undefined || !this.#isDue(found)) return found;
    const { digest } = found.proof;
    // A refresh token is good for one use: the second request finds what the first one got.
    return this.#renewals(digest, () =>
      this.options.lease.whileClaimed(`session ${digest}`, async () => {
        const current = await sessions.find(token, isUse);
        if (current === undefined || !this.#isDue(current)) return current;
        return (await this.#renew(token, current)) ? sessions.find(token, isUse) : undefined;
      }),
    );
  }

  #isDue({ proof: { provider } }: Found<Session>): boolean {
    return provider !== undefined && Date.parse(provider.until) <= Date.now();
  }

  /** @returns whether the session goes on */
  async #renew(token: string, { account, proof }: Found<Session>): Promise<boolean> {
    const { oidc, sessions, accounts } = this.options;
    if (proof.provider === undefined) return false;
    const before: ProviderSession = unsealed(token, proof.provider);
    try {
      const vouched = await oidc?.renew(before, account.subject?.sub ?? "");
      if (vouched !== undefined) {
        await accounts.vouched(vouched);
        await sessions.renew(token, vouched.session);
        return true;
      }
    } catch (error) {
      // Nobody knows whether the session goes on: it does not, until the provider answers.
      if (error instanceof UnavailableError) return false;
      if (!(error instanceof InputError)) throw error;
    }
    // Without a refresh token, the provider was not asked.
    if (before.refreshToken === undefined) await sessions.end(token);
    else await sessions.endRefused(token, account);
    return false;
  }
}

/** All accounts that can sign in to this console: those of Rollcall and the provider, and those of the service or the targets. */
export class AllAccounts {
  readonly own: OwnAccounts;
  readonly #all: readonly Accounts[];

  /** @param foreign those of the service, or of the targets */
  constructor(own: OwnAccounts, foreign: Accounts) {
    this.own = own;
    this.#all = [own, foreign];
  }

  async choices(): Promise<readonly Choice[]> {
    return (await Promise.all(this.#all.map((each) => each.choices()))).flat();
  }

  async find(request: FastifyRequest, isUse: boolean): Promise<Visitor | undefined> {
    for (const each of this.#all) {
      const found = await each.find(request, isUse);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Signs in with one of them. A session that the browser has ends. @throws {RollcallError} when the account cannot be checked */
  async signIn(request: FastifyRequest, reply: FastifyReply, credentials: Credentials): Promise<SignInResult> {
    const [first, ...others] = await Promise.all(
      this.#all.map(async (accounts) => ({ accounts, choices: await accounts.choices() })),
    );
    const offered = [first, ...others].filter((each) => each !== undefined && each.choices.length > 0);
    const chosen = offered.find((each) => each?.choices.some(({ value }) => value === credentials.of)) ?? offered[0];
    if (chosen === undefined) return { outcome: "wrong" };
    const { accounts, choices } = chosen;
    const of = choices.some(({ value }) => value === credentials.of) ? credentials.of : (choices[0]?.value ?? "");
    const result = await accounts.signIn(request, { ...credentials, of });
    const { address } = request.exchange;
    if (accounts !== this.own) {
      const { audit } = this.own.options;
      const by: Actor = {
        name: credentials.username,
        from: address,
        ...(of.startsWith(":") ? { via: "service" } : { via: "target", id: of }),
      };
      if (result.outcome === "opened") await audit.append({ event: "signed in", by });
      if (result.outcome === "throttled")
        await this.own.options.accounts.reportThrottled(credentials.username, address, result.retryAfter);
    }
    if (result.outcome === "opened") await this.keep(request, reply, accounts, result.token);
    return result;
  }

  /** Gives the browser the cookie of a new session, instead of every one it has. */
  async keep(request: FastifyRequest, reply: FastifyReply, accounts: Accounts, token: string): Promise<void> {
    const before = await this.find(request, false);
    if (before !== undefined) await this.#of(before)?.signOut(before);
    this.#forget(request, reply, accounts.cookie);
    // Lax: a link in a mail must find the session.
    reply.setCookie(accounts.cookie, token, { path: "/", httpOnly: true, sameSite: "lax", secure: accounts.secure });
  }

  /** @returns where the browser ends the session at the OpenID provider, too */
  async signOut(visitor: Visitor, request: FastifyRequest, reply: FastifyReply): Promise<string | undefined> {
    this.#forget(request, reply);
    return this.#of(visitor)?.signOut(visitor);
  }

  #of({ account }: Visitor): Accounts | undefined {
    return account === undefined ? this.#all.find((each) => each !== this.own) : this.own;
  }

  /** Takes the cookies of sessions from the browser. @param but the name of one that is replaced anyway */
  #forget({ cookies }: FastifyRequest, reply: FastifyReply, but?: string): void {
    for (const { cookie, secure } of this.#all)
      if (cookie !== but && cookies[cookie] !== undefined) reply.clearCookie(cookie, { path: "/", secure });
  }
}

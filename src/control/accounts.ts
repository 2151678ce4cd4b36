import { randomBytes, randomUUID } from "node:crypto";
import type { z } from "zod";
import { InputError } from "#errors.ts";
import type { Throttle, ThrottleOptions } from "#throttle.ts";
import { hashOfNobody, hashPassword, verifyPassword } from "#passwords.ts";
import type { Role } from "#roles.ts";
import { actorFor } from "#state/access.ts";
import type { Access, Account } from "#state/access.ts";
import type { AccountChange, AuditEntry } from "#state/audit/entry.ts";
import type { Actor } from "#state/record.ts";
import type { AccessStore, AuditLog } from "#state/store.ts";
import { nfc, pluralize, withoutCase } from "#text.ts";
import { principalName } from "#values.ts";

/** Where accounts are, and who is told of changes. */
export interface AccountsContext {
  readonly access: AccessStore;
  readonly audit: Pick<AuditLog, "append">;
  throttle(options: Omit<ThrottleOptions, "now">): Throttle;
  /** In epoch milliseconds; default: the clock. */
  readonly now?: () => number;
}

/** An account as everybody may see it who manages them: without its password. */
export interface ListedAccount extends Omit<Account, "password"> {
  readonly tokens: number;
}

/** What signing in comes to. `retryAfter` in seconds. */
export type SignIn =
  | { readonly outcome: "right"; readonly account: Account }
  | { readonly outcome: "wrong" }
  | { readonly outcome: "disabled" }
  | { readonly outcome: "throttled"; readonly retryAfter: number };

/** As many wrong passwords of a name from an address, and how long then none is tried; in milliseconds. */
const logins = { attempts: 5, window: 300_000, lockout: 300_000 } as const;

const lengths = { shortest: 12, longest: 1000 } as const;

/** How many addresses are remembered that have signed in: others who guess lock nobody out there. */
const knownCapacity = 10_000;

/** The accounts of Rollcall, and the people of the OpenID provider. Every change is in the audit log. */
export class Accounts {
  readonly context: AccountsContext;
  readonly #throttle: Throttle;
  readonly #nobody = hashOfNobody();
  /** `address name` */
  readonly #known = new Set<string>();
  /** By address: until when a refusal is in the audit log already. */
  readonly #told = new Map<string, number>();

  constructor(context: AccountsContext) {
    this.context = context;
    const isKnown = (name: string, address: string): boolean => this.#known.has(`${address} ${name}`);
    this.#throttle = context.throttle({ ...logins, isKnown });
  }

  now(): number {
    return this.context.now?.() ?? Date.now();
  }

  async list(): Promise<ListedAccount[]> {
    return listed(await this.context.access.read());
  }

  /** The number of local accounts that can sign in. */
  async count(): Promise<number> {
    const { accounts } = await this.context.access.read();
    return accounts.filter(({ via, disabled }) => via === "account" && disabled === undefined).length;
  }

  async find(id: string): Promise<Account | undefined> {
    return (await this.context.access.read()).accounts.find((each) => each.id === id);
  }

  /** @throws {InputError} the name or the password does not do, or the name is taken */
  async add(
    given: { readonly name: string; readonly role: Role; readonly password: string },
    by: Actor,
  ): Promise<void> {
    const name = parsed(principalName, given.name, "the name");
    checkPassword(given.password, name);
    const checkFree = (access: Access): void => {
      if (localOf(access, name) !== undefined) throw new InputError(`there is an account ${name} already`);
    };
    checkFree(await this.context.access.read());
    const hash = await hashPassword(nfc(given.password));
    await this.#record({ event: "account", by, change: "added", account: name, role: given.role });
    await this.context.access.change((access) => {
      checkFree(access);
      const created = this.#timestamp();
      const account = { id: randomUUID(), via: "account", name, role: given.role, password: hash, created } as const;
      return [{ ...access, accounts: [...access.accounts, account] }, undefined];
    });
  }

  /**
   * Changes the role, the password, or whether it may sign in. A new password and disabling end its sessions; disabling also
   * stops its tokens.
   * @param key its name, or its id
   * @param kept the digest of the session that goes on: of whoever changes their own password
   * @throws {InputError} there is no such account, or its role is the provider's
   */
  async change(
    key: string,
    given: {
      readonly role?: Role | undefined;
      readonly disabled?: boolean | undefined;
      readonly password?: string | undefined;
    },
    by: Actor,
    kept?: string,
  ): Promise<Account> {
    const { role, disabled, password } = given;
    const found = chosen(await this.context.access.read(), key);
    if (found.via !== "account" && (role !== undefined || password !== undefined))
      throw new InputError(
        `the role and the password of ${found.name} come from the OpenID provider: change them there`,
      );
    if (password !== undefined) checkPassword(password, found.name);
    const hash = password === undefined ? undefined : await hashPassword(nfc(password));
    const changes: AccountChange[] = [];
    if (role !== undefined && role !== found.role) changes.push("role");
    if (disabled !== undefined) changes.push(disabled ? "disabled" : "enabled");
    if (hash !== undefined) changes.push("password");
    for (const change of changes)
      await this.#record({ event: "account", by, change, account: found.name, ...(change === "role" && { role }) });
    return this.context.access.change((access) => {
      const { disabled: wasDisabled, ...before } = chosen(access, found.id);
      const isDisabled = disabled ?? wasDisabled === true;
      const after: Account = {
        ...before,
        ...(role !== undefined && { role }),
        ...(hash !== undefined && { password: hash }),
        ...(isDisabled && { disabled: true }),
      };
      const endsSessions = hash !== undefined || isDisabled;
      return [
        {
          ...access,
          accounts: access.accounts.map((each) => (each.id === found.id ? after : each)),
          sessions: access.sessions.filter(
            ({ account, digest }) => !endsSessions || account !== found.id || digest === kept,
          ),
        },
        after,
      ];
    });
  }

  /** With its sessions and tokens. @param key its name, or its id. @throws {InputError} there is no such account */
  async remove(key: string, by: Actor): Promise<void> {
    const { id, name } = chosen(await this.context.access.read(), key);
    await this.#record({ event: "account", by, change: "removed", account: name });
    await this.context.access.change((access) => [
      {
        ...access,
        accounts: access.accounts.filter((each) => each.id !== id),
        sessions: access.sessions.filter(({ account }) => account !== id),
        tokens: access.tokens.filter(({ account }) => account !== id),
      },
      undefined,
    ]);
  }

  /** Checks a name and a password. A name that is unknown takes as long as a wrong password. */
  async signIn(
    { name, password }: { readonly name: string; readonly password: string },
    address: string,
  ): Promise<SignIn> {
    const known = withoutCase(name);
    // Users of a service that has its tables in the same database are others.
    const end = await this.#throttle.begin(`account ${known}`, address);
    if (typeof end !== "function") {
      await this.reportThrottled(name, address, end.retryAfter);
      return { outcome: "throttled", retryAfter: end.retryAfter };
    }
    try {
      const account = localOf(await this.context.access.read(), name);
      const isRight = await verifyPassword(account?.password ?? this.#nobody, nfc(password));
      if (account === undefined || !isRight) {
        await end("failed");
        return { outcome: "wrong" };
      }
      await end("succeeded");
      if (account.disabled) return { outcome: "disabled" };
      if (this.#known.size >= knownCapacity) this.#known.clear();
      this.#known.add(`${address} ${known}`);
      return { outcome: "right", account };
    } catch (error) {
      await end("undecided");
      throw error;
    }
  }

  /** Changes one's own password. @param kept as for `change`. @throws {InputError} the current one is wrong, or the new one does not do */
  async changeOwn(
    id: string,
    { current, password }: { readonly current: string; readonly password: string },
    { by, address, kept }: { readonly by: Actor; readonly address: string; readonly kept?: string | undefined },
  ): Promise<void> {
    const account = await this.find(id);
    if (account?.via !== "account") throw new InputError("only an account of Rollcall has a password here");
    const result = await this.signIn({ name: account.name, password: current }, address);
    if (result.outcome === "throttled")
      throw new InputError(`too many wrong passwords; try again in ${pluralize(result.retryAfter, "second")}`);
    if (result.outcome !== "right") throw new InputError("the current password is wrong");
    await this.change(id, { password }, by, kept);
  }

  /**
   * The person whom the provider vouches for, with the role that its groups give now.
   * @throws {InputError} they are disabled here
   */
  async vouched(given: {
    readonly subject: NonNullable<Account["subject"]>;
    readonly name: string;
    readonly role?: Role | undefined;
  }): Promise<Account> {
    const { subject, name, role } = given;
    return this.context.access.change((access) => {
      const isThem = (each: Account): boolean =>
        each.subject?.issuer === subject.issuer && each.subject.sub === subject.sub;
      const before = access.accounts.find(isThem);
      if (before?.disabled)
        throw new InputError(`${name} is disabled in Rollcall; an administrator can enable them again`);
      if (before !== undefined && before.name === name && before.role === role) return [access, before];
      // A person without a role, now or before, is not stored.
      const created = this.#timestamp();
      const { role: _, ...rest } = before ?? { id: randomUUID(), via: "oidc" as const, subject, created };
      const after: Account = { ...rest, name, ...(role !== undefined && { role }) };
      if (before === undefined)
        return [role === undefined ? access : { ...access, accounts: [...access.accounts, after] }, after];
      return [{ ...access, accounts: access.accounts.map((each) => (each === before ? after : each)) }, after];
    });
  }

  /** Records that somebody has signed in. */
  async signedIn(account: Account, address: string): Promise<void> {
    await this.#record({ event: "signed in", by: actorFor(account, address) });
    const signedIn = this.#timestamp();
    await this.context.access.change((access) => [
      { ...access, accounts: access.accounts.map((each) => (each.id === account.id ? { ...each, signedIn } : each)) },
      undefined,
    ]);
  }

  /** Records that nobody may try a name from an address for a while: once, however often they try. */
  async reportThrottled(name: string, address: string, retryAfter: number): Promise<void> {
    const now = performance.now();
    if ((this.#told.get(address) ?? -Infinity) > now) return;
    if (this.#told.size >= knownCapacity) this.#told.clear();
    this.#told.set(address, now + logins.lockout);
    // Anybody may send any text as a name.
    const by = { name: name.slice(0, 80).toWellFormed(), from: address };
    await this.#record({ event: "sign-in blocked", by, seconds: retryAfter });
  }

  #record(entry: AuditEntry): Promise<void> {
    return this.context.audit.append(entry);
  }

  #timestamp(): string {
    return new Date(this.now()).toISOString();
  }
}

/** 120 random bits, as 20 characters that no terminal breaks. */
export function generatePassword(): string {
  return randomBytes(15).toString("base64url");
}

export function listed({ accounts, tokens }: Access): ListedAccount[] {
  return accounts
    .map((account): ListedAccount => {
      const { password: _password, ...rest } = account;
      return { ...rest, tokens: tokens.filter((token) => token.account === account.id).length };
    })
    .sort((one, other) => one.name.localeCompare(other.name));
}

/** The local account of a name, whatever its case. */
function localOf({ accounts }: Access, name: string): Account | undefined {
  return accounts.find((each) => each.via === "account" && withoutCase(each.name) === withoutCase(name));
}

/** @param key a name, or an id. @throws {InputError} there is none, or several people have the name */
function chosen(access: Access, key: string): Account {
  const byId = access.accounts.find(({ id }) => id === key);
  const people =
    byId === undefined ? access.accounts.filter(({ name }) => withoutCase(name) === withoutCase(key)) : [byId];
  const [only, ...others] = people;
  // Disabling the wrong one would leave a thief signed in.
  if (others.length > 0)
    throw new InputError(`several people have the name ${key}: use an id`, {
      problems: people.map(({ id, subject }) => `${id}: ${subject === undefined ? "the account" : subject.sub}`),
    });
  if (only === undefined) throw new InputError(`there is no account ${key}`);
  return only;
}

function checkPassword(password: string, name: string): void {
  const length = Array.from(password).length;
  if (length < lengths.shortest || length > lengths.longest)
    throw new InputError(`the password must have ${lengths.shortest} to ${lengths.longest} characters`);
  if (withoutCase(password) === withoutCase(name)) throw new InputError("the password must not be the name");
}

function parsed<Value>(schema: z.ZodType<Value>, value: unknown, what: string): Value {
  const { data, error } = schema.safeParse(value);
  if (error !== undefined || data === undefined) throw new InputError(`${what}: ${error?.issues[0]?.message}`);
  return data;
}

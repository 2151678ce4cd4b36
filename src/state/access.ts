import { z } from "zod";
import { InputError } from "#errors.ts";
import { roles } from "#roles.ts";
import type { Actor } from "./record.ts";

/**
 * Somebody who may use the console and the API: an account of Rollcall, or a person whom the OpenID provider has vouched for.
 * Times are ISO 8601.
 */
const account = z.object({
  /** Never used again. */
  id: z.string(),
  via: z.enum(["account", "oidc"]),
  /** What they sign in with, one of its kind; what the provider calls them, which may change. */
  name: z.string(),
  /** At the provider: its issuer and who they are there, for good. */
  subject: z.object({ issuer: z.string(), sub: z.string() }).optional(),
  /** What they may do; of the provider's people, as of when they signed in last. Absent: nothing. */
  role: z.enum(roles).optional(),
  disabled: z.literal(true).optional(),
  /** An argon2id hash in PHC form. */
  password: z.string().optional(),
  created: z.string(),
  signedIn: z.string().optional(),
});

/** A session of the console. Its token is known to the browser alone: a digest proves it. */
const session = z.object({
  digest: z.string(),
  account: z.string(),
  opened: z.string(),
  used: z.string(),
  /** Of the OpenID provider: when to ask it again, its name of the session, and what to ask with, sealed with the token. */
  provider: z.object({ until: z.string(), sid: z.string().optional(), sealed: z.string() }).optional(),
});

/** A token for the command line. */
const token = z.object({
  id: z.string(),
  digest: z.string(),
  account: z.string(),
  name: z.string(),
  created: z.string(),
  expires: z.string(),
  used: z.string().optional(),
});

const access = z.object({
  version: z.literal(1),
  accounts: z.array(account),
  sessions: z.array(session),
  tokens: z.array(token),
  /** Logouts that the OpenID provider has sent, until when each must not be taken again. */
  logouts: z.record(z.string(), z.string()),
});

export type Account = z.output<typeof account>;
export type Session = z.output<typeof session>;
export type AccessToken = z.output<typeof token>;

/** Who may use the console and the API, and how they prove it. It holds no secret in the clear. */
export type Access = z.output<typeof access>;

export const noAccess: Access = { version: 1, accounts: [], sessions: [], tokens: [], logouts: {} };

/** Changes it; the same object: nothing has changed. What it throws, `change` throws. */
export type AccessChange<Result> = (access: Access) => readonly [Access, Result];

/** @param place what messages call it. @throws {InputError} it is damaged, or of a newer Rollcall */
export function parseAccess(value: unknown, place: string): Access {
  const { success, data } = access.safeParse(value);
  if (success) return data;
  throw new InputError(
    `${place}: the accounts are damaged, or a newer Rollcall has written them: restore them from a backup. Until then, nobody can sign in with them`,
  );
}

/** An account for the audit log and the journal. @param from an address. @param token the name of a token that was used */
export function actorFor({ name, via, subject }: Account, from: string, token?: string): Actor {
  const id = subject === undefined ? {} : { id: `${subject.issuer} ${subject.sub}` };
  return { name, from, via, ...id, ...(token !== undefined && { token }) };
}

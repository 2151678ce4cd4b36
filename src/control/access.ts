import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { FastifyRequest } from "fastify";
import type { Host as ServiceHost } from "#service/host.ts";
import { may, refusalOf } from "#roles.ts";
import type { Action, Role } from "#roles.ts";
import { actorFor } from "#state/access.ts";
import type { Actor } from "#state/record.ts";
import { Refusal } from "./answers.ts";
import type { Listening } from "./events.ts";
import type { Sessions } from "./sessions.ts";

/** The header that names the account a command runs under, percent-encoded. It is a claim, not a proof. */
export const accountHeader = "x-rollcall-account";

/** What the server that hosts the API knows about a request. One without a service has no accounts, pinboards, sessions or loads. */
export type Host = Partial<ServiceHost>;

/** Who sends a request, and what they may do. */
export interface Caller {
  readonly actor: Actor;
  readonly role: Role;
}

/** @throws {Refusal} 403, with the reason and who may */
export function checkMay(who: { readonly name: string; readonly role?: Role | undefined }, action: Action): void {
  if (!may(who.role, action)) throw new Refusal(403, refusalOf(who, action));
}

/** What a request can prove who sends it with. */
export interface Proofs {
  /** The daemon's own token, for processes that can read its data folder. */
  readonly token: string;
  /** Roles of people. */
  readonly sessions: Pick<Sessions, "findToken">;
}

/** @throws {Refusal} 403: the caller may not, and who may */
export function permit({ actor: { name }, role }: FastifyRequest, action: Action): void {
  checkMay({ name, role }, action);
}

/**
 * Who sends the request: the holder of a token, or an administrator of the service.
 *
 * The server refuses pages of other sites what changes something. It must also be `application/json`, which a form cannot send,
 * and which a script of another site can send only after a preflight that nobody answers here.
 * @throws {Refusal} 401, 403, 415; and what `host` throws
 */
export async function authenticate(request: FastifyRequest, host: Host, proofs: Proofs): Promise<Caller> {
  const caller = await callerOf(request, host, proofs);
  if (request.method === "GET") return caller;
  const contentType = request.exchange.contentType ?? "none";
  if (!/^application\/json *(?:;|$)/i.test(contentType))
    throw new Refusal(415, "Content-Type: expected application/json, also where the body is empty");
  return caller;
}

async function callerOf(request: FastifyRequest, host: Host, { token, sessions }: Proofs): Promise<Caller> {
  const given = bearerOf(request);
  if (given !== undefined) {
    if (isSame(given, token)) {
      const actor = { name: accountOf(request), from: "command line", via: "command line" } as const;
      return { actor, role: "administrator" };
    }
    const found = await sessions.findToken(given);
    if (found === undefined)
      throw unauthorised(
        given.startsWith("rollcall_")
          ? "the access token has expired or was revoked, or its account is disabled"
          : "the token does not belong to this daemon, which makes a new one at every start",
      );
    const { account, proof } = found;
    if (account.role === undefined) throw new Refusal(403, refusalOf(account, "look"));
    return { actor: actorFor(account, request.exchange.address, proof.name), role: account.role };
  }
  if (host.administrator === undefined)
    throw unauthorised(
      "expected `Authorization: Bearer` with an access token, or with the token of data/daemon/control.json",
    );
  const { name, address } = await host.administrator(request);
  return { actor: { name, from: address, via: "service" }, role: "administrator" };
}

/** The session or the token that somebody listens with; undefined: the holder of the daemon's own token listens. */
export function listeningOf(request: FastifyRequest, { accounts }: Host, { sessions }: Proofs): Listening | undefined {
  const given = bearerOf(request);
  if (request.actor.via === "command line" || (given === undefined && accounts === undefined)) return undefined;
  const isAllowed = async (): Promise<boolean> =>
    given === undefined
      ? (await accounts?.find(request, false))?.isAdministrator === true
      : may((await sessions.findToken(given))?.account.role, "look");
  return { account: request.actor.name, isAllowed };
}

export function unauthorised(message: string): Refusal {
  return new Refusal(401, message, { headers: { "www-authenticate": "Bearer" } });
}

/** A holder of the daemon's token who does not say which account they run under. */
const nameless = "command line";

function accountOf(request: FastifyRequest): string {
  const said = request.headers[accountHeader];
  try {
    const name = decodeURIComponent(typeof said === "string" ? said : "");
    return name === "" || name.length > 255 || /\p{Cc}/u.test(name) ? nameless : name;
  } catch {
    return nameless;
  }
}

/** A secret of 256 random bits. */
export function createToken(): string {
  return randomBytes(32).toString("base64url");
}

/** The token of `Authorization: Bearer`; empty where that header holds none, undefined where there is no such header. */
export function bearerOf({ headers: { authorization } }: FastifyRequest): string | undefined {
  return authorization === undefined ? undefined : (/^Bearer +(\S+) *$/i.exec(authorization)?.[1] ?? "");
}

/** Takes the same time wherever they differ: digests are of one length. */
export function isSame(given: string, token: string): boolean {
  return timingSafeEqual(hash("sha256", given, "buffer"), hash("sha256", token, "buffer"));
}

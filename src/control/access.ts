import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { isFromOtherSite, otherSite } from "#http/sites.ts";
import type { HostedLoads } from "#service/host.ts";
import type { Actor } from "#state/record.ts";
import { Refusal } from "./answers.ts";
import type { Listening } from "./events.ts";

/** The header that names the account a command runs under, percent-encoded. It is a claim, not a proof. */
export const accountHeader = "x-rollcall-account";

/** Who is signed in, and from where. */
export interface SignedIn {
  readonly name: string;
  readonly address: string;
  /** The value of the session's cookie. */
  readonly token: string;
  /** Whether they have the administration privilege. */
  readonly isAdministrator: boolean;
  /** Whether they may load data; absent: no. */
  readonly mayLoad?: boolean | undefined;
}

/** The result of a sign-in: the value of the session's cookie; `retryAfter` in seconds. */
export type SignIn =
  | { readonly outcome: "opened"; readonly token: string }
  | { readonly outcome: "wrong" }
  | { readonly outcome: "throttled"; readonly retryAfter: number };

/** The accounts and sessions of the server that hosts the API. */
export interface HostAccounts {
  /** The cookie of a session travels over TLS only. */
  readonly secure: boolean;
  /** Who is signed in. @param isUse whether this counts as a use of the session, from which its idle time begins anew */
  find(request: FastifyRequest, isUse: boolean): Promise<SignedIn | undefined>;
  /** Opens a session. */
  signIn(
    request: FastifyRequest,
    credentials: { readonly username: string; readonly password: string },
  ): Promise<SignIn>;
  /** Ends a session. */
  signOut(token: string): Promise<void>;
}

/** The pinboards of the service that hosts the API, as `pinboarddata` answers them. */
export interface HostPinboards {
  /** By name. */
  list(): readonly HostPinboard[];
  /**
   * The answer of `pinboarddata`: the rows of visualizations; of all of them when none is named.
   * @param account who asks: an account does not hold all slots of queries
   * @throws {InputError} unknown ids, or what is wrong with the SQL; {UnavailableError} when a query took too much time or
   *   memory
   */
  data(request: PinboardRequest, signal: AbortSignal, account?: string): Promise<PinboardAnswer>;
}

export interface HostPinboard {
  readonly id: string;
  readonly name: string;
  readonly description?: string | undefined;
  /** In epoch milliseconds. */
  readonly modified: number;
  readonly visualizations: readonly HostVisualization[];
}

export interface HostVisualization {
  readonly id: string;
  readonly name: string;
  readonly title: string;
  readonly type: "TABLE" | "CHART" | "HEADLINE";
  /** How a chart of it is drawn; what is left out is guessed from the columns. */
  readonly chart?: HostChart | undefined;
}

export interface HostChart {
  readonly mark?: "bar" | "line" | "area" | "dot" | undefined;
  /** Names of columns. */
  readonly x?: string | undefined;
  readonly y?: string | undefined;
  readonly series?: string | undefined;
}

/** Ids in lower case. */
export interface PinboardRequest {
  readonly pinboard: string;
  readonly visualizations: readonly string[];
  readonly format: "COMPACT";
  readonly paging: { readonly offset?: number; readonly size?: number };
}

/** The body of the answer, which may be a file until it is released. */
export interface PinboardAnswer {
  /** In bytes, about. */
  readonly size: number;
  /** JSON in pieces. */
  read(): AsyncIterable<Buffer>;
  release(): void;
}

/** What the server that hosts the API knows about a request. */
export interface Host {
  /** Absent: this server has no accounts. */
  readonly accounts?: HostAccounts | undefined;
  /** Absent: this server has no pinboards. */
  readonly pinboards?: HostPinboards | undefined;
  /** The administrator whose session the request carries, and the client's address. Absent: this server has no sessions. */
  administrator?(request: FastifyRequest): Promise<{ readonly name: string; readonly address: string }>;
  contentType(request: FastifyRequest): string | undefined;
  /** Absent: this server has no tables. */
  readonly loads?: HostedLoads | undefined;
}

/**
 * Who sends the request: the holder of the token, or an administrator of the service.
 *
 * What changes something is refused to pages of other sites. It must also be `application/json`, which a form cannot send,
 * and which a script of another site can send only after a preflight that nobody answers here.
 * @throws {Refusal} 401, 403, 415; and what `host` throws
 */
export async function authenticate(request: FastifyRequest, host: Host, token: string): Promise<Actor> {
  if (isFromOtherSite(request.raw)) throw new Refusal(403, otherSite);
  const actor = await actorOf(request, host, token);
  if (request.method === "GET") return actor;
  const contentType = host.contentType(request) ?? "none";
  if (!/^application\/json *(?:;|$)/i.test(contentType))
    throw new Refusal(415, "Content-Type: expected application/json, also where the body is empty");
  return actor;
}

async function actorOf(request: FastifyRequest, host: Host, token: string): Promise<Actor> {
  const given = bearerOf(request);
  if (given !== undefined) {
    if (!isSame(given, token)) throw unauthorised("the token is not that of this daemon; it is new at every start");
    return { name: accountOf(request), from: "command line" };
  }
  if (host.administrator === undefined)
    throw unauthorised("expected `Authorization: Bearer` with the token of data/daemon/control.json");
  const { name, address } = await host.administrator(request);
  return { name, from: address };
}

/** The session that an administrator listens with; undefined: the holder of the token listens. */
export function listeningOf(request: FastifyRequest, { accounts }: Host): Listening | undefined {
  if (accounts === undefined || bearerOf(request) !== undefined) return undefined;
  const isAllowed = async (): Promise<boolean> => (await accounts.find(request, false))?.isAdministrator === true;
  return { account: request.actor.name, isAllowed };
}

function unauthorised(message: string): Refusal {
  return new Refusal(401, message, { headers: { "www-authenticate": "Bearer" } });
}

function accountOf(request: FastifyRequest): string {
  const said = request.headers[accountHeader];
  try {
    const name = decodeURIComponent(typeof said === "string" ? said : "");
    return name === "" || name.length > 255 || /\p{Cc}/u.test(name) ? "unknown" : name;
  } catch {
    return "unknown";
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
  return timingSafeEqual(digestOf(given), digestOf(token));
}

function digestOf(value: string): Buffer {
  return createHash("sha256").update(value).digest();
}

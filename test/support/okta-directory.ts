import { hash, randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { text } from "node:stream/consumers";
import { calculateJwkThumbprint, EmbeddedJWK, importJWK, type JWK, type JWTPayload, jwtVerify } from "jose";
import { messageOf } from "#errors.ts";
import { conditionOf, SearchError } from "./okta-search.ts";
import { listen, stop, track } from "./scripted-server.ts";

/** What is in an organisation. Lists are arrays, or make their items when they are asked for. Users are sorted by id. */
export interface OktaDirectory {
  users: Items<OktaUser>;
  groups: Items<OktaGroup>;
}

export interface Items<T> {
  readonly length: number;
  at(index: number): T | undefined;
}

export interface OktaUser {
  readonly id: string;
  readonly status: string;
  readonly lastUpdated: string;
  readonly profile: Readonly<Record<string, unknown>>;
}

export interface OktaGroup {
  readonly id: string;
  readonly type: "OKTA_GROUP" | "APP_GROUP" | "BUILT_IN";
  readonly profile: Readonly<Record<string, unknown>>;
  readonly lastUpdated: string;
  readonly lastMembershipUpdated: string;
  /** Places in the list of users. */
  readonly members: Items<number>;
}

/** What Okta has been seen to do, and what it documents. All are off at first. */
export interface OktaFaults {
  /** `next` links name this origin instead of the one that was asked. */
  linkOrigin?: string | undefined;
  /** The role of the caller does not see the group Everyone. */
  hideEveryone?: boolean | undefined;
  /** The role of the caller sees only these users, with success; what groups count does not change. */
  sees?: ((user: OktaUser) => boolean) | undefined;
  /** `search` does not know the last so many users yet. */
  lag?: number | undefined;
  /** Deactivated users are in no group, not even in Everyone. */
  deactivatedLeaveGroups?: boolean | undefined;
  /** Lists whose path matches end with this page (from 1), without a link. */
  endsAfter?: { readonly path: RegExp; readonly page: number } | undefined;
  /** Lists whose path matches have a link that leads to the same page again. */
  circles?: RegExp | undefined;
  /** Lists whose path matches have an empty page with a link after their first. */
  emptyPage?: RegExp | undefined;
  /** Lists whose path matches answer 500 to more than this at a time. */
  slow?: { readonly path: RegExp; readonly limit: number } | undefined;
  /** So many requests whose path matches are answered with an error. */
  fails?:
    | { readonly path: RegExp; readonly status: number; times: number; readonly headers?: Record<string, string> }
    | undefined;
  /** The role of the caller does not see these attributes of profiles (conditions of a permission). */
  hides?: RegExp | undefined;
  /** `expand=stats` is ignored. */
  noStats?: boolean | undefined;
  /** Called before every page: the directory changes. */
  churn?: ((url: URL) => void) | undefined;
  /** The token is not accepted any more. */
  revoked?: boolean | undefined;
}

export interface OktaOptions {
  /** An API token (SSWS). */
  readonly token?: string;
  /** A service app: its public key and what it may ask for. */
  readonly app?: {
    readonly clientId: string;
    readonly key: JWK;
    readonly scopes: readonly string[];
    readonly dpop?: boolean;
  };
  /** Requests in a window of so many seconds, for each of the lists. Default: no limit that is ever reached. */
  readonly rate?: { readonly limit: number; readonly seconds: number };
}

/** An organisation at Okta, as far as users and groups can be read. */
export class OktaServer {
  url = "";
  /** Methods and paths with queries, in the order of the requests. */
  readonly requests: string[] = [];
  readonly faults: OktaFaults = {};
  readonly directory: OktaDirectory;
  readonly #options: OktaOptions;
  readonly #server = createServer((request, response) => void this.#answer(request, response));
  readonly #open = track(this.#server);
  readonly #tokens = new Map<
    string,
    { readonly scopes: readonly string[]; readonly jkt?: string | undefined; readonly end: number }
  >();
  readonly #cursors = randomBytes(4).toString("hex");
  readonly #proofs = new Set<unknown>();
  readonly #windows = new Map<string, { used: number; readonly end: number }>();
  readonly #nonce = randomBytes(12).toString("base64url");

  private constructor(directory: OktaDirectory, options: OktaOptions) {
    this.directory = directory;
    this.#options = options;
  }

  static async start(directory: OktaDirectory, options: OktaOptions = { token: "00token" }): Promise<OktaServer> {
    const server = new OktaServer(directory, options);
    server.url = `http://127.0.0.1:${await listen(server.#server)}`;
    return server;
  }

  /** Connections that are open now. */
  get open(): ReadonlySet<Socket> {
    return this.#open;
  }

  /** No token that was issued is accepted any more. */
  forgetTokens(): void {
    this.#tokens.clear();
  }

  async close(): Promise<void> {
    if (this.#server.listening) await stop(this.#server, this.#open);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.url);
    this.requests.push(`${request.method} ${request.url}`);
    try {
      if (url.pathname === "/oauth2/v1/token") await this.#token(request, response);
      else this.#api(url, await this.#scopes(request, url), response);
    } catch (error) {
      if (!(error instanceof Refusal || error instanceof SearchError)) throw error;
      const { status, body, headers } = error instanceof SearchError ? invalidSearch() : error;
      send(response, status, body, headers);
    }
  }

  /** `POST /oauth2/v1/token`: client credentials with an assertion, and DPoP when the app requires it. */
  async #token(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const refuse = (status: number, error: string, description: string, headers = {}): never => {
      throw new Refusal(status, { error, error_description: description }, headers);
    };
    const form = new URLSearchParams(await text(request));
    const { app } = this.#options;
    if (request.method !== "POST" || form.get("grant_type") !== "client_credentials")
      return refuse(400, "unsupported_grant_type", "The authorization grant type is not supported.");
    if (
      form.get("client_assertion_type") !== "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" ||
      app === undefined
    )
      return refuse(401, "invalid_client", "Client authentication failed.");
    const endpoint = `${this.url}/oauth2/v1/token`;
    const verified = await jwtVerify(form.get("client_assertion") ?? "", await importJWK(app.key, "RS256"), {
      issuer: app.clientId,
      subject: app.clientId,
      audience: endpoint,
      maxTokenAge: "1 hour",
      requiredClaims: ["exp"],
    }).catch((error: unknown) => refuse(401, "invalid_client", `The client_assertion is invalid: ${String(error)}`));
    if ((verified.payload.exp ?? 0) > Date.now() / 1000 + 3600)
      refuse(401, "invalid_client", "The client_assertion token has an expiration too far into the future.");
    const scopes = (form.get("scope") ?? "").split(" ").filter((scope) => scope !== "");
    if (scopes.length === 0 || !scopes.every((scope) => app.scopes.includes(scope)))
      refuse(400, "invalid_scope", "One or more scopes are not configured for the authorization server resource.");
    let jkt: string | undefined;
    if (app.dpop === true) {
      const proof = await this.#proof(request, "POST", endpoint).catch((error: unknown) =>
        refuse(400, "invalid_dpop_proof", messageOf(error)),
      );
      if (proof.payload["nonce"] !== this.#nonce) {
        const description = "Authorization server requires nonce in DPoP proof.";
        refuse(400, "use_dpop_nonce", description, { "dpop-nonce": this.#nonce });
      }
      ({ jkt } = proof);
    }
    const token = randomBytes(24).toString("base64url");
    this.#tokens.set(token, { scopes, jkt, end: Date.now() + 3_600_000 });
    const token_type = jkt === undefined ? "Bearer" : "DPoP";
    send(response, 200, { token_type, expires_in: 3600, access_token: token, scope: scopes.join(" ") });
  }

  /** Verifies a DPoP proof (RFC 9449, 4.3), each of which may be used once. */
  async #proof(request: IncomingMessage, htm: string, htu: string): Promise<{ payload: JWTPayload; jkt: string }> {
    const { dpop } = request.headers;
    if (typeof dpop !== "string") throw new Error("The DPoP proof JWT header is missing.");
    const { payload, protectedHeader } = await jwtVerify(dpop, EmbeddedJWK, { typ: "dpop+jwt", maxTokenAge: 300 });
    if (payload["htm"] !== htm || payload["htu"] !== htu) throw new Error("The DPoP proof JWT is for another request.");
    if (payload.jti === undefined || this.#proofs.has(payload.jti))
      throw new Error("The DPoP proof JWT was used before.");
    this.#proofs.add(payload.jti);
    return { payload, jkt: await calculateJwkThumbprint(protectedHeader.jwk as JWK) };
  }

  /** What the caller may do. */
  async #scopes(request: IncomingMessage, url: URL): Promise<readonly string[]> {
    const invalid = new Refusal(401, errorBody("E0000011", "Invalid token provided"));
    if (this.faults.revoked === true) throw invalid;
    const [scheme, value = ""] = (request.headers.authorization ?? "").split(" ");
    if (scheme === "SSWS" && value === this.#options.token) return ["okta.users.read", "okta.groups.read"];
    const token = this.#tokens.get(value);
    if (token === undefined || token.end < Date.now() || (scheme !== "Bearer" && scheme !== "DPoP")) throw invalid;
    if (token.jkt === undefined) return token.scopes;
    const proof = await this.#proof(request, request.method ?? "", `${url.origin}${url.pathname}`).catch((error) => {
      const headers = {
        "www-authenticate": `DPoP error="invalid_dpop_proof", error_description="${messageOf(error)}"`,
      };
      throw new Refusal(400, errorBody("E0000021", "Bad request"), headers);
    });
    const ath = hash("sha256", value, "base64url");
    if (scheme !== "DPoP" || proof.jkt !== token.jkt || proof.payload["ath"] !== ath) throw invalid;
    return token.scopes;
  }

  #api(url: URL, scopes: readonly string[], response: ServerResponse): void {
    const { pathname: path, searchParams: query } = url;
    const [, kind, id, list] = /^\/api\/v1\/(users|groups)(?:\/([^/]+))?(?:\/([^/]+))?$/.exec(path) ?? [];
    if (kind === undefined) throw notFound(path);
    for (const [name, value] of Object.entries(this.#limits(`${kind}/${list ?? ""}`))) response.setHeader(name, value);
    if (!scopes.includes(`okta.${kind}.read`)) {
      const challenge =
        'Bearer error="insufficient_scope", error_description="The access token lacks required scopes."';
      const summary = "The access token provided does not contain the required scopes.";
      throw new Refusal(403, errorBody("E0000006", summary), { "www-authenticate": challenge });
    }
    this.#fail(path, query);
    this.faults.churn?.(url);
    if (kind === "users" && id === undefined) this.#users(url, response);
    else if (kind === "users" && list === undefined)
      send(response, 200, this.#shown(this.#user(decodeURIComponent(id ?? "")).user, ""));
    else if (kind === "users") this.#groupsOf(url, decodeURIComponent(id ?? ""), response);
    else if (id === undefined) this.#groups(url, response);
    else if (list === undefined) send(response, 200, this.#shownGroup(this.#group(id), query.get("expand")));
    else this.#members(url, this.#group(id), response);
  }

  #limits(bucket: string): Record<string, string> {
    const { limit, seconds } = this.#options.rate ?? { limit: 1_000_000, seconds: 60 };
    let window = this.#windows.get(bucket);
    if (window === undefined || window.end <= Date.now())
      window = { used: 0, end: (Math.floor(Date.now() / 1000) + seconds) * 1000 };
    this.#windows.set(bucket, window);
    window.used += 1;
    const headers = {
      "x-rate-limit-limit": `${limit}`,
      "x-rate-limit-remaining": `${Math.max(0, limit - window.used)}`,
      "x-rate-limit-reset": `${window.end / 1000}`,
    };
    if (window.used <= limit) return headers;
    throw new Refusal(429, errorBody("E0000047", "API call exceeded rate limit due to too many requests."), headers);
  }

  #fail(path: string, query: URLSearchParams): void {
    const { fails, slow } = this.faults;
    if (fails?.path.test(path) === true && fails.times > 0) {
      fails.times -= 1;
      const code = fails.status === 403 ? "E0000006" : fails.status === 429 ? "E0000047" : "E0000009";
      const summary =
        fails.status === 403 ? "You do not have permission to perform the requested action" : "Internal Server Error";
      throw new Refusal(fails.status, errorBody(code, summary), fails.headers ?? {});
    }
    if (slow?.path.test(path) === true && Number(query.get("limit") ?? 1000) > slow.limit)
      throw new Refusal(500, errorBody("E0000009", "Internal Server Error"));
  }

  #users(url: URL, response: ServerResponse): void {
    const { searchParams: query } = url;
    const { users } = this.directory;
    const search = query.get("search") ?? query.get("filter");
    const matches = search === null ? isNotDeactivated : conditionOf(search);
    const sortBy = query.get("sortBy") ?? "id";
    if (sortBy !== "id" && sortBy !== "lastUpdated") throw invalidSearch();
    const known = users.length - (query.has("search") ? (this.faults.lag ?? 0) : 0);
    const order = sortBy === "id" ? undefined : byLastUpdated(users, known);
    const isDescending = query.get("sortOrder") === "desc";
    const sorted: Items<OktaUser> = {
      length: known,
      at: (index) => {
        const place = isDescending ? known - 1 - index : index;
        return users.at(order === undefined ? place : (order[place] ?? 0));
      },
    };
    const sees = (user: OktaUser): boolean => this.faults.sees?.(user) !== false && matches(user);
    this.#page(url, response, {
      items: sorted,
      keep: sees,
      show: (user) => this.#shown(user, query.get("fields") ?? ""),
    });
  }

  #groups(url: URL, response: ServerResponse): void {
    const { searchParams: query } = url;
    const search = query.get("search") ?? query.get("filter");
    const matches = search === null ? () => true : conditionOf(search);
    this.#page(url, response, {
      items: this.directory.groups,
      keep: (group) => !this.#isHidden(group) && matches(group),
      show: (group) => this.#shownGroup(group, query.get("expand")),
    });
  }

  #groupsOf(url: URL, id: string, response: ServerResponse): void {
    const { user, index } = this.#user(id);
    this.#page(url, response, {
      items: this.directory.groups,
      keep: (group) => !this.#isHidden(group) && this.#isIn(user) && includes(group.members, index),
      show: (group) => this.#shownGroup(group, null),
    });
  }

  #members(url: URL, group: OktaGroup, response: ServerResponse): void {
    const { users } = this.directory;
    this.#page(url, response, {
      items: { length: group.members.length, at: (index) => users.at(group.members.at(index) ?? -1) },
      keep: (user) => this.#isIn(user) && this.faults.sees?.(user) !== false,
      show: (user) => this.#shown(user, ""),
    });
  }

  #isIn({ status }: OktaUser): boolean {
    return this.faults.deactivatedLeaveGroups !== true || status !== "DEPROVISIONED";
  }

  #isHidden({ type, profile }: OktaGroup): boolean {
    return this.faults.hideEveryone === true && type === "BUILT_IN" && profile["name"] === "Everyone";
  }

  /** Sends a page, and where the next one is. A cursor says where in the list it begins, and which page that is. */
  #page<T extends object>(
    url: URL,
    response: ServerResponse,
    list: { items: Items<T>; keep: (item: T) => boolean; show: (item: T) => object },
  ): void {
    const { items, keep, show } = list;
    const after = url.searchParams.get("after");
    const limit = Math.min(Number(url.searchParams.get("limit") ?? 200), 10_000);
    if (!(limit >= 1)) throw new Refusal(400, errorBody("E0000001", "Api validation failed: limit"));
    const [salt, start = 0, page = 1] =
      after === null
        ? [this.#cursors]
        : (JSON.parse(Buffer.from(after, "base64url").toString()) as [string, number, number]);
    if (salt !== this.#cursors) throw new Refusal(400, errorBody("E0000001", "Api validation failed: after"));
    const { emptyPage, circles, endsAfter, linkOrigin } = this.faults;
    const found: object[] = [];
    let next = start;
    const wanted = emptyPage?.test(url.pathname) === true && page === 2 ? 0 : limit;
    for (; next < items.length; next++) {
      const item = items.at(next);
      if (item === undefined || !keep(item)) continue;
      if (found.length === wanted) break;
      found.push(show(item));
    }
    const links = [`<${url.href}>; rel="self"`];
    const isLast = endsAfter?.path.test(url.pathname) === true && endsAfter.page === page;
    if (next < items.length && !isLast) {
      const following = new URL(url);
      const cursor = circles?.test(url.pathname) === true && page === 2 ? [salt, start, page] : [salt, next, page + 1];
      following.searchParams.set("after", Buffer.from(JSON.stringify(cursor)).toString("base64url"));
      links.push(`<${linkOrigin ?? this.url}${following.pathname}${following.search}>; rel="next"`);
    }
    send(response, 200, found, { link: links });
  }

  #user(id: string): { readonly user: OktaUser; readonly index: number } {
    const { users } = this.directory;
    for (let index = 0; index < users.length; index++) {
      const user = users.at(index);
      if (user === undefined || (user.id !== id && user.profile["login"] !== id)) continue;
      if (this.faults.sees?.(user) !== false) return { user, index };
    }
    throw notFound(`${id} (User)`);
  }

  #group(id: string): OktaGroup {
    const { groups } = this.directory;
    for (let index = 0; index < groups.length; index++) {
      const group = groups.at(index);
      if (group?.id === id && !this.#isHidden(group)) return group;
    }
    throw notFound(`${id} (UserGroup)`);
  }

  #shown(user: OktaUser, fields: string): object {
    const shown = Object.entries(user.profile).filter(([name]) => this.faults.hides?.test(name) !== true);
    const profile = Object.fromEntries(shown);
    const all = {
      ...user,
      profile,
      type: { id: "oty1" },
      _links: { self: { href: `${this.url}/api/v1/users/${user.id}` } },
    };
    if (fields === "") return all;
    const inner = /profile:\(([^)]*)\)/.exec(fields)?.[1]?.split(/,\s*/);
    const outer = new Set(["id", ...fields.replace(/profile:\([^)]*\)/, "").split(",")]);
    const kept: [string, unknown][] = Object.entries(all).filter(([name]) => outer.has(name));
    if (inner !== undefined) kept.push(["profile", pick(profile, inner)]);
    return Object.fromEntries(kept);
  }

  #shownGroup(group: OktaGroup, expand: string | null): object {
    const { members, ...shown } = group;
    if (expand !== "stats" || this.faults.noStats === true) return shown;
    let usersCount = members.length;
    if (this.faults.deactivatedLeaveGroups === true) {
      usersCount = 0;
      for (let index = 0; index < members.length; index++)
        if (this.directory.users.at(members.at(index) ?? -1)?.status !== "DEPROVISIONED") usersCount++;
    }
    return { ...shown, _embedded: { stats: { usersCount, appsCount: 0 } } };
  }
}

/** An answer without success. */
class Refusal extends Error {
  readonly status: number;
  readonly body: object;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, body: object, headers: Readonly<Record<string, string>> = {}) {
    super();
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}

function send(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Record<string, string | string[]> = {},
): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

function errorBody(errorCode: string, errorSummary: string): object {
  const errorId = `oae${randomBytes(12).toString("base64url")}`;
  return { errorCode, errorSummary, errorLink: errorCode, errorId, errorCauses: [] };
}

function notFound(what: string): Refusal {
  return new Refusal(404, errorBody("E0000007", `Not found: Resource not found: ${what}`));
}

function invalidSearch(): Refusal {
  return new Refusal(400, errorBody("E0000031", "Invalid search criteria."));
}

function isNotDeactivated({ status }: OktaUser): boolean {
  return status !== "DEPROVISIONED";
}

function byLastUpdated(users: Items<OktaUser>, known: number): readonly number[] {
  const times = Array.from({ length: known }, (_, index) => ({ index, time: users.at(index)?.lastUpdated ?? "" }));
  return times
    .sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : a.index - b.index))
    .map(({ index }) => index);
}

function includes(items: Items<number>, wanted: number): boolean {
  for (let index = 0; index < items.length; index++) if (items.at(index) === wanted) return true;
  return false;
}

function pick(profile: Readonly<Record<string, unknown>>, names: readonly string[]): object {
  return Object.fromEntries(Object.entries(profile).filter(([name]) => names.includes(name)));
}

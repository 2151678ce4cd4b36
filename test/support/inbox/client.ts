import { isDeepStrictEqual } from "node:util";
import type { Draw } from "./draw.ts";
import { filterOfGroups, filterOfUsers } from "./filters.ts";
import { withGroup } from "./known.ts";
import type { Group, Known } from "./known.ts";
import { RandomRequests } from "./requests.ts";
import type { Request, RequestsOptions } from "./requests.ts";
import type { Attributes } from "./users.ts";

export interface Answer {
  readonly status: number;
  readonly etag: string;
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any;
}

/** @throws when the server has gone */
export type Send = (
  method: string,
  path: string,
  body?: object,
  headers?: Readonly<Record<string, string>>,
) => Promise<Answer>;

/**
 * Sends random requests, and knows what must come of each, by rules of its own: nothing of the inbox's code is used. Clients at the same
 * time have resources of their own, names that all of them want, and one group that all of them put their users into.
 */
export class RandomClient {
  readonly #name: string;
  readonly #send: Send;
  readonly #draw: Draw;
  readonly #isAlone: boolean;
  /** The group of all clients. */
  readonly #shared: string;
  readonly #requests: RandomRequests;
  readonly #etags = new Map<string, string>();
  #known: Known;
  #underWay: Request | undefined;
  /** What was sent, for the message of a failure. */
  readonly log: string[] = [];

  constructor({ send, ...options }: ClientOptions) {
    const { name, draw, isAlone, shared } = options;
    this.#name = name;
    this.#send = send;
    this.#draw = draw;
    this.#isAlone = isAlone;
    this.#shared = shared;
    this.#requests = new RandomRequests(options);
    this.#known = withGroup({ users: new Map(), groups: new Map() }, shared, {
      displayName: "shared",
      members: new Set(),
    });
  }

  get known(): Known {
    return this.#known;
  }

  /** One request, and what it is answered. @throws when that is wrong, or the server has gone */
  async step(): Promise<void> {
    if (this.#draw.chance(0.25)) return this.#look();
    const request = this.#requests.next(this.#known, this.#etags);
    this.#underWay = request;
    const { method, path, body, headers, statuses, after } = request;
    this.log.push(`${this.#name}: ${method} ${path} ${JSON.stringify(body)} ${JSON.stringify(headers ?? {})}`);
    const answer = await this.#send(method, path, body, headers);
    this.#underWay = undefined;
    this.log.push(`  ${answer.status} ${JSON.stringify(answer.body)?.slice(0, 500)}`);
    if (!statuses.includes(answer.status)) this.#fail(`expected ${statuses.join(" or ")}`);
    if (answer.status >= 300) return;
    const before = this.#known;
    const id = String(answer.body?.id ?? path.split("/").at(-1));
    this.#known = after(id);
    const [was, is] = [before.users.get(id), this.#known.users.get(id)];
    if (is === undefined) return;
    this.#compareUser(id, answer.body);
    if (was !== undefined && !isDeepStrictEqual(was, is) && this.#etags.get(id) === answer.etag)
      this.#fail("the user has changed, and the version has not");
    this.#etags.set(id, answer.etag);
  }

  /** Everything this client has, one by one. */
  async verify(): Promise<void> {
    for (const id of this.#known.users.keys()) await this.#readUser(id);
    for (const id of this.#known.groups.keys()) await this.#readGroup(id);
  }

  /**
   * After the server was killed: what was answered is there, and what was not is there as a whole or not at all.
   */
  async recover(): Promise<void> {
    const request = this.#underWay;
    this.#underWay = undefined;
    this.#etags.clear();
    const created = request?.createdAs === undefined ? undefined : await this.#find(request.createdAs);
    const isAsBefore = await this.#isAs(this.#known);
    // Whoever is found by a name that all clients want may be another one's.
    if (isAsBefore && (created === undefined || request?.statuses.includes(409) === true)) return;
    if (request === undefined || (request.createdAs !== undefined && created === undefined))
      this.#fail("after a kill, something is missing");
    const after = request.after(created ?? "");
    if (!(await this.#isAs(after))) this.#fail("after a kill, a request is there by halves");
    this.#known = after;
  }

  async #isAs(known: Known): Promise<boolean> {
    const before = this.#known;
    this.#known = known;
    try {
      await this.verify();
      return await this.#areGone(before, known);
    } catch (error) {
      if (error instanceof MismatchError) return false;
      throw error;
    } finally {
      this.#known = before;
    }
  }

  async #areGone(before: Known, known: Known): Promise<boolean> {
    for (const id of before.users.keys())
      if (!known.users.has(id) && (await this.#send("GET", `/Users/${id}`)).status !== 404) return false;
    for (const id of before.groups.keys())
      if (!known.groups.has(id) && (await this.#send("GET", `/Groups/${id}`)).status !== 404) return false;
    return true;
  }

  async #find(createdAs: string): Promise<string | undefined> {
    const { body } = await this.#send("GET", createdAs);
    return body.Resources[0]?.id as string | undefined;
  }

  /** Reads something. */
  async #look(): Promise<void> {
    const { users, groups } = this.#known;
    const kinds = [
      () => this.#search(),
      () => this.#search(),
      () => this.#readGroup(this.#draw.one([...groups.keys()])),
    ];
    if (users.size > 0) kinds.push(() => this.#readUser(this.#draw.one([...users.keys()])));
    if (this.#isAlone) kinds.push(() => this.#list());
    await this.#draw.one(kinds)();
  }

  async #readUser(id: string): Promise<void> {
    const { status, body, etag } = await this.#send("GET", `/Users/${id}`);
    this.log.push(`${this.#name}: GET /Users/${id} ${status} ${JSON.stringify(body).slice(0, 500)}`);
    if (status !== 200) this.#fail("the user is not there");
    this.#compareUser(id, body);
    this.#etags.set(id, etag);
  }

  #compareUser(id: string, body: Attributes): void {
    const { id: found, meta: _, schemas, groups, ...attributes } = body;
    const expected = this.#known.users.get(id);
    if (found !== id || !isDeepStrictEqual(attributes, expected)) this.#fail(`expected ${JSON.stringify(expected)}`);
    if (!(schemas as string[]).includes("urn:ietf:params:scim:schemas:core:2.0:User"))
      this.#fail("the schema of users is missing");
    const isIn = [...this.#known.groups].filter(([, { members }]) => members.has(id)).map(([group]) => group);
    const named = ((groups ?? []) as { value: string }[]).map(({ value }) => value);
    if (!isDeepStrictEqual(new Set(named), new Set(isIn)) || named.length !== isIn.length)
      this.#fail(`expected the groups ${isIn.join(" ")}`);
  }

  async #readGroup(id: string): Promise<void> {
    const { status, body } = await this.#send("GET", `/Groups/${id}`);
    this.log.push(`${this.#name}: GET /Groups/${id} ${status} ${JSON.stringify(body).slice(0, 500)}`);
    if (status !== 200) this.#fail("the group is not there");
    const { displayName, members } = this.#known.groups.get(id) as Group;
    const own = (value: string): boolean => id !== this.#shared || this.#isAlone || this.#known.users.has(value);
    const found = (body.members as { value: string }[]).map(({ value }) => value).filter(own);
    if (body.displayName !== displayName || !isDeepStrictEqual(new Set(found), members))
      this.#fail(`expected ${displayName} with ${[...members].join(" ")}`);
  }

  /** What a filter finds of this client's own. */
  async #search(): Promise<void> {
    const kind = this.#draw.one(["Users", "Groups"]);
    const chosen = (kind === "Users" ? filterOfUsers : filterOfGroups)(this.#known, this.#draw);
    const path = `/${kind}?count=1000&filter=${encodeURIComponent(chosen.text)}`;
    const { status, body } = await this.#send("GET", path);
    this.log.push(`${this.#name}: GET /${kind} ${chosen.text} ${status} ${JSON.stringify(body).slice(0, 500)}`);
    if (status !== 200) this.#fail("the filter was refused");
    const own = kind === "Users" ? this.#known.users : this.#known.groups;
    const found = (body.Resources as { id: string }[]).map(({ id }) => id).filter((id) => own.has(id));
    const expected = [...own.keys()].filter((id) => chosen.matches(id));
    if (!isDeepStrictEqual(new Set(found), new Set(expected)) || found.length !== expected.length)
      this.#fail(`expected ${expected.join(" ")}`);
    if (this.#isAlone && body.totalResults !== expected.length) this.#fail(`expected a total of ${expected.length}`);
  }

  /** All users, page by page. */
  async #list(): Promise<void> {
    const found: string[] = [];
    const count = 1 + this.#draw.below(20);
    for (let startIndex = 1; ; startIndex += count) {
      const { body } = await this.#send("GET", `/Users?startIndex=${startIndex}&count=${count}&attributes=userName`);
      if (body.totalResults !== this.#known.users.size) this.#fail(`expected a total of ${this.#known.users.size}`);
      found.push(...(body.Resources as { id: string }[]).map(({ id }) => id));
      if (body.Resources.length < count) break;
    }
    // In the order in which they were created.
    if (!isDeepStrictEqual(found, [...this.#known.users.keys()])) this.#fail("the list is another one");
  }

  #fail(why: string): never {
    throw new MismatchError(`${why}, after:\n${this.log.slice(-12).join("\n")}`);
  }
}

/** The inbox is not as it must be. */
export class MismatchError extends Error {}

interface ClientOptions extends RequestsOptions {
  readonly send: Send;
}

import { isDeepStrictEqual } from "node:util";
import type { Draw } from "./draw.ts";
import { badChanges, changesOfUser, sentUser } from "./users.ts";
import type { Attributes, Change } from "./users.ts";

/** What a client of an inbox knows of its own resources, by id. It is never changed. */
export interface Known {
  readonly users: ReadonlyMap<string, Attributes>;
  readonly groups: ReadonlyMap<string, Group>;
}

interface Group {
  readonly displayName: string;
  readonly members: ReadonlySet<string>;
}

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

interface Request {
  readonly method: string;
  readonly path: string;
  readonly body?: object | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly statuses: readonly number[];
  /** What is known once it is answered with success. @param id of what is created */
  readonly after: (id: string) => Known;
  /** What is created is found by it. */
  readonly createdAs?: string | undefined;
}

const core = "urn:ietf:params:scim:schemas:core:2.0";
const patchOp = (operations: readonly object[]): object => ({
  schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
  Operations: operations,
});

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
  readonly #etags = new Map<string, string>();
  #known: Known = { users: new Map(), groups: new Map() };
  #underWay: Request | undefined;
  #created = 0;
  /** What was sent, for the message of a failure. */
  readonly log: string[] = [];

  constructor({ name, send, draw, isAlone, shared }: ClientOptions) {
    this.#name = name;
    this.#send = send;
    this.#draw = draw;
    this.#isAlone = isAlone;
    this.#shared = shared;
    this.#known = withGroup(this.#known, shared, { displayName: "shared", members: new Set() });
  }

  get known(): Known {
    return this.#known;
  }

  /** One request, and what it is answered. @throws when that is wrong, or the server has gone */
  async step(): Promise<void> {
    if (this.#draw.chance(0.25)) return this.#look();
    const request = this.#request();
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

  #request(): Request {
    const users = [...this.#known.users.keys()];
    const groups = [...this.#known.groups.keys()].filter((id) => id !== this.#shared);
    const kinds = [() => this.#createUser(), () => this.#createGroup()];
    if (users.length > 0) {
      const id = this.#draw.one(users);
      kinds.push(
        () => this.#patchUser(id),
        () => this.#patchUser(id),
        () => this.#patchUser(id),
        () => this.#putUser(id),
        () => this.#join(this.#shared, id),
      );
      if (users.length > 3) kinds.push(() => this.#removeUser(id));
      if (groups.length > 0) kinds.push(() => this.#patchGroup(this.#draw.one(groups)));
    }
    if (groups.length > 0) kinds.push(() => this.#putGroup(this.#draw.one(groups)));
    if (groups.length > 2) kinds.push(() => this.#removeGroup(this.#draw.one(groups)));
    return this.#draw.one(kinds)();
  }

  #userName(): string {
    const wanted = this.#draw.one(["Ada", "ADA", "grace", "Grace", "Edsger"]);
    return this.#draw.chance(0.3) ? wanted : `${this.#name}-${this.#created++}`;
  }

  /** The statuses of a request that gives somebody a name. */
  #named(success: number, userName: unknown, id?: string): readonly number[] {
    const lower = String(userName).toLowerCase();
    const owner = [...this.#known.users].find(([, each]) => String(each["userName"]).toLowerCase() === lower);
    if (owner !== undefined && owner[0] !== id) return [409];
    const isContested = !this.#isAlone && owner === undefined && !lower.includes("-");
    return isContested ? [success, 409] : [success];
  }

  #createUser(): Request {
    const { body, attributes } = sentUser(this.#draw, this.#userName());
    const before = this.#known;
    return {
      method: "POST",
      path: "/Users",
      body,
      statuses: this.#named(201, attributes["userName"]),
      after: (id) => withUser(before, id, attributes),
      createdAs: `/Users?filter=${encodeURIComponent(`userName eq ${JSON.stringify(attributes["userName"])}`)}`,
    };
  }

  #putUser(id: string): Request {
    const before = this.#known;
    const held = before.users.get(id) ?? {};
    const userName = this.#draw.chance(0.6) ? String(held["userName"]) : this.#userName();
    const { body, attributes } = sentUser(this.#draw, userName, held["active"] as boolean);
    return {
      method: "PUT",
      path: `/Users/${id}`,
      body,
      statuses: this.#named(200, userName, id),
      after: () => withUser(before, id, attributes),
    };
  }

  #patchUser(id: string): Request {
    const before = this.#known;
    const held = before.users.get(id) ?? {};
    const changes = changesOfUser(this.#draw, () => this.#userName());
    const path = `/Users/${id}`;
    if (this.#draw.chance(0.15)) {
      const bad = this.#draw.one(badChanges);
      const sent = this.#draw.chance(0.5) ? [...changes.map(({ operation }) => operation), bad] : [bad];
      return { method: "PATCH", path, body: patchOp(sent), statuses: [400], after: () => before };
    }
    const attributes = changes.reduce<Attributes>((attributesBefore, { apply }) => apply(attributesBefore), held);
    const request = {
      method: "PATCH",
      path,
      body: patchOp(changes.map(({ operation }: Change) => operation)),
      statuses: this.#named(200, attributes["userName"], id),
      after: () => withUser(before, id, attributes),
    };
    const etag = this.#etags.get(id);
    if (etag === undefined || this.#draw.chance(0.8)) return request;
    if (this.#draw.chance(0.5)) return { ...request, headers: { "if-match": etag } };
    return { ...request, headers: { "if-match": 'W/"999999"' }, statuses: [412], after: () => before };
  }

  #removeUser(id: string): Request {
    const before = this.#known;
    return { method: "DELETE", path: `/Users/${id}`, statuses: [204], after: () => without(before, id) };
  }

  /** Somebody of this client comes into a group, or leaves it. */
  #join(group: string, id: string): Request {
    const before = this.#known;
    const { displayName, members: held } = before.groups.get(group) as Group;
    const op = this.#draw.one(["add", "remove"] as const);
    const operation =
      op === "add"
        ? { op: this.#draw.one(["add", "Add"]), path: "members", value: [{ value: id }] }
        : this.#draw.one([
            { op: "Remove", path: "members", value: [{ value: id }] },
            { op: "remove", path: `members[value eq "${id}"]` },
          ]);
    const members = new Set(held);
    if (op === "add") members.add(id);
    else members.delete(id);
    return {
      method: "PATCH",
      path: `/Groups/${group}`,
      body: patchOp([operation]),
      statuses: [204],
      after: () => withGroup(before, group, { displayName, members }),
    };
  }

  #members(): string[] {
    return this.#draw
      .some([...this.#known.users.keys(), ...this.#known.groups.keys()])
      .filter((id) => id !== this.#shared);
  }

  #createGroup(): Request {
    const before = this.#known;
    const displayName = `${this.#name} group ${this.#created++}`;
    const ids = this.#members();
    const members = ids.map((value) => ({ value, display: "x", $ref: null }));
    return {
      method: "POST",
      path: "/Groups",
      body: { schemas: [`${core}:Group`], displayName, ...(ids.length > 0 && { members }) },
      statuses: [201],
      after: (id) => withGroup(before, id, { displayName, members: new Set(ids) }),
      createdAs: `/Groups?filter=${encodeURIComponent(`displayName eq "${displayName}"`)}`,
    };
  }

  #putGroup(id: string): Request {
    const before = this.#known;
    const displayName = `${this.#name} group ${this.#created++}`;
    const ids = this.#members();
    return {
      method: "PUT",
      path: `/Groups/${id}`,
      body: { displayName, members: ids.map((value) => ({ value })) },
      statuses: [200],
      after: () => withGroup(before, id, { displayName, members: new Set(ids) }),
    };
  }

  #patchGroup(id: string): Request {
    if (this.#draw.chance(0.3)) return this.#join(id, this.#draw.one([...this.#known.users.keys()]));
    const before = this.#known;
    const path = `/Groups/${id}`;
    if (this.#draw.chance(0.2)) {
      const bad = [
        { op: "add", path: "members", value: [{ display: "nobody" }] },
        { op: "remove", path: 'members[display eq "x"]' },
        { op: "remove", path: "displayName" },
      ];
      const good = { op: "remove", path: "members" };
      return {
        method: "PATCH",
        path,
        body: patchOp([good, this.#draw.one(bad)]),
        statuses: [400],
        after: () => before,
      };
    }
    const ids = this.#members();
    const value = ids.map((each) => ({ value: each }));
    const held = before.groups.get(id)?.members ?? new Set();
    const displayName = `${this.#name} group ${this.#created++}`;
    const [operations, members] = this.#draw.one([
      [[{ op: "add", path: "members", value }], new Set([...held, ...ids])],
      [[{ op: "add", value: { members: value } }], new Set([...held, ...ids])],
      [[{ op: "replace", path: "members", value }], new Set(ids)],
      [[{ op: "Remove", path: "members" }], new Set<string>()],
      [[{ op: "Remove", path: "members", value }], ids.length === 0 ? new Set(held) : held.difference(new Set(ids))],
      [
        [
          { op: "remove", path: "members" },
          { op: "add", path: "members", value },
        ],
        new Set(ids),
      ],
    ] as const);
    return {
      method: "PATCH",
      path,
      body: patchOp([...operations, { op: "replace", path: "displayName", value: displayName }]),
      statuses: [204],
      after: () => withGroup(before, id, { displayName, members }),
    };
  }

  #removeGroup(id: string): Request {
    const before = this.#known;
    return { method: "DELETE", path: `/Groups/${id}`, statuses: [204], after: () => without(before, id) };
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
    if (!(schemas as string[]).includes(`${core}:User`)) this.#fail("the schema of users is missing");
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
    const chosen = kind === "Users" ? this.#filterOfUsers() : this.#filterOfGroups();
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

  #filterOfUsers(): Filter {
    const { users, groups } = this.#known;
    const one = users.get(this.#draw.one([...users.keys(), ""])) ?? {};
    const valueOf = (name: string): string => (one[name] as string | undefined) ?? "nothing";
    const mails = (id: string): string[] =>
      ((users.get(id)?.["emails"] ?? []) as { value: string }[]).map(({ value }) => value.toLowerCase());
    const mail = (one["emails"] as { value: string }[] | undefined)?.[0]?.value ?? "nobody@x.example";
    const isText = (name: string, value: string) => (id: string) =>
      users.get(id)?.[name] !== undefined && String(users.get(id)?.[name]).toLowerCase() === value.toLowerCase();
    const [userName, externalId, title] = [valueOf("userName"), valueOf("externalId"), valueOf("title")];
    const group = this.#draw.one([...groups.keys()]);
    const simple: readonly Filter[] = [
      { text: `userName eq ${JSON.stringify(userName.toUpperCase())}`, matches: isText("userName", userName) },
      {
        text: `externalId eq ${JSON.stringify(externalId)}`,
        matches: (id) => users.get(id)?.["externalId"] === externalId,
      },
      { text: `title eq ${JSON.stringify(title)}`, matches: isText("title", title) },
      { text: `emails.value eq "${mail.toUpperCase()}"`, matches: (id) => mails(id).includes(mail.toLowerCase()) },
      { text: "active eq False", matches: (id) => users.get(id)?.["active"] === false },
      { text: "displayName pr", matches: (id) => users.get(id)?.["displayName"] !== undefined },
      { text: `id eq "${group}"`, matches: (id) => id === group },
    ];
    const [first, second] = [this.#draw.one(simple), this.#draw.one(simple)];
    return this.#draw.one([
      first,
      first,
      { text: `not (${first.text})`, matches: (id) => !first.matches(id) },
      { text: `${first.text} or ${second.text}`, matches: (id) => first.matches(id) || second.matches(id) },
      { text: `${first.text} and (${second.text})`, matches: (id) => first.matches(id) && second.matches(id) },
    ]);
  }

  #filterOfGroups(): Filter {
    const { users, groups } = this.#known;
    const member = this.#draw.one([...users.keys(), "nobody"]);
    const name = groups.get(this.#draw.one([...groups.keys()]))?.displayName ?? "";
    const isMember = (id: string): boolean => groups.get(id)?.members.has(member) === true;
    return this.#draw.one([
      { text: `members.value eq "${member}"`, matches: isMember },
      { text: `members[value eq "${member}"]`, matches: isMember },
      { text: `displayName eq "${name.toUpperCase()}"`, matches: (id) => groups.get(id)?.displayName === name },
    ]);
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

interface Filter {
  readonly text: string;
  readonly matches: (id: string) => boolean;
}

interface ClientOptions {
  readonly name: string;
  readonly send: Send;
  readonly draw: Draw;
  /** Nobody else pushes to the inbox. */
  readonly isAlone: boolean;
  readonly shared: string;
}

function withUser(known: Known, id: string, attributes: Attributes): Known {
  return { ...known, users: new Map(known.users).set(id, attributes) };
}

function withGroup(known: Known, id: string, group: Group): Known {
  return { ...known, groups: new Map(known.groups).set(id, group) };
}

function without({ users, groups }: Known, id: string): Known {
  const left = [...groups].filter(([group]) => group !== id);
  return {
    users: new Map([...users].filter(([user]) => user !== id)),
    groups: new Map(
      left.map(([group, { displayName, members }]) => [
        group,
        { displayName, members: members.difference(new Set([id])) },
      ]),
    ),
  };
}

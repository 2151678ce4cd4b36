import type { Draw } from "./draw.ts";
import { withGroup, without, withUser } from "./known.ts";
import type { Group, Known } from "./known.ts";
import { badChanges, changesOfUser, sentUser } from "./users.ts";
import type { Attributes, Change } from "./users.ts";

export interface Request {
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

const patchOp = (operations: readonly object[]): object => ({
  schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
  Operations: operations,
});

export interface RequestsOptions {
  /** Part of all names that the client gives. */
  readonly name: string;
  readonly draw: Draw;
  /** Nobody else pushes to the inbox. */
  readonly isAlone: boolean;
  /** The group of all clients. */
  readonly shared: string;
}

/** Draws requests, with what must come of each. */
export class RandomRequests {
  readonly #name: string;
  readonly #draw: Draw;
  readonly #isAlone: boolean;
  readonly #shared: string;
  #created = 0;
  #known: Known = { users: new Map(), groups: new Map() };
  #etags: ReadonlyMap<string, string> = new Map();

  constructor({ name, draw, isAlone, shared }: RequestsOptions) {
    this.#name = name;
    this.#draw = draw;
    this.#isAlone = isAlone;
    this.#shared = shared;
  }

  /** @param etags of users, by id */
  next(known: Known, etags: ReadonlyMap<string, string>): Request {
    this.#known = known;
    this.#etags = etags;
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
      body: {
        schemas: ["urn:ietf:params:scim:schemas:core:2.0:Group"],
        displayName,
        ...(ids.length > 0 && { members }),
      },
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
}

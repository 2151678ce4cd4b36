import type { Entry, MemberReference, SourceRecord } from "#connector.ts";
import { IncompleteReadError } from "#errors.ts";
import { inParallel } from "#http/directory/pages.ts";
import { readList } from "#http/directory/proof.ts";
import type { Proof } from "#http/directory/proof.ts";
import { Seen } from "#http/directory/seen.ts";
import { formatNumber } from "#text.ts";
import { pageSizeOf, parametersOf } from "./attributes.ts";
import type { GraphObject, Selection, Selections } from "./attributes.ts";
import { eventual, idOf, permissions, unreadable } from "./graph.ts";
import type { Graph } from "./graph.ts";
import type { GroupsOptions } from "./options.ts";

/** How often a list is read that does not add up: links to pages end, and people come and go. */
const attempts = 3;

/**
 * Users, then groups with their direct members.
 * @throws {IncompleteReadError} a list does not prove that it is complete, or the app may not read all of it
 * @throws what `DirectoryApi.get` throws
 */
export async function* readTenant(graph: Graph, selections: Selections): AsyncGenerator<readonly SourceRecord[]> {
  const { users, groups } = graph.options;
  yield* readUsers(graph, selections.user);
  if (groups !== false) yield* new GroupReader(graph, groups, users.guests === "exclude").read(selections.group);
}

async function* readUsers(graph: Graph, selection: Selection): AsyncGenerator<readonly SourceRecord[]> {
  const { filter, guests } = graph.options.users;
  let enabled = 0;
  let all = 0;
  for await (const objects of listOf(graph, "users", selection, filter)) {
    const entries: Entry[] = [];
    for (const object of objects) {
      const entry = graph.entry("user", object);
      all++;
      if (typeof object["accountEnabled"] === "boolean") enabled++;
      if (guests === "include" || object["userType"] !== "Guest") entries.push(entry);
    }
    if (entries.length > 0) yield entries;
  }
  // With less than that permission names are shown, and this is not.
  if (all > 0 && enabled === 0)
    throw new IncompleteReadError(
      `${graph.subject}: Graph does not say of any user whether the account is enabled; grant the app the application permission ${permissions.users}, with an administrator's consent`,
    );
}

/** Every object of a list, once, proven by Graph's own count before and after. */
async function* listOf(
  graph: Graph,
  path: "users" | "groups",
  selection: Selection,
  filter: string | undefined,
): AsyncGenerator<readonly GraphObject[]> {
  const size = pageSizeOf(selection);
  // Any filter is taken with this header. It cannot be combined with the manager.
  const isAdvanced = filter !== undefined && !selection.manager;
  const url = graph.url(path, {
    ...parametersOf(selection),
    $top: `${size}`,
    ...(filter !== undefined && { $filter: filter }),
    ...(isAdvanced && { $count: "true" }),
  });
  const headers = isAdvanced ? eventual : {};
  yield* readList(graph, {
    url,
    paging: { by: "link", size },
    get: (url) => graph.page(url, headers),
    idOf: (object) => idOf(graph, object),
    proof: await proofOf(graph, path, filter),
    attempts,
  });
}

async function proofOf(graph: Graph, path: string, filter?: string): Promise<Proof> {
  if ((await graph.count(path, filter)) === undefined) return { by: "twoEqualReads" };
  return { by: "count", count: async () => (await graph.count(path, filter)) ?? Number.NaN };
}

/** A direct member: what it is, and who. */
interface Member {
  readonly id: string;
  /** Devices, contacts and applications are neither. */
  readonly kind: Entry["kind"] | undefined;
  readonly isGuest: boolean;
}

/** The most members that are kept with their group; others follow as records of their own. */
const pageSize = 999;

/** Groups with their members. Nested groups stay nested; those that are not read themselves are resolved. */
class GroupReader {
  readonly #graph: Graph;
  readonly #options: GroupsOptions;
  readonly #noGuests: boolean;
  /** The groups that are read, where not all are. */
  readonly #read: Seen | undefined;
  /** Groups inside of them that may not be among them, each with those around it. */
  readonly #inner = new Map<string, Set<string>>();

  constructor(graph: Graph, options: GroupsOptions, noGuests: boolean) {
    const { filter, only, hiddenMembership } = options;
    this.#graph = graph;
    this.#options = options;
    this.#noGuests = noGuests;
    const isAll = filter === undefined && only === undefined && hiddenMembership === "include";
    this.#read = isAll ? undefined : new Seen();
  }

  async *read(selection: Selection): AsyncGenerator<readonly SourceRecord[]> {
    const { filter, only, hiddenMembership } = this.#options;
    const lists = only === undefined ? listOf(this.#graph, "groups", selection, filter) : this.#named(only, selection);
    for await (const objects of lists) {
      const groups = objects.filter(
        ({ visibility }) => hiddenMembership === "include" || visibility !== "HiddenMembership",
      );
      for (const group of groups) this.#read?.add(idOf(this.#graph, group));
      yield* this.#withMembers(groups);
    }
    yield* this.#resolved();
  }

  /** @throws {RefusedError} one is not there */
  async *#named(ids: readonly string[], selection: Selection): AsyncGenerator<readonly GraphObject[]> {
    for (const id of new Set(ids.map((id) => id.toLowerCase()))) {
      const value = await this.#graph.jsonIfAny(this.#graph.url(`groups/${id}`, parametersOf(selection)));
      if (value === undefined)
        throw new IncompleteReadError(
          `${this.#graph.subject}: there is no group ${id}; if it was deleted on purpose, take it out of groups: { only }`,
        );
      yield [value as GraphObject];
    }
  }

  async *#withMembers(groups: readonly GraphObject[]): AsyncGenerator<readonly SourceRecord[]> {
    const { concurrency } = this.#graph.options;
    // Two requests for each.
    const width = Math.max(1, Math.ceil(concurrency / 2));
    const first = inParallel(groups, width, async (group) => ({ group, start: await this.#start(group) }));
    for await (const { group, start } of first) {
      const entry = this.#graph.entry("group", group);
      const { id } = entry;
      if (start !== undefined) {
        if (start.length === 0) await this.#assertNotHidden(group);
        yield [{ ...entry, members: this.#references(id, start) }];
        continue;
      }
      yield [entry];
      for await (const members of this.#membersOf(id))
        yield this.#references(id, members).map((member) => membership(entry.origin, id, member));
    }
  }

  /** All members, if they are on one page and as many as Graph counts. */
  async #start({ id }: GraphObject): Promise<readonly Member[] | undefined> {
    const path = `groups/${String(id)}/members`;
    const [page, count] = await Promise.all([this.#graph.page(this.#membersUrl(path)), this.#graph.count(path)]);
    if (page.next !== undefined || page.items.length !== count || page.items.length >= pageSize) return undefined;
    const members = page.items.map((object) => this.#member(object, String(id)));
    return new Set(members.map((member) => member.id)).size === count ? members : undefined;
  }

  /** Page by page, and as often as it takes. @throws {IncompleteReadError} they are not as many as Graph counts */
  async *#membersOf(group: string): AsyncGenerator<readonly Member[]> {
    const path = `groups/${group}/members`;
    let seen = { user: new Seen(), group: new Seen() };
    yield* readList<Member>(this.#graph, {
      url: this.#membersUrl(path),
      paging: { by: "link", size: pageSize },
      get: async (url, isFirst) => {
        const page = await this.#graph.page(url);
        const items = page.items.map((object) => this.#member(object, group));
        if (isFirst) seen = { user: new Seen(), group: new Seen() };
        for (const { kind, id } of items) if (kind !== undefined) seen[kind].add(id);
        return { ...page, items };
      },
      idOf: ({ id }) => id,
      proof:
        (await this.#graph.count(path)) === undefined
          ? { by: "twoEqualReads" }
          : { by: "check", check: (found) => this.#problemWith(path, found, seen) },
      attempts,
    });
  }

  /**
   * Graph leaves applications out of lists of members and counts them: then users and groups are counted apart.
   * @returns why not all members came; undefined: they did
   */
  async #problemWith(path: string, found: number, seen: Record<Entry["kind"], Seen>): Promise<string | undefined> {
    const count = await this.#graph.count(path);
    if (count === found) return undefined;
    const mismatch = `Graph counts ${formatNumber(count ?? 0)} members, and there are ${formatNumber(found)}`;
    if (count === undefined || count < found) return mismatch;
    const users = (await this.#graph.count(`${path}/microsoft.graph.user`)) ?? 0;
    if (users !== seen.user.size)
      return `${mismatch} (of users ${formatNumber(users)}, and ${formatNumber(seen.user.size)})`;
    const groups = (await this.#graph.countIfAny(`${path}/microsoft.graph.group`)) ?? 0;
    if (groups === seen.group.size) return undefined;
    return `${mismatch} (of groups ${formatNumber(groups)}, and ${formatNumber(seen.group.size)})`;
  }

  #membersUrl(path: string): URL {
    return this.#graph.url(path, { $select: "id,displayName,userPrincipalName,userType", $top: `${pageSize}` });
  }

  /** @throws {IncompleteReadError} the app may not read it: Graph shows what it is, and nothing more */
  #member(object: GraphObject, group: string): Member {
    const id = idOf(this.#graph, object);
    const type = object["@odata.type"];
    const kind = type === "#microsoft.graph.user" ? "user" : type === "#microsoft.graph.group" ? "group" : undefined;
    if (kind !== undefined && typeof (object["displayName"] ?? object["userPrincipalName"]) !== "string")
      throw unreadable(this.#graph, kind, id, `, a member of the group ${group}`);
    return { id, kind, isGuest: object["userType"] === "Guest" };
  }

  /** References to members that are read themselves; notes the groups that may not be. */
  #references(group: string, members: readonly Member[]): readonly MemberReference[] {
    return members.flatMap(({ id, kind, isGuest }) => {
      if (kind === undefined || (isGuest && this.#noGuests)) return [];
      if (kind === "user" || this.#read === undefined) return [{ kind, key: id }];
      const around = this.#inner.get(id) ?? new Set();
      this.#inner.set(id, around.add(group));
      return [];
    });
  }

  /** Members of groups that are not read, as members of those around them that are. */
  async *#resolved(): AsyncGenerator<readonly SourceRecord[]> {
    const resolved = new Map<string, Set<string>>();
    while (this.#inner.size > 0) {
      const [[inner, around] = ["", new Set<string>()]] = this.#inner;
      this.#inner.delete(inner);
      const known = resolved.get(inner) ?? new Set();
      const fresh = [...around].filter((group) => !known.has(group));
      resolved.set(inner, new Set([...known, ...fresh]));
      if (fresh.length === 0) continue;
      const origin = this.#graph.url(`groups/${inner}`).href;
      if (this.#read?.has(inner) === true) {
        yield fresh.map((group) => membership(origin, group, { kind: "group", key: inner }));
        continue;
      }
      for await (const members of this.#membersOf(inner)) {
        const records = fresh.flatMap((group) =>
          this.#references(group, members).map((member) => membership(origin, group, member)),
        );
        if (records.length > 0) yield records;
      }
    }
  }

  /** @throws {IncompleteReadError} the group looks empty because the app may not see who is in it */
  async #assertNotHidden({ id, visibility, displayName }: GraphObject): Promise<void> {
    if (visibility !== "HiddenMembership") return;
    if ((await this.#graph.permissions())?.includes(permissions.hidden) === true) return;
    throw new IncompleteReadError(
      `${this.#graph.subject}: group ${String(id)} (${String(displayName)}): its membership is hidden, and Graph shows nobody in it; grant the app the application permission ${permissions.hidden}, or set groups: { hiddenMembership: exclude }`,
    );
  }
}

function membership(origin: string, group: string, member: MemberReference): SourceRecord {
  return { kind: "membership", group, member, origin };
}

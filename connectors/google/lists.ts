import { z } from "zod";
import type { Entry, MemberReference, ReadContext, RecordId, SourceRecord, WantedAttributes } from "#connector.ts";
import { IncompleteReadError } from "#errors.ts";
import type { DirectoryApi } from "#http/directory/api.ts";
import { inParallel, pagesOf } from "#http/directory/pages.ts";
import type { PagedList } from "#http/directory/pages.ts";
import { readList, unseen, untilProven } from "#http/directory/proof.ts";
import type { Pass, Progress } from "#http/directory/proof.ts";
import type { Kind } from "#principals/principal.ts";
import { formatNumber } from "#text.ts";
import { isObject } from "#values.ts";
import { entryOf, fieldsFor } from "./entries.ts";
import type { Resource } from "./entries.ts";
import type { Options } from "./options.ts";

/** The largest pages that Google sends. */
const sizes = { users: 500, groups: 200, members: 200 } as const;
type ListName = keyof typeof sizes;

/** People join and leave while a large directory is read, and it may be read for minutes. */
const attempts = 3;

/** How many groups are asked for their members at a time. */
const width = 8;

/** Not looked into: a schema would copy every user. */
const resource = z.custom<Resource>(isObject);

/** The lists of the Directory API, each to its proven end. */
export class Lists {
  readonly #api: DirectoryApi;
  readonly #options: Options;
  readonly #wanted: WantedAttributes | undefined;

  constructor(api: DirectoryApi, options: Options, { attributes }: Pick<ReadContext, "attributes">) {
    this.#api = api;
    this.#options = options;
    this.#wanted = attributes;
  }

  /**
   * All users, with memberships in these groups.
   * @throws {IncompleteReadError} it is not proven that these are all
   */
  async *users(memberOf: readonly string[]): AsyncGenerator<readonly Entry[]> {
    const names = fieldsFor("user", this.#wanted?.users);
    const projection = names.includes("customSchemas") ? "full" : "basic";
    for await (const users of this.#everything("users", names, { projection, viewType: "admin_view" }))
      yield users.map((user) => this.#entryOf("user", user, { memberOf }));
  }

  /**
   * All groups and their members.
   * @param everybody is given the groups that all users are in, as they are found
   * @throws {IncompleteReadError} it is not proven that these are all
   */
  async *groups(everybody: string[]): AsyncGenerator<readonly SourceRecord[]> {
    for await (const groups of this.#everything("groups", fieldsFor("group", this.#wanted?.groups), {})) {
      // The first pages of many groups, together: most groups have no other.
      const started = inParallel(groups, width, async (group) => {
        const pages = this.#membersOf(group);
        return { group, pages, first: await pages.next() };
      });
      for await (const { group, pages, first } of started) {
        const members = first.done === true ? [] : referencesIn(first.value, group, everybody);
        const entry = this.#entryOf("group", group, { members });
        yield [entry];
        for await (const page of pages) {
          const further = referencesIn(page, group, everybody);
          yield further.map(
            (member) => ({ kind: "membership", group: entry.id, member, origin: entry.origin }) as const,
          );
        }
      }
    }
  }

  /**
   * One record by its id; undefined: there is none.
   * @throws {IncompleteReadError} the answer is another one
   */
  async byId({ kind, id }: RecordId): Promise<Entry | undefined> {
    const names = kind === "user" ? "id,primaryEmail,suspended,deletionTime" : "id,email";
    const url = this.#url(`${kind}s/${encodeURIComponent(id)}`, { fields: names });
    const found = await this.#one(url);
    // One that was deleted can be restored for some days.
    if (found === undefined || found["deletionTime"] !== undefined) return undefined;
    if (found["id"] !== id) throw new IncompleteReadError(`${this.#api.titleOf(url)}: the answer is another ${kind}`);
    return this.#entryOf(kind, found, {});
  }

  /** The first of a list; undefined: it is empty. */
  async first(name: "users" | "groups"): Promise<Resource | undefined> {
    const url = this.#url(name, { customer: this.#options.customer, maxResults: "1", fields: `kind,${name}(id)` });
    return (await this.#page(url, name)).items[0];
  }

  /** Answers to a lookup of the subject, for a person. */
  subject(): Promise<Resource | undefined> {
    const { subject } = this.#options;
    return this.#one(
      this.#url(`users/${encodeURIComponent(subject)}`, { fields: "isAdmin,isDelegatedAdmin,suspended" }),
    );
  }

  /** @returns undefined: there is none */
  async #one(url: URL): Promise<Resource | undefined> {
    const value = await this.#api.jsonIfAny(url);
    if (value === undefined) return undefined;
    const { data } = resource.safeParse(value);
    if (data === undefined) throw new IncompleteReadError(`${this.#api.titleOf(url)}: the answer is not a record`);
    return data;
  }

  /** A list in both directions: Google does not say how many there are. */
  #everything(
    name: "users" | "groups",
    names: readonly string[],
    parameters: Readonly<Record<string, string>>,
  ): AsyncGenerator<readonly Resource[]> {
    const list = (inner: readonly string[], further: Readonly<Record<string, string>>): URL =>
      this.#listUrl(name, name, inner, { customer: this.#options.customer, orderBy: "email", ...further });
    const url = list(names, parameters);
    const proof = { by: "twoEqualReads", url: list(["id"], { sortOrder: "DESCENDING" }) } as const;
    return readList(this.#api, { ...this.#paged(name, url), idOf: (item) => this.#idOf(item, url), proof, attempts });
  }

  #membersOf(group: Resource): AsyncGenerator<readonly Resource[]> {
    const path = `groups/${encodeURIComponent(String(group["id"]))}/members`;
    const url = this.#listUrl(path, "members", ["id", "email", "type"], {});
    const list = this.#paged("members", url);
    const idOf = (member: Resource): string => memberKey(member) ?? this.#idOf(member, url);
    const { groups } = this.#options;
    if (groups !== false && groups.proof === "twoEqualReads")
      return readList(this.#api, { ...list, idOf, proof: { by: "twoEqualReads" } });
    let count = countOf(group);
    return untilProven(this.#api, this.#api.titleOf(url), 2, (progress) =>
      this.#countedMembers(list, idOf, progress, {
        said: () => count,
        ask: async () => (count = countOf((await this.#groupAgain(group)) ?? {})),
      }),
    );
  }

  async *#countedMembers(
    list: PagedList<Resource>,
    idOf: (member: Resource) => string,
    progress: Progress,
    count: { readonly said: () => number | undefined; readonly ask: () => Promise<number | undefined> },
  ): Pass<Resource> {
    const others = new Set<string>();
    const pages = pagesOf(this.#api, list);
    let step = await pages.next();
    for (; step.done !== true; step = await pages.next()) {
      for (const member of step.value.items) if (member["type"] !== "USER") others.add(idOf(member));
      const news = unseen(step.value.items, progress, idOf);
      if (news.length > 0) yield news;
    }
    if (step.value !== undefined) return step.value;
    const found = progress.seen.size;
    // The documents call it the number of users, and leave open whether nested groups count.
    const fits = (said: number | undefined): boolean => said === found || said === found - others.size;
    // Somebody may have come or gone since the list of groups.
    if (fits(count.said()) || fits(await count.ask())) return undefined;
    const said = count.said();
    const says =
      said === undefined ? "the group has no directMembersCount" : `directMembersCount is ${formatNumber(said)}`;
    return `${says}, and there are ${formatNumber(found)} members; if that number is wrong for good, set groups: { proof: twoEqualReads }`;
  }

  async #groupAgain(group: Resource): Promise<Resource | undefined> {
    return this.#one(this.#url(`groups/${encodeURIComponent(String(group["id"]))}`, { fields: "directMembersCount" }));
  }

  #paged(name: ListName, url: URL): PagedList<Resource> {
    return {
      url,
      paging: { by: "cursor", parameter: "pageToken", size: sizes[name] },
      get: async (page, isFirst) => {
        const found = await this.#page(page, name);
        if (name === "users" && isFirst && found.items.length === 0 && found.next === undefined)
          throw new IncompleteReadError(
            `${this.#api.titleOf(page)}: 0 users; there is at least ${this.#options.subject}, so the records read so far are not used`,
          );
        return found;
      },
    };
  }

  async #page(url: URL, name: ListName): Promise<{ items: readonly Resource[]; next?: string | undefined }> {
    const title = this.#api.titleOf(url);
    const { value } = await this.#api.json(url, {
      refused: ({ status }) => {
        if (status !== 404 || name !== "members") return undefined;
        throw new IncompleteReadError(`${title}: the group was deleted while it was read`, { torn: true });
      },
    });
    const kind = `admin#directory#${name}`;
    const { data } = z
      .object({ kind: z.literal(kind), nextPageToken: z.string().optional(), [name]: z.array(resource).optional() })
      .safeParse(value);
    if (data === undefined)
      throw new IncompleteReadError(
        `${title}: the answer is not a list of ${name} (kind ${kind}); the records read so far are not used`,
      );
    // An empty list is left out.
    return {
      items: (data[name] as readonly Resource[] | undefined) ?? [],
      next: data["nextPageToken"] as string | undefined,
    };
  }

  /** The mask names the token: without it, Google leaves it out, and the first page looks like the last. */
  #listUrl(path: string, name: ListName, inner: readonly string[], parameters: Readonly<Record<string, string>>): URL {
    const fields = `kind,nextPageToken,${name}(${inner.join(",")})`;
    return this.#url(path, { maxResults: String(sizes[name]), ...parameters, fields });
  }

  #url(path: string, parameters: Readonly<Record<string, string>>): URL {
    const url = new URL(`/admin/directory/v1/${path}`, this.#options.endpoints.directory);
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
    return url;
  }

  #idOf({ id }: Resource, url: URL): string {
    if (typeof id === "string" && id !== "") return id;
    throw new IncompleteReadError(
      `${this.#api.titleOf(url)}: a record without an id; the records read so far are not used`,
    );
  }

  #entryOf(kind: Kind, found: Resource, links: Parameters<typeof entryOf>[3]): Entry {
    const key = found[kind === "user" ? "primaryEmail" : "email"] ?? found["id"];
    const origin = this.#url(`${kind}s/${String(key)}`, {}).href;
    const wanted = this.#wanted?.[`${kind}s`];
    return entryOf(kind, found, { origin, wanted: wanted === undefined ? undefined : new Set(wanted) }, links);
  }
}

/** How many members a group says it has: a text of digits. */
function countOf({ directMembersCount: count }: Resource): number | undefined {
  return typeof count === "string" && /^\d+$/.test(count)
    ? Number(count)
    : typeof count === "number"
      ? count
      : undefined;
}

/** Members from outside the customer may have only an address. */
function memberKey({ id, email }: Resource): string | undefined {
  return [id, email].find((key): key is string => typeof key === "string" && key !== "");
}

/** The members of a page as references. One of type CUSTOMER stands for all users. */
function referencesIn(members: readonly Resource[], group: Resource, everybody: string[]): MemberReference[] {
  return members.flatMap((member) => {
    if (member["type"] === "CUSTOMER") {
      everybody.push(String(group["id"]));
      return [];
    }
    const kind = member["type"] === "GROUP" ? "group" : "user";
    return [{ kind, key: memberKey(member) ?? "" }];
  });
}

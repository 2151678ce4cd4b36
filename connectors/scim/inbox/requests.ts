import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import type { Push } from "#state/inbox/events.ts";
import type { Inboxes } from "#state/inbox/inbox.ts";
import type { InboxReader } from "#state/inbox/reader.ts";
import type { InboxKind, Member, StoredResource } from "#state/inbox/resources.ts";
import type { InboxWriter } from "#state/inbox/writer.ts";
import { TakenError } from "#state/inbox/resources.ts";
import { brakedLosses } from "#state/inbox/status.ts";
import type { InboxSettings } from "#state/inbox/status.ts";
import type { Resource } from "../schema.ts";
import { pages } from "./discovery.ts";
import { invalid, ScimError } from "./errors.ts";
import { patch } from "./patch.ts";
import type { MemberChange } from "./patch.ts";
import { checked, isSelected, readResource, selected } from "./resources.ts";
import type { Selection } from "./resources.ts";
import { search } from "./search.ts";

/** The most members that one PATCH names. */
const mostMembers = 8_000;

/** A page of groups ends with the one with which it has this many members. */
const mostListed = 200_000;

/** How many members are read at a time. */
const membersAtOnce = 5_000;

/** Which part of a list a client asks for (RFC 7644, 3.4.2; RFC 9865). */
export interface ListQuery extends Selection {
  readonly filter?: string | undefined;
  /** From 1. */
  readonly startIndex: number;
  readonly count: number;
  /** Present, and empty for the first page: paging by cursor. */
  readonly cursor?: string | undefined;
}

/** How a resource is changed and answered. */
interface EditOptions extends Selection {
  /** Of `If-Match`; absent: whatever is there. */
  readonly version?: string | undefined;
}

/** A resource as it is answered. */
export interface Answer {
  readonly resource: Resource;
  readonly etag: string;
  readonly location: string;
}

/** What clients ask of the inbox of a source. Each request is one transaction. */
export class Requests {
  readonly #inboxes: Inboxes;
  readonly #source: string;
  /** `https://…/scim/v2/okta`: locations begin with it. */
  readonly #base: string;
  readonly #settings: Pick<InboxSettings, "brakes" | "refuse">;

  constructor(inboxes: Inboxes, source: string, base: string, settings: Pick<InboxSettings, "brakes" | "refuse">) {
    this.#inboxes = inboxes;
    this.#source = source;
    this.#base = base;
    this.#settings = settings;
  }

  get(kind: InboxKind, id: string, selection: Selection): Promise<Answer> {
    return this.#inboxes.read(this.#source, async (inbox) =>
      this.#answer(inbox, await found(inbox, kind, id), selection),
    );
  }

  list(kind: InboxKind, query: ListQuery): Promise<Resource> {
    return this.#inboxes.read(this.#source, async (inbox) => {
      const { stored, total, next: nextPage } = await listed(inbox, kind, query, (each) => this.#whole(each));
      const { resources: Resources, last } = await this.#resources(inbox, kind, stored, query);
      const start = query.cursor === undefined ? { startIndex: query.startIndex } : {};
      const isCut = last !== undefined && query.cursor !== undefined;
      const next = isCut ? `${last}` : nextPage;
      return {
        schemas: ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
        totalResults: total,
        itemsPerPage: Resources.length,
        ...start,
        ...(next !== undefined && { nextCursor: next }),
        Resources,
      };
    });
  }

  create(kind: InboxKind, body: unknown, push: Push, selection: Selection): Promise<Answer> {
    const { resource, members = [] } = readResource(kind, body);
    return this.#change(push, async (inbox) => {
      const id = randomUUID();
      const created = await inbox.create(kind, id, resource);
      const added = await inbox.addMembers(id, members.map(memberOf));
      return this.#answer(inbox, added > 0 ? await found(inbox, kind, id) : created, selection);
    });
  }

  replace(kind: InboxKind, id: string, body: unknown, push: Push, options: EditOptions): Promise<Answer> {
    return this.#edit(kind, id, push, options, async (inbox, before) => {
      const { resource, members = [] } = readResource(kind, body, before.document);
      await inbox.replace(before, resource);
      if (kind === "group") await inbox.setMembers(id, members.map(memberOf));
    });
  }

  patch(kind: InboxKind, id: string, body: unknown, push: Push, options: EditOptions): Promise<Answer> {
    return this.#edit(kind, id, push, options, async (inbox, before) => {
      const { resource, members } = patch(body, { ...before.document, id });
      if (kind === "user" && members.length > 0) throw invalid("invalidPath", "a user has no members");
      refuseMany(members);
      const { id: _, ...document } = checked(kind, resource);
      await inbox.replace(before, document);
      for (const change of members) await changeMembers(inbox, id, change);
    });
  }

  /** Changes what is there, and answers with what it has become. */
  #edit(
    kind: InboxKind,
    id: string,
    push: Push,
    { version, ...selection }: EditOptions,
    edit: (inbox: InboxWriter, before: StoredResource) => Promise<void>,
  ): Promise<Answer> {
    return this.#change(push, async (inbox) => {
      await edit(inbox, await found(inbox, kind, id, version));
      return this.#answer(inbox, await found(inbox, kind, id), selection);
    });
  }

  remove(kind: InboxKind, id: string, push: Push, version?: string): Promise<void> {
    return this.#change(push, async (inbox) => {
      await found(inbox, kind, id, version);
      await inbox.remove(kind, id);
    });
  }

  async #change<Result>(push: Push, work: (inbox: InboxWriter) => Promise<Result>): Promise<Result> {
    try {
      return await this.#inboxes.change(this.#source, push, async (inbox) => {
        const result = await work(inbox);
        if (this.#settings.refuse && inbox.takes) await refuseLosses(inbox, this.#settings, push.at);
        return result;
      });
    } catch (error) {
      if (error instanceof TakenError) throw new ScimError(409, error.message, "uniqueness");
      throw error;
    }
  }

  /**
   * The resources of a page. Groups with very many members make it shorter, as RFC 7644, 3.4.2.4 allows.
   * @returns the number of the last one where others are left out
   */
  async #resources(
    inbox: InboxReader,
    kind: InboxKind,
    stored: readonly StoredResource[],
    selection: Selection,
  ): Promise<{ readonly resources: readonly Resource[]; readonly last?: number | undefined }> {
    const hasGroups = kind === "user" && isSelected("groups", selection);
    const groups = hasGroups ? await inbox.groupsOfAll(stored.map(({ id }) => id)) : undefined;
    const resources: Resource[] = [];
    let members = 0;
    for (const each of stored) {
      const { resource } = await this.#answer(inbox, each, selection, groups?.get(each.id) ?? []);
      resources.push(resource);
      if (Array.isArray(resource["members"])) members += resource["members"].length;
      if (members >= mostListed && resources.length < stored.length) return { resources, last: each.number };
    }
    return { resources };
  }

  /** All but members and groups. */
  #whole({ id, kind, document, created, changed, version }: StoredResource): Resource {
    const meta = {
      resourceType: kind === "user" ? "User" : "Group",
      created: new Date(created).toISOString(),
      lastModified: new Date(changed).toISOString(),
      location: this.#location(kind, id),
      version: etagOf(version),
    };
    return { ...document, id, meta };
  }

  /** @param memberships the groups of a user, where they are known */
  async #answer(
    inbox: InboxReader,
    stored: StoredResource,
    selection: Selection,
    memberships?: readonly StoredResource[],
  ): Promise<Answer> {
    const { id, kind, version } = stored;
    let resource = this.#whole(stored);
    if (kind === "group" && isSelected("members", selection)) {
      const members: Resource[] = [];
      for await (const { id: value, document } of membersOf(inbox, id)) members.push({ value, ...document });
      resource = { ...resource, members };
    }
    if (kind === "user" && isSelected("groups", selection)) {
      const groups = (memberships ?? (await inbox.groupsOf(id))).map((group) => ({
        value: group.id,
        display: group.document["displayName"],
        type: "direct",
        $ref: this.#location("group", group.id),
      }));
      if (groups.length > 0) resource = { ...resource, groups };
    }
    return {
      resource: selected(resource, selection),
      etag: etagOf(version),
      location: this.#location(kind, id),
    };
  }

  #location(kind: InboxKind, id: string): string {
    return `${this.#base}/${kind === "user" ? "Users" : "Groups"}/${encodeURIComponent(id)}`;
  }
}

/** All members of a group. Others get their turn meanwhile. */
async function* membersOf(inbox: InboxReader, group: string): AsyncGenerator<Member> {
  for (let after = ""; ;) {
    const members = await inbox.members(group, { after, limit: membersAtOnce });
    yield* members;
    if (members.length < membersAtOnce) return;
    after = members.at(-1)?.id ?? "";
    await setImmediate();
  }
}

/** How long a provider is told to wait that would trip a brake, in seconds. */
const brakePause = 600;

/** @throws {ScimError} 503: with this request, a brake would be tripped */
async function refuseLosses(inbox: InboxReader, { brakes }: Pick<InboxSettings, "brakes">, now: number): Promise<void> {
  if (brakes === false) return;
  for (const { loss, of, lost, most } of await brakedLosses(inbox, { brakes }, now - brakes.window))
    if (lost > most)
      throw new ScimError(
        503,
        `${loss} of ${of}: ${lost} within the window of the brake, at most ${most}; an administrator of Rollcall decides`,
        undefined,
        brakePause,
      );
}

/** @throws {ScimError} 404; 412: it has another version */
async function found(inbox: InboxReader, kind: InboxKind, id: string, version?: string): Promise<StoredResource> {
  const stored = await inbox.find(kind, id);
  if (stored === undefined) throw new ScimError(404, `there is no ${kind} ${JSON.stringify(id.slice(0, 100))}`);
  const isAny = version === undefined || version.trim() === "*";
  if (!isAny && !sameEtag(version, etagOf(stored.version)))
    throw new ScimError(412, `the ${kind} has the version ${etagOf(stored.version)} by now; read it again`);
  return stored;
}

function etagOf(version: number): string {
  return `W/"${version}"`;
}

/** Whether one of the versions of a header is this one. */
export function sameEtag(header: string, etag: string): boolean {
  return header.split(",").some((each) => withoutWeak(each) === withoutWeak(etag));
}

function withoutWeak(etag: string): string {
  return etag.trim().replace(/^W\//i, "");
}

function memberOf({ value, ...document }: Resource): Member {
  const id = String(value);
  return Object.keys(document).length === 0 ? { id } : { id, document };
}

function refuseMany(changes: readonly MemberChange[]): void {
  const counts = changes.map((change) =>
    change.op === "add" ? change.members.length : change.op === "remove" ? change.ids.length : 0,
  );
  const named = counts.reduce((sum, count) => sum + count, 0);
  if (named > mostMembers)
    throw new ScimError(413, `the request names ${named} members; expected at most ${mostMembers}`);
}

async function changeMembers(inbox: InboxWriter, group: string, change: MemberChange): Promise<void> {
  if (change.op === "add") await inbox.addMembers(group, change.members.map(memberOf));
  else if (change.op === "remove") await inbox.removeMembers(group, change.ids);
  else await inbox.setMembers(group, []);
}

interface Listed {
  readonly stored: readonly StoredResource[];
  readonly total: number;
  readonly next?: string | undefined;
}

async function listed(
  inbox: InboxReader,
  kind: InboxKind,
  { filter, startIndex, count, cursor }: ListQuery,
  present: (stored: StoredResource) => Resource,
): Promise<Listed> {
  const limit = Math.min(count, pages.most);
  const after = cursor === undefined ? 0 : readCursor(cursor);
  const skip = cursor === undefined ? startIndex - 1 : 0;
  if (filter === undefined) {
    const total = await inbox.count(kind);
    const more = await inbox.page(kind, { after, skip, limit: limit + 1 });
    return { ...pageOf(more, limit, cursor), total };
  }
  let total = 0;
  const more: StoredResource[] = [];
  for await (const stored of search(inbox, kind, filter, present)) {
    total++;
    if (stored.number > after && total > skip && more.length <= limit) more.push(stored);
  }
  return { ...pageOf(more, limit, cursor), total };
}

/** @param more than the page, by one, where there is a next one */
function pageOf(more: readonly StoredResource[], limit: number, cursor: string | undefined): Omit<Listed, "total"> {
  const stored = more.slice(0, limit);
  const last = stored.at(-1);
  const next = cursor === undefined || more.length <= limit || last === undefined ? undefined : `${last.number}`;
  return { stored, next };
}

/** @throws {ScimError} invalidCursor */
function readCursor(cursor: string): number {
  if (/^\d{0,15}$/.test(cursor)) return Number(cursor);
  throw invalid("invalidCursor", "expected a cursor of this list, or an empty one for its beginning");
}

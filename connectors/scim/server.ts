import type { Entry, MemberReference, OpenContext, ReadContext, SourceRecord } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import { textOf } from "#http/client.ts";
import type { Kind } from "#principals/principal.ts";
import type { Authorization, Server } from "./client.ts";
import { openServer, titleOf } from "./client.ts";
import { itemsOf } from "./json.ts";
import { createSeen, resourcesOf } from "./list.ts";
import type { List } from "./list.ts";
import type { GroupsOptions, Options } from "./options.ts";
import type { EntryOptions, Resource } from "./resource.ts";
import { entryOf, idOf, membersOf, objectOf, typeOf } from "./resource.ts";

export type ServerOptions = Options & { readonly url: string };

/**
 * Users, then groups, from a server.
 * @throws {IncompleteReadError} a list does not prove that it is complete
 * @throws what `Server.get` throws
 */
export async function* readServer(
  options: ServerOptions,
  authorization: Authorization,
  open: OpenContext,
  context: ReadContext,
): AsyncGenerator<readonly SourceRecord[]> {
  context.signal.throwIfAborted();
  const server = await openServer(options, authorization, open, context);
  try {
    const paging = await pagingOf(options, server);
    const entryOptions = entryOptionsOf(options, context);
    const list = (kind: Kind, part: { path: string; filter?: string | undefined }): List => ({
      path: part.path,
      parameters: {
        ...(part.filter !== undefined && { filter: part.filter }),
        ...selectionOf(kind, options, entryOptions),
      },
      paging,
    });
    let isLinked = false;
    for await (const resources of resourcesOf(server, list("user", options.users))) {
      const users = resources.map((resource) => entryIn(server, "user", options.users.path, resource, entryOptions));
      isLinked ||= users.some(({ memberOf }) => memberOf.length > 0);
      yield users;
    }
    if (options.groups !== false) {
      const hasMembers = yield* readGroups(server, options.groups, list("group", options.groups), entryOptions);
      if (!hasMembers && !isLinked) throw withoutMembers(server, options.groups);
    }
    context.signal.throwIfAborted();
  } finally {
    await server.close();
  }
}

/** Paging as configured, or as the server announces, in pages no larger than its limit. */
export async function pagingOf({ paging }: Options, server: Server): Promise<List["paging"]> {
  const provider = await serviceProviderConfig(server);
  const by = paging.by === "auto" ? (provider.hasCursors ? "cursor" : "index") : paging.by;
  return { ...paging, by, count: Math.min(paging.count, provider.largestPage ?? paging.count) };
}

/** @returns false when no group has the attribute `members`: the server may leave it out of lists */
async function* readGroups(
  server: Server,
  options: GroupsOptions,
  list: List,
  entryOptions: EntryOptions,
): AsyncGenerator<readonly SourceRecord[], boolean> {
  const isApart = entryOptions.memberships !== "groups" && options.members === "each";
  let hasMembers = isApart || entryOptions.memberships === "groups";
  let hasGroups = false;
  for await (const resources of resourcesOf(server, list)) {
    const entries: Entry[] = [];
    const apart: { entry: Entry; given: number | undefined }[] = [];
    for (const resource of resources) {
      const entry = entryIn(server, "group", options.path, resource, entryOptions);
      hasMembers ||= "members" in resource;
      hasGroups = true;
      const isCut = options.memberLimit !== undefined && entry.members.length >= options.memberLimit;
      if (isApart || isCut) apart.push({ entry, given: isCut ? entry.members.length : undefined });
      entries.push(isApart || isCut ? { ...entry, members: [] } : entry);
    }
    yield entries;
    for (const { entry, given } of apart) {
      for await (const members of membersOfGroup(server, options, entry.id, given)) {
        yield members.map((member) => membership(entry, member));
      }
    }
  }
  return hasMembers || !hasGroups;
}

function withoutMembers({ subject }: Server, { path }: GroupsOptions): IncompleteReadError {
  return new IncompleteReadError(
    `${subject}: ${path}: no group has the attribute members, and no user is in a group; a server that leaves members out of lists ` +
      "is asked for them with groups: { members: each }, as is one whose groups are all empty",
  );
}

function membership({ id, origin }: Entry, member: MemberReference): SourceRecord {
  return { kind: "membership", group: id, member, origin };
}

/** @throws {InputError} the resource is of another kind */
function entryIn(server: Server, kind: Kind, path: string, resource: Resource, entryOptions: EntryOptions): Entry {
  const origin = new URL(`${path.replace(/^\/+/, "")}/${encodeURIComponent(idOf(resource) ?? "")}`, server.base).href;
  const type = typeOf(resource);
  if (type === undefined || type === kind) return entryOf(kind, resource, origin, entryOptions);
  const found = typeof type === "string" ? type : type.other;
  throw new InputError(`${server.subject}: ${origin}: is a ${found}, in the list of ${kind}s; check the path`);
}

/**
 * The members of one group, requested on its own: at once, or page by page where the server pages members. There is no
 * total to compare with: they are complete when a further page is empty.
 * @param given how many of them the list of groups held, if it may have cut them off
 * @throws {IncompleteReadError} they are still cut off, or all pages are the same
 * @throws {InputError} the answer is not a group
 */
async function* membersOfGroup(
  server: Server,
  options: GroupsOptions,
  id: string,
  given: number | undefined,
): AsyncGenerator<readonly MemberReference[]> {
  const { memberPages: pages, memberLimit: limit } = options;
  const path = `${options.path}/${encodeURIComponent(id)}`;
  const title = `${server.subject}: GET ${titleOf(new URL(path.replace(/^\/+/, ""), server.base))}`;
  const seen = createSeen();
  for (let next = 1; ;) {
    const paging = pages === undefined ? {} : { [pages.startIndex]: `${next}`, [pages.count]: `${pages.size}` };
    const members = await memberPage(server, path, { attributes: "members", ...paging }, title);
    const news = members.filter(({ kind, key }) => seen.add(`${kind ?? ""} ${key}`));
    if (news.length > 0) yield news;
    if (pages === undefined) {
      if (given === undefined || limit === undefined || members.length > given) return;
      throw new IncompleteReadError(
        `${title}: ${members.length} members, no more than in the list of groups (memberLimit: ${limit}), so they may be cut off; ` +
          "set groups: { memberPages }, if the server has pages of members",
      );
    }
    if (members.length === 0) return;
    if (news.length === 0) {
      throw new IncompleteReadError(
        `${title}: the members from ${next} on are those that came before; does the server page members with ${pages.startIndex} and ${pages.count}?`,
      );
    }
    next += members.length;
  }
}

function memberPage(
  server: Server,
  path: string,
  parameters: Readonly<Record<string, string>>,
  title: string,
): Promise<readonly MemberReference[]> {
  return server.get({
    path,
    parameters,
    async use({ body }) {
      let group: Resource | undefined;
      // To the end, so that the connection can be used again.
      for await (const [item] of itemsOf(body)) {
        if (item?.kind === "resource") group ??= objectOf(item.value);
      }
      if (group !== undefined) return membersOf(group, title);
      throw new InputError(`${title}: the answer is not a group`);
    },
  });
}

/** What a server says that it supports (RFC 7643, 5; RFC 9865). */
interface ServiceProvider {
  readonly hasCursors: boolean;
  /** The most resources in one page; undefined: it does not say. */
  readonly largestPage: number | undefined;
}

const unknown: ServiceProvider = { hasCursors: false, largestPage: undefined };

/** The server's ServiceProviderConfig; where there is none, nothing is supported. */
async function serviceProviderConfig(server: Server): Promise<ServiceProvider> {
  const text = await server.get({
    path: "ServiceProviderConfig",
    parameters: {},
    use: (answer) => textOf(answer),
    refused: ({ status }) => (isUnavailable(status) ? { value: "" } : undefined),
  });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return unknown;
  }
  const config = objectOf(value);
  if (config === undefined) return unknown;
  const pagination = objectOf(config["pagination"]);
  const sizes = [objectOf(config["filter"])?.["maxResults"], pagination?.["maxPageSize"]];
  const known = sizes.filter((size): size is number => typeof size === "number" && Number.isInteger(size) && size > 0);
  return {
    hasCursors: pagination?.["cursor"] === true,
    largestPage: known.length === 0 ? undefined : Math.min(...known),
  };
}

/** Some servers require other privileges for it, some do not have it. */
function isUnavailable(status: number): boolean {
  return status === 501 || (status >= 400 && status < 500 && status !== 401 && status !== 429);
}

/** Large attributes. No other attribute has a name in rules that begins like one of these. */
const bulky = ["photos", "x509Certificates", "ims", "addresses", "entitlements", "roles", "phoneNumbers"];

/** What to make entries of. */
export function entryOptionsOf({ memberships }: Options, { attributes }: ReadContext): EntryOptions {
  return {
    memberships,
    wanted: {
      user: attributes === undefined ? undefined : new Set(attributes.users),
      group: attributes === undefined ? undefined : new Set(attributes.groups),
    },
  };
}

/** The parameters that keep the server from sending attributes that nobody uses. */
function selectionOf(
  kind: Kind,
  options: Options,
  { wanted, memberships }: EntryOptions,
): Readonly<Record<string, string>> {
  const { attributes, groups } = options;
  const apart = groups !== false && groups.members === "each";
  if (attributes === "all") return kind === "group" && apart ? { excludedAttributes: "members" } : {};
  const isMember = kind === "user" ? groups !== false && memberships !== "members" : memberships !== "groups" && !apart;
  const link = kind === "user" ? "groups" : "members";
  if (attributes !== "auto") {
    const asked = kind === "user" ? attributes : attributes.filter((name) => !name.includes(":User:"));
    return { attributes: ["id", "meta", ...asked, ...(isMember ? [link] : [])].join(",") };
  }
  const names = wanted[kind];
  const unused =
    names === undefined ? [] : bulky.filter((name) => ![...names].some((asked) => asked.split(".")[0] === name));
  const excluded = [...(kind === "user" ? unused : []), ...(isMember ? [] : [link])];
  return excluded.length === 0 ? {} : { excludedAttributes: excluded.join(",") };
}

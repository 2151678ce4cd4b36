import type { Entry, MemberReference, ReadContext, SourceRecord } from "#connector.ts";
import { IncompleteReadError, RefusedError, UnavailableError } from "#errors.ts";
import { jsonIn } from "#http/client.ts";
import type { Kind } from "#principals/principal.ts";
import type { Server, ServerOptions } from "./client.ts";
import { Seen } from "#http/directory/seen.ts";
import { resourcesOf } from "./list.ts";
import type { List, Paging } from "./list.ts";
import type { GroupsOptions, Options } from "./options.ts";
import { entryIn, gone, resourceById, titleOfLookup } from "./lookup.ts";
import type { Lookup } from "./lookup.ts";
import type { EntryOptions } from "./resource.ts";
import { flagOf, membersOf, objectOf, typeOf } from "./resource.ts";

/**
 * Users, then groups, from a server.
 * @throws {IncompleteReadError} a list does not prove that it is complete
 * @throws what `Server.ask` throws
 */
export async function* readServer(
  server: Server,
  options: ServerOptions,
  context: ReadContext,
): AsyncGenerator<readonly SourceRecord[]> {
  const paging = await pagingOf(options, server);
  const entryOptions = entryOptionsOf(options, context);
  const list = (kind: Kind, part: { path: string; filter?: string | undefined }): List => ({
    path: part.path,
    parameters: {
      ...(part.filter !== undefined && { filter: part.filter }),
      ...selectionOf(kind, options, entryOptions),
    },
    idParameters: {
      ...(part.filter !== undefined && { filter: part.filter }),
      ...(options.attributes === "all" ? selectionOf(kind, options, entryOptions) : { attributes: "id" }),
    },
    paging,
    unset: kind === "user" ? unset("minUsers", options.minUsers) : unset("minGroups", options.minGroups),
  });
  for await (const resources of resourcesOf(server, list("user", options.users))) {
    yield resources.map((resource) => entryIn(server, "user", options.users.path, resource, entryOptions));
  }
  if (options.groups !== false) yield* readGroups(server, options.groups, list("group", options.groups), entryOptions);
}

function unset(setting: string, value: number | undefined): string | undefined {
  return value === undefined ? `set ${setting} to the fewest there can be` : undefined;
}

/** Paging as configured, or as the server announces, in pages no larger than its limit. */
export async function pagingOf(
  { paging }: { readonly paging: Options["paging"] & Pick<Paging, "isTargets"> },
  server: Server,
  given?: ServiceProvider,
): Promise<Paging> {
  const provider = given ?? (await serviceProviderConfig(server));
  const by = paging.by === "auto" ? (provider.hasCursors ? "cursor" : "index") : paging.by;
  const count = Math.min(paging.count, provider.largestPage ?? paging.count);
  return { ...paging, by, count, firstCursor: provider.opensByCursor ? undefined : "" };
}

async function* readGroups(
  server: Server,
  options: GroupsOptions,
  list: List,
  entryOptions: EntryOptions,
): AsyncGenerator<readonly SourceRecord[]> {
  const { memberLimit, members } = options;
  const isApart = entryOptions.memberships !== "groups" && members === "each";
  const cut = new CutOff(
    server,
    options.path,
    "set groups: { memberLimit } to how many members of a group the list shows at most",
  );
  for await (const resources of resourcesOf(server, list)) {
    const whole = resources.map((resource) => entryIn(server, "group", options.path, resource, entryOptions));
    if (!isApart && memberLimit === undefined) await cut.look(whole);
    const entries: Entry[] = [];
    const apart: { entry: Entry; given: number | undefined; isTyped: boolean }[] = [];
    for (const [index, entry] of whole.entries()) {
      const isCut = entry.members.length >= (memberLimit ?? cut.limit);
      const isTyped = typeOf(resources[index] ?? {}) !== undefined;
      if (isApart || isCut) apart.push({ entry, given: isCut ? entry.members.length : undefined, isTyped });
      entries.push(isApart || isCut ? { ...entry, members: [] } : entry);
    }
    yield entries;
    for (const { entry, ...group } of apart) {
      for await (const members of membersOfGroup(server, options, { id: entry.id, ...group })) {
        yield members.map((member) => membership(entry, member));
      }
    }
  }
}

function membership({ id, origin }: Entry, member: MemberReference): SourceRecord {
  return { kind: "membership", group: id, member, origin };
}

/** A group of a list, whose members are requested apart. */
interface GroupOfList {
  readonly id: string;
  /** How many members the list of groups held, if it may have cut them off. */
  readonly given: number | undefined;
  /** Whether the list says that it is a group. */
  readonly isTyped: boolean;
}

/**
 * The members of one group, requested on its own: at once, or page by page where the server pages members. There is no
 * total to compare with: they are complete when a further page is empty.
 * @throws {IncompleteReadError} the answer is not that group, they are still cut off, or all pages are the same
 */
export async function* membersOfGroup(
  server: Server,
  options: Pick<GroupsOptions, "path" | "memberPages" | "memberLimit">,
  { id, given, isTyped }: GroupOfList,
): AsyncGenerator<readonly MemberReference[]> {
  const { memberPages: pages, memberLimit: limit } = options;
  const group = { kind: "group", path: options.path, id, isTyped } as const;
  const title = titleOfLookup(server, group);
  const seen = new Seen();
  for (let next = 1; ;) {
    const paging = pages === undefined ? {} : { [pages.startIndex]: `${next}`, [pages.count]: `${pages.size}` };
    const members = await memberPage(server, group, paging, next === 1);
    const news = members.filter(({ kind, key }) => seen.add(`${kind ?? ""} ${key}`));
    if (news.length > 0) yield news;
    if (pages === undefined) {
      if (given === undefined || limit === undefined || members.length > given) return;
      throw new IncompleteReadError(
        `${title}: ${members.length} members, no more than in the list of groups (memberLimit: ${limit}), so they may be cut off; ` +
          "set groups: { memberPages }, if the server has pages of members",
      );
    }
    if (members.length === 0) {
      if (given === undefined || seen.size >= given) return;
      throw new IncompleteReadError(`${title}: ${seen.size} members, and the list of groups holds ${given} of them`);
    }
    if (news.length === 0) {
      throw new IncompleteReadError(
        `${title}: the members from ${next} on repeat earlier ones; does the server page members with ${pages.startIndex} and ${pages.count}?`,
      );
    }
    next += members.length;
  }
}

/** Shorter lists of members are not cut off. */
const fewMembers = 20;

/** So many of the largest groups are looked at, where several have as many members. */
const mostLookedAt = 4;

/**
 * Finds out whether lists of groups cut off long lists of members: the largest groups so far are asked for by themselves. Of a server
 * that refuses single groups nothing is known.
 */
export class CutOff {
  readonly #server: Server;
  readonly #path: string;
  readonly #hint: string;
  /** A list of so many members was all of them. */
  #whole = fewMembers;
  /** A list of so many members, or more, may not be all of them. */
  limit = Infinity;

  /** @param path of groups, below the server's base; hint: what to set where the server fails on single groups */
  constructor(server: Server, path: string, hint: string) {
    this.#server = server;
    this.#path = path;
    this.#hint = hint;
  }

  /** Looks at the groups of a page. @throws what `Server.ask` throws, but for refusals */
  async look(groups: readonly { readonly id: string; readonly members: readonly unknown[] }[]): Promise<void> {
    const most = groups.reduce((size, { members }) => Math.max(size, members.length), 0);
    if (most <= this.#whole || this.limit < Infinity) return;
    // One of them may have just so many.
    for (const { id } of groups.filter(({ members }) => members.length === most).slice(0, mostLookedAt)) {
      if ((await this.#membersOf(id)) <= most) continue;
      this.limit = most;
      return;
    }
    this.#whole = most;
  }

  /** How many members a group has by itself; 0: the server does not say. */
  async #membersOf(id: string): Promise<number> {
    const group = {
      kind: "group",
      path: this.#path,
      id,
      isTyped: false,
      parameters: { attributes: "members" },
    } as const;
    try {
      const found = await resourceById(this.#server, group);
      return membersOf(found, titleOfLookup(this.#server, group)).length;
    } catch (error) {
      if (error instanceof IncompleteReadError || error instanceof RefusedError) return 0;
      // A server that is busy for a moment has not said that nothing is cut off.
      if (!(error instanceof UnavailableError)) throw error;
      throw new UnavailableError(
        `${error.message}. Rollcall asks for the largest group to see whether the list cuts off members; if the server can't answer, ${this.#hint}`,
        { cause: error },
      );
    }
  }
}

/** @param isWhole whether a group without members has to prove it; a last page is without them anyway */
async function memberPage(
  server: Server,
  group: Lookup,
  paging: Readonly<Record<string, string>>,
  isWhole: boolean,
): Promise<readonly MemberReference[]> {
  const title = titleOfLookup(server, group);
  const page = await resourceById(server, { ...group, parameters: { attributes: "members", ...paging } }, (status) =>
    gone.has(status) ? { value: undefined } : undefined,
  );
  if (page === undefined)
    throw new IncompleteReadError(`${title}: it is in the list, and gone now; the list changed`, { torn: true });
  if (!isWhole || "members" in page) return membersOf(page, title);
  // Some servers leave out what is empty, some what they did not understand: asked for everything, a server shows it.
  return membersOf(await resourceById(server, { ...group, parameters: paging }), title);
}

/** What a server says that it supports (RFC 7643, 5; RFC 9865). */
export interface ServiceProvider {
  readonly hasCursors: boolean;
  /** A list without any parameter for paging is paged by cursor. */
  readonly opensByCursor: boolean;
  /** The most resources in one page; undefined: it does not say. */
  readonly largestPage: number | undefined;
  /** Whether it takes PATCH; undefined: it does not say. */
  readonly patches: boolean | undefined;
  /** `If-Match` may be understood: the server does not say that it is not. */
  readonly hasVersions: boolean;
}

const unknown: ServiceProvider = {
  hasCursors: false,
  opensByCursor: false,
  largestPage: undefined,
  patches: undefined,
  hasVersions: true,
};

/** The server's ServiceProviderConfig; where there is none, nothing is supported. */
export async function serviceProviderConfig(server: Server): Promise<ServiceProvider> {
  const config = await server.ask({
    path: "ServiceProviderConfig",
    parameters: {},
    use: async (answer) => {
      try {
        return objectOf(await jsonIn(answer));
      } catch (error) {
        if (error instanceof SyntaxError) return undefined;
        throw error;
      }
    },
    refused: ({ status }) => (isUnavailable(status) ? { value: undefined } : undefined),
  });
  if (config === undefined) return unknown;
  const pagination = objectOf(config["pagination"]);
  const sizes = [objectOf(config["filter"])?.["maxResults"], pagination?.["maxPageSize"]];
  const known = sizes.map(Number).filter((size) => Number.isInteger(size) && size > 0);
  const hasCursors = flagOf(pagination?.["cursor"]) === true;
  const isDefault = String(pagination?.["defaultPaginationMethod"]).toLowerCase() === "cursor";
  return {
    hasCursors,
    opensByCursor: hasCursors && (isDefault || flagOf(pagination?.["index"]) === false),
    largestPage: known.length === 0 ? undefined : Math.min(...known),
    patches: flagOf(objectOf(config["patch"])?.["supported"]),
    hasVersions: flagOf(objectOf(config["etag"])?.["supported"]) !== false,
  };
}

/**
 * Whether a refusal means that a server does not tell what it supports: some want other privileges for that, some have nothing, and
 * some lead to their page for people.
 */
export function isUnavailable(status: number): boolean {
  return status === 501 || (status >= 300 && status < 500 && status !== 401);
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

import type { Entry, MemberReference, OpenContext, ReadContext, SourceRecord } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import type { Kind } from "#principals/principal.ts";
import type { Resource } from "./attributes.ts";
import type { Authorization } from "./authorization.ts";
import { type Counts, batched } from "./batch.ts";
import { entryOf, idOf, type Making, typeOf } from "./entry.ts";
import { type List, resourcesOf } from "./list.ts";
import { membersOfGroup } from "./members.ts";
import type { GroupsOptions, Options } from "./options.ts";
import { providerOf } from "./provider.ts";
import { makingOf, selectionOf } from "./selection.ts";
import { openServer, type Server } from "./server.ts";

export type LiveOptions = Options & { readonly url: string };

/**
 * Users, then groups, from a server.
 * @throws {IncompleteReadError} when a list does not prove to be complete
 * @throws what `ask` throws
 */
export async function* readLive(
  options: LiveOptions,
  authorization: Authorization,
  open: OpenContext,
  context: ReadContext,
  counts: Counts,
): AsyncGenerator<readonly SourceRecord[]> {
  context.signal.throwIfAborted();
  const server = await openServer(options, authorization, open, context);
  try {
    const paging = await pagingOf(options, server);
    const making = makingOf(options, context);
    const list = (kind: Kind, part: { path: string; filter?: string | undefined }): List => ({
      path: part.path,
      parameters: {
        ...(part.filter === undefined ? {} : { filter: part.filter }),
        ...selectionOf(kind, options, making),
      },
      paging,
    });
    let isLinked = false;
    for await (const resources of resourcesOf(server, list("user", options.users))) {
      const users = resources.map((resource) => entryIn(server, "user", options.users.path, resource, making));
      isLinked ||= users.some(({ memberOf }) => memberOf.length > 0);
      yield* batched(users, counts);
    }
    if (options.groups !== false) {
      const hasMembers = yield* readGroups(server, options.groups, list("group", options.groups), making, counts);
      if (!hasMembers && !isLinked) throw withoutMembers(server, options.groups);
    }
    context.signal.throwIfAborted();
  } finally {
    await server.close();
  }
}

/** How to page: as configured, or as the server announces, in pages no larger than it gives. */
export async function pagingOf({ paging }: Options, server: Server): Promise<List["paging"]> {
  const provider = await providerOf(server);
  const by = paging.by === "auto" ? (provider.hasCursors ? "cursor" : "index") : paging.by;
  return { ...paging, by, count: Math.min(paging.count, provider.largestPage ?? paging.count) };
}

/** @returns whether groups have members, or there is nothing to tell that they should: an attribute that no group has may be one that the server does not send */
async function* readGroups(
  server: Server,
  options: GroupsOptions,
  list: List,
  making: Making,
  counts: Counts,
): AsyncGenerator<readonly SourceRecord[], boolean> {
  const isApart = making.memberships !== "groups" && options.members === "each";
  let hasMembers = isApart || making.memberships === "groups";
  let hasGroups = false;
  for await (const resources of resourcesOf(server, list)) {
    const entries: Entry[] = [];
    const apart: { entry: Entry; given: number | undefined }[] = [];
    for (const resource of resources) {
      const entry = entryIn(server, "group", options.path, resource, making);
      hasMembers ||= "members" in resource;
      hasGroups = true;
      const isCut = options.memberLimit !== undefined && entry.members.length >= options.memberLimit;
      if (isApart || isCut) apart.push({ entry, given: isCut ? entry.members.length : undefined });
      entries.push(isApart || isCut ? { ...entry, members: [] } : entry);
    }
    yield* batched(entries, counts);
    for (const { entry, given } of apart) {
      for await (const members of membersOfGroup(server, options, entry.id, given)) {
        yield* batched(
          members.map((member) => membership(entry, member)),
          counts,
        );
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

/** @throws {InputError} when the resource is of another kind */
function entryIn(server: Server, kind: Kind, path: string, resource: Resource, making: Making): Entry {
  const origin = new URL(`${path.replace(/^\/+/, "")}/${encodeURIComponent(idOf(resource) ?? "")}`, server.base).href;
  const type = typeOf(resource);
  if (type === undefined || type === kind) return entryOf(kind, resource, origin, making);
  const found = typeof type === "string" ? type : type.other;
  throw new InputError(`${server.subject}: ${origin}: is a ${found}, in the list of ${kind}s; check the path`);
}

import type { Kind, MemberReference, ReadContext, RemoteRecord } from "#connector.ts";
import { InputError, ObjectRefusedError } from "#errors.ts";
import { merged } from "#http/directory/pages.ts";
import type { Server } from "../client.ts";
import { resourcesOf } from "../list.ts";
import type { List, Paging } from "../list.ts";
import { idOf, membersOf } from "../resource.ts";
import type { Resource } from "../schema.ts";
import { CutOff, membersOfGroup, pagingOf } from "../server.ts";
import { assertTaken } from "./capabilities.ts";
import type { Capabilities } from "./capabilities.ts";
import type { Mapping } from "./attributes.ts";
import type { Profile } from "./profiles.ts";

/** A server, and how it is read. */
export interface Reading {
  readonly server: Server;
  readonly capabilities: Capabilities;
  readonly mapping: Mapping;
  readonly profile: Profile;
}

/**
 * Every user, then every group with its members, where the server shows them.
 * @throws {IncompleteReadError} a list does not prove that it is complete
 * @throws {InputError} rules set an attribute that the server does not take
 * @throws what `Server.ask` throws
 */
export async function* read(reading: Reading, context: ReadContext): AsyncGenerator<readonly RemoteRecord[]> {
  const { server, capabilities, mapping, profile } = reading;
  if (profile.trustsSchemas && context.attributes !== undefined) {
    const wanted = { user: context.attributes.users, group: context.attributes.groups };
    const set = (["user", "group"] as const).flatMap((kind) =>
      mapping
        .of(kind)
        .flatMap((field) => (wanted[kind].includes(field.attribute.name) ? [[kind, field] as const] : [])),
    );
    assertTaken(server.subject, capabilities, set);
  }
  const paging = await pagingFor(reading);
  for await (const users of resourcesOf(server, listOf(reading, "user", paging))) {
    yield users.map((user) => remoteOf(reading, "user", user));
  }
  // Where members are never shown there is nothing to leave out, and some of these servers refuse the parameter.
  const parameters: Record<string, string> = profile.members === "each" ? { excludedAttributes: "members" } : {};
  if (capabilities.paths.group === undefined) return;
  const cut = new CutOff(server, pathOfKind(reading, "group"), "set profile: { members: list }");
  for await (const groups of resourcesOf(server, listOf(reading, "group", paging, parameters))) {
    yield groups.map((group) => remoteOf(reading, "group", group));
    if (profile.members !== "hidden") yield* membersIn(reading, groups, cut);
  }
}

/** Paging as the profile says, or as the server announces. */
function pagingFor({ server, capabilities, profile }: Reading): Promise<Paging> {
  const paging = {
    by: profile.paging,
    count: profile.pageSize,
    overlap: true,
    totals: "exact",
    attempts: 3,
    isTargets: true,
  } as const;
  return pagingOf({ paging }, server, capabilities);
}

/** Where the users or groups of a server are, below its URL. @throws {ObjectRefusedError} it has none */
export function pathOfKind({ server, capabilities }: Pick<Reading, "server" | "capabilities">, kind: Kind): string {
  const path = capabilities.paths[kind];
  if (path !== undefined) return path;
  throw new ObjectRefusedError(`${server.subject}: the server has no ${kind}s (its /ResourceTypes)`);
}

function listOf(reading: Reading, kind: Kind, paging: Paging, parameters: Readonly<Record<string, string>> = {}): List {
  const unset = `compare the number of ${kind}s with what the application shows`;
  return { path: pathOfKind(reading, kind), parameters, idParameters: { attributes: "id" }, paging, unset };
}

/** @throws {InputError} the resource has no name */
function remoteOf(reading: Reading, kind: Kind, resource: Resource): RemoteRecord {
  const { server } = reading;
  const remote = reading.mapping.remote(kind, resource);
  const name = kind === "user" ? "userName" : "displayName";
  if (remote !== undefined && remote.name !== "") return remote;
  throw new InputError(
    `${server.subject}: ${pathOfKind(reading, kind)}: the ${kind} with the id ${idOf(resource) ?? "unknown"} has no ${name}; every ${kind} has one (RFC 7643, 4)`,
  );
}

/** As many groups as are asked for their members at the same time. */
const width = 4;

async function* membersIn(
  reading: Reading,
  groups: readonly Resource[],
  cut: CutOff,
): AsyncGenerator<readonly RemoteRecord[]> {
  const { server, profile } = reading;
  const path = pathOfKind(reading, "group");
  const listed = groups.map((group) => {
    const id = idOf(group) ?? "";
    return { id, members: membersOf(group, `${server.subject}: ${path}/${id}`) };
  });
  if (profile.members === "auto") await cut.look(listed);
  const apart: string[] = [];
  for (const { id, members } of listed) {
    // Servers that leave members out of lists leave out the attribute, or have it empty for every group.
    const isPart = members.length === 0 || members.length >= cut.limit;
    if (profile.members === "each" || (profile.members === "auto" && isPart)) apart.push(id);
    else yield memberships(id, members);
  }
  yield* merged(apart, width, (id) => membersOfOne(server, path, id));
}

async function* membersOfOne(server: Server, path: string, id: string): AsyncGenerator<readonly RemoteRecord[]> {
  const group = { id, given: undefined, isTyped: false };
  for await (const members of membersOfGroup(server, { path }, group)) yield memberships(id, members);
}

function memberships(group: string, members: readonly MemberReference[]): readonly RemoteRecord[] {
  return members.map(({ key, kind }) => ({ kind: "membership", group, member: { id: key, kind } }));
}

import type { Entry, ReadContext, SourceRecord } from "#connector.ts";
import { InputError } from "#errors.ts";
import type { DirectoryApi } from "#http/directory/api.ts";
import { merged } from "#http/directory/pages.ts";
import { readList } from "#http/directory/proof.ts";
import { Seen } from "#http/directory/seen.ts";
import { keyIn, valueAt } from "./path.ts";
import { entryOf, idIn, memberOf, pairOf, referencesOf } from "./entries.ts";
import { listOf } from "./lists.ts";
import type { Declared, Found } from "./lists.ts";
import type { GroupsOptions, Options } from "./options.ts";

type Batches = AsyncGenerator<readonly SourceRecord[]>;

/** A group, as an entry and as it came. */
interface Group {
  readonly entry: Entry;
  readonly found: Found;
}

/**
 * Users, groups with those below them and their members, then pairs.
 * @throws {IncompleteReadError} a list is not proven to be complete
 * @throws what `DirectoryApi.get` throws; {InputError} a record is not what the options say
 */
export async function* recordsOf(api: DirectoryApi, options: Options, context: ReadContext): Batches {
  const { users, groups, memberships } = options;
  const people = {
    options,
    list: users,
    ids: [users.id],
    references: referencesOf(users),
    unset: options.minUsers === undefined ? "minUsers" : undefined,
  };
  for await (const found of readList(
    api,
    listOf(api, people, (one) => idIn(one, users)),
  ))
    yield found.map((one) => entryOf("user", one, users, context));
  if (groups !== undefined) {
    const list = {
      options,
      list: groups,
      ids: [groups.id],
      references: referencesOf(groups),
      unset: options.minGroups === undefined ? "minGroups" : undefined,
    };
    yield* groupsIn(api, { options, groups, context, seen: new Seen() }, list);
  }
  if (memberships === undefined) return;
  const ids = [memberships.group, memberships.member];
  const idOf = (found: Found): string => JSON.stringify(ids.map((path) => keyIn(valueAt(found.item, path))));
  for await (const found of readList(api, listOf(api, { options, list: memberships, ids }, idOf)))
    yield found.map((one) => pairOf(one, memberships));
}

interface GroupContext {
  readonly options: Options;
  readonly groups: GroupsOptions;
  readonly context: ReadContext;
  /** The ids of all groups so far, of every level. */
  readonly seen: Seen;
}

/** The groups of a list, then what is below each: of several at a time. */
async function* groupsIn(api: DirectoryApi, where: GroupContext, declared: Declared): Batches {
  const { options, groups, context, seen } = where;
  const { members, children } = groups;
  const below = async function* below({ entry, found }: Group): Batches {
    const parent = { item: found.item, id: entry.id };
    if (members !== undefined && "url" in members) {
      const list = listOf(api, { options, list: members, ids: [members.id], parent }, (one) => idIn(one, members));
      const group = entry.keys[0] ?? entry.id;
      for await (const page of readList(api, list)) yield page.map((one) => memberOf(group, one, members));
    }
    if (children !== undefined) yield* groupsIn(api, where, { ...declared, list: children, unset: undefined, parent });
  };
  const list = listOf(api, declared, (one) => idIn(one, groups));
  for await (const page of readList(api, list)) {
    const all = page.map((found): Group => ({ entry: entryOf("group", found, groups, context), found }));
    const twice = declared.parent === undefined ? undefined : all.find(({ entry }) => seen.has(entry.id));
    if (twice !== undefined)
      throw new InputError(
        `${api.subject}: ${twice.entry.origin}: the group is in two places, or below itself (children)`,
      );
    for (const { entry } of all) seen.add(entry.id);
    yield all.map(({ entry }) => entry);
    yield* merged(all, options.concurrency, below);
  }
}

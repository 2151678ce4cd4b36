import type { Entry, SourceRecord } from "#connector.ts";
import { IncompleteReadError, RefusedError } from "#errors.ts";
import { inParallel } from "#http/directory/pages.ts";
import { readList } from "#http/directory/proof.ts";
import { groupOf, idOf, statusOf } from "./entry.ts";
import type { Item } from "./entry.ts";
import type { GroupsOptions } from "./options.ts";
import type { Organization } from "./service.ts";

/** How many groups are asked for their members at a time. */
const width = 4;

/**
 * The groups of the options, each followed by its members. Groups of Okta hold users alone.
 * @param isRead whether a user was delivered
 * @throws what `readList` throws; {IncompleteReadError} a group was deleted meanwhile
 */
export async function* readGroups(
  organization: Organization,
  options: GroupsOptions,
  wanted: ReadonlySet<string> | undefined,
  isRead: (id: string) => boolean,
): AsyncGenerator<readonly SourceRecord[]> {
  const search = searchOf(options);
  const list = organization.list("groups", { ...search, expand: "stats" });
  const title = organization.titleOf(list.url);
  const types = new Set<unknown>(options.types);
  // Nothing counts groups, so they are listed once more when all members have come.
  const proof = { by: "twoEqualReads", url: organization.list("groups", search).url } as const;
  for await (const items of readList(organization, { ...list, idOf: (item) => idOf(item, title), proof })) {
    const groups = items
      .filter(({ type }) => types.has(type))
      .map((item) => ({ item, entry: groupOf(item, organization.url(`groups/${idOf(item, title)}`).href, wanted) }));
    yield groups.map(({ entry }) => entry);
    const started = inParallel(groups, width, async ({ item, entry }) => {
      const pages = membersOf(organization, item);
      return { entry, pages, first: await pages.next() };
    });
    for await (const { entry, pages, first } of started) {
      for (let step = first; step.done !== true; step = await pages.next())
        yield membershipsOf(organization, entry, step.value, isRead);
    }
  }
}

function searchOf({ search }: GroupsOptions): Record<string, string> {
  return search === undefined ? {} : { search, sortBy: "id" };
}

/** Users that the group has, page by page, as many as it counts. */
async function* membersOf(organization: Organization, group: Item): AsyncGenerator<readonly Item[]> {
  const id = idOf(group, "");
  const list = organization.list(`groups/${id}/users`, {});
  const title = organization.titleOf(list.url);
  try {
    yield* readList(organization, {
      ...list,
      idOf: (item) => idOf(item, title),
      proof: {
        by: "expected",
        count: organization.usersIn(group),
        name: "the group's usersCount",
        again: () => countOf(organization, id),
      },
      hint: "if this stays so, the credentials may not see all its members",
    });
  } catch (error) {
    if (!(error instanceof RefusedError) || error.status !== 404) throw error;
    throw new IncompleteReadError(`${title}: the group is in the list, and gone now; the list changed`, { torn: true });
  }
}

async function countOf(organization: Organization, id: string): Promise<number> {
  const [group] = await organization.some("groups", { filter: `id eq "${id}"`, expand: "stats" });
  // Gone: the list of groups, which is read again, will show that.
  return group === undefined ? 0 : organization.usersIn(group);
}

/** Members who are out of scope are left out: users who were deactivated stay in their groups. */
function membershipsOf(
  { options }: Organization,
  { id, origin }: Entry,
  members: readonly Item[],
  isRead: (id: string) => boolean,
): readonly SourceRecord[] {
  return members.flatMap((member) => {
    const key = idOf(member, origin);
    const isInScope = (options.users.statuses as readonly string[]).includes(statusOf(member, origin)) && isRead(key);
    return isInScope
      ? [{ kind: "membership" as const, group: id, member: { kind: "user" as const, key }, origin }]
      : [];
  });
}

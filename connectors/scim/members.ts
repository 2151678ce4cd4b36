import type { MemberReference } from "#connector.ts";
import { IncompleteReadError } from "#errors.ts";
import type { Server } from "./client.ts";
import { Seen } from "./list.ts";
import { gone, resourceById, titleOfLookup } from "./lookup.ts";
import type { Lookup } from "./lookup.ts";
import type { GroupsOptions } from "./options.ts";
import { membersOf } from "./resource.ts";

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
  options: GroupsOptions,
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
        `${title}: the members from ${next} on are those that came before; does the server page members with ${pages.startIndex} and ${pages.count}?`,
      );
    }
    next += members.length;
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

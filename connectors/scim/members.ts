import type { MemberReference } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import type { Resource } from "./attributes.ts";
import { membersOf } from "./entry.ts";
import { itemsOf } from "./json.ts";
import { objectOf } from "./names.ts";
import type { GroupsOptions } from "./options.ts";
import { createSeen } from "./seen.ts";
import { type Server, titleOf } from "./server.ts";

/**
 * The members of one group, asked for by itself: at once, or page by page where the server has pages of members. There
 * is no total to compare them with: they are complete when a further page holds none.
 * @param given how many of them the list of groups held, when it may have been cut off there
 * @throws {IncompleteReadError} when it is still cut off, or the pages are all the same
 * @throws {InputError} when the answer is no group
 */
export async function* membersOfGroup(
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
    const members = await membersIn(server, path, { attributes: "members", ...paging }, title);
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

function membersIn(
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
      // To its end, which keeps the connection.
      for await (const [item] of itemsOf(body)) {
        if (item?.kind === "resource") group ??= objectOf(item.value);
      }
      if (group !== undefined) return membersOf(group, title);
      throw new InputError(`${title}: the answer is no group`);
    },
  });
}

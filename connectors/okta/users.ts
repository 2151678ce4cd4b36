import type { Entry } from "#connector.ts";
import { IncompleteReadError } from "#errors.ts";
import { readList } from "#http/directory/proof.ts";
import type { Proof } from "#http/directory/proof.ts";
import { fieldsFor, idOf, statusOf, userOf } from "./entry.ts";
import { statuses } from "./options.ts";
import { notDeactivated, searchFor } from "./service.ts";
import type { Organization } from "./service.ts";

/**
 * The users with the statuses and the search of the options.
 * @param wanted the attributes to read; undefined: all
 * @throws what `readList` and `Organization.everyone` throw
 */
export async function* readUsers(
  organization: Organization,
  wanted: ReadonlySet<string> | undefined,
): AsyncGenerator<readonly Entry[]> {
  const { options } = organization;
  const { statuses: some, search, proof: named } = options.users;
  const isCounted = (named ?? (search === undefined ? "everyone" : "twoEqualReads")) === "everyone";
  const asked = isCounted ? await countedStatuses(organization) : some;
  const parameters = {
    search: searchFor(asked, search),
    sortBy: "id",
    fields: options.attributes === "all" ? undefined : fieldsFor(wanted),
  };
  const list = organization.list("users", parameters);
  const reverse = organization.list("users", { ...parameters, fields: "id", sortOrder: "desc" });
  const proof: Proof = isCounted
    ? { by: "count", name: "the group Everyone", count: async () => (await organization.everyone()).count }
    : { by: "twoEqualReads", url: reverse.url };
  const hint = isCounted
    ? "if this stays so, the credentials may not see all users, or Everyone counts others: see users: { proof }"
    : undefined;
  const among = new Set<unknown>(some);
  const title = organization.titleOf(list.url);
  for await (const items of readList(organization, { ...list, idOf: (item) => idOf(item, title), proof, hint })) {
    yield items
      .filter((item) => among.has(statusOf(item, title)))
      .map((item) => userOf(item, organization.url(`users/${idOf(item, title)}`).href, wanted));
  }
}

/**
 * The statuses that the group Everyone counts. Users who are deactivated stay in their groups, in some organizations also
 * in Everyone: one of them tells.
 * @throws {IncompleteReadError} the options ask for users whom it does not count
 */
async function countedStatuses(organization: Organization): Promise<readonly string[]> {
  const { options } = organization;
  const deactivated = { search: searchFor(["DEPROVISIONED"]), sortBy: "id", limit: "1", fields: "id" };
  const [one] = await organization.some("users", deactivated);
  if (one === undefined) return statuses;
  const { id } = await organization.everyone();
  const path = `users/${idOf(one, "")}/groups`;
  // This list alone has no parameter for the size of pages.
  const list = { ...organization.list(path, {}), url: organization.url(path) };
  const groups = readList(organization, { ...list, idOf: (group) => idOf(group, ""), proof: { by: "end" } });
  for await (const items of groups) if (items.some((group) => group["id"] === id)) return statuses;
  if (!options.users.statuses.includes("DEPROVISIONED")) return notDeactivated;
  throw new IncompleteReadError(
    `${organization.subject}: the group Everyone does not count deactivated users in this organization, so it cannot prove that all of them come; set users: { proof: twoEqualReads }`,
  );
}

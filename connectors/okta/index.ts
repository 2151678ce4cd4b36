import { hash } from "node:crypto";
import { Enough } from "#completeness.ts";
import type { Connector, Entry, ReadContext, RecordId, SourceRecord } from "#connector.ts";
import { reading } from "#http/directory/api.ts";
import type { Authorization } from "#http/directory/authorization.ts";
import { readList } from "#http/directory/proof.ts";
import { IdDigest, Seen } from "#http/directory/seen.ts";
import { describeConnection } from "#http/trust.ts";
import { formatNumber } from "#text.ts";
import { fieldsFor, groupOf, idOf, statusOf, userOf } from "./entry.ts";
import type { Item } from "./entry.ts";
import { readGroups } from "./groups.ts";
import { options } from "./options.ts";
import type { Options } from "./options.ts";
import { questions } from "./questions.ts";
import { authorizationOf, Organization, searchFor } from "./service.ts";
import { readUsers } from "./users.ts";

/** Users and groups from Okta. Its options: `README.md` in this folder. */
const okta: Connector<Options> = {
  name: "okta",
  options,
  questions,
  open: (options, place) => {
    const authorization = authorizationOf(options, place.folder);
    const open = (context: ReadContext): Organization => new Organization(options, authorization, place, context);
    return {
      uniqueIds: true,
      paged: true,
      read: (context) => {
        const records = reading(
          () => open(context),
          (organization) => everything(organization, context),
        );
        return Enough.check(records, options, place, context);
      },
      recheck: ({ records }, context) => Enough.check(records, options, place, context),
      find: (records, context) =>
        reading(
          () => open(context),
          (organization) => find(organization, records, context),
        ),
      describe: async (context) => {
        await using organization = open(context);
        return await describe(organization, authorization);
      },
      version: async (context) => {
        await using organization = open(context);
        return await version(organization, authorization, context);
      },
    };
  },
};

export default okta;

async function* everything(organization: Organization, context: ReadContext): AsyncGenerator<readonly SourceRecord[]> {
  const { groups, users } = organization.options;
  // Members whom a search leaves out are in no list of users.
  const found = users.search === undefined ? undefined : new Seen();
  for await (const entries of readUsers(organization, wantedOf(context, "users"))) {
    for (const { id } of entries) found?.add(id);
    yield entries;
  }
  if (groups === false) return;
  yield* readGroups(organization, groups, wantedOf(context, "groups"), (id) => found?.has(id) ?? true);
}

/** The attributes to keep; undefined: all. */
function wantedOf({ attributes }: ReadContext, kind: "users" | "groups"): ReadonlySet<string> | undefined {
  return attributes === undefined ? undefined : new Set(attributes[kind]);
}

/** Finds the records that exist and are in scope, asking for each by its id. */
async function* find(
  organization: Organization,
  records: readonly RecordId[],
  context: ReadContext,
): AsyncGenerator<readonly Entry[]> {
  for (const { kind, id } of records) {
    const entry =
      kind === "user" ? await findUser(organization, id, context) : await findGroup(organization, id, context);
    if (entry !== undefined) yield [entry];
  }
}

async function findUser(organization: Organization, id: string, context: ReadContext): Promise<Entry | undefined> {
  const { statuses, search } = organization.options.users;
  const user = await organization.one("users", id);
  const origin = organization.url(`users/${encodeURIComponent(id)}`).href;
  if (user === undefined || !(statuses as readonly string[]).includes(statusOf(user, origin))) return undefined;
  if (search !== undefined && !(await isFound(organization, "users", searchFor(statuses, search), id)))
    return undefined;
  return userOf(user, origin, wantedOf(context, "users"));
}

async function findGroup(organization: Organization, id: string, context: ReadContext): Promise<Entry | undefined> {
  const { groups } = organization.options;
  if (groups === false) return undefined;
  const group = await organization.one("groups", id);
  if (group === undefined || !(groups.types as readonly unknown[]).includes(group["type"])) return undefined;
  if (groups.search !== undefined && !(await isFound(organization, "groups", groups.search, id))) return undefined;
  return groupOf(group, organization.url(`groups/${encodeURIComponent(id)}`).href, wantedOf(context, "groups"));
}

async function isFound(organization: Organization, path: string, search: string, id: string): Promise<boolean> {
  const found = await organization.some(path, { search: `(${search}) and id eq ${JSON.stringify(id)}` });
  return found.some((item) => item["id"] === id);
}

/**
 * The server, its protection, whose credentials these are, and what they see. Asks for all that a read asks for.
 * @throws {RefusedError} something may not be read; {IncompleteReadError} a part of the organization is hidden
 */
async function describe(organization: Organization, authorization: Authorization): Promise<readonly string[]> {
  const { options } = organization;
  const everyone = await organization.everyone();
  await organization.some("users", { search: searchFor(options.users.statuses, options.users.search), limit: "1" });
  const seen = options.groups === false ? [] : await organization.some("groups", { limit: "1", expand: "stats" });
  for (const group of seen) await organization.some(`groups/${idOf(group, "")}/users`, { limit: "1" });
  return [
    `${new URL(options.url).origin}, ${describeConnection(organization.socket())}`,
    `as ${authorization.who}`,
    `an organization in which the group Everyone has ${formatNumber(everyone.count)} members`,
    `read ${options.pageSize} at a time`,
  ];
}

/** So many of the users that changed last are part of the version. */
const latest = 200;

/**
 * What changes with every change of users, groups and memberships: when each group and its members changed last, how many
 * it has, and which users changed last. Several of these, since a search knows of a change only some time later: then one
 * shows beside later ones. It differs for other credentials and options.
 */
async function version(
  organization: Organization,
  authorization: Authorization,
  { attributes }: ReadContext,
): Promise<string> {
  const { options } = organization;
  // The lists are in no order that Okta promises.
  const state = new IdDigest();
  const note = (item: Item, names: readonly string[]): void =>
    state.add(JSON.stringify(names.map((name) => item[name])));
  const everyone = await organization.everyone();
  if (options.groups !== false) {
    const list = organization.list("groups", { expand: "stats" });
    const title = organization.titleOf(list.url);
    for await (const groups of readList(organization, {
      ...list,
      idOf: (item) => idOf(item, title),
      proof: { by: "end" },
    })) {
      for (const group of groups) note(group, ["id", "lastUpdated", "lastMembershipUpdated", "_embedded"]);
    }
  }
  const changed = {
    search: searchFor(options.users.statuses),
    sortBy: "lastUpdated",
    sortOrder: "desc",
    limit: `${latest}`,
  };
  const fields = fieldsFor(new Set(["lastUpdated"]));
  for (const user of await organization.some("users", { ...changed, fields }))
    note(user, ["id", "status", "lastUpdated"]);
  const { token: _, ...rest } = options;
  const asked = JSON.stringify([rest, authorization.who, attributes ?? null]);
  return `${everyone.id} ${everyone.count} ${state.toString()} ${hash("sha256", asked).slice(0, 16)}`;
}

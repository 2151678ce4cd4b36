import { Enough } from "#completeness.ts";
import type { Connector, OpenContext, ReadContext, SourceRecord } from "#connector.ts";
import { IncompleteReadError, RefusedError } from "#errors.ts";
import { reading } from "#http/directory/api.ts";
import { describeConnection } from "#http/trust.ts";
import { formatNumber, pluralize } from "#text.ts";
import { selectionsOf } from "./attributes.ts";
import { changesOf } from "./changes.ts";
import { findRecords } from "./find.ts";
import { authorizationOf, Graph, permissions } from "./graph.ts";
import { options } from "./options.ts";
import type { Options } from "./options.ts";
import { questions } from "./questions.ts";
import { readTenant } from "./read.ts";

/** Users and groups of a Microsoft Entra ID tenant, from Microsoft Graph. Its options: `README.md` in this folder. */
const entra: Connector<Options> = {
  name: "entra",
  options,
  questions,
  open: (options, place) => {
    const authorization = authorizationOf(options, place);
    const changes = changesOf(options);
    const open = (context: ReadContext): Graph => new Graph(options, authorization, place, context);
    return {
      uniqueIds: true,
      paged: true,
      read: (context) => {
        const records = reading(
          () => open(context),
          (graph) => {
            const selections = selectionsOf(options, context, graph.subject);
            changes.read(selections);
            return readTenant(graph, selections);
          },
        );
        return checked(records, options, place, context);
      },
      recheck: ({ records }, context) => checked(records, options, place, context),
      find: (records, context) =>
        reading(
          () => open(context),
          (graph) => findRecords(graph, records, context),
        ),
      describe: async (context) => {
        await using graph = open(context);
        return await describe(graph, authorization.who);
      },
      version: async (context) => {
        await using graph = open(context);
        return await changes.look(graph);
      },
    };
  },
};

export default entra;

async function* checked(
  delivered: AsyncIterable<readonly SourceRecord[]>,
  options: Options,
  place: OpenContext,
  context: ReadContext,
): AsyncGenerator<readonly SourceRecord[]> {
  const memberships = { all: 0, nested: 0 };
  for await (const records of Enough.check(delivered, options, place, context)) {
    for (const record of records) {
      const members = record.kind === "membership" ? [record.member] : record.members;
      memberships.all += members.length;
      for (const { kind } of members) if (kind === "group") memberships.nested++;
    }
    yield records;
  }
  const before = context.lastCounts?.[nestedCount] ?? 0;
  if (memberships.nested === 0 && before >= fewNested && options.minMemberships === undefined)
    throw new IncompleteReadError(
      `source ${place.name}: no group is in a group, and ${formatNumber(before)} were at the last good read; if that is right, set minMemberships: ${memberships.all}`,
    );
  context.count?.(nestedCount, memberships.nested);
}

/** Graph has been seen to leave out the groups in groups from Active Directory, and to count alike. */
const nestedCount = "groups in groups";
/** Fewer may well be gone at a time. */
const fewNested = 10;

/**
 * The tenant, the app, how much there is, and what the app may not read.
 * @throws {RefusedError} it names every permission that is missing
 */
async function describe(graph: Graph, who: string): Promise<readonly string[]> {
  const { options } = graph;
  const missing: string[] = [];
  const count = async (path: "users" | "groups", filter: string | undefined): Promise<string> => {
    try {
      await graph.page(graph.url(path, { $select: "id", $top: "1" }));
      const total = await graph.count(path, filter);
      return total === undefined
        ? `${path}, uncounted`
        : `${formatNumber(total)} ${pluralize(total, path.slice(0, -1)).replace(/^\S+ /, "")}`;
    } catch (error) {
      if (!(error instanceof RefusedError) || error.status !== 403) throw error;
      missing.push(permissions[path]);
      return "";
    }
  };
  const users = await count("users", options.users.filter);
  const groups = options.groups === false ? "no groups" : await count("groups", options.groups.filter);
  const granted = await graph.permissions();
  if (missing.length > 0)
    throw new RefusedError(
      `${graph.subject}: the app may not read everything: it lacks ${missing.join(" and ")}${granted === undefined ? "" : ` (it has ${granted.join(", ") || "no permissions"})`}; add ${missing.length === 1 ? "it" : "them"} as application permissions of Microsoft Graph, with an administrator's consent`,
      { status: 403 },
    );
  const isBlind =
    options.groups !== false &&
    options.groups.hiddenMembership === "include" &&
    granted?.includes(permissions.hidden) === false;
  return [
    `${graph.url("").href}, ${describeConnection(graph.socket())}`,
    `as ${who} of the tenant ${options.tenant}`,
    `a tenant with ${users} and ${groups}`,
    ...(granted === undefined ? [] : [`with the permissions ${granted.join(", ")}`]),
    ...(isBlind ? [`without ${permissions.hidden}: a group whose membership is hidden fails the read`] : []),
  ];
}

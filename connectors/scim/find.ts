import type { Entry, ReadContext } from "#connector.ts";
import type { Kind } from "#principals/principal.ts";
import type { Server, ServerOptions } from "./client.ts";
import { pageOf } from "./list.ts";
import { entryIn, gone, resourceById } from "./lookup.ts";
import type { Resource } from "./schema.ts";
import { idOf } from "./resource.ts";
import { entryOptionsOf } from "./server.ts";

/** There is no such request. */
const unsupported = new Set([405, 501]);

/**
 * Finds the records that the server has and that are in scope, requesting each by its id.
 * @throws what `resourceById` throws; a refusal other than "there is none", too: unknown is not absent
 */
export async function* find(
  server: Server,
  options: ServerOptions,
  records: readonly { readonly kind: Kind; readonly id: string }[],
  context: ReadContext,
): AsyncGenerator<readonly Entry[]> {
  const entryOptions = entryOptionsOf(options, context);
  const warned = new Set<string>();
  const warnOnce = (message: string): void => {
    if (!warned.has(message)) server.warn(message);
    warned.add(message);
  };
  const combines: Partial<Record<Kind, boolean>> = {};
  for (const { kind, id } of records) {
    const part = kind === "user" ? options.users : options.groups;
    if (part === false) continue;
    const resource = await resourceById(server, { kind, path: part.path, id, isTyped: false }, (status) =>
      gone.has(status) || unsupported.has(status) ? { value: status } : undefined,
    );
    if (typeof resource === "number") {
      if (unsupported.has(resource))
        warnOnce(
          `${server.subject}: ${part.path}: the server does not return single ${kind}s, so no ${kind} is looked up`,
        );
      continue;
    }
    if (part.filter !== undefined) {
      combines[kind] ??= await combinesFilters(server, part.path, part.filter);
      if (!combines[kind])
        warnOnce(`${server.subject}: ${part.path}: the server does not take the filter together with an id`);
      if (!combines[kind] || !(await isInScope(server, part.path, part.filter, id))) continue;
    }
    yield [entryIn(server, kind, part.path, resource, entryOptions)];
  }
}

/**
 * Whether the server can be asked for a filter and an id together: some answer such a filter with success and nothing. So
 * one whom the filter lets pass is asked for.
 */
async function combinesFilters(server: Server, path: string, filter: string): Promise<boolean> {
  const [known] = await matching(server, path, filter);
  // A filter that lets nobody pass is certain about everybody.
  return known === undefined || isInScope(server, path, filter, idOf(known) ?? "");
}

async function isInScope(server: Server, path: string, filter: string, id: string): Promise<boolean> {
  const found = await matching(server, path, `(${filter}) and id eq ${JSON.stringify(id)}`);
  return found.some((resource) => idOf(resource) === id);
}

/** The first resources that a filter lets pass; none if the server refuses the filter. */
async function matching(server: Server, path: string, filter: string): Promise<readonly Resource[]> {
  const found: Resource[] = [];
  for await (const resources of pageOf(server, { path, parameters: { filter, count: "2" } }, { empty: [400, 501] })) {
    found.push(...resources);
    break;
  }
  return found;
}

import type { Entry, OpenContext, ReadContext } from "#connector.ts";
import type { Kind } from "#principals/principal.ts";
import type { Authorization, Server } from "./client.ts";
import { openServer } from "./client.ts";
import { pageOf } from "./list.ts";
import { entryIn, resourceById } from "./lookup.ts";
import { idOf } from "./resource.ts";
import { entryOptionsOf } from "./server.ts";
import type { ServerOptions } from "./server.ts";

/** How many are looked up before those found are delivered. */
const batchSize = 100;

/** There is no such resource. */
const gone = new Set([404, 410]);
/** There is no such request. */
const unsupported = new Set([405, 501]);

/**
 * Those of the records that the server has, and that are in scope, each requested by its id.
 * @throws what `resourceById` throws; a refusal other than "there is none", too: unknown is not absent
 */
export async function* find(
  options: ServerOptions,
  authorization: Authorization,
  open: OpenContext,
  records: readonly { readonly kind: Kind; readonly id: string }[],
  context: ReadContext,
): AsyncGenerator<readonly Entry[]> {
  context.signal.throwIfAborted();
  const server = await openServer(options, authorization, open, context);
  const entryOptions = entryOptionsOf(options, context);
  const warned = new Set<string>();
  const warnOnce = (message: string): void => {
    if (!warned.has(message)) server.warn(message);
    warned.add(message);
  };
  let batch: Entry[] = [];
  try {
    for (const { kind, id } of records) {
      const part = kind === "user" ? options.users : options.groups;
      if (part === false) continue;
      const resource = await resourceById(server, { kind, path: part.path, id, isTyped: false }, (status) =>
        gone.has(status) || unsupported.has(status) ? { value: status } : undefined,
      );
      if (typeof resource === "number") {
        if (unsupported.has(resource))
          warnOnce(`${server.subject}: ${part.path}: the server does not give single ${kind}s, so nobody is looked up`);
        continue;
      }
      if (part.filter !== undefined) {
        const isIn = await isInScope(server, part.path, part.filter, id);
        if (isIn === undefined)
          warnOnce(`${server.subject}: ${part.path}: the server does not take the filter together with an id`);
        if (isIn !== true) continue;
      }
      batch.push(entryIn(server, kind, part.path, resource, entryOptions));
      if (batch.length < batchSize) continue;
      yield batch;
      batch = [];
    }
    if (batch.length > 0) yield batch;
    context.signal.throwIfAborted();
  } finally {
    await server.close();
  }
}

/** Whether the filter lets the resource pass; undefined: the server does not say. */
async function isInScope(server: Server, path: string, filter: string, id: string): Promise<boolean | undefined> {
  const parameters = { filter: `(${filter}) and id eq ${JSON.stringify(id)}`, count: "2" };
  const page = pageOf(server, { path, parameters }, [400, 501]);
  let isIn = false;
  let step = await page.next();
  for (; step.done !== true; step = await page.next()) isIn ||= step.value.some((resource) => idOf(resource) === id);
  if (isIn) return true;
  return typeof step.value !== "string" && step.value.totalResults === 0 ? false : undefined;
}

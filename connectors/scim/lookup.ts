import type { Entry } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import { presentable } from "#redact.ts";
import type { Kind } from "#principals/principal.ts";
import type { Server } from "./client.ts";
import { itemsOf } from "#http/directory/json.ts";
import type { EntryOptions } from "./resource.ts";
import type { Resource } from "./schema.ts";
import { entryOf, idOf, isError, objectOf, typeOf } from "./resource.ts";

/** A resource to request by its id. */
export interface Lookup {
  readonly kind: Kind;
  /** Below the server's base: `Users`. */
  readonly path: string;
  readonly id: string;
  readonly parameters?: Readonly<Record<string, string>> | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Whether lists say of each resource what it is; then this answer does, too. */
  readonly isTyped: boolean;
}

/** Statuses that say that there is no such resource. */
export const gone: ReadonlySet<number> = new Set([404, 410]);

/** The path of one resource, and how messages name it. */
export function pathOf({ path, id }: Pick<Lookup, "path" | "id">): string {
  return `${path.replace(/^\/+|\/+$/g, "")}/${encodeURIComponent(id)}`;
}

export function titleOfLookup(server: Server, lookup: Pick<Lookup, "path" | "id">): string {
  return server.titleOf(new URL(pathOf(lookup), server.base));
}

/**
 * One resource, which answers for itself: it has the id that was asked for, and is not of another kind. There are servers
 * that answer with success and an error, with `{}`, or with what was meant for another request.
 * @param refused what a refusal means instead of an error
 * @throws {IncompleteReadError} the answer is not that resource
 * @throws what `Server.ask` throws
 */
export function resourceById<T = never>(
  server: Server,
  lookup: Lookup,
  refused?: (status: number) => { readonly value: T } | undefined,
): Promise<Resource | T> {
  const title = titleOfLookup(server, lookup);
  return server.ask<Resource | T>({
    path: pathOf(lookup),
    parameters: lookup.parameters ?? {},
    signal: lookup.signal,
    async use({ body }) {
      const found: Resource[] = [];
      // To the end, so that the connection can be used again.
      for await (const items of itemsOf(body)) {
        for (const item of items) {
          const resource = item.kind === "resource" ? objectOf(item.value) : undefined;
          if (resource === undefined) throw new IncompleteReadError(`${title}: the answer is not a ${lookup.kind}`);
          if (found.length < 2) found.push(resource);
        }
      }
      const [resource, further] = found;
      if (resource === undefined || further !== undefined)
        throw new IncompleteReadError(`${title}: the answer is not one ${lookup.kind}`);
      assertAnswersFor(resource, lookup, title, server.secrets());
      return resource;
    },
    refused: ({ status }) => refused?.(status),
  });
}

function assertAnswersFor(
  resource: Resource,
  { kind, id, isTyped }: Lookup,
  title: string,
  secrets: readonly string[],
) {
  const fail = (problem: string): never => {
    throw new IncompleteReadError(`${title}: ${problem}; the records read so far are not used`);
  };
  if (isError(resource)) {
    const { detail, status } = resource;
    const said = [status, detail].filter((part) => typeof part === "string" || typeof part === "number").join(": ");
    fail(`the status says success, and the answer is an error${said === "" ? "" : ` (${presentable(said, secrets)})`}`);
  }
  const found = idOf(resource);
  if (found === undefined) fail(`the answer has no id, so it is not known to be this ${kind}`);
  if (found !== id) fail(`the answer is another resource, with the id ${presentable(String(found), secrets)}`);
  const type = typeOf(resource);
  if (type === undefined ? isTyped : type !== kind) {
    const other =
      type === undefined
        ? "does not say what it is"
        : `is a ${typeof type === "string" ? type : presentable(type.other, secrets)}`;
    fail(`the answer ${other}, not a ${kind}`);
  }
}

/** @throws {InputError} the resource is of another kind */
export function entryIn(
  server: Server,
  kind: Kind,
  path: string,
  resource: Resource,
  entryOptions: EntryOptions,
): Entry {
  const origin = new URL(pathOf({ path, id: idOf(resource) ?? "" }), server.base).href;
  const type = typeOf(resource);
  if (type === undefined || type === kind) return entryOf(kind, resource, origin, entryOptions);
  const found = typeof type === "string" ? type : type.other;
  throw new InputError(`${server.subject}: ${origin}: is a ${found}, in the list of ${kind}s; check the path`);
}

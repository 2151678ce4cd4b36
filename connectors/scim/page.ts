import { InputError, RollcallError, UnavailableError } from "#errors.ts";
import type { Resource } from "./attributes.ts";
import { itemsOf, JsonError } from "./json.ts";
import { objectOf } from "./names.ts";
import { type Query, type Server, titleOf } from "./server.ts";

/** What a list says of itself. */
export interface Envelope {
  readonly totalResults?: number;
  /** The place of the first resource, from 1. */
  readonly startIndex?: number;
  readonly nextCursor?: string;
}

/** The server has forgotten, or does not know, the cursor. */
export const lostCursor = "the server no longer knows the cursor";

/** A page with more resources than these is delivered while it arrives; it is then too late to ask again when it breaks off. */
const held = 1_000;

/**
 * The resources of one page, a batch or several, and what the list says of itself.
 * @throws what `ask` throws; {InputError} when the answer is no list
 */
export async function* pageOf(
  server: Server,
  query: Pick<Query<never>, "path" | "parameters">,
): AsyncGenerator<readonly Resource[], Envelope | typeof lostCursor> {
  const title = `${server.subject}: GET ${titleOf(new URL(query.path, server.base))}`;
  const atLeast = Math.max(held, Number(query.parameters["count"] ?? 0)) + 1;
  type Start = { readonly first: readonly Resource[]; readonly rest: Page | undefined; readonly envelope: Envelope };
  const start = await server.get<Start | typeof lostCursor>({
    ...query,
    async use({ body }) {
      const rest = resourcesIn(body, title);
      const first: Resource[] = [];
      for (;;) {
        const { done, value } = await rest.next();
        if (done === true) return { first, rest: undefined, envelope: value };
        for (const resource of value) first.push(resource);
        if (first.length >= atLeast) return { first, rest, envelope: {} };
      }
    },
    refused: ({ status, scimType }) =>
      "cursor" in query.parameters && status === 400 && /^(?:expired|invalid)Cursor$/i.test(scimType ?? "")
        ? { value: lostCursor }
        : undefined,
  });
  if (start === lostCursor) return start;
  if (start.rest === undefined) {
    if (start.first.length > 0) yield start.first;
    return start.envelope;
  }
  try {
    yield start.first;
    return yield* start.rest;
  } catch (error) {
    server.signal.throwIfAborted();
    if (error instanceof RollcallError) throw error;
    const reason = error instanceof JsonError ? error.message : "broke off";
    throw new UnavailableError(`${title}: the answer, which the server does not divide into pages, ${reason}`, {
      cause: error,
    });
  } finally {
    // Left unread, it would be in the way of the next answer.
    await start.rest.return({});
  }
}

type Page = AsyncGenerator<readonly Resource[], Envelope>;

/** @throws {JsonError}, {InputError} */
async function* resourcesIn(body: AsyncIterable<Buffer>, title: string): Page {
  let envelope: Resource | undefined;
  for await (const items of itemsOf(body)) {
    const resources: Resource[] = [];
    for (const item of items) {
      const value = item.kind === "list" ? objectOf(item.envelope) : objectOf(item.value);
      if (value === undefined) throw new InputError(`${title}: the list holds something that is no resource`);
      if (item.kind === "list") envelope = value;
      else resources.push(value);
    }
    if (resources.length > 0) yield resources;
  }
  if (envelope === undefined) {
    throw new InputError(`${title}: the answer is JSON but no ListResponse; is the url that of a SCIM 2.0 server?`);
  }
  return envelopeOf(envelope, title);
}

/** @throws {InputError} when a number is none */
export function envelopeOf(list: Resource, title: string): Envelope {
  const { nextCursor } = list;
  const totalResults = whole(list, "totalResults", title);
  const startIndex = whole(list, "startIndex", title);
  return {
    ...(totalResults === undefined ? {} : { totalResults }),
    ...(startIndex === undefined ? {} : { startIndex }),
    ...(typeof nextCursor === "string" && nextCursor !== "" ? { nextCursor } : {}),
  };
}

function whole(list: Resource, name: string, title: string): number | undefined {
  const value = list[name];
  if (value === undefined || value === null) return undefined;
  const number = typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value;
  if (typeof number === "number" && Number.isSafeInteger(number) && number >= 0) return number;
  throw new InputError(`${title}: ${name} is not a whole number`);
}

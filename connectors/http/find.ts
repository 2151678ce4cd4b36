import type { Entry, ReadContext, RecordId } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import type { DirectoryApi } from "#http/directory/api.ts";
import { inParallel } from "#http/directory/pages.ts";
import type { Kind } from "#principals/principal.ts";
import { isObject } from "#values.ts";
import { entryOf, idIn } from "./entries.ts";
import { addressOf } from "./lists.ts";
import type { EntryOptions, Options } from "./options.ts";
import { parsePath, valueAt } from "./path.ts";

/**
 * Finds the records that the service has and that are in scope, asking for each by its id.
 * @throws what `DirectoryApi.get` throws; a refusal other than "there is none", too: unknown is not absent
 */
export async function* find(
  api: DirectoryApi,
  options: Options,
  records: readonly RecordId[],
  context: ReadContext,
): AsyncGenerator<readonly Entry[]> {
  const looked = inParallel(records, options.concurrency, async ({ kind, id }) => {
    const part = kind === "user" ? options.users : options.groups;
    return part === undefined ? undefined : recordById(api, options, { kind, id, part }, context);
  });
  for await (const entry of looked) if (entry !== undefined) yield [entry];
}

async function recordById(
  api: DirectoryApi,
  options: Options,
  { kind, id, part }: { readonly kind: Kind; readonly id: string; readonly part: EntryOptions },
  context: ReadContext,
): Promise<Entry | undefined> {
  if (part.find === undefined) return undefined;
  const url = addressOf(options, part.find.url, id);
  const title = api.titleOf(url);
  const answer = await api.jsonIfAny(url, [404, 410]);
  if (answer === undefined) return undefined;
  const item = part.find.at === undefined ? answer : valueAt(answer, part.find.at);
  if (!isObject(item)) throw new InputError(`${title}: the answer is not one ${kind} (find)`);
  const found = { item, place: `${url.origin}${url.pathname}`, subject: api.subject };
  // There are servers that answer with what was meant for another request.
  if (idIn(found, part) !== id) throw new IncompleteReadError(`${title}: the answer is another ${kind} than ${id}`);
  const inScope = Object.entries(part.find.where ?? {}).every(([name, value]) => {
    const path = parsePath(name);
    return path !== undefined && String(valueAt(item, path)) === String(value);
  });
  return inScope ? entryOf(kind, found, part, context) : undefined;
}

/** Whether a record can be looked up, of every kind that is read. */
export function canFind({ users, groups }: Options): boolean {
  return users.find !== undefined && (groups === undefined || groups.find !== undefined);
}

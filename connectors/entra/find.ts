import type { Entry, ReadContext, RecordId } from "#connector.ts";
import { inParallel } from "#http/directory/pages.ts";
import { parametersOf, selectionsOf } from "./attributes.ts";
import type { GraphObject, Selections } from "./attributes.ts";
import { eventual } from "./graph.ts";
import type { Graph } from "./graph.ts";

/**
 * Finds the records that are there and in scope, requesting each by its id.
 * @throws what `DirectoryApi.get` throws: unknown is not absent
 */
export async function* findRecords(
  graph: Graph,
  records: readonly RecordId[],
  context: ReadContext,
): AsyncGenerator<readonly Entry[]> {
  const selections = selectionsOf(graph.options, context, graph.subject);
  const found = inParallel(records, graph.options.concurrency, (record) => lookUp(graph, record, selections));
  for await (const entry of found) if (entry !== undefined) yield [entry];
}

async function lookUp(graph: Graph, { kind, id }: RecordId, selections: Selections): Promise<Entry | undefined> {
  const { users, groups } = graph.options;
  const part = kind === "user" ? users : groups;
  if (part === false) return undefined;
  const parameters = parametersOf(selections[kind]);
  const value = await graph.jsonIfAny(graph.url(`${kind}s/${encodeURIComponent(id)}`, parameters));
  if (value === undefined) return undefined;
  const object = value as GraphObject;
  const entry = graph.entry(kind, object);
  if (kind === "user" && users.guests === "exclude" && object["userType"] === "Guest") return undefined;
  if (kind === "group" && groups !== false) {
    if (groups.only?.some((only) => only.toLowerCase() === id.toLowerCase()) === false) return undefined;
    if (groups.hiddenMembership === "exclude" && object["visibility"] === "HiddenMembership") return undefined;
  }
  if (part.filter === undefined) return entry;
  const filtered = { $select: "id", $filter: `(${part.filter}) and id eq '${id}'`, $count: "true" };
  const { items } = await graph.page(graph.url(`${kind}s`, filtered), eventual);
  return items.some((item) => item["id"] === id) ? entry : undefined;
}

import type { Filter } from "scim2-parse-filter";
import type { InboxKind, InboxReader, Key, StoredResource } from "#state/inbox/inbox.ts";
import { invalid } from "./errors.ts";
import { matches, readFilter } from "./filter.ts";

/** How many resources are read at a time. */
const batch = 1_000;

/**
 * The resources of a kind that a filter asks for, in the order of their creation. Equality of a name or an id is looked up; what else there is
 * is found by reading all.
 * @throws {ScimError} invalidFilter
 */
export async function* search(
  inbox: InboxReader,
  kind: InboxKind,
  text: string,
  present: (stored: StoredResource) => Readonly<Record<string, unknown>>,
): AsyncGenerator<StoredResource> {
  const filter = readFilter(text);
  const members = kind === "group" ? membersAsked(filter) : [];
  for await (const stored of candidates(inbox, kind, filter)) {
    const found: { value: string }[] = [];
    for (const value of members) if (await inbox.hasMember(stored.id, value)) found.push({ value });
    if (matches(filter, { ...present(stored), members: found })) yield stored;
  }
}

async function* candidates(inbox: InboxReader, kind: InboxKind, filter: Filter): AsyncGenerator<StoredResource> {
  const asked = equalities(filter);
  const id = asked.get("id");
  if (id !== undefined) {
    const found = await inbox.find(kind, id);
    if (found !== undefined) yield found;
    return;
  }
  for (const key of ["userName", "externalId", "displayName"] satisfies Key[]) {
    const value = asked.get(key.toLowerCase());
    if (value === undefined) continue;
    yield* await inbox.findBy(kind, key, value);
    return;
  }
  const member = kind === "group" ? memberNeeded(filter) : undefined;
  if (member !== undefined) {
    yield* await inbox.groupsOf(member);
    return;
  }
  for (let after = 0; ;) {
    const page = await inbox.page(kind, { after, limit: batch });
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < batch) return;
    after = last.number;
  }
}

/** The id of a member without which the filter does not hold. */
function memberNeeded(filter: Filter): string | undefined {
  if (filter.op === "and") return filter.filters.map(memberNeeded).find((id) => id !== undefined);
  const isNeeded = (filter.op === "eq" || filter.op === "[]") && isOfMembers(filter.attrPath);
  return isNeeded ? membersAsked(filter)[0] : undefined;
}

/** What must be equal to what, by attribute in lower case. */
function equalities(filter: Filter): ReadonlyMap<string, string> {
  if (filter.op === "and") return new Map(filter.filters.flatMap((each) => [...equalities(each)]));
  if (filter.op !== "eq" || typeof filter.compValue !== "string") return new Map();
  const path = filter.attrPath.replace(/^urn:ietf:params:scim:schemas:core:2\.0:(?:User|Group):/i, "");
  return new Map([[path.toLowerCase(), filter.compValue]]);
}

function isOfMembers(path: string): boolean {
  return /^(?:urn:ietf:params:scim:schemas:core:2\.0:Group:)?members(?:\.value)?$/i.test(path);
}

/** The ids of members that a filter asks for. @throws {ScimError} invalidFilter: it asks otherwise than by equality */
function membersAsked(filter: Filter): readonly string[] {
  if ("filters" in filter) return filter.filters.flatMap(membersAsked);
  if (filter.op === "not") return membersAsked(filter.filter);
  if (!/^(?:urn:.*:)?members(?:$|\.)/i.test(filter.attrPath)) return [];
  if (filter.op === "[]") return valuesAsked(filter.valFilter);
  if (filter.op === "eq" && isOfMembers(filter.attrPath)) return [String(filter.compValue)];
  throw invalid("invalidFilter", 'members are asked for by members.value eq "…"');
}

function valuesAsked(filter: Filter): readonly string[] {
  if (filter.op === "eq" && /^value$/i.test(filter.attrPath)) return [String(filter.compValue)];
  throw invalid("invalidFilter", 'members are asked for by members[value eq "…"]');
}

import { setImmediate } from "node:timers/promises";
import type { Filter } from "scim2-parse-filter";
import type { InboxReader } from "#state/inbox/reader.ts";
import type { InboxKind, Key, StoredResource } from "#state/inbox/resources.ts";
import { invalid } from "./errors.ts";
import { matches, readFilter } from "./filter.ts";

/** How many resources are read at a time. */
const batch = 1_000;

/**
 * The resources of a kind that a filter asks for, in the order of their creation. Equality of a name, an id or an address is looked up; what else there is
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
  const lookup = lookupOf(kind, filter);
  if (lookup !== undefined) {
    const found = new Map((await lookup(inbox)).map((stored) => [stored.number, stored]));
    yield* [...found.values()].toSorted((a, b) => a.number - b.number);
    return;
  }
  for (let after = 0; ;) {
    const page = await inbox.page(kind, { after, limit: batch });
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < batch) return;
    after = last.number;
    // A store may answer at once, and others wait for this process.
    await setImmediate();
  }
}

type Lookup = (inbox: InboxReader) => Promise<readonly StoredResource[]>;

/** How everything is found that a filter may ask for; some of it may be something else. Undefined: by reading all. */
function lookupOf(kind: InboxKind, filter: Filter): Lookup | undefined {
  if (filter.op === "and")
    return filter.filters.map((each) => lookupOf(kind, each)).find((lookup) => lookup !== undefined);
  if (filter.op === "or") {
    const lookups = filter.filters.map((each) => lookupOf(kind, each));
    if (lookups.includes(undefined)) return undefined;
    return async (inbox) => {
      const found: StoredResource[] = [];
      for (const lookup of lookups) found.push(...((await lookup?.(inbox)) ?? []));
      return found;
    };
  }
  if (filter.op !== "eq" && filter.op !== "[]") return undefined;
  const path = filter.attrPath.replace(/^urn:ietf:params:scim:schemas:core:2\.0:(?:User|Group):/i, "").toLowerCase();
  if (filter.op === "[]")
    return path === "emails" || path === "members" ? ofValue(kind, path, filter.valFilter) : undefined;
  const value = filter.compValue;
  return typeof value === "string" ? equal(kind, path, value) : undefined;
}

function ofValue(kind: InboxKind, path: string, filter: Filter): Lookup | undefined {
  if (filter.op === "and")
    return filter.filters.map((each) => ofValue(kind, path, each)).find((lookup) => lookup !== undefined);
  const isValue = filter.op === "eq" && /^value$/i.test(filter.attrPath) && typeof filter.compValue === "string";
  return isValue ? equal(kind, path, String(filter.compValue)) : undefined;
}

/** @param path in lower case */
function equal(kind: InboxKind, path: string, value: string): Lookup | undefined {
  if (path === "id")
    return async (inbox) => {
      const found = await inbox.find(kind, value);
      return found === undefined ? [] : [found];
    };
  const isOfGroup = path === "members" || path === "members.value";
  if (kind === "group" && isOfGroup) return (inbox) => inbox.groupsOf(value);
  const key = keys.get(path);
  return key && ((inbox) => inbox.findBy(kind, key, value));
}

const keys: ReadonlyMap<string, Key> = new Map([
  ["username", "userName"],
  ["externalid", "externalId"],
  ["displayname", "displayName"],
  ["emails", "emails"],
  ["emails.value", "emails"],
]);

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

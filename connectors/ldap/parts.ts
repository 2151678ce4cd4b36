import type { Entry, MemberReference, SourceRecord } from "#connector.ts";
import type { Placement } from "./placement.ts";
import type { PrimaryGroups } from "./primary-groups.ts";
import { restOf } from "./ranges.ts";
import { type EntryRead, isMembers, type Reader, referenceOf, referencesIn } from "./records.ts";
import type { Session } from "./session.ts";

/** How many members are worked on at a time. */
const slice = 1_000;

/** What is needed to complete entries that came in parts. */
export interface Completion {
  readonly session: Session;
  readonly reader: Reader;
  readonly primaryGroups: PrimaryGroups;
  readonly placement: Placement;
}

/** The records of an entry with many members, with values that are to be asked for, or with a primary group. */
export async function* recordsInParts(
  message: Buffer,
  found: EntryRead,
  { session, reader, primaryGroups, placement }: Completion,
): AsyncGenerator<readonly SourceRecord[]> {
  const entry = await completed(found, session, reader, primaryGroups);
  let isPlaced = false;
  for await (const members of membersOf(message, found, session, reader)) {
    yield isPlaced
      ? placement.add(entry, members)
      : placement.place({ ...entry, members: [...entry.members, ...members] });
    isPlaced = true;
  }
  if (!isPlaced) yield placement.place(entry);
}

async function* membersOf(
  message: Buffer,
  found: EntryRead,
  session: Session,
  reader: Reader,
): AsyncGenerator<readonly MemberReference[]> {
  const { lists, rest } = found;
  for (const list of lists) yield* referencesIn(message, list, reader, slice);
  for (const one of rest) {
    if (!isMembers(one.use) || one.use.names.length > 0) continue;
    for await (const values of restOf(session, found, one, reader)) {
      yield values.map((value) => referenceOf(one.use, value, reader.dnKey));
    }
  }
}

/** With all values of its attributes, and its primary group. */
async function completed(
  found: EntryRead,
  session: Session,
  reader: Reader,
  primaryGroups: PrimaryGroups,
): Promise<Entry> {
  const { entry, rest, primaryGroup } = found;
  const attributes = { ...entry.attributes };
  const memberOf = [...entry.memberOf];
  const members = [...entry.members];
  for (const one of rest) {
    const { use } = one;
    if (isMembers(use) && use.names.length === 0) continue;
    for await (const values of restOf(session, found, one, reader)) {
      for (const name of use.names) attributes[name] = [attributes[name] ?? [], values].flat().map(String);
      if (isMembers(use)) members.push(...values.map((value) => referenceOf(use, value, reader.dnKey)));
      if (use.roles.includes("memberOf")) memberOf.push(...values.map(reader.dnKey));
    }
  }
  if (primaryGroup !== undefined) {
    const key = await primaryGroups.keyOf(session, primaryGroup);
    if (key !== undefined) memberOf.push(key);
  }
  return { ...entry, attributes, memberOf, members };
}

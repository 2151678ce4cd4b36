import type { Entry, MemberReference, Membership, SourceRecord } from "#connector.ts";
import type { Kind } from "#principals/principal.ts";
import { dnKey, dnKeys } from "#principals/dn.ts";
import { IncompleteReadError } from "#errors.ts";
import { revision as revisionName, selectionOf, sidInFilter } from "./attributes.ts";
import { lookUp, search } from "./directory.ts";
import type { Directory } from "./directory.ts";
import { dnOf, isMembers, rangeIn, recordOf, referenceOf, referencesIn } from "./entries.ts";
import type { ParsedEntry, Reader, RemainingValues } from "./entries.ts";
import type { Warnings } from "./errors.ts";
import { partOptions, placesOf } from "./options.ts";
import type { Options } from "./options.ts";
import { anyAttribute, queryOf } from "./search.ts";
import { Yielder } from "#principals/yield.ts";

const kind: Kind = "group";

/**
 * Which groups are in which groups. Reads all groups twice, before anything else: only after the first time is it known
 * which members are groups. Holds the keys of groups and nothing about users.
 */
export async function readNesting(directory: Directory, warn: (message: string) => void): Promise<Nesting> {
  const { options } = directory;
  const dnKey = dnKeys();
  const nesting = new Nesting();
  const yielder = new Yielder();
  const places = placesOf(partOptions(kind, options));
  let followed = new Set<string>();
  for (const { dn, inner } of places) {
    const query = queryOf(kind, options, dn, [anyAttribute]);
    for await (const { entries } of search(directory, query, { inner, followed })) {
      for (const message of entries) nesting.group(dnKey(dnOf(message)));
    }
  }
  const selection = selectionOf(kind, options, { users: [], groups: [] });
  const reader: Reader = { kind, selection, dnKey, options, warn: () => {} };
  followed = new Set();
  for (const { dn, inner } of places) {
    const query = queryOf(kind, options, dn, selection.request);
    for await (const batch of search(directory, query, { inner, followed })) {
      for (const message of batch.entries) {
        const found = recordOf(message, reader);
        const { entry, lists, rest } = found;
        const own = entry.keys[0] ?? "";
        nesting.seen(own);
        for (const parent of entry.memberOf) nesting.add(own, parent);
        for (const list of lists) {
          for (const references of referencesIn(message, list, reader, 1_000)) {
            for (const { key } of references) nesting.add(key, own);
            if (yielder.isDue()) await yielder.yield();
          }
        }
        for (const one of rest) {
          for await (const values of remainingValues(batch.directory, found, one, reader)) {
            for (const value of values) {
              if (isMembers(one.use)) nesting.add(referenceOf(one.use, value, dnKey).key, own);
              else nesting.add(own, dnKey(value));
            }
          }
        }
      }
    }
  }
  const missed = nesting.unseen();
  if (missed !== undefined) {
    throw new IncompleteReadError(
      `${directory.place}: the group ${missed} disappeared before its members were read; try again`,
      { torn: true },
    );
  }
  nesting.warnAboutCycles(warn);
  return nesting;
}

/** At most so many cycles are named. */
const examples = 5;

/** Groups, and which are in which. */
export class Nesting {
  readonly #numbers = new Map<string, number>();
  readonly #keys: string[] = [];
  readonly #parents: number[][] = [];
  readonly #isSeen: boolean[] = [];

  /** Adds a group by its key; all groups come before the first `add`. */
  group(key: string): void {
    if (this.#numbers.has(key)) return;
    this.#numbers.set(key, this.#keys.length);
    this.#keys.push(key);
    this.#parents.push([]);
    this.#isSeen.push(false);
  }

  /** Says that the members of a group were read. */
  seen(key: string): void {
    const number = this.#numbers.get(key);
    if (number !== undefined) this.#isSeen[number] = true;
  }

  /** A group whose members were not read. */
  unseen(): string | undefined {
    return this.#keys[this.#isSeen.indexOf(false)];
  }

  /** Says that a group is directly in another; ignored unless both are groups. */
  add(member: string, group: string): void {
    const [below, above] = [this.#numbers.get(member), this.#numbers.get(group)];
    if (below !== undefined && above !== undefined) this.#parents[below]?.push(above);
  }

  warnAboutCycles(warn: (message: string) => void): void {
    const cycles = cyclesIn(this.#parents);
    for (const group of cycles.slice(0, examples))
      warn(`the group ${this.#keys[group]} contains itself, directly or through other groups`);
    if (cycles.length > examples) warn(`${cycles.length - examples} more groups contain themselves`);
  }

  isGroup(key: string): boolean {
    return this.#numbers.has(key);
  }

  /**
   * The groups that a group is in, directly or through others.
   * @returns keys, without the group's own; empty for what is not a group
   */
  above(group: string): readonly string[] {
    const number = this.#numbers.get(group);
    return number === undefined ? [] : above(this.#parents, number).map((each) => this.#keys[each] ?? "");
  }
}

function above(parents: readonly (readonly number[])[], start: number): number[] {
  const found = new Set<number>();
  const open = [...(parents[start] ?? [])];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (found.has(at)) continue;
    found.add(at);
    open.push(...(parents[at] ?? []));
  }
  found.delete(start);
  return [...found];
}

/** One group of each cycle. Depth-first, so that each group is visited once. */
function cyclesIn(parents: readonly (readonly number[])[]): number[] {
  const found = new Set<number>();
  const state = new Uint8Array(parents.length);
  const [fresh, onPath, done] = [0, 1, 2];
  for (const start of parents.keys()) {
    if (state[start] !== fresh) continue;
    state[start] = onPath;
    const path = [{ at: start, next: 0 }];
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const parent = parents[top.at]?.[top.next++];
      if (parent === undefined) {
        state[top.at] = done;
        path.pop();
      } else if (state[parent] === onPath) found.add(parent);
      else if (state[parent] === fresh) {
        state[parent] = onPath;
        path.push({ at: parent, next: 0 });
      }
    }
  }
  return [...found];
}

/** What becomes of memberships: as in the directory, or with nested groups resolved (`flatten`). */
export interface Placement {
  /** The records for an entry with all or the first of its members. */
  place(entry: Entry): readonly SourceRecord[];
  /** The records for more members of a group that was placed. */
  add(group: Entry, references: readonly MemberReference[]): readonly Membership[];
}

/** @param nesting puts users directly into every group that they are in through others; undefined: leaves them as they are */
export function placementOf(nesting: Nesting | undefined, warnings: Warnings): Placement {
  if (nesting === undefined) {
    const others = (group: Entry, references: readonly MemberReference[]): readonly MemberReference[] => {
      const isSelf = ({ kind, key }: MemberReference): boolean => kind !== "user" && key === group.keys[0];
      if (!references.some(isSelf)) return references;
      warnings.add("groups have themselves as a member", `${group.origin} has itself as a member; that is ignored`);
      return references.filter((reference) => !isSelf(reference));
    };
    return {
      place: (entry) => [entry.members.length === 0 ? entry : { ...entry, members: others(entry, entry.members) }],
      add: (group, references) =>
        others(group, references).map((member) => membership(group, group.keys[0] ?? "", member)),
    };
  }
  const users = (references: readonly MemberReference[]): readonly MemberReference[] =>
    references.filter(({ kind, key }) => kind === "user" || !nesting.isGroup(key));
  return {
    place: (entry) => {
      if (entry.kind === "user") {
        const all = new Set(entry.memberOf.flatMap((key) => [key, ...nesting.above(key)]));
        return [{ ...entry, memberOf: [...all] }];
      }
      const members = users(entry.members);
      return [{ ...entry, memberOf: [], members }, ...memberships(entry, members, nesting.above(entry.keys[0] ?? ""))];
    },
    add: (group, references) => {
      const own = group.keys[0] ?? "";
      return memberships(group, users(references), [own, ...nesting.above(own)]);
    },
  };
}

function membership(group: Entry, key: string, member: MemberReference): Membership {
  return { kind: "membership", group: key, member, origin: group.origin };
}

function memberships(group: Entry, references: readonly MemberReference[], groups: readonly string[]): Membership[] {
  return groups.flatMap((key) => references.map((member) => membership(group, key, member)));
}

/**
 * The primary groups of Active Directory's users, which do not list their members. A company has a handful; each is
 * searched for once.
 */
export class PrimaryGroups {
  readonly #options: Options;
  readonly #warn: (message: string) => void;
  readonly #known = new Map<string, string | undefined>();
  readonly #missing = new Map<string, Directory>();

  constructor(options: Options, warn: (message: string) => void) {
    this.#options = options;
    this.#warn = warn;
  }

  /** The key of the group; undefined when it is not among the source's groups. */
  async keyOf(directory: Directory, sid: string): Promise<string | undefined> {
    if (this.#known.has(sid)) return this.#known.get(sid);
    const found = await this.#find(directory, sid);
    this.#known.set(sid, found);
    if (found === undefined) {
      this.#missing.set(sid, directory);
      this.#warn(
        `the primary group ${sid} of users is not among the groups that are read; memberships in it are ignored`,
      );
    }
    return found;
  }

  async #find(directory: Directory, sid: string): Promise<string | undefined> {
    const { groups } = this.#options;
    if (groups === undefined) return undefined;
    for (const { dn: base } of placesOf(groups)) {
      const [message] = await lookUp(directory, {
        base,
        scope: groups.scope,
        filter: `(&${groups.filter}(objectSid=${sidInFilter(sid)}))`,
        attributes: [anyAttribute],
        what: `the primary group ${sid} below ${base}`,
      });
      if (message !== undefined) return dnKey(dnOf(message));
    }
    return undefined;
  }

  /** Whether it was looked for at this server, and not found. */
  isMissing(directory: Directory, sid: string): boolean {
    return this.#missing.get(sid) === directory;
  }
}

/** Members are processed so many at a time. */
const slice = 1_000;

/** What completing a partial entry needs. */
export interface Completion {
  readonly directory: Directory;
  readonly reader: Reader;
  readonly primaryGroups: PrimaryGroups;
  readonly placement: Placement;
}

/** The records of an entry with many members, with values that must be requested, or with a primary group. */
export async function* recordsOfPartialEntry(
  message: Buffer,
  found: ParsedEntry,
  { directory, reader, primaryGroups, placement }: Completion,
): AsyncGenerator<readonly SourceRecord[]> {
  const entry = await completed(found, directory, reader, primaryGroups);
  let isPlaced = false;
  for await (const members of membersOf(message, found, directory, reader)) {
    yield isPlaced
      ? placement.add(entry, members)
      : placement.place({ ...entry, members: [...entry.members, ...members] });
    isPlaced = true;
  }
  if (!isPlaced) yield placement.place(entry);
}

async function* membersOf(
  message: Buffer,
  found: ParsedEntry,
  directory: Directory,
  reader: Reader,
): AsyncGenerator<readonly MemberReference[]> {
  const { lists, rest } = found;
  for (const list of lists) yield* referencesIn(message, list, reader, slice);
  for (const one of rest) {
    if (!isMembers(one.use) || one.use.names.length > 0) continue;
    for await (const values of remainingValues(directory, found, one, reader)) {
      yield values.map((value) => referenceOf(one.use, value, reader.dnKey));
    }
  }
}

/** The entry with all values of its attributes, and its primary group. */
async function completed(
  found: ParsedEntry,
  directory: Directory,
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
    for await (const values of remainingValues(directory, found, one, reader)) {
      for (const name of use.names) attributes[name] = [attributes[name] ?? [], values].flat().map(String);
      if (isMembers(use)) members.push(...values.map((value) => referenceOf(use, value, reader.dnKey)));
      if (use.roles.includes("memberOf")) memberOf.push(...values.map(reader.dnKey));
    }
  }
  if (primaryGroup !== undefined) {
    const key = await primaryGroups.keyOf(directory, primaryGroup);
    if (key !== undefined) memberOf.push(key);
  }
  return { ...entry, attributes, memberOf, members };
}

/**
 * Range retrieval: the values that did not fit into the entry, range by range. Active Directory sends at most 1500 (or
 * 5000) at a time.
 * @throws {IncompleteReadError} the ranges have a gap, or the entry changes between them
 */
async function* remainingValues(
  directory: Directory,
  { entry, revision }: Pick<ParsedEntry, "entry" | "revision">,
  rest: RemainingValues,
  reader: Reader,
): AsyncGenerator<readonly string[]> {
  const dn = entry.origin;
  const { name } = rest.use;
  for (let next: number | undefined = rest.next; next !== undefined;) {
    const what = `values of ${name} of ${dn} from number ${next}`;
    const attributes = [`${name};range=${next}-*`, revisionName];
    const [message] = await lookUp(directory, { base: dn, scope: "base", filter: "(objectClass=*)", attributes, what });
    const part = message === undefined ? undefined : rangeIn(message, name, reader);
    const range = part?.use.range;
    const follows = range?.from === next && (range.next === undefined || range.next > next);
    if (part === undefined || !follows || part.revision !== revision) {
      throw new IncompleteReadError(`${directory.place}: the ${what}: the entry changed while it was read; try again`, {
        torn: true,
      });
    }
    yield part.values;
    next = range.next;
  }
}

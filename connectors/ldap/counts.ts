import { countValues, warnOfUnknown } from "#completeness.ts";
import type { ValueCounts } from "#completeness.ts";
import type { Entry, ReadContext } from "#connector.ts";
import { IncompleteReadError } from "#errors.ts";
import type { Kind } from "#principals/principal.ts";
import { dnKey, isWithin } from "#principals/dn.ts";
import { partOptions } from "./options.ts";
import type { Options } from "./options.ts";

/** Below one base so many containers are counted; with more, only the base is: each may be an entry with entries below. */
const mostContainers = 2_000;

/** So few people may well leave their containers on one day. More may have been hidden by an access rule. */
const mostLeaving = 2;

/** A file is searched without a base. */
const root = "the root";

export interface CountsOptions {
  /** For messages: `source corp, ldaps://ldap.example.com`. */
  readonly place: string;
  readonly context: ReadContext;
  readonly options: Options;
}

/** How many entries of one kind there are below each base, and below each container directly under one. */
class Counts {
  readonly #reading: CountsOptions;
  readonly #prefix: string;
  readonly #counts = new Map<string, number>();
  readonly #bases = new Set<string>();
  /** Bases with so many containers that those are not counted. */
  readonly #crowded: string[] = [];

  constructor(kind: Kind, reading: CountsOptions) {
    this.#reading = reading;
    this.#prefix = `${kind}s below `;
  }

  /** @returns what counts the entries of a base */
  below(base: string): (entry: Entry) => void {
    const outer = dnKey(base);
    const containers = new Set<string>();
    const name = base === "" ? root : base;
    this.#counts.set(name, 0);
    this.#bases.add(name);
    return ({ keys: [key = ""] }) => {
      this.#add(name);
      if (this.#crowded.includes(outer)) return;
      const container = containerOf(key, outer);
      if (container === undefined || !this.#add(container)) return;
      containers.add(container);
      if (containers.size <= mostContainers) return;
      this.#crowded.push(outer);
      for (const each of containers) this.#counts.delete(each);
      containers.clear();
    };
  }

  /** @returns whether it is the first one there */
  #add(place: string): boolean {
    const count = this.#counts.get(place) ?? 0;
    this.#counts.set(place, count + 1);
    return count === 0;
  }

  /**
   * Reports the counts.
   * @throws {IncompleteReadError} a place has no entries, and had some at the last good read
   */
  async end(isThere: IsThere): Promise<void> {
    const { count, lastCounts = {} } = this.#reading.context;
    for (const [place, amount] of this.#counts) count?.(`${this.#prefix}${place}`, amount);
    const emptied = Object.entries(lastCounts).filter(([name, before]) => {
      if (!name.startsWith(this.#prefix)) return false;
      const place = name.slice(this.#prefix.length);
      const isCounted = this.#counts.has(place) || !this.#crowded.some((outer) => isWithin(place, outer));
      return isCounted && before > 0 && (this.#counts.get(place) ?? 0) === 0;
    });
    const places = emptied.map(([name]) => name.slice(this.#prefix.length));
    const lost = emptied.reduce((sum, [, before]) => sum + before, 0);
    // A part that is offline is not found itself.
    const hasLeft =
      lost <= mostLeaving && !places.some((place) => this.#bases.has(place)) && (await all(places, isThere));
    if (!hasLeft) refuseEmptied(emptied, this.#reading);
  }
}

/** Whether a search finds the container of this name. */
export type IsThere = (dn: string) => Promise<boolean>;

async function all(places: readonly string[], isThere: IsThere): Promise<boolean> {
  for (const place of places) if (!(await isThere(place))) return false;
  return true;
}

/** What a read of one kind checks of the entries that come. */
export class Checks {
  readonly #kind: Kind;
  readonly #reading: CountsOptions;
  readonly #counts: Counts;
  readonly #values: ValueCounts;
  #total = 0;

  constructor(kind: Kind, reading: CountsOptions) {
    this.#kind = kind;
    this.#reading = reading;
    this.#counts = new Counts(kind, reading);
    this.#values = valuesOf(kind, reading);
  }

  /**
   * Begins a base, which must have so many entries.
   * @returns `end`, for when all of them have come, throws {IncompleteReadError} where there are fewer
   */
  below(base: string, minEntries: number): { add(entry: Entry): void; end(): void } {
    const countEntry = this.#counts.below(base);
    let count = 0;
    return {
      add: (entry) => {
        count += 1;
        this.#values.add(entry);
        countEntry(entry);
      },
      end: () => {
        if (count < minEntries)
          throw tooFew(`${this.#reading.place}: ${base}`, this.#kind, count, `${minEntries} (minEntries of this base)`);
        this.#total += count;
      },
    };
  }

  /**
   * All bases have ended.
   * @param isThere looks at a container that is empty now; absent: nobody can
   * @throws {IncompleteReadError} there is less than configured, or than the last good read makes likely
   */
  async end(isThere: IsThere = async () => false): Promise<void> {
    const kind = this.#kind;
    const { place, options } = this.#reading;
    const part = partOptions(kind, options);
    if (this.#total < part.minEntries) {
      const names = part.base.map(({ dn }) => dn).join(" and ");
      const where = names === "" ? place : `${place}: ${names}`;
      throw tooFew(where, kind, this.#total, `${part.minEntries} (${kind}s.minEntries)`);
    }
    await this.#counts.end(isThere);
    warnOfUnknown(this.#values, { subject: place, kind, count: this.#total }, this.#reading.context);
    const [name] = this.#values.end();
    if (name === undefined) return;
    throw new IncompleteReadError(
      `${place}: no ${kind}s with ${name}, where the last good read found ${this.#values.before(name)}: may this login still read the attribute? If no record has it, list it under ${kind}s.optionalAttributes`,
    );
  }
}

function tooFew(where: string, kind: Kind, count: number, expected: string): IncompleteReadError {
  return new IncompleteReadError(
    `${where}: ${count} ${kind}s found, expected at least ${expected}; check the filter, and what the login may see`,
  );
}

/** Counts the values of the attributes that rules name. A login that may not read one any more would empty it for all. */
function valuesOf(kind: Kind, { context, options }: CountsOptions): ValueCounts {
  const names = (context.attributes?.[`${kind}s`] ?? []).filter((name) => !isMembership(name));
  const given = new Set(partOptions(kind, options).optionalAttributes.map((name) => name.toLowerCase()));
  const optional = new Set(names.filter((name) => given.has(name.toLowerCase())));
  return countValues(kind, names, context, optional);
}

/** Long lists of members come in parts. */
function isMembership(name: string): boolean {
  return /^(?:member|uniquemember|memberuid|memberof)$/i.test(name);
}

/** The key of the container directly below the base that an entry is in; undefined: it is directly below itself. */
function containerOf(key: string, outer: string): string | undefined {
  if (!key.endsWith(`,${outer}`)) return undefined;
  const comma = key.lastIndexOf(",", key.length - outer.length - 2);
  return comma === -1 ? undefined : key.slice(comma + 1);
}

/** @param emptied what has nothing now, and how much it had */
export function refuseEmptied(
  emptied: readonly (readonly [name: string, before: number])[],
  { place, options }: CountsOptions,
): void {
  const lost = emptied.filter(([, before]) => before > 0);
  const [first] = lost;
  if (first === undefined || options.emptyContainers === "allowed") return;
  const [name, before] = first;
  const others = lost.length === 1 ? "" : `, and ${lost.length - 1} more are empty likewise`;
  throw new IncompleteReadError(
    `${place}: no ${name}, where the last good read found ${before}${others}: is a part of the directory offline, moved, or hidden from this login? If that is intended, set emptyContainers: allowed for this source until a run has succeeded`,
  );
}

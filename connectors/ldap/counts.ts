import { countValues } from "#connector.ts";
import type { Entry, ReadContext } from "#connector.ts";
import { IncompleteReadError } from "#errors.ts";
import type { Kind } from "#principals/principal.ts";
import { dnKey, isWithin } from "#principals/dn.ts";
import { partOptions } from "./options.ts";
import type { Options } from "./options.ts";

/** Below one base so many containers are counted; with more, only the base is: each may be an entry with entries below. */
const mostContainers = 2_000;

/**
 * How many entries of one kind there are below each base, and below each container directly under one; and how many have a
 * value of each attribute that rules name.
 */
interface Counts {
  /** @returns what counts the entries of a base */
  below(base: string): (entry: Entry) => void;
  /**
   * Reports the counts.
   * @throws {IncompleteReadError} a place has no entries, or an attribute no values, and had some at the last good read
   */
  close(): void;
}

export interface CountsOptions {
  /** For messages: `source corp, ldaps://ldap.example.com`. */
  readonly place: string;
  readonly context: ReadContext;
  readonly options: Options;
}

function countsOf(kind: Kind, reading: CountsOptions): Counts {
  const prefix = `${kind}s below `;
  const values = valuesOf(kind, reading);
  const counts = new Map<string, number>();
  const crowded: string[] = [];
  const add = (place: string): boolean => {
    const count = counts.get(place) ?? 0;
    counts.set(place, count + 1);
    return count === 0;
  };
  return {
    below: (base) => {
      const outer = dnKey(base);
      const containers = new Set<string>();
      counts.set(base, 0);
      return (entry) => {
        const [key = ""] = entry.keys;
        values.count(entry);
        add(base);
        if (crowded.includes(outer)) return;
        const container = containerOf(key, outer);
        if (container === undefined || !add(container)) return;
        containers.add(container);
        if (containers.size <= mostContainers) return;
        crowded.push(outer);
        for (const each of containers) counts.delete(each);
        containers.clear();
      };
    },
    close: () => {
      const { count, lastCounts = {} } = reading.context;
      for (const [place, amount] of counts) count?.(`${prefix}${place}`, amount);
      const before = Object.entries(lastCounts).filter(([name]) => name.startsWith(prefix));
      refuseEmptied(
        before.filter(([name]) => {
          const place = name.slice(prefix.length);
          const isCounted = counts.has(place) || !crowded.some((outer) => isWithin(place, outer));
          return isCounted && (counts.get(place) ?? 0) === 0;
        }),
        reading,
      );
      values.close();
    },
  };
}

/** What a read of one kind checks of the entries that come. */
export interface Checks {
  /** Begins a base, which must have so many entries. `end`: all of them have come. */
  below(base: string, minEntries: number): { add(entry: Entry): void; end(): void };
  /** All bases have ended. */
  end(): void;
}

/** @throws {IncompleteReadError} from `end`, where there is less than configured, or than the last good read makes likely */
export function checksOf(kind: Kind, reading: CountsOptions): Checks {
  const { place, options } = reading;
  const part = partOptions(kind, options);
  const counts = countsOf(kind, reading);
  let total = 0;
  return {
    below: (dn, minEntries) => {
      const countEntry = counts.below(dn);
      let count = 0;
      return {
        add: (entry) => {
          count += 1;
          countEntry(entry);
        },
        end: () => {
          if (count < minEntries)
            throw tooFew(`${place}: ${dn}`, kind, count, `${minEntries} (minEntries of this base)`);
          total += count;
        },
      };
    },
    end: () => {
      if (total < part.minEntries) {
        const names = part.base.map(({ dn }) => dn).join(" and ");
        throw tooFew(`${place}: ${names}`, kind, total, `${part.minEntries} (${kind}s.minEntries)`);
      }
      counts.close();
    },
  };
}

function tooFew(where: string, kind: Kind, count: number, expected: string): IncompleteReadError {
  return new IncompleteReadError(
    `${where}: ${count} ${kind}s found, expected at least ${expected}; check the filter, and what the login may see`,
  );
}

/** Counts the values of the attributes that rules name. A login that may not read one any more would empty it for all. */
function valuesOf(
  kind: Kind,
  { place, context, options }: CountsOptions,
): Pick<Counts, "close"> & { count: (entry: Entry) => void } {
  const names = (context.attributes?.[`${kind}s`] ?? []).filter((name) => !isMembership(name));
  const given = new Set(partOptions(kind, options).optionalAttributes.map((name) => name.toLowerCase()));
  const optional = new Set(names.filter((name) => given.has(name.toLowerCase())));
  const values = countValues(kind, names, context, optional);
  return {
    count: values.add,
    close: () => {
      const [name] = values.end();
      if (name === undefined) return;
      throw new IncompleteReadError(
        `${place}: no ${kind}s with ${name}, where the last good read found ${values.before(name)}: may this login still read the attribute? If nobody has it, list it under ${kind}s.optionalAttributes`,
      );
    },
  };
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
    `${place}: no ${name}, where the last good read found ${before}${others}: is a part of the directory offline, moved, or hidden from this login? If it is meant, set emptyContainers: allowed for this source until a run has succeeded`,
  );
}

import type { ReadContext } from "#connector.ts";
import { IncompleteReadError } from "#errors.ts";
import type { Kind } from "#principals/principal.ts";
import { dnKey, isWithin } from "#principals/dn.ts";
import type { Options } from "./options.ts";

/** Below one base so many containers are counted; with more, only the base is: each may be an entry with entries below. */
const mostContainers = 2_000;

/** How many entries of one kind there are below each base, and below each container directly under one. */
export interface Counts {
  /** @returns what counts the entries of a base, by their keys */
  below(base: string): (key: string) => void;
  /**
   * Reports the counts.
   * @throws {IncompleteReadError} a place has no entries, and had some at the last good read
   */
  close(): void;
}

export interface CountsOptions {
  /** For messages: `source corp, ldaps://ldap.example.com`. */
  readonly place: string;
  readonly context: ReadContext;
  readonly emptyContainers: Options["emptyContainers"];
}

export function countsOf(kind: Kind, options: CountsOptions): Counts {
  const prefix = `${kind}s below `;
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
      return (key) => {
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
      const { count, lastCounts = {} } = options.context;
      for (const [place, amount] of counts) count?.(`${prefix}${place}`, amount);
      const before = Object.entries(lastCounts).filter(([name]) => name.startsWith(prefix));
      refuseEmptied(
        before.filter(([name]) => {
          const place = name.slice(prefix.length);
          const isCounted = counts.has(place) || !crowded.some((outer) => isWithin(place, outer));
          return isCounted && (counts.get(place) ?? 0) === 0;
        }),
        options,
      );
    },
  };
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
  { place, emptyContainers }: CountsOptions,
): void {
  const lost = emptied.filter(([, before]) => before > 0);
  const [first] = lost;
  if (first === undefined || emptyContainers === "allowed") return;
  const [name, before] = first;
  const others = lost.length === 1 ? "" : `, and ${lost.length - 1} more are empty likewise`;
  throw new IncompleteReadError(
    `${place}: no ${name}, where the last good read found ${before}${others}: is a part of the directory offline, moved, or hidden from this login? If it is meant, set emptyContainers: allowed for this source until a run has succeeded`,
  );
}

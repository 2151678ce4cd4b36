import { createHash } from "node:crypto";

export interface ThrottleOptions {
  /** Failed logins of one name from one address within `window` before that pair is refused. */
  readonly attempts: number;
  /** In milliseconds. */
  readonly window: number;
  /** How long it is refused, in milliseconds. */
  readonly lockout: number;
  /** Has the name logged in from this address before? */
  readonly isKnown: (name: string, address: string) => boolean;
  /** The time in milliseconds, which never goes back. */
  readonly now: () => number;
}

/** A login that may go on. Exactly one of these must be called, once. */
export interface Attempt {
  succeeded(): void;
  failed(): void;
  /** It could not be told whether the password was right. */
  undecided(): void;
}

export interface Throttle {
  /**
   * Asks whether a login may go on. While as many are under way as may still fail, it waits for them, so that
   * guesses made at once are counted like guesses made one after the other.
   * @returns the attempt, or in how many seconds to come back
   */
  begin(name: string, address: string): Promise<Attempt | { readonly retryAfter: number }>;
}

/** Failures from one address, whatever the names, and of one name, whatever the addresses, before they are refused. */
const limits = { address: 50, name: 100 } as const;

/** How many pairs, addresses and names are counted at once: about 10 MB. The ones not seen for longest are forgotten. */
const capacity = 20_000;

interface Count {
  readonly limit: number;
  /** When the failures of the last `window` were. */
  failures: number[];
  underWay: number;
  refusedUntil: number;
}

/** Counts failed logins and refuses more of them (0.8). In memory: a restart forgets. */
export function createThrottle(options: ThrottleOptions): Throttle {
  const { window, lockout, isKnown, now } = options;
  const pairs = createCounts(options.attempts);
  const addresses = createCounts(limits.address);
  const names = createCounts(limits.name);
  let waiting: (() => void)[] = [];

  function isFull(count: Count, time: number): boolean {
    count.failures = count.failures.filter((failure) => failure > time - window);
    return count.failures.length + count.underWay >= count.limit;
  }

  function fail(count: Count, time: number): void {
    count.failures.push(time);
    count.failures = count.failures.filter((failure) => failure > time - window);
    if (count.failures.length < count.limit) return;
    count.failures = [];
    count.refusedUntil = time + lockout;
  }

  return {
    begin: async (name, address) => {
      for (;;) {
        const pair = pairs.of(`${digest(name)} ${address}`);
        const everywhere = names.of(digest(name));
        const counts = [pair, addresses.of(address), everywhere];
        const deciding = isKnown(name, address) ? counts.filter((count) => count !== everywhere) : counts;
        const time = now();
        const wait = Math.max(...deciding.map((count) => count.refusedUntil)) - time;
        if (wait > 0) return { retryAfter: Math.ceil(wait / 1000) };
        if (deciding.some((count) => isFull(count, time))) {
          await new Promise<void>((resolve) => waiting.push(resolve));
          continue;
        }
        for (const count of counts) count.underWay++;
        const end = (judge: () => void) => (): void => {
          for (const count of counts) count.underWay--;
          judge();
          const woken = waiting;
          waiting = [];
          for (const wake of woken) wake();
        };
        return {
          succeeded: end(() => {
            pair.failures = [];
          }),
          failed: end(() => {
            for (const count of counts) fail(count, now());
          }),
          undecided: end(() => undefined),
        };
      }
    },
  };
}

/** Counts by key, of which the ones used last are kept. */
function createCounts(limit: number): { of(key: string): Count } {
  const counts = new Map<string, Count>();
  return {
    of: (key) => {
      const count = counts.get(key) ?? { limit, failures: [], underWay: 0, refusedUntil: -Infinity };
      counts.delete(key);
      counts.set(key, count);
      const [oldest] = counts.keys();
      if (counts.size > capacity && oldest !== undefined) counts.delete(oldest);
      return count;
    },
  };
}

/** A key of one length, however long a name somebody sends. */
function digest(name: string): string {
  return createHash("sha256").update(name).digest("base64");
}

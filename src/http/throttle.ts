import { createHash } from "node:crypto";

export interface ThrottleOptions {
  /** Failed logins of one name from one address within `window` before that pair is refused. */
  readonly attempts: number;
  /** In milliseconds. */
  readonly window: number;
  /** How long it is refused, in milliseconds. */
  readonly lockout: number;
  /** Whether the name has logged in from this address before. */
  readonly isKnown: (name: string, address: string) => boolean | Promise<boolean>;
  /** A clock that never goes back, in milliseconds. */
  readonly now: () => number;
  /** How many pairs, addresses and names are counted: absent, 20,000 each. The least recently seen are forgotten. */
  readonly capacity?: number | undefined;
}

/** A login that may proceed. Exactly one of these must be called, once. */
export interface Attempt {
  succeeded(): void | Promise<void>;
  failed(): void | Promise<void>;
  /** The password could not be checked. Never throws. */
  undecided(): void | Promise<void>;
}

export interface Throttle {
  /**
   * Asks whether a login may proceed. When as many logins are running as may still fail, it waits for them: parallel
   * guesses count like sequential ones.
   * @returns the attempt, or the seconds until the next one is allowed
   */
  begin(name: string, address: string): Promise<Attempt | { readonly retryAfter: number }>;
}

/** Failures from one address, whatever the names, and of one name, whatever the addresses, before they are refused. */
export const limits = { address: 50, name: 100 } as const;

/** Of each kind: about 10 MB in memory. */
export const usualCapacity = 20_000;

interface Count {
  readonly limit: number;
  /** The times of the failures within the last `window`. */
  failures: number[];
  underWay: number;
  refusedUntil: number;
}

/** Counts failed logins and refuses more of them (0.8). In memory: a restart forgets. */
export function createThrottle(options: ThrottleOptions): Throttle {
  const { window, lockout, isKnown, now, capacity = usualCapacity } = options;
  const pairs = createCounts(options.attempts, capacity);
  const addresses = createCounts(limits.address, capacity);
  const names = createCounts(limits.name, capacity);
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
        const isHere = await isKnown(name, address);
        const pair = pairs.of(`${digest(name)} ${address}`);
        const everywhere = names.of(digest(name));
        const counts = [pair, addresses.of(address), everywhere];
        // Who has logged in from there before is not kept out by what strangers try, there or elsewhere.
        const deciding = isHere ? [pair] : counts;
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

/** Counts by key; the least recently used are dropped. */
function createCounts(limit: number, capacity: number): { of(key: string): Count } {
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

/** A key of fixed length, however long the name is. */
export function digest(name: string): string {
  return createHash("sha256").update(name).digest("base64");
}

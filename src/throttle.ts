import { hash } from "node:crypto";

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

/** Ends a login that may proceed. To be called once; `undecided`, when the password could not be checked, never throws. */
export type End = (outcome: "succeeded" | "failed" | "undecided") => Promise<void>;

/** Failures from one address, whatever the names, and of one name, whatever the addresses, before they are refused. */
const limits = { address: 50, name: 100 } as const;

/** Entries of each kind: about 10 MB in memory. */
export const usualCapacity = 20_000;

/** What failures are counted by: a pair of a name and an address, an address, or a name. */
export interface Counted {
  readonly key: string;
  /** So many failures refuse it. */
  readonly most: number;
}

/** A login that asks to proceed. */
export interface Asking {
  readonly pair: Counted;
  /** All it is counted by, the pair among them. */
  readonly all: readonly Counted[];
  /** Those that may refuse it. */
  readonly deciding: readonly Counted[];
  readonly now: number;
}

/** Where failures are counted: in this process, or in a table that several processes share. */
export interface Counts {
  /** Until when a key is refused, as far as this process knows. */
  refusedUntil(key: string, now: number): number;
  /**
   * Counts a login as under way. When as many are under way as may still fail, it counts nothing, and waits until that may
   * have changed.
   * @returns what ends the login; undefined: ask again
   */
  begin(asking: Asking): Promise<End | undefined>;
}

/** Counts failed logins and refuses more of them (0.8). */
export class Throttle {
  readonly #options: ThrottleOptions;
  readonly #counts: Counts;

  /** @param counts absent: in memory, so a restart forgets them */
  constructor(options: ThrottleOptions, counts: Counts = new CountsInMemory(options)) {
    this.#options = options;
    this.#counts = counts;
  }

  /**
   * Asks whether a login may proceed. When as many logins are running as may still fail, it waits for them: parallel
   * guesses count like sequential ones.
   * @returns what ends the login, or the seconds until the next one is allowed
   */
  async begin(name: string, address: string): Promise<End | { readonly retryAfter: number }> {
    const { attempts, isKnown } = this.#options;
    const pair = { key: `pair ${digest(`${digest(name)} ${address}`)}`, most: attempts };
    const all = [
      pair,
      { key: `address ${digest(address)}`, most: limits.address },
      { key: `name ${digest(name)}`, most: limits.name },
    ];
    for (;;) {
      // Strangers' attempts, there or elsewhere, don't lock out a user who has logged in from that address before.
      const deciding = (await isKnown(name, address)) ? [pair] : all;
      const now = this.#options.now();
      const wait = Math.max(...deciding.map(({ key }) => this.#counts.refusedUntil(key, now))) - now;
      if (wait > 0) return { retryAfter: Math.ceil(wait / 1000) };
      const end = await this.#counts.begin({ pair, all, deciding, now });
      if (end !== undefined) return end;
    }
  }
}

interface Count {
  /** The times of the failures within the last `window`. */
  failures: number[];
  underWay: number;
  refusedUntil: number;
}

class CountsInMemory implements Counts {
  readonly #options: ThrottleOptions;
  /** The least recently used first. */
  readonly #counts = new Map<string, Count>();
  #waiting: (() => void)[] = [];

  constructor(options: ThrottleOptions) {
    this.#options = options;
  }

  refusedUntil(key: string): number {
    return this.#of(key).refusedUntil;
  }

  async begin({ pair, all, deciding, now }: Asking): Promise<End | undefined> {
    if (deciding.some((counted) => this.#isFull(counted, now))) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
      return undefined;
    }
    // Held on to: they may be forgotten before the login ends.
    const counts = all.map(({ key, most }) => ({ count: this.#of(key), most }));
    const own = this.#of(pair.key);
    for (const { count } of counts) count.underWay++;
    return async (outcome) => {
      for (const { count } of counts) count.underWay--;
      if (outcome === "succeeded") own.failures = [];
      if (outcome === "failed") for (const { count, most } of counts) this.#fail(count, most);
      const woken = this.#waiting;
      this.#waiting = [];
      for (const wake of woken) wake();
    };
  }

  #isFull({ key, most }: Counted, now: number): boolean {
    const count = this.#of(key);
    this.#forgetOld(count, now);
    return count.failures.length + count.underWay >= most;
  }

  #fail(count: Count, most: number): void {
    const now = this.#options.now();
    count.failures.push(now);
    this.#forgetOld(count, now);
    if (count.failures.length < most) return;
    count.failures = [];
    count.refusedUntil = now + this.#options.lockout;
  }

  #forgetOld(count: Count, now: number): void {
    count.failures = count.failures.filter((failure) => failure > now - this.#options.window);
  }

  #of(key: string): Count {
    const count = this.#counts.get(key) ?? { failures: [], underWay: 0, refusedUntil: -Infinity };
    this.#counts.delete(key);
    this.#counts.set(key, count);
    const [oldest] = this.#counts.keys();
    const capacity = 3 * (this.#options.capacity ?? usualCapacity);
    if (this.#counts.size > capacity && oldest !== undefined) this.#counts.delete(oldest);
    return count;
  }
}

/** A key of fixed length, however long the name is. */
function digest(name: string): string {
  return hash("sha256", name, "base64");
}

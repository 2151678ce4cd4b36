import { setTimeout as sleep } from "node:timers/promises";
import { UnavailableError } from "#errors.ts";
import { formatDuration } from "#text.ts";

/** How often and how far apart a request is tried. Durations in milliseconds. */
export interface Retries {
  /** How often altogether. Default: 4. */
  readonly attempts: number;
  /** The first pause; each further one is twice as long, and a random part of up to a half is taken off. Default: 500 ms. */
  readonly pause: number;
  /** No pause of our own is longer. Default: 10 s. */
  readonly longest: number;
  /** A service that asks for a longer pause (`Retry-After`) is not waited for. Default: 1 min. */
  readonly patience: number;
}

export const defaultRetries: Retries = { attempts: 4, pause: 500, longest: 10_000, patience: 60_000 };

/** The first pause where a service has had enough and does not say for how long; each further one is longer by this. */
const crowdedPause = 10_000;

/**
 * An attempt's result, or why there was none: then it may be tried again, `after` so many milliseconds if that is known.
 * `isCrowded`: the service has had enough, and does not say for how long. Limits of a minute are common.
 */
export type Outcome<T> =
  | { readonly value: T }
  | { readonly problem: string; readonly after?: number | undefined; readonly isCrowded?: boolean | undefined };

/** @throws {UnavailableError} with the last attempt's problem; when `signal` is aborted: its reason, at once */
export async function repeat<T>(
  attempt: () => Promise<Outcome<T>>,
  { retries, log }: { readonly retries: Retries; readonly log: (message: string) => void },
  signal: AbortSignal,
): Promise<T> {
  const { attempts, pause, longest, patience } = retries;
  for (let count = 1; ; count += 1) {
    const outcome = await attempt();
    if ("value" in outcome) return outcome.value;
    const { problem, after, isCrowded = false } = outcome;
    if (after !== undefined && after > patience) {
      throw new UnavailableError(`${problem}. It asks not to be called again for ${formatDuration(after)}`);
    }
    if (count >= attempts) throw new UnavailableError(count === 1 ? problem : `${problem} (tried ${count} times)`);
    const own = Math.min(longest, pause * 2 ** (count - 1)) * (1 - Math.random() / 2);
    const least = isCrowded ? Math.min(crowdedPause * count, patience) : 0;
    const wait = Math.max(own, least, after ?? 0);
    log(`${problem}; attempt ${count + 1} of ${attempts} follows in ${formatDuration(wait)}`);
    await sleep(wait, undefined, { signal }).catch((error: unknown) => {
      signal.throwIfAborted();
      throw error;
    });
  }
}

/** The pause that a `Retry-After` header asks for, in milliseconds: it is a number of seconds or a date. */
export function retryAfter(header: string | string[] | undefined, now: number): number | undefined {
  const value = typeof header === "string" ? header.trim() : "";
  if (/^\d+$/.test(value)) return Number(value) * 1000;
  // Dates of HTTP begin with the day's name; `Date.parse` alone would take `-1` for one.
  const date = /^[A-Z][a-z]{2}/.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

import type { IncomingHttpHeaders } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { formatDuration } from "#text.ts";
import { retryAfter } from "#http/retries.ts";

/** A service that uses so much of its limit asks for fewer requests (Microsoft Graph says it in a header). */
const busy = 0.8;
/** The pause for each whole limit that is used beyond that, and the longest; in milliseconds. */
const breather = { each: 10_000, longest: 10_000 };

/** Shorter pauses are not worth a message. In milliseconds. */
const notable = 5_000;

/**
 * When the next request to a service may be made: never earlier than its answers allow. One for all requests of a read,
 * so that what one is told holds for those beside it.
 */
export class Pace {
  /** When the next request may go out, by `performance.now()`. */
  #next = 0;
  #reason = "";
  #isTold = false;
  readonly #width: number;
  readonly #longest: number;

  /** @param width how many requests run at a time; longest: the longest pause, in milliseconds */
  constructor(width: number, longest: number) {
    this.#width = width;
    this.#longest = longest;
  }

  /** Takes note of what an answer says about the next requests. */
  observe(headers: IncomingHttpHeaders, now = Date.now()): void {
    const after = retryAfter(headers["retry-after"], now);
    if (after !== undefined && after <= this.#longest) this.#wait(after, "the server asks for a pause");
    const { remaining, reset } = windowOf(headers, now);
    if (remaining !== undefined && reset !== undefined && remaining < this.#width)
      this.#wait(Math.min(reset, this.#longest), `the server allows ${remaining} further requests until then`);
    const used = Number(textOf(headers, "x-ms-throttle-limit-percentage"));
    if (used >= busy) {
      const pause = Math.min((used - busy) * breather.each, breather.longest);
      this.#wait(pause, `${Math.round(used * 100)}% of the server's limit is used`);
    }
  }

  #wait(pause: number, reason: string): void {
    const next = performance.now() + pause;
    if (next <= this.#next) return;
    this.#next = next;
    this.#reason = reason;
  }

  /** Whether an answer has said when the next request may be made, and that is not yet. */
  isWaiting(): boolean {
    return this.#next > performance.now();
  }

  /** Resolves when a request may be made. @throws the signal's reason */
  async turn(signal: AbortSignal, warn: (message: string) => void): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      const pause = this.#next - performance.now();
      if (pause <= 0) return;
      // Once in a read: where it happens it goes on happening.
      if (pause >= notable && !this.#isTold) {
        this.#isTold = true;
        warn(`waits ${formatDuration(pause)}: ${this.#reason}; from now on it waits without a message`);
      }
      await sleep(pause, undefined, { signal }).catch((error: unknown) => {
        signal.throwIfAborted();
        throw error;
      });
    }
  }
}

function textOf(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
}

/** Seconds since 1970, not seconds from now. */
const isDate = 1_000_000_000;

/** Whether the headers of an answer say that nothing is left of the present window. */
export function isUsedUp(headers: IncomingHttpHeaders): boolean {
  return windowOf(headers, Date.now()).remaining === 0;
}

/** What is left of the present window, and when the next one begins, in milliseconds from now. */
function windowOf(
  headers: IncomingHttpHeaders,
  now: number,
): { readonly remaining: number | undefined; readonly reset: number | undefined } {
  for (const prefix of ["x-rate-limit", "x-ratelimit", "ratelimit"]) {
    const [remaining, reset] = ["remaining", "reset"].map((name) => textOf(headers, `${prefix}-${name}`));
    if (remaining === undefined || reset === undefined || !/^\d+$/.test(remaining) || !/^\d+$/.test(reset)) continue;
    // By the server's own clock, where it says what that is.
    const clock = Date.parse(textOf(headers, "date") ?? "") || now;
    const seconds = Number(reset);
    const wait = seconds >= isDate ? seconds * 1_000 - clock : seconds * 1_000;
    return { remaining: Number(remaining), reset: Math.max(0, wait) };
  }
  return { remaining: undefined, reset: undefined };
}

import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { hasSucceeded } from "#state/record.ts";
import { request } from "./webhook.ts";
import type { RequestTimeouts } from "./webhook.ts";
import type { SyncEvent } from "#state/record.ts";

export interface HeartbeatOptions {
  readonly log: Logger;
  readonly timeouts?: RequestTimeouts;
  /** Between two attempts, in milliseconds. */
  readonly pause?: number;
}

const attempts = 3;

/** Requests an address after each success of a sync, for a monitor that expects these requests. */
export class Heartbeat {
  readonly #urls: Readonly<Record<string, string>>;
  readonly #options: Required<HeartbeatOptions>;
  readonly #ending = new AbortController();
  readonly #beating = new Map<string, Promise<void>>();

  /** @param urls by the name of the sync; only their hosts are ever shown */
  constructor(
    urls: Readonly<Record<string, string>>,
    { log, timeouts = { connect: 5_000, whole: 10_000 }, pause = 2_000 }: HeartbeatOptions,
  ) {
    this.#urls = urls;
    this.#options = { log, timeouts, pause };
  }

  /** For `Coordinator.subscribe`. Returns at once, and never throws. */
  listener(event: SyncEvent): void {
    if (event.type !== "run" || !hasSucceeded(event.run) || event.run.for !== undefined) return;
    const { sync } = event.run;
    const url = this.#urls[sync];
    // One at a time: the one under way says the same.
    if (url === undefined || this.#ending.signal.aborted || this.#beating.has(sync)) return;
    const done = this.#beat(sync, url)
      .catch(() => undefined)
      .finally(() => this.#beating.delete(sync));
    this.#beating.set(sync, done);
  }

  /** Waits this many milliseconds for requests under way, then aborts them. */
  async close(patience = 0, giveUp?: AbortSignal): Promise<void> {
    const beats = Promise.all(this.#beating.values());
    const enough = sleep(patience, undefined, { ref: false, signal: giveUp });
    await Promise.race([beats, enough.catch(() => undefined)]);
    this.#ending.abort(new Error("closed"));
    await beats;
  }

  async #beat(sync: string, url: string): Promise<void> {
    const { log, timeouts, pause } = this.#options;
    const { signal } = this.#ending;
    for (let count = 1; ; count += 1) {
      const result = await request({ method: "GET", url }, signal, timeouts);
      if ("accepted" in result) {
        log.debug({ sync }, `sync ${sync}: heartbeat taken by ${result.accepted}`);
        return;
      }
      if (count >= attempts) {
        log.warn({ sync }, `sync ${sync}: the heartbeat did not arrive: ${result.problem} (tried ${count} times)`);
        return;
      }
      await sleep(pause, undefined, { ref: false, signal });
    }
  }
}

import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { hasSucceeded } from "#state/record.ts";
import { request } from "./webhook.ts";
import type { RequestTimeouts } from "./webhook.ts";
import type { SyncEvent } from "#state/record.ts";

/** Requests an address after each success of a sync, for a monitor that expects these requests. */
export interface Heartbeat {
  /** For `Coordinator.subscribe`. Returns at once, and never throws. */
  readonly listener: (event: SyncEvent) => void;
  /** Waits this many milliseconds for requests under way, then aborts them. */
  close(patience?: number, giveUp?: AbortSignal): Promise<void>;
}

export interface HeartbeatOptions {
  readonly log: Logger;
  readonly timeouts?: RequestTimeouts;
  /** Between two attempts, in milliseconds. */
  readonly pause?: number;
}

const attempts = 3;

/** @param urls by the name of the sync; only their hosts are ever shown */
export function openHeartbeat(
  urls: Readonly<Record<string, string>>,
  { log, timeouts = { connect: 5_000, whole: 10_000 }, pause = 2_000 }: HeartbeatOptions,
): Heartbeat {
  const ending = new AbortController();
  const beating = new Map<string, Promise<void>>();

  async function beat(sync: string, url: string): Promise<void> {
    for (let count = 1; ; count += 1) {
      const result = await request({ method: "GET", url }, ending.signal, timeouts);
      if ("accepted" in result) {
        log.debug({ sync }, `sync ${sync}: heartbeat taken by ${result.accepted}`);
        return;
      }
      if (count >= attempts) {
        log.warn({ sync }, `sync ${sync}: the heartbeat did not arrive: ${result.problem} (tried ${count} times)`);
        return;
      }
      await sleep(pause, undefined, { ref: false, signal: ending.signal });
    }
  }

  return {
    listener: (event) => {
      if (event.type !== "run" || !hasSucceeded(event.run) || event.run.for !== undefined) return;
      const { sync } = event.run;
      const url = urls[sync];
      // One at a time: the one under way says the same.
      if (url === undefined || ending.signal.aborted || beating.has(sync)) return;
      const done = beat(sync, url)
        .catch(() => undefined)
        .finally(() => beating.delete(sync));
      beating.set(sync, done);
    },
    close: async (patience = 0, giveUp) => {
      const beats = Promise.all(beating.values());
      const enough = sleep(patience, undefined, { ref: false, signal: giveUp });
      await Promise.race([beats, enough.catch(() => undefined)]);
      ending.abort(new Error("closed"));
      await beats;
    },
  };
}

import type { Logger } from "pino";
import type { SyncEvent } from "#sync/coordinator/coordinator.ts";

/** Writes what comes of schedules into the log: slots without a run, retries, and syncs without a success. */
export function logSchedule(log: Logger): (event: SyncEvent) => void {
  return (event) => {
    if (event.type === "skipped") {
      const { sync, at, reason } = event;
      log.warn({ sync, slot: at }, `sync ${sync}: the slot of ${at} was skipped: ${reason}`);
    } else if (event.type === "retry") {
      const { sync, id: run, at } = event;
      log.info({ sync, run }, `sync ${sync}: it is tried again at ${at}`);
    } else if (event.type === "gave up") {
      const { sync, id: run, failures } = event;
      log.error({ sync, run }, `sync ${sync}: it has failed ${failures} times in a row; the next slot begins anew`);
    } else if (event.type === "overdue") {
      const { sync, since } = event;
      log.error({ sync, since }, `sync ${sync}: no run has succeeded since ${since}, longer than overdueAfter allows`);
    }
  };
}

import type { SyncStatus } from "#sync/coordinator/coordinator.ts";
import { isOpen } from "./record.ts";
import type { RunRecord } from "./record.ts";

/** A sync with the newest of its runs that have come to something, and those that wait. */
export interface Standing extends SyncStatus {
  readonly lastRun?: RunRecord | undefined;
  readonly waiting: readonly RunRecord[];
}

/** @param runs newest first */
export function standingsOf(syncs: readonly SyncStatus[], runs: readonly RunRecord[]): Standing[] {
  return syncs.map((status) => {
    const own = runs.filter(({ sync }) => sync === status.sync);
    const lastRun = own.find(({ state }) => state !== "superseded" && state !== "running");
    return { ...status, lastRun, waiting: own.filter(isOpen) };
  });
}

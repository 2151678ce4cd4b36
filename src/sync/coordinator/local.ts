import { isOpen } from "#state/record.ts";
import type { SyncEvent, SyncState, SyncStatus } from "#state/record.ts";
import { approve } from "./approve.ts";
import { begin } from "./begin.ts";
import { createContext, refresh } from "./context.ts";
import type { CoordinatorOptions } from "./context.ts";
import type { Coordinator } from "./coordinator.ts";
import { expire, removeUnneededPlans } from "./finish.ts";
import { lostRuns, recoverSync, recoverUnsent } from "./recover.ts";
import { reject } from "./reject.ts";
import { undo } from "./undo.ts";

/** The coordinator of this process. */
export interface LocalCoordinator extends Coordinator {
  /** Tells the subscribers. */
  emit(event: SyncEvent): void;
  /** What the journal remembers of a sync. */
  state(sync: string): SyncState;
  /** Changes what the journal remembers of a sync. */
  change(sync: string, change: (state: SyncState) => SyncState): Promise<void>;
  /**
   * Finds out how the runs ended that a killed process has left running. Reading a target delays the next runs to it,
   * not the caller.
   * @param own only those that this very process has left: of several processes, the one that leads does it for all
   */
  recover(own?: boolean): Promise<void>;
  /**
   * Does something that reads the ledger of a target, while no run to it is under way: two databases of one process do not
   * keep each other out of its file.
   * @param signal gives up waiting
   */
  inTurn<Result>(place: string, work: () => Promise<Result>, signal: AbortSignal): Promise<Result>;
  /** Reads what other processes have written, and tells the subscribers. */
  refresh(): Promise<void>;
  /** Waits until nothing runs, and nothing waits for its turn. */
  idle(): Promise<void>;
  /** Waits for all runs and recoveries. Stop them first. */
  close(): Promise<void>;
}

/** How long to wait before reading a target again that did not say how a run ended, in milliseconds. */
const recoveryPause = 5_000;

/** How often to look for plans that nobody has approved in time, in milliseconds. */
const expiryInterval = 30_000;

/**
 * Runs the syncs of a data folder, at most one at a time for each target, each written down before anything is applied.
 * Nobody else may write to the daemon's folder meanwhile. Call `recover` once there are subscribers.
 */
export function openCoordinator(options: CoordinatorOptions): LocalCoordinator {
  const { journal, syncs } = options;
  const listeners = new Set<(event: SyncEvent) => void>();
  const emit = (event: SyncEvent): void => {
    for (const listener of listeners) {
      try {
        listener(event);
      } catch {
        // A listener must not fail a run.
      }
    }
  };
  const context = createContext(options, emit);
  const { decisions, targets, underWay, settingsOf } = context;
  /** The syncs whose lost runs are being looked at. */
  const recovering = new Set<string>();
  let isTidy = false;

  const statusOf = (sync: string): SyncStatus => {
    const { target, schedule } = settingsOf(sync);
    return {
      ...journal.state(sync),
      sync,
      target,
      schedule,
      running: [...underWay].find(([, each]) => each === sync)?.[0],
      pending: journal.document.runs.findLast((run) => run.sync === sync && isOpen(run))?.id,
      overdue: false,
      ...options.statusOf?.(sync),
    };
  };
  const expiring = setInterval(() => {
    void decisions(() => expire(context)).catch(() => undefined);
  }, expiryInterval);
  expiring.unref();

  return {
    emit,
    state: journal.state,
    change: journal.change,
    begin: (request, watcher) => decisions(() => begin(context, request, watcher)),
    approve: (id, approval, watcher) => decisions(() => approve(context, id, approval, watcher)),
    reject: (id, rejection) => decisions(() => reject(context, id, rejection)),
    undo: (id, request, watcher) => decisions(() => undo(context, id, request, watcher)),
    runs: () => journal.document.runs.toReversed(),
    syncs: () => Object.keys(syncs()).map(statusOf),
    recover: async (own = false) => {
      const lost = lostRuns(context, own).filter(({ sync }) => !recovering.has(sync));
      if (context.shared === undefined || (!own && !isTidy) || lost.length > 0) {
        // Where several processes could find the same runs, whoever has the target's turn finishes them.
        if (context.shared === undefined) await recoverUnsent(context);
        await decisions(async () => {
          await expire(context);
          await removeUnneededPlans(context);
        });
        isTidy = true;
      }
      for (const { sync } of lostRuns(context, own)) {
        if (recovering.has(sync)) continue;
        recovering.add(sync);
        void targets(syncs()[sync]?.place ?? "", () => recoverSync(context, sync), options.interruption.stop)
          .catch(() => undefined)
          .finally(() => {
            // A target that does not answer is not asked again at once.
            const pause = lostRuns(context).some((run) => run.sync === sync) ? recoveryPause : 0;
            setTimeout(() => recovering.delete(sync), pause).unref();
          });
      }
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    refresh: async () => {
      if (options.shared !== undefined) await refresh(options.shared, emit);
    },
    idle: async () => {
      await decisions.idle();
      await targets.idle();
    },
    inTurn: (place, work, signal) => targets(place, work, signal),
    close: async () => {
      clearInterval(expiring);
      await targets.idle();
    },
  };
}

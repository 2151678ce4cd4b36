import { isOpen } from "#state/record.ts";
import type { Actor, RunRecord, SyncEvent, SyncState, SyncStatus } from "#state/record.ts";
import { approve } from "./approve.ts";
import { begin } from "./begin.ts";
import { createContext, refresh } from "./context.ts";
import type { Context, CoordinatorOptions } from "./context.ts";
import type { Approval, Begun, Coordinator, RunRequest, Watcher } from "./coordinator.ts";
import { expire, removeUnneededPlans } from "./finish.ts";
import { lostRuns, recoverSync, recoverUnsent } from "./recover.ts";
import { reject } from "./reject.ts";
import { undo } from "./undo.ts";

/** How long to wait before reading a target again that did not say how a run ended, in milliseconds. */
const recoveryPause = 5_000;

/** How often to look for plans that nobody has approved in time, in milliseconds. */
const expiryInterval = 30_000;

/**
 * Runs the syncs of a data folder, at most one at a time for each target, each written down before anything is applied.
 * Nobody else may write to the daemon's folder meanwhile. Call `recover` once there are subscribers.
 */
export class LocalCoordinator implements Coordinator {
  readonly #options: CoordinatorOptions;
  readonly #context: Context;
  readonly #listeners = new Set<(event: SyncEvent) => void>();
  /** The syncs whose lost runs are being looked at. */
  readonly #recovering = new Set<string>();
  #isTidy = false;
  readonly #expiring: NodeJS.Timeout;

  constructor(options: CoordinatorOptions) {
    this.#options = options;
    this.#context = createContext(options, (event) => this.emit(event));
    this.#expiring = setInterval(() => {
      void this.#context.decisions(() => expire(this.#context)).catch(() => undefined);
    }, expiryInterval).unref();
  }

  begin(request: RunRequest, watcher?: Watcher): Promise<Begun> {
    return this.#context.decisions(() => begin(this.#context, request, watcher));
  }

  approve(id: string, approval: Approval, watcher?: Watcher): Promise<Begun> {
    return this.#context.decisions(() => approve(this.#context, id, approval, watcher));
  }

  reject(id: string, rejection: { readonly by: Actor; readonly reason?: string }): Promise<RunRecord> {
    return this.#context.decisions(() => reject(this.#context, id, rejection));
  }

  undo(id: string, request: { readonly by: Actor }, watcher?: Watcher): Promise<Begun> {
    return this.#context.decisions(() => undo(this.#context, id, request, watcher));
  }

  runs(): readonly RunRecord[] {
    return this.#options.store.journal.runs.toReversed();
  }

  syncs(): readonly SyncStatus[] {
    return Object.keys(this.#options.syncs()).map((sync) => this.#statusOf(sync));
  }

  #statusOf(sync: string): SyncStatus {
    const { journal } = this.#options.store;
    const { target, schedule } = this.#context.settingsOf(sync);
    return {
      ...journal.state(sync),
      sync,
      target,
      schedule,
      running: [...this.#context.underWay].find(([, each]) => each === sync)?.[0],
      pending: journal.runs.findLast((run) => run.sync === sync && isOpen(run))?.id,
      overdue: false,
      ...this.#options.statusOf?.(sync),
    };
  }

  subscribe(listener: (event: SyncEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Tells the subscribers. */
  emit(event: SyncEvent): void {
    for (const listener of this.#listeners) {
      try {
        listener(event);
      } catch {
        // A listener must not fail a run.
      }
    }
  }

  /** What the journal remembers of a sync. */
  state(sync: string): SyncState {
    return this.#options.store.journal.state(sync);
  }

  /** Changes what the journal remembers of a sync. */
  change(sync: string, change: (state: SyncState) => SyncState): Promise<void> {
    return this.#options.store.journal.change(sync, change);
  }

  /**
   * Finds out how the runs ended that a killed process has left running. Reading a target delays the next runs to it,
   * not the caller.
   * @param own only those that this very process has left: of several processes, the one that leads does it for all
   */
  async recover(own = false): Promise<void> {
    const context = this.#context;
    const lost = lostRuns(context, own).filter(({ sync }) => !this.#recovering.has(sync));
    if (!context.store.isShared || (!own && !this.#isTidy) || lost.length > 0) {
      // Where several processes could find the same runs, whoever has the target's turn finishes them.
      if (!context.store.isShared) await recoverUnsent(context);
      await context.decisions(async () => {
        await expire(context);
        await removeUnneededPlans(context);
      });
      this.#isTidy = true;
    }
    for (const { sync } of lostRuns(context, own)) if (!this.#recovering.has(sync)) void this.#recoverSync(sync);
  }

  async #recoverSync(sync: string): Promise<void> {
    const { syncs, interruption } = this.#options;
    const context = this.#context;
    this.#recovering.add(sync);
    await context
      .targets(syncs()[sync]?.place ?? "", () => recoverSync(context, sync), interruption.stop)
      .catch(() => undefined);
    // A target that does not answer is not asked again at once.
    const pause = lostRuns(context).some((run) => run.sync === sync) ? recoveryPause : 0;
    setTimeout(() => this.#recovering.delete(sync), pause).unref();
  }

  /**
   * Does something that reads the ledger of a target, while no run to it is under way: two databases of one process do not
   * keep each other out of its file.
   * @param signal gives up waiting
   */
  inTurn<Result>(place: string, work: () => Promise<Result>, signal: AbortSignal): Promise<Result> {
    return this.#context.targets(place, work, signal);
  }

  /** Reads what other processes have written, and tells the subscribers. */
  refresh(): Promise<void> {
    return refresh(this.#context.store, this.#context.emit);
  }

  /** Waits until nothing runs, and nothing waits for its turn. */
  async idle(): Promise<void> {
    await this.#context.decisions.idle();
    await this.#context.targets.idle();
  }

  /** Waits for all runs and recoveries. Stop them first. */
  async close(): Promise<void> {
    clearInterval(this.#expiring);
    await this.#context.targets.idle();
  }
}

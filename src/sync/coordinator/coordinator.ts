import type { Overridable } from "#plan/limits.ts";
import type { Selection } from "#plan/selection.ts";
import type { Actor, Cause, RunRecord, SyncState } from "#state/record.ts";
import type { RunOptions } from "#sync/run.ts";
import type { Stage } from "#sync/sync.ts";

/** Runs the syncs of a data folder: in the daemon, or in a command if there is no daemon. */
export interface Coordinator {
  /**
   * Begins a run, queued behind other runs to the same target.
   * @param watcher only for a run in this process
   * @throws {InputError} when there is no such sync
   */
  begin(request: RunRequest, watcher?: Watcher): Promise<Begun>;
  /**
   * Applies the plan of a pending or held run, and nothing else: the target is read again, and its changes must still have
   * the digest that was shown.
   * @throws {InputError} when there is no such run, or it cannot be approved
   */
  approve(id: string, approval: Approval, watcher?: Watcher): Promise<Begun>;
  /** @throws {InputError} when there is no such run, or it is neither pending nor held */
  reject(id: string, rejection: { readonly by: Actor; readonly reason?: string }): Promise<RunRecord>;
  /**
   * Begins a run that plans to restore what the target was before a run.
   * @throws {InputError} when there is no such run, it applied nothing, or its plan is no longer stored
   */
  undo(id: string, request: { readonly by: Actor }, watcher?: Watcher): Promise<Begun>;
  /** The newest first. */
  runs(): readonly RunRecord[];
  syncs(): readonly SyncStatus[];
  /** Calls `listener` with every event from now on. Returns a function that ends that. */
  subscribe(listener: (event: SyncEvent) => void): () => void;
}

/** A run that has begun. */
export interface Begun {
  /** Its record when it began. */
  readonly run: RunRecord;
  /** Its record when it has ended or waits for approval. Never rejects: a failure is in the record. */
  readonly ended: Promise<RunRecord>;
}

/** Follows one run more closely than its events do. */
export type Watcher = Pick<RunOptions, "progress" | "report"> & Partial<Pick<RunOptions, "warn">>;

export interface RunRequest {
  readonly sync: string;
  readonly cause: Cause;
  readonly by: Actor;
  /** The slot of the schedule that it is for, ISO 8601: no other run is begun for the same. */
  readonly slot?: string | undefined;
  /** The digest of the plan that was shown, or its beginning: it is applied without further approval, any other plan is held. */
  readonly digest?: string;
  /** The limits that are overridden for that plan. */
  readonly overrides?: readonly Overridable[];
  /** Names of users and groups: the run is about these alone. */
  readonly for?: readonly string[] | undefined;
}

export interface Approval {
  readonly by: Actor;
  /** If given, it must be that of the run. */
  readonly digest?: string;
  /** For a run held by limits: all of the tripped limits. */
  readonly overrides?: readonly Overridable[];
  readonly selection?: Selection;
  /** Why, in the words of whoever approves. */
  readonly reason?: string | undefined;
}

/** The status of a sync. */
export interface SyncStatus extends SyncState {
  readonly sync: string;
  readonly target: string;
  readonly schedule?: string;
  /** ISO 8601; absent: it runs only on demand. */
  readonly nextSlotAt?: string;
  /** Why there is no next slot although it has a schedule. */
  readonly scheduleProblem?: string;
  /** The id of the run that is running or queued. */
  readonly running?: string;
  /** The id of the run that waits for approval. */
  readonly pending?: string;
  /** It has not succeeded for longer than is configured. */
  readonly overdue: boolean;
}

/**
 * An event. `run`: a run began, ended or was decided about; `recovered`: the first success after failures; `elsewhere`: in
 * another process, which tells people of it.
 */
export type SyncEvent =
  | { readonly type: "run"; readonly run: RunRecord; readonly recovered?: boolean; readonly elsewhere?: boolean }
  | {
      readonly type: "stage";
      readonly id: string;
      readonly sync: string;
      readonly stage: Stage;
      readonly records?: number;
    }
  | { readonly type: "skipped"; readonly sync: string; readonly at: string; readonly reason: string }
  /** A failed run will be retried at that time. */
  | { readonly type: "retry"; readonly sync: string; readonly id: string; readonly at: string }
  /** A run has failed as often as is configured; the next run is at the next slot. */
  | { readonly type: "gave up"; readonly sync: string; readonly id: string; readonly failures: number }
  /** The sync has not succeeded for longer than is configured. */
  | { readonly type: "overdue"; readonly sync: string; readonly since: string };

import type { Overridable } from "#plan/limits.ts";
import type { Selection } from "#plan/selection.ts";
import type { Actor, Cause, RunRecord, SyncState } from "#sync/record.ts";
import type { RunOptions } from "#sync/run.ts";
import type { Stage } from "#sync/sync.ts";

/** What may be asked of whoever runs the syncs of a data folder: the daemon, or a command where there is none. */
export interface Coordinator {
  /**
   * Begins a run, after those to the same target that are under way.
   * @param watcher where the run is in this process
   * @throws {InputError} when there is no such sync
   */
  begin(request: RunRequest, watcher?: Watcher): Promise<Begun>;
  /**
   * Applies what a pending or held run has planned, and nothing else: the target is read again, and what would change
   * must have the digest of what was shown.
   * @throws {InputError} when there is no such run, or it cannot be approved (any more)
   */
  approve(id: string, approval: Approval, watcher?: Watcher): Promise<Begun>;
  /** @throws {InputError} when there is no such run, or it is neither pending nor held */
  reject(id: string, rejection: { readonly by: Actor; readonly reason?: string }): Promise<RunRecord>;
  /**
   * Begins a run that plans the way back to what the target was before that one was applied.
   * @throws {InputError} when there is no such run, it applied nothing, or its list is no longer kept
   */
  undo(id: string, request: { readonly by: Actor }, watcher?: Watcher): Promise<Begun>;
  /** The newest first. */
  runs(): readonly RunRecord[];
  syncs(): readonly SyncStatus[];
  /** Calls `listener` with everything that happens from now on. Returns what ends that. */
  subscribe(listener: (event: SyncEvent) => void): () => void;
}

/** A run that has begun. */
export interface Begun {
  /** As it began. */
  readonly run: RunRecord;
  /** As it ended, or awaits approval. Never rejects: a failure is in the record. */
  readonly ended: Promise<RunRecord>;
}

/** What watches one run more closely than its events tell. */
export type Watcher = Pick<RunOptions, "progress" | "report"> & Partial<Pick<RunOptions, "warn">>;

export interface RunRequest {
  readonly sync: string;
  readonly cause: Cause;
  readonly by: Actor;
  /** The plan that was shown, and is applied without asking again; another one is held. */
  readonly digest?: string;
  /** Limits that do not count for that plan. */
  readonly overrides?: readonly Overridable[];
}

export interface Approval {
  readonly by: Actor;
  /** Where it is given, it must be that of the run. */
  readonly digest?: string;
  /** Of a run that is held by limits, all that are tripped. */
  readonly overrides?: readonly Overridable[];
  readonly selection?: Selection;
}

/** A sync, as it stands. */
export interface SyncStatus extends SyncState {
  readonly sync: string;
  readonly target: string;
  readonly schedule?: string;
  /** ISO 8601; absent: it runs on demand. */
  readonly nextSlotAt?: string;
  /** The run that is under way. */
  readonly running?: string;
  /** The run that awaits approval. */
  readonly pending?: string;
  /** It has not succeeded for the time that is configured. */
  readonly overdue: boolean;
}

/** What happens. `run`: it began, ended, or was decided about; `recovered`: the first success after failures. */
export type SyncEvent =
  | { readonly type: "run"; readonly run: RunRecord; readonly recovered?: boolean }
  | {
      readonly type: "stage";
      readonly id: string;
      readonly sync: string;
      readonly stage: Stage;
      readonly records?: number;
    }
  | { readonly type: "skipped"; readonly sync: string; readonly at: string; readonly reason: string }
  /** A failed run is tried again at that time. */
  | { readonly type: "retry"; readonly sync: string; readonly id: string; readonly at: string }
  /** A run has failed as often as is configured; the next one is at the next slot. */
  | { readonly type: "gave up"; readonly sync: string; readonly id: string; readonly failures: number }
  /** No success for longer than is configured. */
  | { readonly type: "overdue"; readonly sync: string; readonly since: string };

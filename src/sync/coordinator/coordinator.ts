import type { Overridable } from "#plan/limits.ts";
import type { Selection } from "#plan/selection.ts";
import type { Actor, Cause, RunRecord, SyncEvent, SyncStatus } from "#state/record.ts";
import type { RunOptions } from "#sync/context.ts";

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

/** What commands use of a coordinator, in their own process or in the daemon. */
export type CommandCoordinator = Omit<Coordinator, "subscribe">;

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
  /** Why, in the approver's words. */
  readonly reason?: string | undefined;
}

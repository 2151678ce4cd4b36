import type { ErrorDocument, HeldBy } from "#errors.ts";
import type { Counts } from "#plan/change.ts";
import type { LimitCheck, Measure, Overridable } from "#plan/limits.ts";
import type { Kind } from "#principals/principal.ts";
import type { Selection } from "#plan/selection.ts";
import type { Stage } from "./sync.ts";

/**
 * How a run stands.
 * - `running`: it is under way, or was when its process ended.
 * - `pending`: its plan awaits approval. `held`: a limit or a disagreement of the two opinions stopped it, or the target
 *   was not what was planned after it was applied.
 * - `no change`: there was nothing to do. `applied`: applied, and the target was listed again to prove it.
 * - `failed`: an error ended it. `rejected`: a person did. `superseded`: a later run of the sync found another plan.
 *   `expired`: nobody approved it in time.
 */
export const runStates = [
  "running",
  "pending",
  "held",
  "no change",
  "applied",
  "failed",
  "rejected",
  "superseded",
  "expired",
] as const;
export type RunState = (typeof runStates)[number];

/** Why a run began. */
export type Cause = "start" | "schedule" | "catch-up" | "retry" | "demand" | "undo";

/** Who did something, and from where. */
export interface Actor {
  /** A user of the service, an account of this machine, or `rollcall` itself. */
  readonly name: string;
  /** `schedule`, `signal`, `command line`, or the address of a client. */
  readonly from: string;
}

/** One stage of a run. */
export interface StageRecord {
  readonly stage: Stage;
  /** ISO 8601. */
  readonly startedAt: string;
  /** Absent while it is under way, or where it was broken off. */
  readonly milliseconds?: number;
  /** How many records or principals it was about, where that is known. */
  readonly records?: number;
}

/** What a person decided about a run. */
export interface Decision {
  readonly decision: "approved" | "rejected";
  /** ISO 8601. */
  readonly at: string;
  readonly by: Actor;
  /** Of the plan that was decided about. */
  readonly digest: string;
  readonly reason?: string;
  /** Limits that were overridden for this plan. */
  readonly overrides?: readonly Overridable[];
  readonly selection?: Selection;
}

/** A note that is about a single principal: that it is leaving, has another name, or is in doubt. */
export interface NoteSubject {
  /** Its place among the notes, from 0. */
  readonly note: number;
  readonly kind: Kind;
  /** The principal's; of one with another name, both. */
  readonly names: readonly string[];
}

/** One run, as the journal has it. */
export interface RunRecord {
  /** Sorts by time: `20261121-101235-4f9c2e`, in UTC. */
  readonly id: string;
  readonly sync: string;
  /** The target's name. */
  readonly target: string;
  readonly cause: Cause;
  readonly by: Actor;
  /** The run that this one takes back. */
  readonly undoes?: string;
  /** ISO 8601, as every time here. */
  readonly startedAt: string;
  /** Absent while it is running or pending. */
  readonly endedAt?: string;
  readonly state: RunState;
  readonly stages: readonly StageRecord[];
  /** Absent while there is no plan. */
  readonly digest?: string;
  readonly counts?: Counts;
  readonly limits: readonly LimitCheck[];
  /** What was left out because of limits. */
  readonly waiting: readonly Measure[];
  /** What a person should know beside the changes, one line each. */
  readonly notes: readonly string[];
  /** Which notes are about single principals. Absent: an older Rollcall wrote the record, and the notes alone tell. */
  readonly subjects?: readonly NoteSubject[];
  /** Why it is held. Only what is held by `limits` can be approved. */
  readonly heldBy?: HeldBy;
  /** Of a run that failed or is held: safe to show. */
  readonly error?: ErrorDocument;
  /** Why a person must approve it, although the sync applies its plans by itself otherwise. */
  readonly caution?: string;
  /** Until when it can be approved. */
  readonly expiresAt?: string;
  /** A later run found the same again: how often, and when last. */
  readonly foundAgain?: { readonly count: number; readonly lastAt: string };
  readonly decisions: readonly Decision[];
  /** Of a superseded run: it found the same as that one, which still waits for approval or is still held. */
  readonly sameAs?: string;
  /** When it began to send its list to be applied: from then on the target may have changed. */
  readonly sentAt?: string;
  /** Its list was sent, and it could not be found out yet what became of that. */
  readonly endUnknown?: true;
  /** How its end was found out, after its process had been killed or the answer of the target was lost. */
  readonly recovery?: string;
  /** What was exported after it, as `--json` shows it; with `error` where that failed. */
  readonly export?: Readonly<Record<string, unknown>>;
  /** Whether its changes and its list are still kept. */
  readonly kept: boolean;
}

/** A slot of a schedule in which no run began. */
export interface SkippedSlot {
  readonly at: string;
  readonly reason: string;
}

/** What is remembered of a sync from run to run. */
export interface SyncState {
  /** When the daemon first had it. */
  readonly knownSince?: string;
  readonly lastSuccessAt?: string;
  /** Failures in a row, and since when. */
  readonly failures?: { readonly count: number; readonly since: string };
  /** The last slot of the schedule that was kept or knowingly skipped. */
  readonly lastSlotAt?: string;
  /** The newest last, at most twenty. */
  readonly skipped: readonly SkippedSlot[];
  /**
   * A person has undone a run, or what was decided before is not known: until somebody approves one, no run is applied
   * without approval.
   */
  readonly caution?: { readonly since: string; readonly reason: string };
  /** A person has been told that it has not succeeded for too long. */
  readonly overdueSince?: string;
}

/** Whether a run can be approved: its plan is stored, and it is pending or held by limits. */
export function isOpen({ state, heldBy }: RunRecord): boolean {
  return state === "pending" || (state === "held" && heldBy === "limits");
}

/** Whether it is running, or ended without anybody knowing how. */
export function isUnfinished({ state, endUnknown }: RunRecord): boolean {
  return state === "running" || endUnknown === true;
}

/** Whether there was nothing to do, or everything was applied and verified. */
export function hasSucceeded(run: RunRecord): run is RunRecord & { state: "applied" | "no change" } {
  const { state } = run;
  return state === "applied" || state === "no change";
}

/** The record without some of its keys. */
export function without(run: RunRecord, keys: readonly (keyof RunRecord)[]): RunRecord {
  return Object.fromEntries(Object.entries(run).filter(([key]) => !(keys as readonly string[]).includes(key))) as never;
}

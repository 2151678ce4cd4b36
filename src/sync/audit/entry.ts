import type { HeldBy } from "#errors.ts";
import type { Counts } from "#plan/change.ts";
import type { Measure, Overridable } from "#plan/limits.ts";
import type { Selection } from "#plan/selection.ts";
import type { Actor, Cause, RunRecord, RunState } from "#sync/record.ts";

/** What is said of a run in the audit file. */
interface OfRun {
  readonly by: Actor;
  readonly sync: string;
  readonly run: string;
}

/** What the audit file tells, a line each. Nothing in it may hold a secret. */
export type AuditEntry =
  /** A person asked for a run. */
  | (OfRun & { readonly event: "asked"; readonly cause: Cause; readonly digest?: string })
  /** A person approved a plan. */
  | (OfRun & {
      readonly event: "approved";
      readonly digest: string;
      readonly overrides?: readonly Overridable[];
      readonly selection?: Selection;
      readonly reason?: string;
    })
  | (OfRun & { readonly event: "rejected"; readonly digest?: string; readonly reason?: string })
  /** A person said for a plan that limits do not count, and asked for it to be applied without a further approval. */
  | (OfRun & { readonly event: "overridden"; readonly digest: string; readonly overrides: readonly Overridable[] })
  /** A person asked for the way back to what was before a run; `run` is the one that plans it. */
  | (OfRun & { readonly event: "undone"; readonly undoes: string })
  /** What became of what was asked for, decided or applied. */
  | (OfRun & {
      readonly event: "ended";
      readonly result: RunState;
      readonly digest?: string;
      readonly counts?: Counts;
      readonly heldBy?: HeldBy;
      /** What was left out because of limits. */
      readonly waiting?: readonly Measure[];
      readonly error?: string;
    })
  /** What was found out of a run whose process had been killed. */
  | (OfRun & {
      readonly event: "recovered";
      readonly result: RunState;
      readonly digest?: string;
      readonly finding: string;
    })
  /** The configuration is another one than before, or is recorded for the first time. */
  | {
      readonly event: "configuration";
      readonly by: Actor;
      readonly file: string;
      /** The digest of the one before; absent the first time. */
      readonly before?: string;
      readonly digest: string;
      /** `path: old → new`, one line each; secrets as `***`. */
      readonly differences: readonly string[];
    }
  | { readonly event: "started"; readonly by: Actor; readonly process: number }
  | { readonly event: "stopped"; readonly by: Actor; readonly process: number; readonly reason: string }
  /** A journal that could not be read was put aside. */
  | { readonly event: "journal damaged"; readonly by: Actor; readonly kept: string; readonly reason: string }
  | AuditFinding;

/** What opening the audit file itself finds out. */
export type AuditFinding =
  /** The last line was not whole: its process was killed while it wrote it. It was cut off and kept. */
  | { readonly event: "audit torn"; readonly kept: string; readonly line: number; readonly bytes: number }
  /** What was written is no longer there as it was. */
  | {
      readonly event: "audit damaged";
      readonly what: Damage;
      readonly reason: string;
      /** Where, in the file that was put aside, or the audit file itself. */
      readonly line?: number;
      /** The file that was put aside, where the chain itself is broken. */
      readonly kept?: string;
      /** The last entry that is as it was written. */
      readonly lastGood: Head;
      /** What is known from elsewhere to have been written. */
      readonly expected?: Head;
    };

/** What can be wrong with a chain of entries. */
export type Damage = "changed" | "removed" | "inserted" | "reordered" | "torn";

/** The last entry of a chain: what everything before it can be checked against. */
export interface Head {
  /** 1 for the first entry; 0 where there is none yet. */
  readonly sequence: number;
  /** SHA-256 in hexadecimal. */
  readonly hash: string;
}

/** What only a person asks for. */
const personal: ReadonlySet<Cause> = new Set(["demand", "undo"]);

/**
 * How the end of a run is told in the audit file; undefined where it is not. It is when something was (or may have
 * been) applied, when it was held, and when a person had asked for it or decided about it. What a schedule begins and
 * changes nothing is not, nor what a person is yet to decide about; a rejection is told as one.
 */
export function auditOfEnd(run: RunRecord): AuditEntry | undefined {
  const { by, sync, id, state, digest, counts, heldBy, waiting, error } = run;
  if (state === "running" || state === "rejected") return undefined;
  // What awaits approval has not ended; but an approval that came to nothing has.
  if (state === "pending" && (error === undefined || run.decisions.length === 0)) return undefined;
  const reachedTarget = run.stages.some(({ stage }) => stage === "apply");
  const decidedAbout = run.decisions.length > 0 || personal.has(run.cause);
  const eventful = state !== "no change" && state !== "failed";
  if (!eventful && !reachedTarget && !decidedAbout) return undefined;
  return {
    event: "ended",
    by,
    sync,
    run: id,
    result: state,
    ...(digest === undefined ? {} : { digest }),
    ...(counts === undefined ? {} : { counts }),
    ...(heldBy === undefined ? {} : { heldBy }),
    ...(waiting.length === 0 ? {} : { waiting }),
    ...(error === undefined ? {} : { error: error.message }),
  };
}

import type { HeldBy } from "#errors.ts";
import type { Counts } from "#plan/change.ts";
import type { LeavingCounts } from "#plan/departures.ts";
import type { Measure, Overridable } from "#plan/limits.ts";
import type { Selection } from "#plan/selection.ts";
import { redact } from "#redact.ts";
import type { Role } from "#roles.ts";
import type { Actor, Cause, RunRecord, RunState } from "#state/record.ts";

/** The facts that every entry about a run has. */
interface OfRun {
  readonly by: Actor;
  readonly sync: string;
  readonly run: string;
}

/** An entry of the audit log, a line each. It must not hold a secret. */
export type AuditEntry =
  /** A person asked for a run. */
  | (OfRun & {
      readonly event: "asked";
      readonly cause: Cause;
      readonly digest?: string;
      /** Names of users and groups: for these alone. */
      readonly for?: readonly string[] | undefined;
    })
  /** A person approved a plan. */
  | (OfRun & {
      readonly event: "approved";
      readonly digest: string;
      readonly overrides?: readonly Overridable[];
      readonly selection?: Selection;
      readonly reason?: string;
      /** Where several people must approve: which one this is, of how many. With the last one the plan is applied. */
      readonly nth?: number | undefined;
      readonly needed?: number | undefined;
    })
  | (OfRun & { readonly event: "rejected"; readonly digest?: string; readonly reason?: string })
  /** A person overrode limits for a plan, and asked for it to be applied without further approval. */
  | (OfRun & { readonly event: "overridden"; readonly digest: string; readonly overrides: readonly Overridable[] })
  /** A person asked for the undo of a run; `run` is the run that plans it. */
  | (OfRun & { readonly event: "undone"; readonly undoes: string })
  /** How a run ended that somebody asked for or decided about, or that applied something. */
  | (OfRun & {
      readonly event: "ended";
      readonly result: RunState;
      readonly digest?: string;
      readonly counts?: Counts;
      /** Somebody stopped it before it had sent anything: `result` is `failed`. */
      readonly cancelled?: true | undefined;
      /** Who is gone from the sources and stays for now. Absent in entries of older versions. */
      readonly leaving?: LeavingCounts | undefined;
      readonly heldBy?: HeldBy;
      /** What was left out because of limits. */
      readonly waiting?: readonly Measure[];
      readonly error?: string;
    })
  /** How a run ended whose process was killed. */
  | (OfRun & {
      readonly event: "recovered";
      readonly result: RunState;
      readonly digest?: string;
      readonly finding: string;
    })
  /** The configuration has changed, or is recorded for the first time. */
  | {
      readonly event: "configuration";
      readonly by: Actor;
      readonly file: string;
      /** The previous digest; absent the first time. */
      readonly before?: string;
      readonly digest: string;
      /** `path: old → new`, one line each; secrets as `***`. */
      readonly differences: readonly string[];
    }
  /** Somebody has signed in to the console, or got a token for the command line. */
  | { readonly event: "signed in"; readonly by: Actor }
  /** Too many wrong passwords: none is tried for so many seconds. `by` is what was typed as the name. */
  | { readonly event: "sign-in blocked"; readonly by: Actor; readonly seconds: number }
  /** An account of Rollcall was changed. */
  | {
      readonly event: "account";
      readonly by: Actor;
      readonly change: AccountChange;
      readonly account: string;
      readonly role?: Role | undefined;
    }
  /** A token for the command line was made or revoked. */
  | {
      readonly event: "token";
      readonly by: Actor;
      readonly change: "created" | "revoked";
      readonly account: string;
      /** What its owner calls it. */
      readonly token: string;
    }
  /** A token for providers that push was made or revoked. */
  | {
      readonly event: "inbox token";
      readonly by: Actor;
      readonly change: "added" | "revoked";
      readonly source: string;
      /** What people call it. */
      readonly token: string;
    }
  | { readonly event: "started"; readonly by: Actor; readonly process: number }
  | { readonly event: "stopped"; readonly by: Actor; readonly process: number; readonly reason: string }
  /** A damaged journal was put aside. */
  | { readonly event: "journal damaged"; readonly by: Actor; readonly kept: string; readonly reason: string }
  | AuditFinding;

export type AccountChange = "added" | "removed" | "disabled" | "enabled" | "role" | "password";

/** The events of this Rollcall; a newer one may have written others. */
export const auditEvents = [
  "asked",
  "approved",
  "rejected",
  "overridden",
  "undone",
  "ended",
  "recovered",
  "configuration",
  "signed in",
  "sign-in blocked",
  "account",
  "token",
  "inbox token",
  "started",
  "stopped",
  "journal damaged",
  "audit torn",
  "audit damaged",
] as const satisfies readonly AuditEntry["event"][];

/** What opening the audit log finds wrong with it. */
export type AuditFinding =
  /** The last line was incomplete, because its process was killed. It was cut off and stored. */
  | { readonly event: "audit torn"; readonly kept: string; readonly line: number; readonly bytes: number }
  /** Something is no longer as it was written. */
  | {
      readonly event: "audit damaged";
      readonly what: Damage;
      readonly reason: string;
      /** The line, in the file that was put aside or in the current one. */
      readonly line?: number;
      /** The file that was put aside, if the chain is broken. */
      readonly kept?: string;
      /** The last intact entry. */
      readonly lastGood: Head;
      /** The entry that is known to have been written. */
      readonly expected?: Head;
    };

/** What can be wrong with a chain of entries. */
export type Damage = "changed" | "removed" | "inserted" | "reordered" | "torn";

/** The last entry of a chain: everything before it can be checked against it. */
export interface Head {
  /** 1 for the first entry; 0 if there is none yet. */
  readonly sequence: number;
  /** SHA-256 in hexadecimal. */
  readonly hash: string;
}

/** The facts that are not in Rollcall's own words. */
const free: ReadonlySet<string> = new Set(["reason", "error", "finding", "differences"]);

/** The entry without secrets in the words of others. */
export function redacted(entry: AuditEntry): AuditEntry {
  const facts = Object.entries(entry).map(([key, value]: [string, unknown]) => {
    if (!free.has(key)) return [key, value];
    if (typeof value === "string") return [key, redact(value)];
    return [key, Array.isArray(value) ? value.map((each) => redact(String(each))) : value];
  });
  return Object.fromEntries(facts) as AuditEntry;
}

/** Causes that only a person can have. */
const personal: ReadonlySet<Cause> = new Set(["demand", "undo"]);

/**
 * The entry for the end of a run, if it gets one: when something was, or may have been, applied, when the run was held, and
 * when a person asked for it or decided about it. Scheduled runs without changes get none, nor do runs that wait for a
 * decision; a rejection has an entry of its own.
 */
export function auditOfEnd(run: RunRecord): AuditEntry | undefined {
  const { by, sync, id, state, digest, counts, heldBy, waiting, error, cancelled, leaving } = run;
  if (state === "running" || state === "rejected") return undefined;
  // A pending run has not ended, but an attempt to approve it may have failed.
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
    digest,
    counts,
    cancelled,
    // The days of many belong to the run.
    leaving: leaving && { ...leaving, days: leaving.days?.length === 1 ? leaving.days : undefined },
    heldBy,
    waiting: waiting.length === 0 ? undefined : waiting,
    error: error?.message,
  };
}

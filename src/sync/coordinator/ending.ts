import { HeldError, errorDocument } from "#errors.ts";
import type { RunRecord } from "#sync/record.ts";
import type { RunResult } from "#sync/run.ts";

/**
 * How a run stands after what it returned.
 * @param expiresAt until when it can be approved where it must be, ISO 8601
 */
export function endedWith(run: RunRecord, result: RunResult, at: string, expiresAt: string): RunRecord {
  const { outcome, digest, counts, limits, waiting } = result;
  const found = { ...without(run, ["error", "heldBy", "expiresAt"]), digest, counts, limits, waiting };
  if (outcome === "pending") return { ...found, state: "pending", expiresAt };
  return { ...found, state: outcome === "applied" ? "applied" : "no change", endedAt: at };
}

/**
 * How a run stands after an error. What is held by limits can still be approved; what was being approved still awaits
 * that, unless something has been applied.
 */
export function endedByError(run: RunRecord, error: unknown, at: string, expiresAt: string): RunRecord {
  const failed = { ...run, error: errorDocument(error) };
  const wasDecided = run.decisions.some(({ decision }) => decision === "approved") && run.expiresAt !== undefined;
  if (wasDecided && run.sentAt === undefined) return { ...failed, state: run.heldBy === "limits" ? "held" : "pending" };
  if (!(error instanceof HeldError)) return { ...failed, state: "failed", endedAt: at };
  const held = { ...failed, state: "held", heldBy: error.by } as const;
  return error.by === "limits" ? { ...held, expiresAt } : { ...without(held, ["expiresAt"]), endedAt: at };
}

/**
 * How a run stands whose end cannot be written down: it has failed, whatever it has done, and the next one finds out about
 * it. What is kept of it says that it is still under way.
 */
export function notWrittenDown(run: RunRecord, error: unknown, at: string): RunRecord {
  const { message, advice } = errorDocument(error);
  const became =
    run.error?.message ??
    `the run ${run.id} ${run.state === "applied" ? "was applied and verified" : `is ${run.state}`}`;
  return {
    ...without(run, ["expiresAt", "heldBy"]),
    state: "failed",
    endedAt: at,
    error: {
      message: `${became}. That cannot be written down: ${message}`,
      problems: run.error?.problems ?? [],
      advice,
    },
  };
}

/** A record without some of what it may have. */
export function without(run: RunRecord, keys: readonly (keyof RunRecord)[]): RunRecord {
  return Object.fromEntries(Object.entries(run).filter(([key]) => !(keys as readonly string[]).includes(key))) as never;
}

/** A run that can be approved: its plan is kept, and it is pending or held by limits. */
export function isOpen({ state, heldBy }: RunRecord): boolean {
  return state === "pending" || (state === "held" && heldBy === "limits");
}

/** There was nothing to do, or it has been done and proven. */
export function hasSucceeded(run: RunRecord): run is RunRecord & { state: "applied" | "no change" } {
  const { state } = run;
  return state === "applied" || state === "no change";
}

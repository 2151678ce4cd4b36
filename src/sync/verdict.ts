import { isEmpty, leavingWords, nameLimits, totalsOf } from "#plan/render/shared.ts";
import type { RunRecord } from "#state/record.ts";
import { trippedLimits } from "#sync/coordinator/refusals.ts";

/**
 * What the plan of a run comes to, and what holds it, without a full stop. Every page, command and notice says this:
 * `102 users would leave on 3 December 2026; the limit on shrinkage holds this`. Empty without a plan.
 */
export function verdictOnPlan(run: RunRecord): string {
  const { counts, leaving, state, heldBy } = run;
  if (counts === undefined) return "";
  const beyond = state === "held" && heldBy === "limits" ? trippedLimits(run) : [];
  const totals =
    isEmpty(counts) && leaving !== undefined
      ? leavingWords(leaving, beyond.length > 0)
      : totalsOf(counts, { leaving, limits: beyond.length > 0 ? run.limits : [] });
  return beyond.length === 0
    ? totals
    : `${totals}; ${nameLimits(beyond)} ${beyond.length === 1 ? "holds" : "hold"} this`;
}

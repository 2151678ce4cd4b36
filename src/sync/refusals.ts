import { InputError } from "#errors.ts";
import type { LimitName, Overridable } from "#plan/limits.ts";
import { isOpen } from "./ending.ts";
import type { RunRecord } from "./record.ts";

/** The limits that stopped a run, or would have. */
export function trippedOf({ limits }: RunRecord): LimitName[] {
  return [...new Set(limits.filter(({ tripped, overridden }) => tripped && !overridden).map(({ limit }) => limit))];
}

export function notOpen({ id, state, heldBy, endedAt }: RunRecord, what: "approved" | "rejected"): InputError {
  const why = heldBy === undefined || state !== "held" ? `it is ${state}` : `it is held, ${heldFor[heldBy]}`;
  const since = endedAt === undefined ? "" : ` (${endedAt})`;
  return new InputError(
    `the run ${id} cannot be ${what}: ${why}${since}. What can be: rollcall runs --state pending, or --state held`,
  );
}

const heldFor: Record<NonNullable<RunRecord["heldBy"]>, string> = {
  limits: "by limits",
  opinions: "because the service does not agree with the plan",
  verification: "because the target was not what was planned after it was applied",
  digest: "because the changes were no longer those that were shown",
};

/** @throws {InputError} when a run cannot be approved so */
export function refuseUnapprovable(
  run: RunRecord,
  digest: string | undefined,
  overrides: readonly Overridable[],
): void {
  const { id } = run;
  if (!isOpen(run)) throw notOpen(run, "approved");
  if (digest !== undefined && digest !== run.digest)
    throw new InputError(
      `the run ${id} has another plan: its digest is ${run.digest}, not ${digest}; look at it again: rollcall show ${id}`,
    );
  const missing = run.state === "held" ? trippedOf(run).filter((limit) => !overrides.includes(limit)) : [];
  if (missing.length > 0)
    throw new InputError(
      `the run ${id} is held by limits: name those that do not count for this plan: rollcall approve ${id} --override ${trippedOf(run).join(",")}`,
    );
}

/** May the target have been changed by it? */
export function hasApplied({ state, heldBy, sentAt }: RunRecord): boolean {
  return state === "applied" || (sentAt !== undefined && (state === "failed" || heldBy === "verification"));
}

/**
 * @param later the runs of its sync that have applied something, from this one on
 * @throws {InputError} when a run cannot be undone
 */
export function refuseUndoing(run: RunRecord, later: readonly RunRecord[]): void {
  if (!hasApplied(run))
    throw new InputError(`the run ${run.id} has applied nothing (it is ${run.state}): there is nothing to undo`);
  const lost = later.find(({ kept }) => !kept);
  if (lost !== undefined)
    throw new InputError(
      `the run ${run.id} cannot be undone: what the run ${lost.id} has changed is no longer kept (see journal.lists in the configuration)`,
    );
}

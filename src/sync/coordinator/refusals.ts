import { InputError } from "#errors.ts";
import type { LimitName } from "#plan/limits.ts";
import type { Selection } from "#plan/selection.ts";
import type { Approval } from "./coordinator.ts";
import { isOpen } from "./finish.ts";
import type { RunRecord } from "#sync/record.ts";

/** Does it choose some of a plan, rather than all? */
export function isPart({ only, except = [] }: Selection = {}): boolean {
  return only !== undefined || except.length > 0;
}

/** The limits that a run is beyond. Where what they are about was left out of the plan, the plan is beyond none. */
export function passedOver({ limits, waiting }: RunRecord): LimitName[] {
  if (waiting.length > 0) return [];
  return [...new Set(limits.filter(({ tripped, overridden }) => tripped && !overridden).map(({ limit }) => limit))];
}

export function notOpen({ id, state, heldBy, endedAt, sameAs }: RunRecord, what: "approved" | "rejected"): InputError {
  const why = heldBy === undefined || state !== "held" ? `it is ${state}` : `it is held, ${heldFor[heldBy]}`;
  const since = endedAt === undefined ? "" : ` (${endedAt})`;
  const other = sameAs === undefined ? "" : `, and the run ${sameAs} stands for it`;
  return new InputError(
    `the run ${id} cannot be ${what}: ${why}${since}${other}. What can be: rollcall runs --state pending, or --state held`,
  );
}

const heldFor: Record<NonNullable<RunRecord["heldBy"]>, string> = {
  limits: "by limits",
  opinions: "because the service does not agree with the plan",
  verification: "because the target was not what was planned after it was applied",
  digest: "because the changes were no longer those that were shown",
};

/**
 * Of a part of a plan it is not known yet whether it is within the limits.
 * @throws {InputError} when a run cannot be approved so
 */
export function refuseUnapprovable(run: RunRecord, { digest, overrides = [], selection }: Omit<Approval, "by">): void {
  const { id } = run;
  if (!isOpen(run)) throw notOpen(run, "approved");
  if (digest !== undefined && digest !== run.digest)
    throw new InputError(
      `the run ${id} has another plan: its digest is ${run.digest}, not ${digest}; look at it again: rollcall show ${id}`,
    );
  const beyond = run.state === "held" && !isPart(selection) ? passedOver(run) : [];
  if (beyond.some((limit) => !overrides.includes(limit)))
    throw new InputError(
      `the run ${id} is held by limits: name those that do not count for this plan: rollcall approve ${id} --override ${beyond.join(",")}`,
    );
}

/**
 * @param target of its sync, as it is configured now
 * @throws {InputError} when that is another one than the run was for
 */
export function refuseOtherTarget(run: RunRecord, target: string, what: "approved" | "undone"): void {
  if (run.target === target) return;
  throw new InputError(
    `the run ${run.id} cannot be ${what}: it was for the target ${run.target}, and ${run.sync} has another one now (${target})`,
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

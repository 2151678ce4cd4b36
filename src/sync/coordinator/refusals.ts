import { command } from "#commands.ts";
import { InputError } from "#errors.ts";
import { isExceeded } from "#plan/limits.ts";
import type { LimitCheck, Overridable } from "#plan/limits.ts";
import { concernsWhole, isPart } from "#plan/selection.ts";
import { quote } from "#text.ts";
import { isOpen, isSameTarget, planAgain } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import type { Context, SyncSettings } from "./context.ts";
import type { Approval } from "./coordinator.ts";

const openRuns = `waiting runs: \`${command("runs", "--state", "pending")}\`, held ones: \`${command("runs", "--state", "held")}\``;

/** The limits that a run's plan exceeds, without those whose changes the plan already leaves out. */
export function trippedLimits({ limits, waiting }: RunRecord): LimitCheck["limit"][] {
  const tripped = limits.filter(isExceeded).map(({ limit }) => limit);
  return [...new Set(tripped.filter((limit) => waiting.length === 0 || concernsWhole(limit)))];
}

/** The checks whose changes the plan of a run leaves out. */
export function checksLeftOut({ limits, waiting }: RunRecord): LimitCheck[] {
  return waiting.length === 0 ? [] : limits.filter(isExceeded);
}

/** The limits whose changes the plan of a run leaves out. */
export function limitsLeftOut(run: RunRecord): LimitCheck["limit"][] {
  return [...new Set(checksLeftOut(run).map(({ limit }) => limit))];
}

/**
 * The limits that whoever approves the plan of a waiting run must override: those that hold it, and those that the first of several people
 * has overridden, because a limit is overridden only if all of them do.
 */
export function limitsToOverride(run: RunRecord): LimitCheck["limit"][] {
  if (run.state === "held") return trippedLimits(run);
  return [...new Set(run.limits.filter(({ tripped, overridden }) => tripped && overridden).map(({ limit }) => limit))];
}

/** The limits that an approval overrides: those it names, and those that a pending plan trips, because it was shown with them. */
export function overriddenBy(run: RunRecord, named: readonly Overridable[] = []): Overridable[] {
  return [...new Set([...named, ...(run.state === "pending" ? trippedLimits(run) : [])])];
}

export function notOpen({ id, state, heldBy, endedAt, sameAs }: RunRecord, what: "approved" | "rejected"): InputError {
  if (state === "no change") {
    const to = what === "approved" ? "approve" : "reject";
    return new InputError(`the run ${id} changed nothing, so there is nothing to ${to}; ${openRuns}`);
  }
  const why = heldBy === undefined || state !== "held" ? `it is ${state}` : `it is held, ${heldReasons[heldBy]}`;
  const since = endedAt === undefined ? "" : ` (${endedAt})`;
  const other = sameAs === undefined ? "" : `, and the run ${sameAs} waits with the same plan`;
  return new InputError(`the run ${id} cannot be ${what}: ${why}${since}${other}; ${openRuns}`);
}

const heldReasons: Record<NonNullable<RunRecord["heldBy"]>, string> = {
  limits: "by limits",
  opinions: "because the service does not agree with the plan",
  verification: "because the target did not match the plan after applying",
  digest: "because the changes differed from the plan that was shown",
};

/**
 * Whether a part of a plan is within the limits is known only once it is planned.
 * @throws {InputError} when this approval is not possible
 */
export function checkApprovable(run: RunRecord, { digest, overrides = [], selection }: Omit<Approval, "by">): void {
  const { id } = run;
  if (!isOpen(run)) throw notOpen(run, "approved");
  if (digest !== undefined && digest !== run.digest)
    throw new InputError(
      `the run ${id} has another plan: its digest is ${run.digest}, not ${digest}; look at it again: \`${command("show", id)}\``,
    );
  const known = (run.causes ?? []).map((cause) => cause.id);
  const unknown = [...(selection?.onlyCauses ?? []), ...(selection?.exceptCauses ?? [])].find(
    (each) => !known.includes(each),
  );
  if (unknown !== undefined)
    throw new InputError(
      `the run ${id} has no cause ${quote(unknown)}; ${known.length === 0 ? "it names none" : `it has ${known.join(", ")}`}`,
    );
  const beyond = isPart(selection) ? [] : limitsToOverride(run);
  if (beyond.some((limit) => !overrides.includes(limit)))
    throw new InputError(
      `the run ${id} is ${run.state === "held" ? "held by" : "beyond its"} limits; approve it despite them: \`${command("approve", id, "--override", beyond.join(","))}\``,
    );
}

/**
 * @param now the target of the run's sync, as it is configured now
 * @throws {InputError} when the run was for another target, or for the one of this name at another place
 */
export function checkSameTarget(
  run: RunRecord,
  now: Pick<SyncSettings, "target" | "place">,
  what: "approved" | "undone",
): void {
  if (isSameTarget(run, now)) return;
  const { id, sync, target } = run;
  const [was, is, again] =
    target === now.target
      ? [`${target} at ${run.place}`, `${target} is at ${now.place} now`, `give ${target} that address again`]
      : [target, `${sync} has another one now (${now.target})`, `give ${sync} the target ${target} again`];
  const next =
    what === "approved" && run.undoes === undefined
      ? `plan again: \`${planAgain(run)}\``
      : `to undo ${what === "undone" ? "it" : `the run ${run.undoes}`}, ${again}`;
  throw new InputError(`the run ${id} cannot be ${what}: it was for the target ${was}, and ${is}; ${next}`);
}

/**
 * The settings of a run's sync.
 * @throws {InputError} when the configuration no longer has it
 */
export function settingsOfRun(
  { syncs, settingsOf }: Pick<Context, "syncs" | "settingsOf">,
  { id, sync }: RunRecord,
  what: "approved" | "undone",
): SyncSettings {
  const names = Object.keys(syncs());
  if (names.includes(sync)) return settingsOf(sync);
  const next =
    what === "approved"
      ? `put it back, or reject the run: \`${command("reject", id)}\``
      : "to undo the run, put the sync back";
  throw new InputError(
    `the run ${id} cannot be ${what}: the configuration no longer has the sync ${sync} (it has ${names.join(", ") || "none"}); ${next}`,
  );
}

/** Whether the run may have changed the target. */
export function hasApplied({ state, heldBy, sentAt }: RunRecord): boolean {
  return state === "applied" || (sentAt !== undefined && (state === "failed" || heldBy === "verification"));
}

/** @throws {InputError} when the run has changed nothing */
export function checkHasApplied(run: RunRecord): void {
  if (run.state === "no change") throw new InputError(`the run ${run.id} changed nothing, so there is nothing to undo`);
  if (!hasApplied(run))
    throw new InputError(`the run ${run.id} applied nothing (it is ${run.state}), so there is nothing to undo`);
}

/**
 * @param later the runs of its sync that have applied something, from this one on
 * @throws {InputError} when what they changed is no longer known
 */
export function checkStored(run: RunRecord, later: readonly RunRecord[]): void {
  const lost = later.find(({ kept }) => !kept);
  if (lost !== undefined)
    throw new InputError(
      `the run ${run.id} cannot be undone: the changes of run ${lost.id} are no longer stored (see journal.lists in the configuration)`,
    );
}

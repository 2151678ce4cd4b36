import { HeldError, IncompleteReadError, InputError, messageOf, RollcallError } from "#errors.ts";
import { changes } from "#plan/change.ts";
import type { Counts } from "#plan/change.ts";
import { isExceeded } from "#plan/limits.ts";
import type { Limits } from "#plan/limits.ts";
import { describeCheck } from "#plan/render/shared.ts";
import { beyondLimits } from "#sync/planning/limits.ts";
import type { Planned } from "#sync/planning/limits.ts";
import type { ApprovalPolicy, RunResult } from "#sync/context.ts";
import type { Sync } from "#sync/sync.ts";
import { formatNumber, formatPrincipals, pluralize } from "#text.ts";
import type { IncidentName } from "./names.ts";

/**
 * What became of an incident.
 * - `stopped`: nothing was changed. `noticed`: it was changed, and the verification said that something is wrong.
 * - `harmless`: there was nothing to change. `passed`: everything would have been changed, and nobody told.
 * - `skipped`: it cannot happen to this sync.
 */
export type Verdict = "stopped" | "noticed" | "harmless" | "passed" | "skipped";

export interface Finding {
  readonly incident: IncidentName;
  readonly title: string;
  /** What was injected, with numbers. Absent: nothing was. */
  readonly injected?: string | undefined;
  readonly verdict: Verdict;
  /** What stopped it, the first guard first; or why it was skipped. */
  readonly because: readonly string[];
  /** What the plan was. Absent: it did not get so far. */
  readonly counts?: Counts | undefined;
  /** How many users and groups had been changed when it was stopped, or all in all. */
  readonly changed: number;
  /** What would have stopped it. */
  readonly advice?: string | undefined;
}

interface Judging {
  readonly sync: Sync;
  readonly approval: ApprovalPolicy;
  readonly planned: Planned | undefined;
  readonly today: Planned;
}

/** How many lines a finding has of those that a run was held with. */
const mostProblems = 3;

/** What a run that ended so says about the guards. */
export function judged(
  end: RunResult | RollcallError,
  judging: Judging,
): Pick<Finding, "verdict" | "because" | "changed" | "advice"> {
  const { sync, planned, approval } = judging;
  const planChanges = planned === undefined ? 0 : changes(planned.plan.counts);
  const holding = planned === undefined ? [] : beyondLimits(sync, planned).map(describeCheck);
  if (end instanceof HeldError) {
    const { problems } = end;
    const more = problems.length > mostProblems ? ["… and more"] : [];
    const because =
      end.by === "limits" && holding.length > 0
        ? holding
        : [messageOf(end), ...problems.slice(0, mostProblems), ...more];
    return end.by === "verification"
      ? { verdict: "noticed", because, changed: planChanges }
      : { verdict: "stopped", because, changed: 0 };
  }
  if (end instanceof RollcallError) {
    const guard = end instanceof IncompleteReadError && end.torn ? "look-up of who was not read" : "read";
    const problems = end instanceof InputError ? end.problems.slice(0, mostProblems) : [];
    return { verdict: "stopped", because: [`${guard}: ${messageOf(end)}`, ...problems], changed: 0 };
  }
  if (end.outcome === "pending") {
    const who = `approval: ${approval}: a person decides on ${pluralize(planChanges, "change")}`;
    return { verdict: "stopped", because: [...holding, who], changed: 0 };
  }
  const kept = keptBack(judging);
  const takenOver = (planned?.departures?.reused.count ?? 0) - (judging.today.departures?.reused.count ?? 0);
  if (sync.departures.reusedNames === "apply" && takenOver > 0) {
    const because = [
      `reusedNames: apply: ${pluralize(takenOver, "name")} would go to other people, with all their access`,
    ];
    return { verdict: "passed", because, changed: planChanges, advice: "reusedNames: hold would hold it" };
  }
  if (end.outcome === "no change")
    return { verdict: kept.length > 0 ? "stopped" : "harmless", because: kept, changed: 0 };
  return { verdict: "passed", because: kept, changed: planChanges, advice: adviceFor(judging) };
}

/** What keeps principals as they are, and did not today. */
function keptBack({ sync, planned, today }: Judging): string[] {
  if (planned === undefined) return [];
  const { departures, drift, quarantined = 0, waiting, checks, scope } = planned;
  const kept: string[] = [];
  if (waiting.length > 0) kept.push(...checks.filter(isExceeded).map(describeCheck));
  if (scope.inScope === undefined && today.scope.inScope !== undefined)
    kept.push("optional: everything that came from an unreadable source stays unchanged");
  const further = quarantined - (today.quarantined ?? 0);
  if (further > 0) kept.push(`quarantine: ${pluralize(further, "record")} in doubt; the principals stay unchanged`);
  if (departures !== undefined) {
    const { renames, reused, leaving } = departures;
    if (sync.departures.renames !== "apply" && renames.count > (today.departures?.renames.count ?? 0))
      kept.push(`renames: hold: ${pluralize(renames.count, "principal")} would have another name`);
    if (sync.departures.reusedNames === "hold" && reused.count > (today.departures?.reused.count ?? 0))
      kept.push(`reusedNames: hold: ${pluralize(reused.count, "name")} would go to other people`);
    if (leaving.count > (today.departures?.leaving.count ?? 0)) {
      const who = formatPrincipals(leaving.count - leaving.groups, leaving.groups);
      kept.push(
        `deletions.after: ${who} gone from the sources, to be deleted from ${leaving.examples[0]?.on.slice(0, 10)} on`,
      );
    }
  }
  const left = (drift?.left ?? 0) - (today.drift?.left ?? 0);
  if (left > 0) kept.push(`drift: leave: ${pluralize(left, "principal")} left as changed in the target`);
  return kept;
}

/** Which limit would have to be narrower, or to be set. */
function adviceFor({ sync: { limits }, planned }: Judging): string {
  const largest = (planned?.amounts ?? [])
    .filter(({ amount }) => amount > 0)
    .toSorted((a, b) => share(b) - share(a) || b.amount - a.amount)[0];
  if (largest === undefined) return "no limit counts what it does; approval: required has every plan approved";
  const { measure, of, amount, base } = largest;
  const check = planned?.checks.find((each) => each.limit === measure && each.of === of);
  const done = `${formatNumber(amount)} of ${formatNumber(base)} ${of}`;
  if (check === undefined) return `set limits.${measure}: it does this to ${done}`;
  return `${describeCheck(check)}: ${boundAdvice(limits, amount, measure)}`;
}

function share({ amount, base }: { readonly amount: number; readonly base: number }): number {
  return base === 0 ? 0 : amount / base;
}

function boundAdvice(limits: Limits, amount: number, measure: string): string {
  return amount <= limits.floor
    ? `so few trip a number, such as limits.${measure}: ${amount - 1}, and no percentage (floor: ${limits.floor})`
    : `a lower limits.${measure} would hold it`;
}

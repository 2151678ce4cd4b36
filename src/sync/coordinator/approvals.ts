import { isDeepStrictEqual } from "node:util";
import { InputError } from "#errors.ts";
import { may, refusalOf } from "#roles.ts";
import { concernsWhole } from "#plan/selection.ts";
import type { Selection, Subject } from "#plan/selection.ts";
import { actorFor } from "#state/access.ts";
import type { Access } from "#state/access.ts";
import { isOpen, mayBe, personOf } from "#state/record.ts";
import type { Actor, Approvers, Decision, RunRecord } from "#state/record.ts";
import type { SyncSettings } from "./context.ts";

/** Whether one person may not be enough for some plan of a sync. */
export function areSeveral({ people, beyondLimits, notTheRequester }: SyncSettings["approvers"]): boolean {
  return people > 1 || beyondLimits > 1 || notTheRequester;
}

/** Who must approve the plan of a run; undefined: one person, whoever it is. */
export function approversOf(
  { limits, waiting }: Pick<RunRecord, "limits" | "waiting">,
  rules: SyncSettings["approvers"],
): Approvers | undefined {
  if (!areSeveral(rules)) return undefined;
  // What `apply-the-rest` has left out is not in the plan.
  const isBeyond = limits.some(
    ({ limit, tripped, overridden }) => tripped && (overridden || waiting.length === 0 || concernsWhole(limit)),
  );
  return { people: isBeyond ? rules.beyondLimits : rules.people, notTheRequester: rules.notTheRequester };
}

/** The approvals of a waiting plan that are for the same part of it: those of another part do not count. */
export function approvalsFor(
  { approvals = [], digest }: Pick<RunRecord, "approvals" | "digest">,
  selection: Selection | undefined,
): readonly Decision[] {
  return approvals.filter(
    (each) => each.digest === digest && isDeepStrictEqual(partOf(each.selection), partOf(selection)),
  );
}

/**
 * Why an approval no longer counts: whoever gave it may not give it any more. Undefined: it counts. People of the OpenID provider have the
 * role of their last sign-in.
 */
export function lapseOf({ by, overrides = [] }: Decision, { accounts }: Access): string | undefined {
  if (by.via !== "account" && by.via !== "oidc") return undefined;
  const account = accounts.find((each) => personOf(actorFor(each, "")) === personOf(by));
  const lapsed = `the approval of ${by.name} no longer counts:`;
  if (account === undefined) return `${lapsed} the account was removed`;
  if (account.disabled === true) return `${lapsed} the account is disabled`;
  const action = overrides.length > 0 ? "override" : "decide";
  return may(account.role, action) ? undefined : `${lapsed} ${refusalOf(account, action)}`;
}

/** A selection in one form: two that are the same part of a plan are equal, and the whole plan is `{}`. */
function partOf({ only, except = [], these, onlyCauses, exceptCauses = [] }: Selection = {}): unknown {
  const parts = {
    only: listed(only),
    except: except.length === 0 ? undefined : listed(except.map(textOf)),
    these: listed(these?.map(textOf)),
    onlyCauses: listed(onlyCauses),
    exceptCauses: exceptCauses.length === 0 ? undefined : listed(exceptCauses),
  };
  return JSON.parse(JSON.stringify(parts));
}

function listed(items: readonly string[] | undefined): readonly string[] | undefined {
  return items && [...new Set(items)].toSorted();
}

function textOf({ kind, name }: Subject): string {
  return `${kind}:${name}`;
}

/** Whether somebody may be the person who asked for a run; a schedule is nobody. */
function hasAsked(somebody: Actor, { cause, by }: Pick<RunRecord, "cause" | "by">): boolean {
  return (cause === "demand" || cause === "undo") && mayBe(somebody, by);
}

/**
 * Why somebody's approval of a plan would not count; undefined: it would.
 * @param selection the part that is approved
 */
export function objectionTo(
  run: Pick<RunRecord, "id" | "cause" | "by" | "approvals" | "approvers" | "digest">,
  by: Actor,
  selection?: Selection,
): string | undefined {
  const { id, approvers } = run;
  if (approvers === undefined) return undefined;
  const person = personOf(by);
  if (approvers.notTheRequester && hasAsked(by, run))
    return `${by.name} asked for the run ${id}: another person must approve it`;
  if (approvalsFor(run, selection).some((each) => personOf(each.by) === person))
    return `${by.name} has approved the run ${id} already: another person must approve it`;
  return undefined;
}

/** @throws {InputError} when the approval would not count */
export function checkCounts(run: Parameters<typeof objectionTo>[0], by: Actor, selection?: Selection): void {
  const objection = objectionTo(run, by, selection);
  if (objection !== undefined) throw new InputError(objection);
}

/** How many people have approved a waiting plan, of how many. Undefined: one person is enough. */
export function approvalsOf(run: RunRecord): { readonly given: number; readonly needed: number } | undefined {
  const { approvers, approvals = [] } = run;
  if (approvers === undefined || approvers.people < 2 || !isOpen(run)) return undefined;
  return {
    given: Math.max(0, ...approvals.map(({ selection }) => approvalsFor(run, selection).length)),
    needed: approvers.people,
  };
}

/** `1 of 2 approved; needs one more`. Undefined: one person is enough. */
export function approvalsWords(run: RunRecord): string | undefined {
  const of = approvalsOf(run);
  if (of === undefined) return undefined;
  const more = of.needed - of.given;
  return `${of.given} of ${of.needed} approved; needs ${of.given === 0 ? of.needed : more === 1 ? "one more" : `${more} more`}`;
}

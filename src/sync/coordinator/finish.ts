import { isDeepStrictEqual } from "node:util";
import { errorDocument, HeldError } from "#errors.ts";
import { auditOfEnd } from "#state/audit/entry.ts";
import type { Journal } from "#state/store.ts";
import { hasSucceeded, isOpen, isSameTarget, isUnfinished, lastReads, without } from "#state/record.ts";
import type { RunRecord, SyncEvent, SyncState } from "#state/record.ts";
import type { RunResult } from "#sync/context.ts";
import { approvalsFor, objectionTo } from "./approvals.ts";
import { timestamp } from "./context.ts";
import type { Context } from "./context.ts";

export interface FinishContext extends Pick<Context, "plans" | "emit" | "now" | "isStopping" | "decisions"> {
  readonly store: Pick<Context["store"], "journal" | "audit">;
}

/**
 * Writes down how a run ended, and everything that follows from it, in one write of the journal: older waiting runs are
 * superseded, or the run is the same as one that waits and renews what is stored of it; the sync has succeeded or failed; after an undo, the sync needs
 * approval until a person has approved a run.
 */
export function finish(context: FinishContext, run: RunRecord): Promise<RunRecord> {
  return context.decisions(async () => {
    const { journal } = context.store;
    // Its approval failed, and it waits again.
    if (isOpen(run) && journal.find(run.id)?.expiresAt !== undefined) return writeEnd(context, run);
    const at = timestamp(context);
    const twin = isOpen(run) ? journal.runs.find((other) => isTwin(run, other)) : undefined;
    if (twin === undefined) return writeEnd(context, run, supersededBy(run, journal, at));
    if (run.kept) await context.plans.renew(twin.id, run.id);
    const foundAgain = { count: (twin.foundAgain?.count ?? 0) + 1, lastAt: at };
    const { expectations, limits, approvers } = run;
    const seal = run.kept ? run.seal : twin.seal;
    const again = {
      ...without(twin, ["error"]),
      limits,
      expectations,
      seal,
      approvers,
      approvals: approvalsWith(run, { ...twin, approvers }),
      ...errorOf(run, twin.id),
      foundAgain,
    };
    const same = without(run, ["expiresAt", "heldBy", "error", "approvals", "approvers"]);
    return write(context, { ...same, state: "superseded", sameAs: twin.id, endedAt: at, kept: false }, [again]);
  });
}

/**
 * Whoever has named the plan of a run by its digest has approved it, where it waits already, too. The last approval is not given so: it applies
 * the plan.
 */
function approvalsWith({ approvals: more = [] }: RunRecord, twin: RunRecord): RunRecord["approvals"] {
  const counted = more.filter(({ by }) => objectionTo(twin, by) === undefined);
  const isLast = approvalsFor(twin, undefined).length + counted.length >= (twin.approvers?.people ?? 1);
  return counted.length === 0 || isLast ? twin.approvals : [...(twin.approvals ?? []), ...counted];
}

/** Marks the runs as expired that nobody has approved in time. Call it in the queue of decisions. */
export async function expire(context: FinishContext): Promise<void> {
  for (const run of context.store.journal.runs) {
    if (!isOpen(run) || run.expiresAt === undefined || Date.parse(run.expiresAt) > context.now()) continue;
    await writeEnd(context, { ...run, state: "expired", endedAt: timestamp(context) });
  }
}

/** Writes down how a run ended, and the runs that it supersedes. Call it in the queue of decisions. */
export async function writeEnd(
  context: FinishContext,
  run: RunRecord,
  superseded: readonly RunRecord[] = [],
): Promise<RunRecord> {
  for (const each of [...superseded, run]) {
    const entry = auditOfEnd(each);
    if (entry !== undefined) await context.store.audit.append(entry);
  }
  return write(context, run, superseded);
}

async function write(context: FinishContext, run: RunRecord, others: readonly RunRecord[]): Promise<RunRecord> {
  const { emit, now, isStopping } = context;
  const { journal } = context.store;
  const at = timestamp(context);
  const failed = run.state === "failed";
  const { failures } = journal.state(run.sync);
  const change = (state: SyncState): SyncState => (failed && isStopping() ? state : stateAfter(state, run, at));
  const recovered = failures !== undefined && hasSucceeded(run) && run.for === undefined ? true : undefined;
  const events: SyncEvent[] = [
    ...others.filter(({ state }) => state === "superseded").map((other) => ({ type: "run", run: other }) as const),
    { type: "run", run, recovered },
  ];
  // A run that is stopped with its process is no news.
  // Both in one write: once there are as many runs as are remembered, another one goes with each that ends.
  await Promise.all([
    journal.put([...others, run], { sync: run.sync, change }, failed && isStopping() ? [] : events),
    journal.prune(now()),
  ]);
  for (const event of events) emit(event);
  await removeUnneededPlans(context);
  return run;
}

/** Removes what is stored of runs and nobody needs any more. What the last read of a sync had in doubt stays. */
export async function removeUnneededPlans({ store, plans }: Pick<FinishContext, "store" | "plans">): Promise<void> {
  const { runs } = store.journal;
  const reads = lastReads(runs);
  await plans.prune({
    ended: runs.filter((run) => run.kept || reads.has(run)).map(({ id }) => id),
    underWay: runs.filter(isUnfinished).map(({ id }) => id),
  });
}

/** Whether `other` is an earlier run of the sync that waits with the same plan for the same target. */
function isTwin(run: RunRecord, other: RunRecord): boolean {
  return (
    other.id < run.id &&
    other.sync === run.sync &&
    isSameTarget(other, run) &&
    isAboutTheSame(other, run) &&
    other.digest === run.digest &&
    other.state === run.state &&
    other.kept &&
    isOpen(other)
  );
}

/** Why the run waits, in terms of its twin: an error of an attempt to approve the twin no longer matters. */
function errorOf({ id, error }: RunRecord, twin: string): Pick<RunRecord, "error"> {
  if (error === undefined) return {};
  const problems = error.problems.map((problem) => problem.replaceAll(id, twin));
  return { error: { ...error, problems, ...(error.next !== undefined && { next: error.next.replaceAll(id, twin) }) } };
}

function supersededBy(run: RunRecord, { runs }: Journal, endedAt: string): RunRecord[] {
  return runs
    .filter((other) => isOpen(other) && supersedes(run, other))
    .map((other): RunRecord => Object.assign({}, other, { state: "superseded", endedAt }));
}

/**
 * Whether `run` makes the plan of `other` obsolete: something was applied since, or a newer plan has another result (the
 * same changes are held now, or a source that had lost too much is complete again: both plans are empty). An undo, a plan
 * from the sources and one for some people do not supersede each other.
 */
function supersedes(run: RunRecord, other: RunRecord): boolean {
  if (other.sync !== run.sync || other.id === run.id || run.state === "failed") return false;
  if (run.state === "applied" || run.heldBy === "verification") return true;
  const takesItsPlace = run.state === "no change" || isOpen(run);
  return other.id < run.id && isAboutTheSame(other, run) && (other.digest !== run.digest || takesItsPlace);
}

function isAboutTheSame(one: RunRecord, other: RunRecord): boolean {
  return one.undoes === other.undoes && isDeepStrictEqual(one.for?.toSorted(), other.for?.toSorted());
}

function stateAfter(state: SyncState, run: RunRecord, at: string): SyncState {
  // A run for some says nothing about the sync as a whole.
  if (run.for !== undefined) return state;
  const { failures, caution, overdueSince: _, ...rest } = state;
  if (run.state === "failed")
    return { ...state, failures: { count: (failures?.count ?? 0) + 1, since: failures?.since ?? at } };
  // A run that waits, or has expired, is no success: earlier failures still count.
  if (!hasSucceeded(run)) return state;
  return { ...rest, caution: cautionAfter(caution, run, at), lastSuccessAt: run.endedAt ?? at };
}

function cautionAfter(before: SyncState["caution"], run: RunRecord, at: string): SyncState["caution"] {
  if (run.state !== "applied") return before;
  const approved = run.decisions.findLast(({ decision }) => decision === "approved");
  if (run.undoes === undefined) return approved === undefined ? before : undefined;
  return { since: at, reason: `${(approved?.by ?? run.by).name} has undone the run ${run.undoes}` };
}

/**
 * The record of a run that returned a result.
 * @param expiresAt until when it can be approved if it must be, ISO 8601
 */
export function endedWith(run: RunRecord, result: RunResult, at: string, expiresAt: string): RunRecord {
  const { outcome, digest, counts, limits, waiting } = result;
  const found = { ...without(run, ["error", "heldBy", "expiresAt"]), digest, counts, limits, waiting };
  if (outcome === "pending") return { ...found, state: "pending", expiresAt };
  return { ...found, state: outcome === "applied" ? "applied" : "no change", endedAt: at };
}

/**
 * The record of a run that ended with an error. A run held by limits can still be approved. A run whose approval failed
 * waits again, unless something may have been applied.
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
 * The record of a run whose end cannot be written down: it failed, whatever it has done. The journal still says that it
 * is running, so the next run finds out how it ended.
 */
export function endNotWritten(run: RunRecord, error: unknown, at: string): RunRecord {
  const { message, advice } = errorDocument(error);
  const became =
    run.error?.message ??
    `the run ${run.id} ${run.state === "applied" ? "was applied and verified" : `is ${run.state}`}`;
  return {
    ...without(run, ["expiresAt", "heldBy"]),
    state: "failed",
    endedAt: at,
    error: {
      message: `${became}, but the journal could not be written: ${message}`,
      problems: run.error?.problems ?? [],
      advice,
    },
  };
}

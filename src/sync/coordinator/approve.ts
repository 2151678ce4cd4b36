import type { AuditEntry } from "#state/audit/entry.ts";
import { isPart } from "#plan/selection.ts";
import { partOf } from "#state/plans.ts";
import { planFromStore } from "#sync/plans/stored.ts";
import { without } from "#state/record.ts";
import type { Decision, RunRecord } from "#state/record.ts";
import { approvalsFor, approversOf, checkCounts, lapseOf } from "./approvals.ts";
import { findRun, timestamp } from "./context.ts";
import type { Context } from "./context.ts";
import type { Approval, Begun, Watcher } from "./coordinator.ts";
import { start } from "./execute.ts";
import { expire } from "./finish.ts";
import { checkApprovable, checkSameTarget, overriddenBy, settingsOfRun } from "./refusals.ts";

export async function approve(
  context: Context,
  id: string,
  { by, digest, overrides = [], selection, reason }: Approval,
  watcher?: Watcher,
): Promise<Begun> {
  await expire(context);
  const found = await withoutLapsed(context, findRun(context, id));
  checkApprovable(found, { digest, overrides, selection });
  const settings = settingsOfRun(context, found, "approved");
  checkSameTarget(found, settings, "approved");
  const approvers = approversOf(found, settings.approvers);
  const run = { ...found, approvers };
  checkCounts(run, by, selection);
  const own = overriddenBy(run, overrides);
  const part = isPart(selection);
  const approved = {
    digest: run.digest ?? "",
    overrides: own.length === 0 ? undefined : own,
    selection: part ? selection : undefined,
    reason,
  };
  const given = approvalsFor(run, selection);
  const approval: Decision = { decision: "approved", at: timestamp(context), by, ...approved };
  const [nth, needed] = [given.length + 1, approvers?.people ?? 1];
  const entry = {
    event: "approved",
    by,
    sync: run.sync,
    run: id,
    ...approved,
    ...(needed > 1 && { nth, needed }),
  } as const;
  if (nth < needed) return collect(context, run, approval, entry);
  // A limit is overridden if everybody who approves has said so.
  const passing = own.filter((limit) => given.every((each) => each.overrides?.includes(limit) === true));
  const decisions: Decision[] = [...run.decisions, ...given, approval];
  const running = {
    ...without(run, ["error", "endedAt", "recovery", "approvals"]),
    state: "running",
    decisions,
  } as const;
  const options = {
    settings,
    overrides: passing,
    planner: planFromStore(context.plans, run, selection),
    storeAs: part ? partOf(id) : undefined,
  };
  return start(context, running, options, [entry], watcher);
}

/** The run without approvals by people who may not give them any more; its notes say so. */
async function withoutLapsed({ store }: Context, run: RunRecord): Promise<RunRecord> {
  const { approvals = [], notes } = run;
  if (approvals.length === 0) return run;
  const access = await store.access.read();
  const lapses = approvals.map((each) => lapseOf(each, access));
  return {
    ...run,
    approvals: approvals.filter((_, index) => lapses[index] === undefined),
    notes: [...notes, ...lapses.filter((text) => text !== undefined).map((text) => ({ text }))],
  };
}

/** Writes down an approval of a plan that needs more of them. The run waits on. */
async function collect(context: Context, run: RunRecord, approval: Decision, entry: AuditEntry): Promise<Begun> {
  await context.store.audit.append(entry);
  const waiting = { ...run, approvals: [...(run.approvals ?? []), approval] };
  await context.store.journal.put(waiting, undefined, [{ type: "run", run: waiting }]);
  context.emit({ type: "run", run: waiting });
  return { run: waiting, ended: Promise.resolve(waiting) };
}

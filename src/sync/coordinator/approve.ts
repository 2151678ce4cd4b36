import { isPart } from "#plan/selection.ts";
import { partOf } from "#state/plans.ts";
import { planFromStore } from "#sync/plans/stored.ts";
import { without } from "#state/record.ts";
import type { Decision } from "#state/record.ts";
import { findRun, timestamp } from "./context.ts";
import type { Context } from "./context.ts";
import type { Approval, Begun, Watcher } from "./coordinator.ts";
import { start } from "./execute.ts";
import { expire } from "./finish.ts";
import { checkApprovable, checkSameTarget, trippedLimits } from "./refusals.ts";

export async function approve(
  context: Context,
  id: string,
  { by, digest, overrides = [], selection, reason }: Approval,
  watcher?: Watcher,
): Promise<Begun> {
  await expire(context);
  const run = findRun(context, id);
  checkApprovable(run, { digest, overrides, selection });
  const { approvalExpires, target } = context.settingsOf(run.sync);
  checkSameTarget(run, target, "approved");
  // The plan was shown with the limits that it trips: whoever approves it overrides them.
  const passing = [...new Set([...overrides, ...(run.state === "pending" ? trippedLimits(run) : [])])];
  const part = isPart(selection);
  const approved = {
    digest: run.digest ?? "",
    overrides: passing.length === 0 ? undefined : passing,
    selection: part ? selection : undefined,
    reason,
  };
  const decisions: Decision[] = [...run.decisions, { decision: "approved", at: timestamp(context), by, ...approved }];
  const running = { ...without(run, ["error", "endedAt", "recovery"]), state: "running", decisions } as const;
  const options = {
    approvalExpires,
    overrides: passing,
    planner: planFromStore(context.plans, run, selection),
    storeAs: part ? partOf(id) : undefined,
  };
  return start(context, running, options, [{ event: "approved", by, sync: run.sync, run: id, ...approved }], watcher);
}

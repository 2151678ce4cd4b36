import type { Overridable } from "#plan/limits.ts";
import type { Selection } from "#plan/selection.ts";
import { checkApprovable } from "#sync/coordinator/refusals.ts";
import { localActor, progressOf } from "#daemon/context.ts";
import type { Context } from "#daemon/context.ts";
import { withCoordinator } from "#cli/coordinator.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { approvalQuestion, confirmed, showRun, showStoredPlan, withRunDocument } from "./run-output.ts";
import { chosenRun, knownRuns } from "./known-runs.ts";

export interface ApproveOptions {
  readonly limit?: number | undefined;
  /** Do not ask at a terminal. */
  readonly yes: boolean;
  readonly overrides?: readonly Overridable[] | undefined;
  readonly selection: Selection;
  readonly reason?: string | undefined;
}

/**
 * `rollcall approve RUN`: applies what a pending or held run has planned, or a part of it; nothing else. At a terminal it
 * shows the plan and asks first, without holding a lock. Exit code 3 when the changes are no longer those, or a limit
 * holds them.
 */
export async function approve(context: Context, id: string, options: ApproveOptions): Promise<ExitCode> {
  const { overrides = [], selection, reason } = options;
  const run = chosenRun(await knownRuns(context), id);
  const asks = context.output.interactive && !options.yes;
  return withRunDocument(context, run, options, async (document) => {
    const approval = { by: localActor(), overrides, selection, reason, digest: run.digest };
    if (asks) {
      checkApprovable(run, approval);
      await showStoredPlan(context, run, document);
      if (!(await confirmed(context, approvalQuestion(run, selection)))) {
        await document.end({ outcome: "declined", run: run.id });
        return exitCodes.done;
      }
    }
    return withCoordinator(context, async (coordinator) => {
      const begun = await coordinator.approve(run.id, approval, { progress: progressOf(context, run.sync) });
      return showRun(context, coordinator, document, { begun, isShown: () => asks });
    });
  });
}

import type { Command } from "commander";
import { common, help, withLimit, limitOf, withNotify } from "./flags.ts";
import type { CommonOptions, LimitOptions, NotifyOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import type { Report } from "#sync/context.ts";
import { interruptMessages, localActor, progressOf } from "#daemon/context.ts";
import type { Context } from "#daemon/context.ts";
import { objectionTo } from "#sync/coordinator/approvals.ts";
import { withCoordinator } from "#cli/coordinator.ts";
import type { ExitCode } from "#daemon/output.ts";
import { approvalQuestion, confirmed, showEnd, showRun, showStoredPlan, withRunDocument } from "./run-output.ts";
import { chosenRun, knownRuns } from "./known-runs.ts";

export function declare(command: Command, runner: Runner): void {
  withNotify(withLimit(common(command).argument("<run>", "an applied run: its id, or the start of it")));
  help(command, {
    examples: ["rollcall undo 20261121-0800"],
    exits: { 0: "undone, or nothing to undo", 3: "the plan needs approval" },
  }).action((run: string, options: CommonOptions & LimitOptions & NotifyOptions) =>
    runner.runWithContext(
      options,
      (context) => undo({ ...context, notify: options.notify }, run, { limit: limitOf(options) }),
      interruptMessages.apply,
    ),
  );
}

/** `rollcall undo RUN`: plans how to reverse the changes of a run. The plan waits for approval; at a terminal it asks. */
export async function undo(
  context: Context,
  id: string,
  options: { readonly limit?: number | undefined },
): Promise<ExitCode> {
  const run = chosenRun(await knownRuns(context), id);
  const by = localActor();
  return withRunDocument(context, run, options, async (document) => {
    let isShown = false;
    const progress = progressOf(context, run.sync);
    const watcher = {
      progress,
      warn: document.warn,
      report: async (report: Report) => {
        isShown = true;
        await document.report(report);
      },
    };
    const planned = await withCoordinator(context, async (coordinator) => {
      const begun = await coordinator.undo(run.id, { by }, watcher);
      const ended = await begun.ended;
      // The person who asks for the undo may not be allowed to approve it.
      if (ended.state === "pending" && context.output.interactive && objectionTo(ended, by) === undefined) return ended;
      return showRun(context, coordinator, document, { begun, isShown: () => isShown });
    });
    if (typeof planned === "number") return planned;
    context.output.progress();
    if (!isShown) await showStoredPlan(context, planned, document);
    if (!(await confirmed(context, approvalQuestion(planned)))) return showEnd(document, planned);
    return withCoordinator(context, async (coordinator) => {
      const begun = await coordinator.approve(planned.id, { by, digest: planned.digest ?? "" }, { progress });
      return showRun(context, coordinator, document, { begun, isShown: () => true });
    });
  });
}

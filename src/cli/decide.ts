import { errorDocument } from "#errors.ts";
import type { Overridable } from "#plan/limits.ts";
import type { Selection } from "#plan/selection.ts";
import type { Coordinator } from "#sync/coordinator.ts";
import type { RunRecord } from "#sync/record.ts";
import { localActor } from "./actor.ts";
import { chosenRun } from "./chosen-run.ts";
import { confirmed } from "./confirm.ts";
import type { Context } from "./context.ts";
import { withCoordinator } from "./coordinator.ts";
import { openDocuments } from "./documents.ts";
import { progressOf } from "./dry-run.ts";
import { exitCodeOf, exitCodes } from "./output.ts";
import type { ExitCode } from "./output.ts";
import { showKept, showRun } from "./run-shown.ts";

export interface ApproveOptions {
  readonly limit?: number;
  /** Do not ask at a terminal. */
  readonly yes: boolean;
  readonly overrides?: readonly Overridable[];
  readonly selection: Selection;
}

/**
 * `rollcall approve RUN`: applies what a pending or held run has planned, or a part of it; nothing else. At a terminal it
 * shows the plan and asks first. Exit code 3 when the changes are no longer those.
 */
export async function approve(context: Context, id: string, options: ApproveOptions): Promise<ExitCode> {
  return deciding(context, id, options, async (coordinator, run, document) => {
    const { digest } = run;
    if (context.output.interactive && !options.yes) {
      await showKept(context, run, document);
      if (!(await confirmed(context, "Apply these changes?"))) {
        await document.end({ outcome: "declined", run: run.id });
        return exitCodes.done;
      }
    }
    const { overrides = [], selection } = options;
    const approval = { by: localActor(), overrides, selection, ...(digest === undefined ? {} : { digest }) };
    const begun = await coordinator.approve(run.id, approval, { progress: progressOf(context, run.sync) });
    return showRun(context, coordinator, document, { begun, isShown: () => context.output.interactive });
  });
}

/** `rollcall reject RUN`: what it has planned is not applied; the next run of its sync plans anew. */
export async function reject(context: Context, id: string, reason: string | undefined): Promise<ExitCode> {
  const { output } = context;
  const run = await withCoordinator(context, (coordinator) =>
    coordinator.reject(chosenRun(coordinator.runs(), id).id, {
      by: localActor(),
      ...(reason === undefined ? {} : { reason }),
    }),
  );
  if (output.json) await output.write(`${JSON.stringify({ run })}\n`);
  else await output.write(`${run.sync}: the run ${run.id} is rejected; the next run plans anew\n`);
  return exitCodes.done;
}

/**
 * `rollcall undo RUN`: plans the way back to what was before a run. It awaits approval, at a terminal here.
 */
export async function undo(context: Context, id: string, options: { readonly limit?: number }): Promise<ExitCode> {
  return deciding(context, id, options, async (coordinator, run, document) => {
    let isShown = false;
    const begun = await coordinator.undo(
      run.id,
      { by: localActor() },
      {
        progress: progressOf(context, run.sync),
        warn: document.warn,
        report: async (report) => {
          isShown = true;
          await document.report(report);
        },
      },
    );
    const ended = await begun.ended;
    const isAsked = ended.state === "pending" && context.output.interactive;
    if (isAsked && (await confirmed(context, "Apply these changes?"))) {
      const { digest = "" } = ended;
      const approved = await coordinator.approve(ended.id, { by: localActor(), digest });
      return showRun(context, coordinator, document, { begun: approved, isShown: () => true });
    }
    return showRun(context, coordinator, document, { begun, isShown: () => isShown });
  });
}

/** Finds the run, shows what comes of it as the one run of a document. */
async function deciding(
  context: Context,
  id: string,
  options: { readonly limit?: number },
  work: (
    coordinator: Coordinator,
    run: RunRecord,
    document: ReturnType<ReturnType<typeof openDocuments>["next"]>,
  ) => Promise<ExitCode>,
): Promise<ExitCode> {
  return withCoordinator(context, async (coordinator) => {
    const run = chosenRun(coordinator.runs(), id);
    const documents = openDocuments(context.output, options);
    const document = documents.next(run.sync);
    let code: ExitCode;
    try {
      code = await work(coordinator, run, document);
    } catch (error) {
      await document.fail(errorDocument(error), run.id);
      code = exitCodeOf(error);
    }
    await documents.end();
    return code;
  });
}

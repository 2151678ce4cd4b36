import { localActor } from "./context.ts";
import type { Context } from "./context.ts";
import { withCoordinator } from "./coordinator.ts";
import { exitCodeOf, exitCodes } from "./output.ts";
import type { ExitCode } from "./output.ts";
import { confirmed, openDocuments, showEnd, showKept, showRun } from "./run-output.ts";
import type { RunDocument } from "./run-output.ts";
import { selectionWords } from "./run-text.ts";
import { knownRuns } from "./runs.ts";
import { chosenRun } from "./stored-runs.ts";
import { errorDocument } from "#errors.ts";
import type { Overridable } from "#plan/limits.ts";
import type { Selection } from "#plan/selection.ts";
import { checkApprovable } from "#sync/coordinator/refusals.ts";
import type { RunRecord } from "#sync/record.ts";
import type { Report } from "#sync/run.ts";
import { progressOf } from "./plan.ts";

export interface ApproveOptions {
  readonly limit?: number;
  /** Do not ask at a terminal. */
  readonly yes: boolean;
  readonly overrides?: readonly Overridable[];
  readonly selection: Selection;
}

/**
 * `rollcall approve RUN`: applies what a pending or held run has planned, or a part of it; nothing else. At a terminal it
 * shows the plan and asks first, and is in nobody's way while it does. Exit code 3 when the changes are no longer those,
 * or a limit holds them.
 */
export async function approve(context: Context, id: string, options: ApproveOptions): Promise<ExitCode> {
  const { overrides = [], selection } = options;
  const run = chosenRun(await knownRuns(context), id);
  const { digest } = run;
  const isAsked = context.output.interactive && !options.yes;
  return showing(context, run, options, async (document) => {
    const approval = { by: localActor(), overrides, selection, ...(digest === undefined ? {} : { digest }) };
    if (isAsked) {
      checkApprovable(run, approval);
      await showKept(context, run, document);
      if (!(await confirmed(context, questionAbout(selection)))) {
        await document.end({ outcome: "declined", run: run.id });
        return exitCodes.done;
      }
    }
    return withCoordinator(context, async (coordinator) => {
      const begun = await coordinator.approve(run.id, approval, { progress: progressOf(context, run.sync) });
      return showRun(context, coordinator, document, { begun, isShown: () => isAsked });
    });
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
  const run = chosenRun(await knownRuns(context), id);
  const by = localActor();
  return showing(context, run, options, async (document) => {
    let isShown = false;
    const watcher = {
      progress: progressOf(context, run.sync),
      warn: document.warn,
      report: async (report: Report) => {
        isShown = true;
        await document.report(report);
      },
    };
    const planned = await withCoordinator(context, async (coordinator) => {
      const begun = await coordinator.undo(run.id, { by }, watcher);
      const ended = await begun.ended;
      if (ended.state === "pending" && context.output.interactive) return ended;
      return showRun(context, coordinator, document, { begun, isShown: () => isShown });
    });
    if (typeof planned === "number") return planned;
    context.output.progress();
    if (!isShown) await showKept(context, planned, document);
    if (!(await confirmed(context, questionAbout({})))) return showEnd(document, planned);
    return withCoordinator(context, async (coordinator) => {
      const { progress } = watcher;
      const begun = await coordinator.approve(planned.id, { by, digest: planned.digest ?? "" }, { progress });
      return showRun(context, coordinator, document, { begun, isShown: () => true });
    });
  });
}

/** Shows what comes of a run as the one run of a document. */
async function showing(
  context: Context,
  run: RunRecord,
  options: { readonly limit?: number },
  work: (document: RunDocument) => Promise<ExitCode>,
): Promise<ExitCode> {
  const documents = openDocuments(context.output, options);
  const document = documents.next(run.sync);
  let code: ExitCode;
  try {
    code = await work(document);
  } catch (error) {
    await document.fail(errorDocument(error), { run: run.id });
    code = exitCodeOf(error);
  }
  await documents.end();
  return code;
}

function questionAbout(selection: Selection): string {
  const part = selectionWords(selection);
  return part.length === 0 ? "Apply these changes?" : `Apply a part of these changes (${part.join("; ")})?`;
}

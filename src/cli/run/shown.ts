import { changes } from "#plan/change.ts";
import type { Plan } from "#plan/change.ts";
import { openStored } from "#plan/stored.ts";
import type { Begun, Coordinator } from "#sync/coordinator/coordinator.ts";
import type { RunRecord } from "#sync/record.ts";
import type { Context } from "#cli/context.ts";
import type { RunDocument } from "./documents.ts";
import type { ExportDocument } from "#cli/export/shown.ts";
import { openKeptChanges } from "#cli/look/kept-changes.ts";
import { exitCodes } from "#cli/output.ts";
import type { ExitCode } from "#cli/output.ts";

/** Shows what a run has planned, from what is kept of it; nothing where there is no plan. */
export async function showKept(context: Context, run: RunRecord, document: Pick<RunDocument, "report">): Promise<void> {
  const { sync, target, digest, counts, limits, waiting, notes, kept } = run;
  if (digest === undefined || counts === undefined) return;
  const report = (plan: Plan): Promise<void> => document.report({ sync, target, plan, limits, waiting, notes });
  if (changes(counts) === 0) return report({ digest, counts, changes: async function* () {} });
  if (!kept) return;
  const lists = await openKeptChanges(context);
  try {
    const file = await lists.file(run);
    if (file !== undefined) await report(await openStored(lists.connection, file, { digest, counts }));
  } catch (error) {
    throw lists.problem(error);
  } finally {
    await lists.close();
  }
}

/** Waits for a run to end, and shows what it has planned, unless that is shown already, and how it has ended. */
export async function showRun(
  context: Context,
  coordinator: Coordinator,
  document: RunDocument,
  { begun, isShown }: { readonly begun: Begun; readonly isShown: () => boolean },
): Promise<ExitCode> {
  const run = await begun.ended;
  context.output.progress();
  const others = coordinator.runs();
  if (!isShown()) await showKept(context, others.find(({ id }) => id === run.sameAs) ?? run, document);
  return showEnd(document, run, others);
}

/**
 * Shows how a run has ended.
 * @param others the runs of the journal: one that found the same as another is shown as that
 */
export async function showEnd(
  document: RunDocument,
  run: RunRecord,
  others: readonly RunRecord[] = [],
): Promise<ExitCode> {
  const { id, state, sameAs, error, waiting, expiresAt, recovery } = run;
  const same = sameAs === undefined ? undefined : others.find((other) => other.id === sameAs);
  if (same !== undefined) return showEnd(document, same);
  if (error !== undefined) {
    await document.fail(error, { run: id, ...(recovery === undefined ? {} : { recovery }) });
    // What waits still, after it could not be applied as it was shown, is held by that.
    const isHeld = state === "held" || (state === "pending" && error.advice === "stop");
    return isHeld ? exitCodes.held : exitCodes.failed;
  }
  if (state === "pending") {
    await document.end({ outcome: state, run: id, ...(expiresAt === undefined ? {} : { expiresAt }) });
    return exitCodes.held;
  }
  if (state !== "applied" && state !== "no change") {
    await document.fail({ message: `the run ${id} is ${state}`, problems: [], advice: "stop" }, { run: id });
    return exitCodes.failed;
  }
  const exported = run.export as ExportDocument | undefined;
  await document.end({ outcome: state, run: id, ...(exported === undefined ? {} : { exported }) });
  if (exported?.error !== undefined) return exitCodes.failed;
  return waiting.length > 0 ? exitCodes.held : exitCodes.done;
}

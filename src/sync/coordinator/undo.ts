import { planUndo } from "#sync/plans/undo.ts";
import { isSameTarget } from "#state/record.ts";
import type { Actor } from "#state/record.ts";
import { newRun } from "./begin.ts";
import { findRun } from "./context.ts";
import type { Context } from "./context.ts";
import type { Begun, Watcher } from "./coordinator.ts";
import { start } from "./execute.ts";
import { expire } from "./finish.ts";
import { checkHasApplied, checkSameTarget, checkStored, hasApplied, settingsOfRun } from "./refusals.ts";

export async function undo(
  context: Context,
  id: string,
  { by }: { readonly by: Actor },
  watcher?: Watcher,
): Promise<Begun> {
  await expire(context);
  const { store, plans } = context;
  const undone = findRun(context, id);
  const { sync } = undone;
  checkHasApplied(undone);
  const settings = settingsOfRun(context, undone, "undone");
  checkSameTarget(undone, settings, "undone");
  // What was done at another address of the target is not there to be taken back.
  const later = store.journal.runs.filter(
    (other) => other.sync === sync && other.id >= id && hasApplied(other) && isSameTarget(other, settings),
  );
  checkStored(undone, later);
  const run = newRun(context, sync, { cause: "undo", by, undoes: id, decisions: [] });
  const planner = planUndo(plans, later);
  const options = { approval: "required", settings, storeAs: run.id, planner } as const;
  return start(context, run, options, [{ event: "undone", by, sync, run: run.id, undoes: id }], watcher);
}

import { planUndo } from "#sync/plans/undo.ts";
import type { Actor } from "#state/record.ts";
import { newRun } from "./begin.ts";
import { findRun } from "./context.ts";
import type { Context } from "./context.ts";
import type { Begun, Watcher } from "./coordinator.ts";
import { start } from "./execute.ts";
import { expire } from "./finish.ts";
import { checkSameTarget, checkUndoable, hasApplied, settingsOfRun } from "./refusals.ts";

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
  const later = store.journal.runs.filter((other) => other.sync === sync && other.id >= id && hasApplied(other));
  checkUndoable(undone, later);
  const settings = settingsOfRun(context, undone, "undone");
  for (const each of later) checkSameTarget(each, settings.target, "undone");
  const run = newRun(context, sync, { cause: "undo", by, undoes: id, decisions: [] });
  const planner = planUndo(plans, later);
  const options = { approval: "required", settings, storeAs: run.id, planner } as const;
  return start(context, run, options, [{ event: "undone", by, sync, run: run.id, undoes: id }], watcher);
}

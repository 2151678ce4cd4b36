import { isDeepStrictEqual } from "node:util";
import { messageOf } from "#errors.ts";
import { naming } from "#files/disk.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Run } from "./context.ts";
import { forgetBaseline, renewSettings, storeBaseline } from "#sync/planning/baseline.ts";
import type { Baseline } from "#sync/planning/baseline.ts";
import type { Planned } from "#sync/planning/limits.ts";
import type { Sync } from "./sync.ts";

/** How a run that was applied came out. */
interface Settlement {
  /** Whether the target was changed. */
  readonly changed: boolean;
  /** The entity tag of the list after that. */
  readonly arrived: string | undefined;
  readonly baseline: Baseline | undefined;
}

/** Writes down what the run leaves: what the sync owns, what the next plan finds its causes with, and what it need not read again. */
export async function settle(run: Run, planned: Planned, { changed, arrived, baseline }: Settlement): Promise<void> {
  const { sync, connection, ledger, unchanged, options, now, warnings } = run;
  const gains = !changed && sync.causes && options.for === undefined && (await givesMore(connection, sync));
  const isKnown = !sync.causes || isDeepStrictEqual(baseline?.settings, sync.settings);
  const keep = !changed && !gains && isKnown ? unchanged.fingerprint(planned, warnings) : undefined;
  await ledger.settle({ now, ...planned, run: options.id, keep });
  await keepBaseline(run, baseline, { changed: changed || gains, isOlder: planned.quarantined === undefined });
  try {
    await unchanged.storeList(connection, changed, arrived);
  } catch (error) {
    // The run has succeeded whether that can be written or not.
    run.warn(`the next run lists the target again: ${messageOf(naming(`the folder ${options.files.folder}`, error))}`);
  }
}

/**
 * Stores what the next plan finds its causes with. The run has succeeded whether that can be written or not.
 * @param found.changed the target, or what the sync gives of what is in it
 * @param found.isOlder the plan was stored, or is an undo: no sources were read
 */
async function keepBaseline(
  { sync, options, connection, now, warn }: Run,
  known: Baseline | undefined,
  { changed, isOlder }: { readonly changed: boolean; readonly isOlder: boolean },
): Promise<void> {
  const { id, undoes = false, files } = options;
  // A run for some leaves the rest to the next run, with what has changed since the last one for all.
  const isPart = options.for !== undefined;
  if (!sync.causes || (isPart && (!changed || known === undefined))) return;
  const settings = isPart ? (known?.settings ?? {}) : sync.settings;
  const baseline = { run: id, at: new Date(now).toISOString(), settings };
  try {
    if (changed || known === undefined)
      await storeBaseline(connection, files, sync.name, baseline, {
        undone: undoes,
        isOlder: isOlder && known !== undefined && sync.keepManual.length > 0,
      });
    else await renewSettings(files, sync.name, known, sync.settings);
  } catch (error) {
    warn(`the next plan cannot name its causes: ${messageOf(naming(`the folder ${files.folder}`, error))}`);
    // By an older one, what this run has given would pass for added by hand.
    if (sync.keepManual.length === 0) return;
    await forgetBaseline(files, sync.name).catch(() => undefined);
  }
}

/** Whether the sync gives, or keeps, memberships that the baseline does not have: in a target that had them already. */
async function givesMore(connection: Connection, { keepManual }: Sync): Promise<boolean> {
  if (keepManual.length === 0) return false;
  const rows = await connection.rows(`
    SELECT true FROM (FROM desired SEMI JOIN managed USING (kind, name)) m
    LEFT JOIN baseline_target b ON b.kind = m.kind AND b.name = m.name
    WHERE b.name IS NULL OR NOT list_has_all(b.group_names, m.group_names) LIMIT 1`);
  return rows.length > 0;
}

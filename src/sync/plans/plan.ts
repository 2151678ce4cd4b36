import { HeldError, InputError } from "#errors.ts";
import type { Connection } from "#duckdb/database.ts";
import { createPlan } from "#plan/plan.ts";
import { quoteIfNeeded } from "#text.ts";
import { narrow } from "#plan/selection.ts";
import type { Selection } from "#plan/selection.ts";
import { useThreads } from "#duckdb/database.ts";
import { changes } from "#plan/change.ts";
import { listTarget } from "#sync/planning/desired.ts";
import { planWithinLimits } from "#sync/planning/limited.ts";
import type { Planner } from "#sync/planning/planning.ts";
import type { RunRecord } from "#sync/record.ts";
import type { Store } from "./store.ts";

/**
 * Plans what a run has planned before and has kept: the target is listed again, and what would change then must be what
 * was shown; after that, only what is selected of it.
 */
export function planFromStore(store: Store, run: RunRecord, selection: Selection = {}): Planner {
  return async (sync, workbench, options) => {
    const { connection } = workbench;
    const { signal, progress, history, overrides = [] } = options;
    progress?.("list");
    await listTarget(sync.target, workbench, "actual", signal);
    await useThreads(connection);
    progress?.("plan");
    const { scope } = await store.load(run.id, connection);
    const whole = await createPlan(connection);
    if (whole.digest !== run.digest) throw noLongerShown(run.id, await differences(connection));
    await narrow(connection, selection);
    const limited = await planWithinLimits(connection, sync, { scope, history, overrides });
    if (changes(limited.plan.counts) === 0 && changes(whole.counts) > 0)
      throw new InputError(`nothing of what the run ${run.id} has planned is left by what was chosen of it`);
    return {
      ...limited,
      waiting: [...new Set([...run.waiting, ...limited.waiting])],
      notes: run.notes,
      ...(run.subjects === undefined ? {} : { subjects: run.subjects }),
    };
  };
}

function noLongerShown(id: string, differences: readonly string[]): HeldError {
  return new HeldError(
    `the changes are no longer those that the run ${id} has shown: somebody has changed the target since; nothing was applied. Plan again`,
    differences,
    "digest",
  );
}

/** How many differences are named. */
const most = 20;

/** What is different in the changes now (`changes`, with their sides) from what was shown (`shown`). */
async function differences(connection: Connection): Promise<string[]> {
  const rows = await connection.rows<{ kind: string; name: string; was: string | null; is: string | null }>(`
    WITH present AS (SELECT action, kind, name, before, after FROM change_sides)
    SELECT coalesce(s.kind, p.kind) AS kind, coalesce(s.name, p.name) AS name, s.action AS was, p.action AS is
    FROM shown s FULL JOIN present p ON p.kind = s.kind AND p.name = s.name
    WHERE s.name IS NULL OR p.name IS NULL OR s.action <> p.action
      OR to_json(s.before)::VARCHAR IS DISTINCT FROM to_json(p.before)::VARCHAR
      OR to_json(s.after)::VARCHAR IS DISTINCT FROM to_json(p.after)::VARCHAR
    ORDER BY 1, 2 LIMIT ${most + 1}`);
  const lines = rows.slice(0, most).map(({ kind, name, was, is }) => {
    const who = `${kind} ${quoteIfNeeded(name)}`;
    if (was === null) return `${who}: it would be ${past(is)} now, which was not shown`;
    if (is === null) return `${who}: it was to be ${past(was)}, which is no longer needed`;
    if (was !== is) return `${who}: it was to be ${past(was)}, and would be ${past(is)} now`;
    return `${who}: it was to be ${past(was)}, and is not in the target what it was then`;
  });
  return rows.length > most ? [...lines, "and more"] : lines;
}

function past(action: string | null): string {
  return `${action ?? "left"}d`.replace("leftd", "left alone");
}

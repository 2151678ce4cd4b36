import { literal, useThreads } from "#duckdb/database.ts";
import { firstLineOf, InputError } from "#errors.ts";
import { departureNotes } from "#sync/planning/departure-notes.ts";
import { listTarget } from "#sync/planning/desired.ts";
import { planWithinLimits } from "#sync/planning/limited.ts";
import { told } from "#sync/planning/note.ts";
import type { Planner } from "#sync/planning/planning.ts";
import { counted } from "#text.ts";
import type { Store } from "./store.ts";
import { combineWayBack } from "./way-back.ts";

/**
 * Plans the way back to what the target was before a run: everybody whom it, or a later run of the same sync, has
 * changed is to be what they were. What others have changed since stays, and so does what is protected.
 * @param ids the run, and the later ones of its sync that were applied, oldest first
 */
export function planTheWayBack(store: Store, ids: readonly string[]): Planner {
  return async (sync, workbench, options) => {
    const { connection } = workbench;
    const { signal, progress, history, overrides = [], now = Date.now() } = options;
    progress?.("read");
    try {
      await connection.run(`
        CREATE OR REPLACE TEMP TABLE way_back AS
        SELECT kind, name, min(n) AS n, first(before ORDER BY n) AS before FROM (${each(store, ids, "changes")}) GROUP BY kind, name;
        CREATE OR REPLACE TEMP TABLE owned_then AS
        SELECT o.kind, o.name, o.source, o.source_id FROM (${each(store, ids, "owned")}) o
        JOIN way_back w ON w.kind = o.kind AND w.name = o.name AND w.n = o.n`);
    } catch (error) {
      throw new InputError(
        `what was changed since is not all kept (${firstLineOf(error)}): the way back cannot be planned`,
        { cause: error },
      );
    }
    progress?.("list");
    await listTarget(sync.target, workbench, "actual", signal);
    await useThreads(connection);
    progress?.("plan");
    const { departures, lost } = await combineWayBack(connection, sync, now);
    const limited = await planWithinLimits(connection, sync, { scope: { sizes: [] }, history, overrides });
    const none = { count: 0, examples: [] };
    const { create } = limited.plan.counts.users;
    return {
      ...limited,
      ...told([
        ...departureNotes({ ...departures, renames: none, reused: none, leaving: none }, sync.name),
        ...(create === 0
          ? []
          : [
              `${counted(create, "user")} created anew: their passwords do not come back, nor what the service gave to the ones that were deleted`,
            ]),
        ...(lost === 0
          ? []
          : [
              `${counted(lost, "membership")} left out: somebody has deleted the group since, and it does not come back`,
            ]),
        `as long as the sources and the rules are what they are, the next run of ${sync.name} plans the same changes again; it waits for approval then`,
      ]),
      departures,
    };
  };
}

/** A table of several runs, as rows with their place `n` among them. */
function each(store: Store, ids: readonly string[], table: "changes" | "owned"): string {
  return ids
    .map((id, n) => `SELECT ${n} AS n, * FROM read_parquet(${literal(store.file(id, table))})`)
    .join(" UNION ALL ");
}

import { join } from "node:path";
import { changes } from "#plan/change.ts";
import { createPlan } from "#plan/plan.ts";
import { openWorkbench } from "#plan/workbench.ts";
import { listTarget } from "./desired.ts";
import { openLedger } from "./ledger.ts";
import type { Store } from "./store.ts";
import type { Sync } from "./sync.ts";

/**
 * Finds out what became of a plan that was being applied when its process ended, by reading the target. Where all of it
 * has arrived, what the run would have written into the ledger is written now.
 * @param id of the run, as the store has it
 * @returns `arrived`: all of it. `nothing`: the target is what it was. `neither`: it is something else
 * @throws when the target cannot be read, or the plan is no longer there; then nothing is known
 */
export async function findOut(
  sync: Sync,
  store: Store,
  id: string,
  options: { readonly folder: string; readonly memory: number; readonly signal: AbortSignal; readonly now: number },
): Promise<"arrived" | "nothing" | "neither"> {
  const { folder, memory, signal, now } = options;
  const workbench = await openWorkbench({ folder: join(folder, "work"), memory });
  const { connection } = workbench;
  try {
    const ledger = await openLedger(connection, {
      folder: join(folder, "ledgers"),
      place: sync.place,
      sync: sync.name,
      mode: "write",
      signal,
      now,
    });
    try {
      const { digest, scope, checks, amounts } = await store.load(id, connection);
      await listTarget(sync.target, workbench, "actual", signal);
      const left = await createPlan(connection);
      if (left.digest === digest) return "nothing";
      if (changes(left.counts) > 0) return "neither";
      await ledger.settle({ now, amounts, checks, scope });
      return "arrived";
    } finally {
      await ledger.close().catch(() => undefined);
    }
  } finally {
    await workbench.close();
  }
}

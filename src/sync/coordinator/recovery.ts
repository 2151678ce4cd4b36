import { join } from "node:path";
import { InputError, RefusedError } from "#errors.ts";
import { changes } from "#plan/change.ts";
import { naming } from "#files/disk.ts";
import { writePrincipals } from "#plan/lists.ts";
import { createPlan } from "#plan/plan.ts";
import { openWorkbench } from "#duckdb/workbench.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { listTarget } from "#sync/planning/desired.ts";
import { openLedger } from "#sync/ledger/ledger.ts";
import { passwordOf } from "#sync/sync.ts";
import type { Store } from "#sync/plans/store.ts";
import type { Sync } from "#sync/sync.ts";

export interface FindOutOptions {
  /** The daemon's folder. */
  readonly folder: string;
  /** DuckDB's memory limit, in bytes. */
  readonly memory: number;
  readonly signal: AbortSignal;
  /** When the list was sent, in epoch milliseconds: from then on counts what was changed. */
  readonly sentAt: number;
  /** As what the store has the plan. */
  readonly storedAs: string;
}

/**
 * What became of a list that was sent. `settled`: the run itself had proven that all of it arrived. `arrived`: all of it
 * has. `nothing`: the target is what it was. `neither`: it is something else.
 */
export type Found = "settled" | "arrived" | "nothing" | "neither";

/**
 * Finds out what became of a plan that was being applied when its process ended, or the answer was lost: from the
 * ledger, else by reading the target. Where all of it has arrived, what the run would have written into the ledger is
 * written now.
 * @param run its id
 * @throws when the target cannot be read, or the plan is no longer there; then nothing is known
 */
export async function findOut(sync: Sync, store: Store, run: string, options: FindOutOptions): Promise<Found> {
  const { folder, memory, signal, sentAt, storedAs } = options;
  const workbench = await openWorkbench({ folder: join(folder, "work"), memory });
  const { connection } = workbench;
  try {
    const ledger = await openLedger(connection, {
      folder: join(folder, "ledgers"),
      place: sync.place,
      sync: sync.name,
      mode: "write",
      signal,
      now: sentAt,
    });
    try {
      if (ledger.settled === run) return "settled";
      const { digest, scope, checks, amounts } = await store.load(storedAs, connection);
      await waitForTheOthers(sync, workbench, signal);
      await listTarget(sync.target, workbench, "actual", signal);
      const left = await createPlan(connection);
      if (left.digest === digest) return "nothing";
      if (changes(left.counts) > 0) return "neither";
      await ledger.settle({ run, now: sentAt, amounts, checks, scope });
      return "arrived";
    } finally {
      await ledger.close().catch(() => undefined);
    }
  } catch (error) {
    throw naming(`the folder ${folder}`, error);
  } finally {
    await workbench.close();
  }
}

/**
 * The list may have reached the service, and wait or be worked on there at this moment. A further one queues behind it
 * (B.8), also when nothing is to be applied; a listing does not.
 */
async function waitForTheOthers(sync: Sync, workbench: Workbench, signal: AbortSignal): Promise<void> {
  const principals = workbench.file("desired.json");
  await writePrincipals(workbench.connection, "desired", principals);
  const request = { principals, applyChanges: false, deleteOthers: true, defaultPassword: passwordOf(sync) };
  await sync.target.sync(request, workbench.file("preview.json"), signal).catch((error: unknown) => {
    // What the service thinks of it is of no interest any more.
    if (!(error instanceof RefusedError || error instanceof InputError)) throw error;
  });
}

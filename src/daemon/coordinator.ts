import type { Configuration } from "#config/configuration.ts";
import { LocalCoordinator } from "#sync/coordinator/local.ts";
import type { CoordinatorOptions, SyncSettings } from "#sync/coordinator/context.ts";
import type { Context } from "./context.ts";
import { placeOf } from "./targets.ts";
import { openSync } from "./wiring.ts";
import { exportAfter, exportDocument } from "#daemon/export.ts";
import { ExportRecord } from "#state/exports.ts";
import type { Store } from "#state/store.ts";

/**
 * The coordinator of this process, which must hold the lock of the data folder. Call `recover` first: it finds out what
 * became of runs whose process was killed.
 * @param current gives the current context: the configuration may be reloaded
 */
export async function openLocalCoordinator(
  current: () => Context,
  store: Store,
  options: Pick<CoordinatorOptions, "statusOf" | "now"> = {},
): Promise<LocalCoordinator> {
  const { configuration, interruption } = current();
  const coordinator = new LocalCoordinator({
    ...options,
    store,
    memory: configuration.memory,
    interruption,
    syncs: () => settingsOf(current().configuration),
    open: (name) => {
      const { configuration, embedded, observe } = current();
      return openSync(configuration, name, embedded, observe);
    },
    applying: async (name) => {
      const { configuration } = current();
      // From here on the exported tables are out of date, however this run ends.
      const place = placeOf(configuration, configuration.syncs[name]?.to ?? "");
      await new ExportRecord(store.files, place).invalidate();
    },
    after: async (name, outcome) => {
      const exported = await exportAfter(current(), store.files, name, outcome);
      return exported === undefined ? undefined : exportDocument(exported);
    },
  });
  coordinator.subscribe((event) => {
    const { interruption } = current();
    if (event.type === "run" && event.run.state !== "running" && event.elsewhere !== true)
      interruption.isApplying = false;
    if (event.type === "stage" && event.stage === "apply") interruption.isApplying = true;
  });
  return coordinator;
}

function settingsOf(configuration: Configuration): Readonly<Record<string, SyncSettings>> {
  return Object.fromEntries(
    Object.entries(configuration.syncs).map(([name, { to, approval, approvers, approvalExpires, schedule }]) => {
      const place = placeOf(configuration, to);
      return [name, { target: to, place, approval, approvers, approvalExpires, schedule }];
    }),
  );
}

import type { Configuration } from "#config/configuration.ts";
import { LocalCoordinator } from "#sync/coordinator/local.ts";
import type { CoordinatorOptions, SyncSettings } from "#sync/coordinator/context.ts";
import type { Context } from "./context.ts";
import { daemonFolder } from "./data-folder.ts";
import { openSync, placeOf } from "./wiring.ts";
import { exportAfter, exportDocument, exportRecord } from "#daemon/export.ts";
import type { Records } from "./records.ts";

/**
 * The coordinator of this process, which must hold the lock of the data folder. Call `recover` first: it finds out what
 * became of runs whose process was killed.
 * @param current gives the current context: the configuration may be reloaded
 */
export async function openLocalCoordinator(
  current: () => Context,
  { journal, audit, shared }: Records,
  options: Pick<CoordinatorOptions, "statusOf" | "report" | "now"> = {},
): Promise<LocalCoordinator> {
  const { configuration, interruption } = current();
  const { memory } = configuration;
  const folder = daemonFolder(configuration);
  const coordinator = new LocalCoordinator({
    ...options,
    folder,
    memory,
    journal,
    shared,
    audit,
    interruption,
    syncs: () => settingsOf(current().configuration),
    open: (name) => {
      const { configuration, embedded, observe } = current();
      return openSync(configuration, name, embedded, observe);
    },
    applying: async (name) => {
      const { configuration } = current();
      // From here on the exported tables are out of date, however this run ends.
      exportRecord(configuration, placeOf(configuration, configuration.syncs[name]?.to ?? "")).invalidate();
    },
    after: async (name, outcome) => {
      const exported = await exportAfter(current(), name, outcome);
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
    Object.entries(configuration.syncs).map(([name, { to, approval, approvalExpires, schedule }]) => {
      const place = placeOf(configuration, to);
      return [name, { target: to, place, approval, approvalExpires, schedule }];
    }),
  );
}

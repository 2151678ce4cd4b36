import type { Configuration } from "#config/configuration.ts";
import { openCoordinator } from "#sync/coordinator/coordinate.ts";
import type { CoordinatorOptions, LocalCoordinator, SyncSettings } from "#sync/coordinator/coordinate.ts";
import { daemonFolder } from "#cli/context.ts";
import type { Context } from "#cli/context.ts";
import { exportRecord } from "#cli/export/record.ts";
import { exportDocument } from "#cli/export/shown.ts";
import { exportAfter } from "#cli/export/target.ts";
import { openSync, placeOf } from "#cli/open/sync.ts";
import type { Records } from "#cli/data/records.ts";

/**
 * The coordinator of this process, which must hold the lock of the data folder. What runs then exist that nobody has seen
 * end is to be found out with `recover`.
 * @param current the context as it is now: the configuration may be read again
 */
export async function openLocalCoordinator(
  current: () => Context,
  { journal, audit }: Records,
  options: Pick<CoordinatorOptions, "statusOf" | "report" | "now"> = {},
): Promise<LocalCoordinator> {
  const { configuration, interruption } = current();
  const { memory } = configuration;
  const folder = daemonFolder(configuration);
  const coordinator = await openCoordinator({
    ...options,
    folder,
    memory,
    journal,
    audit,
    interruption,
    syncs: () => settingsOf(current().configuration),
    open: (name) => {
      const { configuration, embedded, observe } = current();
      return openSync(configuration, name, embedded, observe);
    },
    after: async (name, outcome) => {
      const exported = await exportAfter(current(), name, outcome);
      return exported === undefined ? undefined : exportDocument(exported);
    },
  });
  coordinator.subscribe((event) => {
    if (event.type !== "stage" || event.stage !== "apply") return;
    // From here on the tables of an export are behind, whatever becomes of this run.
    const { configuration } = current();
    exportRecord(configuration, placeOf(configuration, configuration.syncs[event.sync]?.to ?? "")).invalidate();
  });
  return coordinator;
}

function settingsOf(configuration: Configuration): Readonly<Record<string, SyncSettings>> {
  return Object.fromEntries(
    Object.entries(configuration.syncs).map(([name, { to, approval, approvalExpires, schedule }]) => {
      const place = placeOf(configuration, to);
      return [name, { target: to, place, approval, approvalExpires, ...(schedule === undefined ? {} : { schedule }) }];
    }),
  );
}

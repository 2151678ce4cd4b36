import { command } from "#commands.ts";
import type { Configuration } from "#config/configuration.ts";
import { InputError } from "#errors.ts";
import { makeFolder } from "#files/disk.ts";
import { startPatiently } from "#postgres/primary.ts";
import { readJournal } from "#state/folder/journal.ts";
import type { Actor } from "#state/record.ts";
import { openSharedAudit } from "#state/postgres/audit.ts";
import { openShared } from "#state/postgres/store.ts";
import type { SharedState } from "#state/postgres/store.ts";
import { localActor } from "./context.ts";
import { daemonFolder, stateFolder } from "./data-folder.ts";
import { lastConfiguration, recordConfiguration } from "./records.ts";
import type { Records } from "./records.ts";

/** The journal and the audit log of the daemons that share their state in PostgreSQL. @throws as `openRecords` does */
export function openSharedRecords(
  configuration: Configuration,
  shared: NonNullable<Configuration["shared"]>,
): Promise<Records> {
  return startPatiently(() => open(configuration, shared), shared.lease);
}

async function open(
  configuration: Configuration,
  { postgres: settings, lease }: NonNullable<Configuration["shared"]>,
): Promise<Records> {
  const folder = daemonFolder(configuration);
  await makeFolder(folder, "the daemon's folder");
  const shared = await openShared(settings, { folder, lease, retention: configuration.journal });
  try {
    await refuseOtherState(stateFolder(configuration), shared);
    const audit = await openSharedAudit(shared.postgres, shared.node);
    const configured = async (configuration: Configuration, by: Actor): Promise<void> => {
      await shared.files.pull([lastConfiguration]);
      await recordConfiguration(configuration, audit, by);
      await shared.files.push([lastConfiguration]);
    };
    await configured(configuration, localActor());
    return {
      journal: shared.journal,
      audit,
      shared,
      configured,
      close: async () => {
        await audit.close();
        await shared.close();
      },
    };
  } catch (error) {
    await shared.close();
    throw error;
  }
}

/** Without its ledger, a sync would not know what it owns; so nothing begins with an empty one by mistake. */
async function refuseOtherState(folder: string, { journal, postgres }: SharedState): Promise<void> {
  if (journal.document.runs.length > 0 || (await readJournal(folder)).runs.length === 0) return;
  throw new InputError(
    `the data folder has the runs of a daemon with its state in the folder ${folder}, and the database ${postgres.place} has none: ` +
      `copy them with \`${command("state copy")}\`, or give this daemon another data folder`,
  );
}

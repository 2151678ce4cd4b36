import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "pino";
import { z } from "zod";
import type { Configuration } from "#config/configuration.ts";
import { differences, fingerprint } from "#config/differences.ts";
import { writeDurably } from "#files/durable.ts";
import { openAudit } from "#state/folder/audit.ts";
import type { Audit } from "#state/folder/audit.ts";
import { readHead } from "#state/folder/audit-head.ts";
import { openJournal } from "#state/folder/journal.ts";
import type { Journal } from "#state/folder/journal.ts";
import type { Actor } from "#state/record.ts";
import type { SharedState } from "#state/postgres/store.ts";
import { localActor } from "./context.ts";
import { daemonFolder } from "./data-folder.ts";

/** The journal and the audit log: of a data folder, whose lock this needs, or of the daemons that share their state. */
export interface Records {
  readonly journal: Journal;
  readonly audit: Audit;
  /** Present: they are in PostgreSQL. */
  readonly shared?: SharedState | undefined;
  /** Records a changed configuration in the audit log, and keeps its secrets out of it from then on. */
  configured(configuration: Configuration, by: Actor): Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens the journal and the audit log, and records the configuration in the log.
 * @throws {InputError} when they cannot be read or written: nothing is done that cannot be recorded
 */
export async function openRecords(configuration: Configuration, log: Logger): Promise<Records> {
  const folder = daemonFolder(configuration);
  const by = localActor();
  if (configuration.shared !== undefined) {
    // Only loaded where it is used, with its driver.
    const { openSharedRecords } = await import("./shared-records.ts");
    return openSharedRecords(configuration, configuration.shared);
  }
  const journal = await openJournal(folder, configuration.journal);
  const expected = await readHead(folder);
  const audit = await openAudit(folder, {
    expected,
    warn: (message) => {
      log.error(message);
    },
  });
  const configured = async (configuration: Configuration, by: Actor): Promise<void> => {
    await recordConfiguration(configuration, audit, by);
  };
  try {
    if (journal.damaged !== undefined) {
      const { keptAs: kept, problem: reason } = journal.damaged;
      log.error(
        `the journal was damaged (${reason}). It was moved to ${kept} in ${folder}, and a new one was started. ` +
          "No run of a sync is applied automatically until somebody has approved one of them",
      );
      await audit.append({ event: "journal damaged", by, kept, reason });
    }
    await configured(configuration, by);
    // A damaged log continues in a new file, whose head is not the one the journal knows.
    if (audit.head().hash !== journal.document.audit?.hash) {
      journal.audited(audit.head());
      await journal.put([]);
    }
    return { journal, audit, configured, close: () => audit.close() };
  } catch (error) {
    await audit.close();
    throw error;
  }
}

/** Its file, below the daemon's folder. */
export const lastConfiguration = "configuration.json";

/**
 * What the next configuration is compared with: `configuration.json`, readable only by its owner. It contains the key of
 * the fingerprints of secrets: with it, passwords can be tried against them. The audit log alone does not allow that.
 */
const record = z.object({
  version: z.literal(1),
  key: z.base64(),
  digest: z.string(),
  settings: z.record(z.string(), z.string()),
});
type LastConfiguration = z.infer<typeof record>;

/**
 * Records in the audit log that the configuration has changed, and how; the first time, or when the record of the last
 * one cannot be read, only its digest. Called at the start and after every reload.
 * @throws {InputError} when the audit log cannot be written
 */
export async function recordConfiguration(
  configuration: Configuration,
  audit: Pick<Audit, "append">,
  by: Actor,
): Promise<void> {
  const file = join(daemonFolder(configuration), lastConfiguration);
  const last = await readLast(file);
  const key = last?.key ?? randomBytes(32).toString("base64");
  const { digest, settings } = fingerprint(configuration, Buffer.from(key, "base64"));
  if (last?.digest === digest) return;
  await audit.append({
    event: "configuration",
    by,
    file: configuration.file,
    before: last?.digest,
    digest,
    differences: last === undefined ? [] : differences(last, { digest, settings }),
  });
  // Last: if the process is killed in between, the change is recorded twice rather than never.
  await writeDurably(file, `${JSON.stringify({ version: 1, key, digest, settings } satisfies LastConfiguration)}\n`);
}

async function readLast(file: string): Promise<LastConfiguration | undefined> {
  try {
    return record.parse(JSON.parse(await readFile(file, "utf8")));
  } catch {
    return undefined;
  }
}

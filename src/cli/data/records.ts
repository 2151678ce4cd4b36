import type { Logger } from "pino";
import type { Configuration } from "#config/configuration.ts";
import { redactor } from "#http/redact.ts";
import { openAudit } from "#sync/audit/audit.ts";
import type { Audit } from "#sync/audit/audit.ts";
import { openJournal } from "#sync/journal/journal.ts";
import type { Journal } from "#sync/journal/journal.ts";
import type { Actor } from "#sync/record.ts";
import { localActor } from "#cli/actor.ts";
import { recordConfiguration } from "./configuration-record.ts";
import { daemonFolder } from "#cli/context.ts";

/** What is remembered of a data folder: the journal and the audit file. Its lock must be held. */
export interface Records {
  readonly journal: Journal;
  readonly audit: Audit;
  /** Another configuration is in force: what is different is told, and none of its secrets is written from then on. */
  configured(configuration: Configuration, by: Actor): Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens the journal and the audit file, and tells in the latter with which configuration.
 * @throws {InputError} when they cannot be read or written: what cannot be told is not done
 */
export async function openRecords(configuration: Configuration, log: Logger): Promise<Records> {
  const folder = daemonFolder(configuration);
  const by = localActor();
  const secrets = new Set<string>();
  let redact = redactor([]);
  const journal = await openJournal(folder, configuration.journal);
  const { audit: expected } = journal.document;
  const audit = await openAudit(folder, {
    ...(expected === undefined ? {} : { expected }),
    redact: (text) => redact(text),
    warn: (message) => {
      log.error(message);
    },
  });
  const configured = async (configuration: Configuration, by: Actor): Promise<void> => {
    for (const secret of configuration.secrets) secrets.add(secret);
    redact = redactor([...secrets]);
    await recordConfiguration(configuration, audit, by);
  };
  try {
    if (journal.damaged !== undefined) {
      const { keptAs: kept, problem: reason } = journal.damaged;
      log.error(
        `the journal was damaged (${reason}): it is kept as ${kept} in ${folder}, and a new one is begun. ` +
          "Until somebody approves a run of a sync, none of it is applied by itself",
      );
      await audit.append({ event: "journal damaged", by, kept, reason });
    }
    await configured(configuration, by);
    // Where the file was damaged, another one continues: what is known of the old one's end is not true of it.
    if (audit.head().hash !== expected?.hash) {
      journal.audited(audit.head());
      await journal.put([]);
    }
    return { journal, audit, configured, close: () => audit.close() };
  } catch (error) {
    await audit.close();
    throw error;
  }
}

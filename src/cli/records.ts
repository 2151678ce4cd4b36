import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "pino";
import { z } from "zod";
import type { Configuration } from "#config/configuration.ts";
import { differences, fingerprint } from "#config/differences.ts";
import { writeDurably } from "#files/durable.ts";
import { redactor } from "#http/redact.ts";
import { openAudit } from "#sync/audit/audit.ts";
import type { Audit } from "#sync/audit/audit.ts";
import { openJournal } from "#sync/journal.ts";
import type { Journal } from "#sync/journal.ts";
import type { Actor } from "#sync/record.ts";
import { localActor } from "./context.ts";
import { daemonFolder } from "./data-folder.ts";

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

/**
 * What the next configuration is compared with: `configuration.json`, readable by its owner alone. Who has it has the
 * key too, and can try passwords against the marks of secrets; the audit file is no use for that.
 */
const record = z.object({
  version: z.literal(1),
  key: z.base64(),
  digest: z.string(),
  settings: z.record(z.string(), z.string()),
});
type LastConfiguration = z.infer<typeof record>;

/**
 * Tells in the audit file that the configuration is another one than the last time, and what is different; the first
 * time, or when what was known of the last one cannot be read, only what its digest is. To be called at the start and
 * after every reload, by the process that has the audit file open.
 * @throws {InputError} when the audit file cannot be written
 */
async function recordConfiguration(
  configuration: Configuration,
  audit: Pick<Audit, "append">,
  by: Actor,
): Promise<void> {
  const file = join(daemonFolder(configuration), "configuration.json");
  const last = await readLast(file);
  const key = last?.key ?? randomBytes(32).toString("base64");
  const { digest, settings } = fingerprint(configuration, Buffer.from(key, "base64"));
  if (last?.digest === digest) return;
  await audit.append({
    event: "configuration",
    by,
    file: configuration.file,
    ...(last === undefined ? {} : { before: last.digest }),
    digest,
    differences: last === undefined ? [] : differences(last, { digest, settings }),
  });
  // Only now: when the process is killed in between, it is told twice rather than never.
  await writeDurably(file, `${JSON.stringify({ version: 1, key, digest, settings } satisfies LastConfiguration)}\n`);
}

async function readLast(file: string): Promise<LastConfiguration | undefined> {
  try {
    return record.parse(JSON.parse(await readFile(file, "utf8")));
  } catch {
    return undefined;
  }
}

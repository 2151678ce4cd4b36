import type { Logger } from "pino";
import type { Configuration } from "#config/configuration.ts";
import { redactor } from "#config/redact.ts";
import { type Audit, openAudit } from "#sync/audit.ts";
import type { AuditOptions } from "#sync/audit.ts";
import type { Actor } from "#sync/record.ts";
import { localActor } from "./actor.ts";
import { recordConfiguration } from "./configuration-record.ts";
import { daemonFolder } from "./context.ts";

/** The audit file as the daemon has it. */
export interface DaemonAudit extends Audit {
  /** Another configuration is in force: what is different is told, and none of its secrets is written from then on. */
  configured(configuration: Configuration, by: Actor): Promise<void>;
}

/**
 * Opens the audit file for the daemon, and tells in it that the daemon has started, and with which configuration.
 * @throws {InputError} when it cannot be read or written: what cannot be told is not done
 */
export async function openDaemonAudit(
  configuration: Configuration,
  log: Logger,
  known: Pick<AuditOptions, "expected"> = {},
): Promise<DaemonAudit> {
  const by = localActor();
  const secrets = new Set<string>();
  let redact = redactor([]);
  const audit = await openAudit(daemonFolder(configuration), {
    ...known,
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
    await audit.append({ event: "started", by, process: process.pid });
    await configured(configuration, by);
    return { ...audit, configured };
  } catch (error) {
    await audit.close();
    throw error;
  }
}

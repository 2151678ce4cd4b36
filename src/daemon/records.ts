import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "pino";
import { z } from "zod";
import type { Configuration } from "#config/configuration.ts";
import { differences, fingerprint } from "#config/differences.ts";
import { writeDurably } from "#files/durable.ts";
import { FolderStore } from "#state/folder/store.ts";
import type { PostgresStore } from "#state/postgres/store.ts";
import type { Actor } from "#state/record.ts";
import { paths } from "#state/store.ts";
import type { Store, StoreOptions } from "#state/store.ts";
import { localActor } from "./context.ts";
import { daemonFolder } from "./data-folder.ts";

/** Where the state is. */
export type OpenedStore = FolderStore | PostgresStore;

/**
 * Opens the state of a configuration to write it: in the data folder, whose lock this needs, or in PostgreSQL. Records in
 * the audit log what was wrong with it, and the configuration.
 * @throws {InputError} when it cannot be read or written: nothing is done that cannot be recorded
 */
export async function openStore(configuration: Configuration, log: Logger): Promise<OpenedStore> {
  if (configuration.shared === undefined) return open(configuration, log);
  // Only loaded where it is used, with its driver.
  const { startPatiently } = await import("#postgres/primary.ts");
  return startPatiently(() => open(configuration, log), configuration.shared.lease);
}

async function open(configuration: Configuration, log: Logger): Promise<OpenedStore> {
  const { shared, journal: retention } = configuration;
  const warn = (message: string): void => log.error(message);
  const options = { folder: daemonFolder(configuration), retention, warn };
  const store = shared === undefined ? await openInFolder(options) : await openShared(shared, options);
  try {
    await recordConfiguration(configuration, store, localActor());
    return store;
  } catch (error) {
    await store.close();
    throw error;
  }
}

async function openShared(
  { postgres, lease }: NonNullable<Configuration["shared"]>,
  options: StoreOptions,
): Promise<PostgresStore> {
  const { PostgresStore } = await import("#state/postgres/store.ts");
  return PostgresStore.open(postgres, lease, options);
}

async function openInFolder(options: StoreOptions): Promise<FolderStore> {
  const store = await FolderStore.open(options);
  const { damaged } = store.journal;
  if (damaged === undefined) return store;
  const { keptAs: kept, problem: reason } = damaged;
  options.warn(
    `the journal was damaged (${reason}). It was moved to ${kept} in ${options.folder}, and a new one was started. ` +
      "No run of a sync is applied automatically until one has been approved",
  );
  try {
    await store.audit.append({ event: "journal damaged", by: localActor(), kept, reason });
    return store;
  } catch (error) {
    await store.close();
    throw error;
  }
}

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
  { audit, files }: Pick<Store, "audit" | "files">,
  by: Actor,
): Promise<void> {
  const file = join(files.folder, ...paths.configuration);
  await files.fetch(paths.configuration);
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
  await files.save(paths.configuration);
}

async function readLast(file: string): Promise<LastConfiguration | undefined> {
  try {
    return record.parse(JSON.parse(await readFile(file, "utf8")));
  } catch {
    return undefined;
  }
}

/** Records in the audit log that this process has started. */
export async function recordStart({ audit, isShared }: OpenedStore): Promise<void> {
  const record = (): Promise<void> => audit.append({ event: "started", by: localActor(), process: process.pid });
  if (!isShared) return record();
  const { startPatiently } = await import("#postgres/primary.ts");
  return startPatiently(record);
}

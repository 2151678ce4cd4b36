import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { Configuration } from "#config/configuration.ts";
import { differences, fingerprint } from "#config/fingerprint.ts";
import { writeDurably } from "#files/durable.ts";
import type { Audit } from "#sync/audit/audit.ts";
import type { Actor } from "#sync/record.ts";
import { daemonFolder } from "#cli/context.ts";

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
export async function recordConfiguration(
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

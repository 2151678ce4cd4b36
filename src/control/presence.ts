import { createHmac } from "node:crypto";
import { dirname, join } from "node:path";
import { z } from "zod";
import type { Configuration } from "#config/configuration.ts";
import { makeFolder } from "#files/disk.ts";
import { presenceFile } from "#files/presence.ts";

/**
 * What a running daemon tells the commands on the same data folder: `daemon/control.json`, readable by its owner alone.
 */
const presence = z.object({
  pid: z.int(),
  url: z.url(),
  startedAt: z.iso.datetime(),
  /** Opens its API as long as the process lives. */
  token: z.string(),
  /** The server's own certificate in PEM form, when it serves over TLS: that one and no other. */
  certificate: z.string().exactOptional(),
});
export type DaemonPresence = z.infer<typeof presence>;

const fileOf = (data: string): string => join(data, "daemon", "control.json");

const file = presenceFile(presence, fileOf);

export const { withdraw: withdrawDaemon, read: readDaemonPresence } = file;

/** Writes the file, in a folder that may not be there yet. */
export async function announceDaemon(data: string, value: DaemonPresence): Promise<void> {
  await makeFolder(dirname(fileOf(data)), "the daemon's folder");
  await file.announce(data, value);
}

/**
 * Tells whether two processes have the same configuration. The files that it names are not in it, but for the secrets.
 * @param token the daemon's: whoever does not know it learns nothing of secrets from the digest
 */
export function configurationDigest(configuration: Configuration, token: string): string {
  const { sources, ...rest } = configuration;
  const plain = Object.entries(sources).map(([name, { connector, ...source }]) => [name, connector.name, source]);
  return createHmac("sha256", token)
    .update(JSON.stringify([rest, plain]))
    .digest("hex");
}

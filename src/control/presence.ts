import { createHmac } from "node:crypto";
import { dirname, join } from "node:path";
import { z } from "zod";
import type { Configuration } from "#config/configuration.ts";
import { makeFolder } from "#files/disk.ts";
import { presenceFile } from "#files/presence.ts";

/**
 * How commands on the same data folder find a running daemon: `daemon/control.json`, readable only by its owner.
 */
const presence = z.object({
  pid: z.int(),
  url: z.url(),
  startedAt: z.iso.datetime(),
  /** Valid for its API as long as the process lives. */
  token: z.string(),
  /** The server's certificate in PEM form, when it uses TLS. Clients accept only this one. */
  certificate: z.string().exactOptional(),
});
export type DaemonPresence = z.infer<typeof presence>;

const fileOf = (data: string): string => join(data, "daemon", "control.json");

const file = presenceFile(presence, fileOf);

export const { renew: renewDaemonPresence, withdraw: withdrawDaemon, read: readDaemonPresence } = file;

/** Writes the file, and its folder if that is missing. */
export async function announceDaemon(data: string, value: DaemonPresence): Promise<void> {
  await makeFolder(dirname(fileOf(data)), "the daemon's folder");
  await file.announce(data, value);
}

/**
 * Equal for two processes with the same configuration. Of the files it names, it covers only secrets.
 * @param token the daemon's; without it, the digest reveals nothing about secrets
 */
export function configurationDigest(configuration: Configuration, token: string): string {
  // Not its text: comments make no other configuration.
  const { sources, text: _text, ...rest } = configuration;
  const plain = Object.entries(sources).map(([name, { connector, ...source }]) => [name, connector.name, source]);
  return createHmac("sha256", token)
    .update(JSON.stringify([rest, plain]))
    .digest("hex");
}

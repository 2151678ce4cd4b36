import { dirname, join } from "node:path";
import { z } from "zod";
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

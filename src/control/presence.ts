import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { makeFolder } from "#plan/folder.ts";

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

function fileOf(data: string): string {
  return join(data, "daemon", "control.json");
}

/** Writes the file. Whoever reads it while it is written finds the one from before, or none. */
export async function announceDaemon(data: string, value: DaemonPresence): Promise<void> {
  const file = fileOf(data);
  await makeFolder(dirname(file), "the daemon's folder");
  const temporary = `${file}.${process.pid}`;
  // One that a killed process has left could have another mode.
  await rm(temporary, { force: true });
  await writeFile(temporary, `${JSON.stringify(value)}\n`, { mode: 0o600, flag: "wx" });
  await rename(temporary, file);
}

/** Removes the file, when it is this process's. */
export async function withdrawDaemon(data: string): Promise<void> {
  const current = await readDaemonPresence(data);
  if (current?.pid === process.pid) await rm(fileOf(data), { force: true });
}

/** What the file says, whether or not that process still runs; undefined when there is none or it cannot be read. */
export async function readDaemonPresence(data: string): Promise<DaemonPresence | undefined> {
  try {
    return presence.parse(JSON.parse(await readFile(fileOf(data), "utf8")));
  } catch {
    return undefined;
  }
}

import { open, readFile, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { naming } from "./disk.ts";

/**
 * Writes a small file that only its owner may read: after a crash there is this one or the one before it, whole.
 * @throws {UnavailableError} when the disk is full; the library's error otherwise
 */
export async function writeDurably(file: string, text: string): Promise<void> {
  const beside = `${file}.new`;
  const handle = await open(beside, "w", 0o600);
  try {
    // One that was there could have another mode.
    await handle.chmod(0o600);
    await handle.writeFile(text);
    await handle.sync();
    await handle.close();
    await rename(beside, file);
  } catch (error) {
    await handle.close().catch(() => undefined);
    // On a full disk it would keep what little place there is.
    await rm(beside, { force: true }).catch(() => undefined);
    throw naming(file, error);
  }
  await syncFolder(dirname(file));
}

/** What a small file of JSON says; undefined where there is none, or none that can be read. */
export async function readJson(file: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(file, "utf8")) as unknown;
  } catch {
    return undefined;
  }
}

/** Makes what was renamed or created in a folder survive a power failure. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

import { randomUUID } from "node:crypto";
import { link, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { exists, naming } from "./disk.ts";

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
  await using handle = await open(folder);
  await handle.sync();
}

/**
 * Makes a file where there is none, whole or not at all: a library that writes into a new file under its own name leaves
 * something that can never be opened again when its process is killed meanwhile. Who comes second finds the file of the
 * first.
 * @param create makes it under another name, so that it survives a power failure
 */
export async function createWhole(path: string, create: (beside: string) => Promise<void>): Promise<void> {
  const folder = dirname(path);
  await removeAbandoned(folder, basename(path));
  if (await exists(path)) return;
  const beside = `${path}.${process.pid}-${randomUUID()}.new`;
  try {
    await create(beside);
    // Unlike a rename it does not take the place of what another process has made, and perhaps locked, in the meantime.
    await link(beside, path).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    });
  } finally {
    await rm(beside, { force: true });
  }
  await syncFolder(folder);
}

async function removeAbandoned(folder: string, name: string): Promise<void> {
  for (const other of await readdir(folder)) {
    const pid = other.startsWith(`${name}.`) ? /\.(\d+)-[^.]+\.new$/.exec(other)?.[1] : undefined;
    if (pid !== undefined && !isAlive(Number(pid))) await rm(join(folder, other), { force: true });
  }
}

/** Is there a process with this id on this machine? */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

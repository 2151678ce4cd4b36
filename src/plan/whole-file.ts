import { randomUUID } from "node:crypto";
import { link, readdir, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isAlive } from "./alive.ts";
import { syncFolder } from "./durable.ts";
import { exists } from "./folder.ts";

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

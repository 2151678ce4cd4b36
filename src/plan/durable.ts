import { open, rename } from "node:fs/promises";
import { dirname } from "node:path";

/** Writes a small file that only its owner may read: after a crash there is this one or the one before it, whole. */
export async function writeDurably(file: string, text: string): Promise<void> {
  const beside = `${file}.new`;
  const handle = await open(beside, "w", 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(beside, file);
  await syncFolder(dirname(file));
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

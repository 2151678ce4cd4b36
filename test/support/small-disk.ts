import { execFile } from "node:child_process";
import { mkdir, rm, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Mounting needs root and a kernel that allows it. */
export const canMount = await run("unshare", ["-m", "sh", "-c", "mount -t tmpfs -o size=64k tmpfs /mnt"]).then(
  () => true,
  () => false,
);

/** A folder on a small disk of its own. */
export interface SmallDisk extends AsyncDisposable {
  readonly folder: string;
  /** Fills it up to at most this many free bytes. */
  fill(left: number): Promise<void>;
  /** Frees the space again. */
  empty(): Promise<void>;
  /** In bytes. */
  free(): Promise<number>;
}

/** @param size as `mount` has it, like `32m` */
export async function mountSmallDisk(folder: string, size: string): Promise<SmallDisk> {
  await mkdir(folder, { recursive: true });
  await run("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", folder]);
  const filler = join(folder, "filler");
  const free = async (): Promise<number> => {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  };
  return {
    folder,
    free,
    fill: async (left) => writeFile(filler, Buffer.alloc(Math.max(0, (await free()) - left))),
    empty: () => rm(filler, { force: true }),
    [Symbol.asyncDispose]: async () => {
      await run("umount", ["-l", folder]);
    },
  };
}

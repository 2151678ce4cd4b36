import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { rm, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { into, startLoadService } from "./loading.ts";
import type { LoadService } from "./loading.ts";

const run = promisify(execFile);
/** A file system of its own needs root, and a kernel that lets it. */
const canMount = await run("unshare", ["-m", "sh", "-c", "mount -t tmpfs -o size=64k tmpfs /mnt"]).then(
  () => true,
  () => false,
);

/** A service whose data are on a disk of 32 MiB, and the folder of the disk. */
async function start(): Promise<{ service: LoadService; folder: string }> {
  let folder = "";
  const service = await startLoadService({ service: { loads: { minFreeDisk: "1KiB" } } }, async (data) => {
    folder = data;
    await run("mount", ["-t", "tmpfs", "-o", "size=32m", "tmpfs", data]);
    onTestFinished(async () => {
      await run("umount", ["-l", data]);
      await rm(data, { recursive: true, force: true });
    });
  });
  onTestFinished(() => service.stop());
  return { service, folder };
}

/** Rows that cannot be compressed. */
function rows(bytes: number): string {
  const line = (i: number): string => `${i},${randomBytes(750).toString("base64")}\n`;
  return Array.from({ length: Math.floor(bytes / 1007) }, (_, i) => line(i)).join("");
}

/** Leaves so many bytes of the disk, and returns the file that takes the others. */
async function fill(folder: string, left: number): Promise<string> {
  const file = join(folder, "filler");
  const { bavail, bsize } = await statfs(folder);
  await writeFile(file, Buffer.alloc(bavail * bsize - left));
  return file;
}

describe.skipIf(!canMount)("a disk that is full (a tmpfs, mounted by root)", () => {
  test("an upload is a 507, nothing of it is kept, and the cycle goes on", async () => {
    const { service } = await start();
    const id = await service.start();
    await service.upload(id, "1,one\n");
    const refused = await service.upload(id, rows(40 * 2 ** 20));
    expect(refused).toMatchObject({
      status: 507,
      text: "There is not enough free disk space for the data. Nothing of it was kept.",
    });
    expect(await service.chunkFiles(id)).toHaveLength(1);
    expect(await service.status(id)).toMatchObject({ internal_stage: "INGESTING", bytes_written: "6" });
    // At once: what the upload took is free again.
    expect(await service.commit(id)).toMatchObject({ status: 202 });
    expect(await service.ended(id)).toMatchObject({ status: { code: "OK" }, rows_written: "1" });
  });

  test("a commit is a 507, and can be made again", async () => {
    const { service, folder } = await start();
    const id = await service.start();
    expect(await service.upload(id, "1,one\n")).toMatchObject({ status: 202 });
    const filler = await fill(folder, 0);
    expect(await service.commit(id)).toMatchObject({ status: 507 });
    expect(await service.status(id)).toMatchObject({ internal_stage: "INGESTING", bytes_written: "6" });
    await rm(filler);
    await service.commit(id);
    expect(await service.ended(id)).toMatchObject({ status: { code: "OK" }, rows_written: "1" });
  });

  test.each([{}, { max_ignored_rows: 1 }])(
    "A.15 a load that does not fit leaves the table as it was and says why, and the service goes on: %j",
    async (options) => {
      const { service, folder } = await start();
      expect(await service.load(into(), "1,one\n")).toMatchObject({ status: { code: "OK" } });
      const id = await service.start(into("t", { load_options: { ...options, empty_target: true } }));
      const bad = Object.keys(options).length > 0 ? "bad,row\n" : "";
      expect(await service.upload(id, rows(8 * 2 ** 20) + bad)).toMatchObject({ status: 202 });
      const filler = await fill(folder, 2 * 2 ** 20);
      await service.commit(id);
      const { internal_stage: stage, status, rows_written: written } = await service.ended(id);
      expect({ stage, code: status.code, written }).toEqual({ stage: "DONE", code: "LOAD_FAILED", written: "0" });
      expect(status.message).toBe("There is not enough free disk space for the data. Nothing of it was kept.");
      await rm(filler);
      expect(await service.load(into(), "2,two\n")).toMatchObject({ status: { code: "OK" }, rows_written: "1" });
      await service.stop();
      expect(await service.rows("SELECT id, name FROM t ORDER BY id")).toEqual([
        { id: 1n, name: "one" },
        { id: 2n, name: "two" },
      ]);
    },
  );
});

import { randomBytes } from "node:crypto";
import { rm } from "node:fs/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { canMount, mountSmallDisk } from "../support/small-disk.ts";
import type { SmallDisk } from "../support/small-disk.ts";
import { into, startLoadService } from "../e2e/interface/loading.ts";
import type { LoadService } from "../e2e/interface/loading.ts";

/** A service whose data are on a disk of 32 MiB. */
async function start(): Promise<{ service: LoadService; disk: SmallDisk }> {
  const mounted = Promise.withResolvers<SmallDisk>();
  const service = await startLoadService({ service: { loads: { minFreeDisk: "1KiB" } } }, async (data) => {
    const disk = await mountSmallDisk(data, "32m");
    mounted.resolve(disk);
    onTestFinished(async () => {
      await disk[Symbol.asyncDispose]();
      await rm(data, { recursive: true, force: true });
    });
  });
  onTestFinished(() => service.stop());
  return { service, disk: await mounted.promise };
}

/** Rows that cannot be compressed. */
function rows(bytes: number): string {
  const line = (i: number): string => `${i},${randomBytes(750).toString("base64")}\n`;
  return Array.from({ length: Math.floor(bytes / 1007) }, (_, i) => line(i)).join("");
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
    const { service, disk } = await start();
    const id = await service.start();
    expect(await service.upload(id, "1,one\n")).toMatchObject({ status: 202 });
    await disk.fill(0);
    expect(await service.commit(id)).toMatchObject({ status: 507 });
    expect(await service.status(id)).toMatchObject({ internal_stage: "INGESTING", bytes_written: "6" });
    await disk.empty();
    await service.commit(id);
    expect(await service.ended(id)).toMatchObject({ status: { code: "OK" }, rows_written: "1" });
  });

  test.each([{}, { max_ignored_rows: 1 }])(
    "A.15 a load that does not fit leaves the table as it was and says why, and the service goes on: %j",
    async (options) => {
      const { service, disk } = await start();
      expect(await service.load(into(), "1,one\n")).toMatchObject({ status: { code: "OK" } });
      const id = await service.start(into("t", { load_options: { ...options, empty_target: true } }));
      const bad = Object.keys(options).length > 0 ? "bad,row\n" : "";
      expect(await service.upload(id, rows(8 * 2 ** 20) + bad)).toMatchObject({ status: 202 });
      await disk.fill(2 * 2 ** 20);
      await service.commit(id);
      const { internal_stage: stage, status, rows_written: written } = await service.ended(id);
      expect({ stage, code: status.code, written }).toEqual({ stage: "DONE", code: "LOAD_FAILED", written: "0" });
      expect(status.message).toBe("There is not enough free disk space for the data. Nothing of it was kept.");
      await disk.empty();
      expect(await service.load(into(), "2,two\n")).toMatchObject({ status: { code: "OK" }, rows_written: "1" });
      await service.stop();
      expect(await service.rows("SELECT id, name FROM t ORDER BY id")).toEqual([
        { id: 1n, name: "one" },
        { id: 2n, name: "two" },
      ]);
    },
  );
});

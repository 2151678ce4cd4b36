import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { into, startLoadService } from "./loading.ts";
import type { LoadService } from "./loading.ts";

const plainText = { "content-type": "text/plain; charset=utf-8" };

describe("limits of uploads", () => {
  let service: LoadService;

  beforeAll(async () => {
    service = await startLoadService({ service: { loads: { maxChunk: "4KiB", maxCycle: "8KiB" } } });
  });

  afterAll(() => service.end());

  const rows = (bytes: number): string => "1,one\n".repeat(Math.ceil(bytes / 6)).slice(0, bytes);

  test("a chunk that is too large is a 413, and the cycle goes on", async () => {
    const id = await service.start();
    expect(await service.upload(id, rows(4096))).toMatchObject({ status: 202 });
    const refused = await service.upload(id, rows(4097));
    expect(refused).toMatchObject({ status: 413, headers: plainText });
    expect(refused.text).toContain("4096 bytes");
    expect(await service.status(id)).toMatchObject({ bytes_written: "4096", buffered_bytes_size: "4096" });
  });

  test("a chunk far too large is a 413 to a client that sends all of it first", async () => {
    const id = await service.start();
    expect(await service.upload(id, rows(20_000_000))).toMatchObject({ status: 413 });
  });

  test("chunks that are too large together are a 413; one that replaces another counts once", async () => {
    const id = await service.start();
    const first = { "x-ts-chunk-id": "1" };
    expect(await service.upload(id, rows(4096), first)).toMatchObject({ status: 202 });
    expect(await service.upload(id, rows(4096))).toMatchObject({ status: 202 });
    const refused = await service.upload(id, "1");
    expect(refused).toMatchObject({ status: 413, headers: plainText });
    expect(refused.text).toContain("8192 bytes");
    expect(await service.upload(id, rows(4096), first)).toMatchObject({ status: 202 });
    expect(await service.upload(id, rows(2048), first)).toMatchObject({ status: 202 });
    expect(await service.status(id)).toMatchObject({ bytes_written: "6144" });
  });

  test("a body of StartLoad that is too large is a 413", async () => {
    const body = into("t", { padding: "x".repeat(70_000) });
    expect(await service.call("POST", "/public/loads", { body })).toMatchObject({ status: 413, headers: plainText });
  });
});

test("a disk that would be too full is a 507, and nothing is kept", async () => {
  const service = await startLoadService({ service: { loads: { minFreeDisk: "1024TiB" } } });
  const id = await service.start();
  expect(await service.upload(id, "1,one\n")).toMatchObject({
    status: 507,
    headers: plainText,
    text: "There is not enough free disk space for the data. Nothing of it was kept.",
  });
  expect(await service.status(id)).toMatchObject({ bytes_written: "0", buffered_bytes_size: "0" });
  await service.end();
});

describe("A.24 cycles expire", () => {
  test("those not committed, and those that have ended, across restarts", async () => {
    const options = { service: { loads: { expireAfter: "3s" } } };
    let service = await startLoadService(options);
    const open = await service.start();
    await service.upload(open, "1,one\n");
    const { cycle_id: done } = await service.load(into(), "1,one\n");
    service = await service.restart("stop", options);
    for (const id of [open, done]) {
      await expect
        .poll(() => service.call("GET", `/loads/${id}`))
        .toMatchObject({ status: 400, text: `Cycle_id=[${id}] does not exist.` });
    }
    expect(await service.commit(open)).toMatchObject({ status: 500 });
    expect(await service.badRecords(done)).toMatchObject({ status: 500 });
    expect((await service.call("GET", "/public/loads")).text).toBe("[]");
    await expect.poll(() => service.folders()).toEqual([]);
    await service.end();
  });
});

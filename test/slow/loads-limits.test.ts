import { randomUUID } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaultParameters } from "../fixtures/load-parameters.ts";
import { into, startLoadService } from "../e2e/interface/loading.ts";
import type { LoadService } from "../e2e/interface/loading.ts";

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

test("A.24 a load that has ended leaves no file but its rejected rows, and is remembered all the same, across restarts", async () => {
  let service = await startLoadService();
  const ended: string[] = [];
  for (let number = 0; number < 5; number++) {
    ended.push((await service.load(into(), `${number},one\n`)).cycle_id);
  }
  const cancelled = await service.start();
  await service.upload(cancelled, "1,one\n");
  await service.cancel(cancelled);
  const body = into("t", { load_options: { max_ignored_rows: 1 } });
  const { cycle_id: partly } = await service.load(body, "1,one\nno,two\n");
  const open = await service.start();
  const all = [...ended, cancelled, partly, open];
  const statuses = async (): Promise<unknown> =>
    JSON.parse((await service.call("GET", "/public/loads")).text) as unknown;
  const before = await statuses();
  for (const how of ["stop", "kill"] as const) {
    expect((await service.folders()).toSorted()).toEqual([partly, open].toSorted());
    expect(((await statuses()) as { cycle_id: string }[]).map((status) => status.cycle_id)).toEqual(all);
    expect(await statuses()).toEqual(before);
    expect((await service.badRecords(partly)).text).toBe("no,two\n");
    expect(await service.commit(ended[0] ?? "")).toMatchObject({ status: 202 });
    expect(await service.cancel(ended[0] ?? "")).toMatchObject({ status: 200 });
    expect(await service.upload(ended[0] ?? "", "1,one\n")).toMatchObject({ status: 400 });
    expect((await service.call("GET", `/public/loads/${ended[0]}/input_summary`)).status).toBe(200);
    // What a process killed in between leaves of a load that has ended.
    await leave(service, { id: ended[0], stage: "COMMITTING", chunks: ["000000000001"] });
    service = await service.restart(how);
  }
  expect(await statuses()).toEqual(before);
  const old = randomUUID();
  const outcome = { code: "OK", ended: Date.now(), rowsWritten: 7, ignoredRows: 0, errors: [] };
  await leave(service, { id: old, stage: "DONE", received: { bytes: 3, until: Date.now() }, outcome });
  service = await service.restart("stop");
  expect(await service.status(old)).toMatchObject({ internal_stage: "DONE", rows_written: "7" });
  expect((await service.folders()).toSorted()).toEqual([partly, open].toSorted());
  await service.end();
});

/** Leaves the folder of a cycle as Rollcall 0.1.0 wrote it. */
async function leave(service: LoadService, record: Readonly<Record<string, unknown>>): Promise<void> {
  const folder = join(service.service.data, "service", "loads", String(record["id"]));
  await mkdir(join(folder, "chunks"), { recursive: true });
  await writeFile(join(folder, "chunks", "000000000001"), "1,one\n");
  const rest = { owner: "nobody", parameters: defaultParameters, started: Date.now() };
  const text = JSON.stringify({ ...rest, ...record });
  // A kill between writing it and renaming it leaves both.
  for (const name of ["cycle.json", "cycle.json.new"]) await writeFile(join(folder, name), text);
}

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

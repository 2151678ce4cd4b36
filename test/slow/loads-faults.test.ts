import { connect } from "node:net";
import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { into, multipart, multipartType, startLoadService } from "../e2e/interface/loading.ts";
import type { Loading, LoadService } from "../e2e/interface/loading.ts";

let service: LoadService;

afterEach(() => service.end());

/** Rows of the table `t`, numbered from `first` on. */
function rows(count: number, first = 0): string {
  return Array.from({ length: count }, (_, index) => `${first + index},${"x".repeat(40)}\n`).join("");
}

/** Begins an upload and sends all but the end of it. */
async function beginUpload(
  { url, session }: Loading,
  id: string,
  data: string,
): Promise<{ socket: Socket; rest: Buffer }> {
  const { hostname, port, host } = new URL(url);
  const body = multipart({ data });
  const socket = connect(Number(port), hostname);
  socket.on("error", () => undefined);
  await new Promise((resolve) => socket.once("connect", resolve));
  const head = [
    `POST /ts_dataservice/v1/public/loads/${id} HTTP/1.1`,
    `Host: ${host}`,
    `Cookie: JSESSIONID=${session}`,
    `Content-Type: ${multipartType}`,
    `Content-Length: ${body.length}`,
    "Connection: close",
  ].join("\r\n");
  socket.write(`${head}\r\n\r\n`);
  socket.write(body.subarray(0, -80));
  return { socket, rest: body.subarray(-80) };
}

/** What is answered until the connection is closed; the rest of the request may no longer be wanted then. */
async function readAll(socket: Socket): Promise<string> {
  let text = "";
  socket.on("data", (piece) => (text += String(piece)));
  await new Promise((resolve) => socket.once("close", resolve));
  return text;
}

/** Waits until an upload is arriving. */
async function arriving(loading: Loading, id: string): Promise<void> {
  await expect.poll(async () => (await loading.status(id)).buffered_bytes_size).not.toBe("0");
}

async function count(where = "true"): Promise<bigint | undefined> {
  const [row] = (await service.rows(`SELECT count(*) AS n FROM t WHERE ${where}`)) as { n: bigint }[];
  return row?.n;
}

describe("an upload that does not end", () => {
  test("leaves nothing when its client goes away", async () => {
    service = await startLoadService();
    const id = await service.start();
    const { socket } = await beginUpload(service, id, rows(100_000));
    await arriving(service, id);
    socket.destroy();
    await expect.poll(() => service.status(id)).toMatchObject({ buffered_bytes_size: "0" });
    await expect.poll(() => service.chunkFiles(id)).toEqual([]);
    await service.upload(id, "1,one\n");
    await service.commit(id, { "x-ts-chunks": "1" });
    expect(await service.ended(id)).toMatchObject({ status: { code: "OK" }, rows_written: "1" });
  });

  test("A.24 leaves nothing when the service is killed; what was answered with 202 is there", async () => {
    service = await startLoadService();
    const id = await service.start();
    await service.upload(id, rows(10), { "x-ts-chunk-id": "2" });
    await service.upload(id, rows(10, 10));
    const { socket } = await beginUpload(service, id, rows(100_000, 1000));
    await expect.poll(async () => Number((await service.status(id)).buffered_bytes_size)).toBeGreaterThan(2000);
    service = await service.restart("kill");
    socket.destroy();
    expect(await service.chunkFiles(id)).toHaveLength(2);
    expect(await service.status(id)).toMatchObject({ internal_stage: "INGESTING", bytes_written: "870" });
    await service.upload(id, rows(5, 20), { "x-ts-chunk-id": "2" });
    await service.commit(id, { "x-ts-chunks": "2" });
    expect(await service.ended(id)).toMatchObject({ status: { code: "OK" }, rows_written: "15" });
  });

  test.each(["commit", "cancel"] as const)("is refused at its end after a %s", async (operation) => {
    service = await startLoadService();
    const id = await service.start();
    await service.upload(id, rows(10));
    const { socket, rest } = await beginUpload(service, id, rows(100_000));
    await expect.poll(async () => Number((await service.status(id)).buffered_bytes_size)).toBeGreaterThan(1000);
    const reading = readAll(socket);
    expect((await service[operation](id)).status).toBe(operation === "commit" ? 202 : 200);
    const ended = await service.ended(id);
    socket.write(rest);
    const answer = await reading;
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer).toContain(`Cycle_id=[${id}] is not accepting data.`);
    expect(await service.status(id)).toEqual(ended);
    expect(ended.rows_written).toBe(operation === "commit" ? "10" : "0");
    await service.stop();
    expect(await count()).toBe(operation === "commit" ? 10n : 0n);
  });
});

describe("A.24 a commit that was cut off", () => {
  test.each([0, 10, 40, 100, 250, 600])("by SIGKILL after %i ms is made again, once", async (milliseconds) => {
    service = await startLoadService();
    const id = await service.start(into("t", { load_options: { max_ignored_rows: 1 } }));
    for (let chunk = 0; chunk < 4; chunk++) await service.upload(id, rows(25_000, chunk * 25_000));
    await service.upload(id, "bad,row\n");
    await service.commit(id);
    await delay(milliseconds);
    service = await service.restart("kill");
    expect(await service.ended(id)).toMatchObject({
      status: { code: "OK" },
      rows_written: "100000",
      ignored_row_count: "1",
    });
    expect((await service.badRecords(id)).text).toBe("bad,row\n");
    await service.stop();
    expect(await count()).toBe(100_000n);
  });

  test("by the end of the service is made again at the next start", async () => {
    service = await startLoadService();
    const id = await service.start();
    await service.upload(id, rows(100_000));
    await service.commit(id);
    service = await service.restart("stop");
    expect(await service.ended(id)).toMatchObject({ status: { code: "OK" }, rows_written: "100000" });
    await service.stop();
    expect(await count()).toBe(100_000n);
  });

  test("and has ended is remembered", async () => {
    service = await startLoadService();
    const ended = await service.load(into(), "1,one\nbad,row\n");
    expect(ended.status.code).toBe("LOAD_FAILED");
    service = await service.restart("kill");
    expect(await service.status(ended.cycle_id)).toEqual(ended);
    expect((await service.badRecords(ended.cycle_id)).text).toBe("bad,row\n");
    expect(await service.commit(ended.cycle_id)).toMatchObject({ status: 202 });
  });
});

test("A.9 cancel while committing stops the load and leaves the target untouched", async () => {
  service = await startLoadService();
  let cancelled = 0;
  /** Rows of the last load that had ended when it was to be cancelled: each begins by emptying the table. */
  let left = 0;
  for (let attempt = 0; attempt < 20 && cancelled < 3; attempt++) {
    const id = await service.start(into("t", { load_options: { empty_target: true } }));
    await service.upload(id, rows(200_000));
    await service.commit(id);
    expect(await service.cancel(id)).toMatchObject({ status: 200, text: "" });
    const { internal_stage: stage, status } = await service.status(id);
    expect(stage).toBe("DONE");
    if (status.code !== "CANCELLED") {
      left = 200_000;
      continue;
    }
    cancelled++;
    expect(await service.badRecords(id)).toMatchObject({ status: 500 });
  }
  expect(cancelled).toBe(3);
  await service.load(into(), "7,seven\n");
  await service.stop();
  expect(await count()).toBe(BigInt(left + 1));
  expect(await count("name = 'seven'")).toBe(1n);
});

test("50 cycles at once", async () => {
  service = await startLoadService();
  const cycles = await Promise.all(
    Array.from({ length: 50 }, (_, index) =>
      service.load(into(), rows(100, index * 200), rows(100, index * 200 + 100)),
    ),
  );
  for (const cycle of cycles) expect(cycle).toMatchObject({ status: { code: "OK" }, rows_written: "200" });
  await service.stop();
  expect(await service.rows("SELECT count(*) AS n, count(DISTINCT id) AS ids FROM t")).toEqual([
    { n: 10_000n, ids: 10_000n },
  ]);
});

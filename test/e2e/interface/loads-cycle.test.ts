import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaultParameters } from "../../fixtures/load-parameters.ts";
import { testGolden } from "./golden.ts";
import { list } from "./principals.ts";
import { into, multipart, multipartType, startLoadService } from "./loading.ts";
import type { LoadService } from "./loading.ts";

const unknown = "00000000-0000-4000-8000-000000000000";
const plainText = { "content-type": "text/plain; charset=utf-8" };
let service: LoadService;

beforeAll(async () => {
  service = await startLoadService();
});

afterAll(() => service.end());

await testGolden("loads", () => service);

describe("4.1 a load from start to end", () => {
  test("A.5, A.6, A.9, A.10 its answers", async () => {
    const started = await service.call("POST", "/public/loads", { body: into() });
    expect(started).toMatchObject({ status: 202, headers: plainText });
    const { hostname, port } = new URL(service.url);
    const body = JSON.parse(started.text) as { cycle_id: string };
    expect(body).toEqual({
      node_address: { host: hostname, port: Number(port) },
      cycle_id: expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/) as unknown,
    });
    const id = body.cycle_id;
    expect(await service.upload(id, "1,one\n2,two\n")).toMatchObject({
      status: 202,
      headers: plainText,
      text: "Upload Complete.",
    });
    expect(await service.status(id)).toEqual({
      cycle_id: id,
      internal_stage: "INGESTING",
      status: { code: "OK" },
      rows_written: "0",
      ignored_row_count: "0",
      bytes_written: "12",
      buffered_bytes_size: "12",
      ingested_network_bw: expect.stringMatching(/^\d+$/) as unknown,
      start_time: expect.stringMatching(/^\d{16}$/) as unknown,
    });
    expect(await service.commit(id)).toMatchObject({
      status: 202,
      headers: plainText,
      text: "Commit load cycle request made.",
    });
    const ended = await service.ended(id);
    expect(ended).toEqual({
      cycle_id: id,
      internal_stage: "DONE",
      status: { code: "OK" },
      rows_written: "2",
      ignored_row_count: "0",
      bytes_written: "12",
      buffered_bytes_size: "0",
      ingested_network_bw: expect.stringMatching(/^\d+$/) as unknown,
      start_time: expect.stringMatching(/^\d{16}$/) as unknown,
      end_time: expect.stringMatching(/^\d{16}$/) as unknown,
    });
    expect(Number(ended.end_time)).toBeGreaterThanOrEqual(Number(ended.start_time));
    expect(Math.abs(Number(ended.start_time) / 1000 - Date.now())).toBeLessThan(600_000);
  });

  test("A.10 the status is at both paths, as plain text", async () => {
    const id = await service.start();
    const first = await service.call("GET", `/loads/${id}`);
    const second = await service.call("GET", `/public/loads/${id}`);
    expect(first).toMatchObject({ status: 200, headers: plainText });
    expect(second).toMatchObject({ status: 200, headers: plainText, text: first.text });
  });

  test("A.9 a commit without chunks loads nothing and is OK; once more is a 202 again", async () => {
    const id = await service.start();
    expect(await service.commit(id)).toMatchObject({ status: 202 });
    expect(await service.commit(id)).toMatchObject({ status: 202 });
    expect(await service.ended(id)).toMatchObject({ status: { code: "OK" }, rows_written: "0" });
    expect(await service.commit(id)).toMatchObject({ status: 202, text: "Commit load cycle request made." });
  });
});

describe("A.3", () => {
  test.each(["application/json", "application/x-www-form-urlencoded", "text/plain", "garbage", undefined])(
    "the body is JSON whatever the content type says: %s",
    async (type) => {
      const headers: Record<string, string> = type === undefined ? {} : { "content-type": type };
      expect(await service.call("POST", "/public/loads", { body: into(), headers })).toMatchObject({ status: 202 });
    },
  );

  test.each(["", "{", '{"target": {"database": "d"}}', '{"target_database":"d","target_table":"é"', "[1]"])(
    "the 400 repeats the body as it was sent: %s",
    async (body) => {
      expect(await service.call("POST", "/public/loads", { body })).toMatchObject({
        status: 400,
        headers: plainText,
        text: `Invalid input params for starting data load: ${body}`,
      });
    },
  );
});

test("A.1 a name or a password that cannot be is not valid", async () => {
  for (const body of ['{"username":"a\\u0000","password":"x"}', '{"username":"admin","password":"\\u0000"}'])
    expect(await service.call("POST", "/public/session", { body }), body).toMatchObject({ status: 401 });
});

describe("A.4", () => {
  test.each([
    { database: "nowhere", table: "t" },
    { database: "d", table: "nothing" },
    { database: "d", schema: "nothing", table: "t" },
    { database: "d", table: "t\0" },
    { database: "d", schema: "core_default_schema\0", table: "t" },
    { database: "d\0", table: "t" },
    { database: "pg_catalog", table: "t" },
    { database: "d".repeat(300), table: "t" },
  ])("a target that is not there is reported by Load: %j", async (target) => {
    const id = await service.start(JSON.stringify({ target }));
    expect(await service.upload(id, "1,one\n")).toMatchObject({
      status: 400,
      headers: plainText,
      text: "Unable to find table. Cannot load data.",
    });
  });

  test("the checks come in their order", async () => {
    const body = "no multipart at all";
    const upload = (id: string, session: string): Promise<{ status: number; text: string }> =>
      service.call("POST", `/public/loads/${id}`, { body, session });
    expect(await upload(unknown, "nobody")).toMatchObject({ status: 401 });
    expect(await upload(unknown, service.session)).toMatchObject({
      status: 400,
      text: `Cycle_id=[${unknown}] does not exist.`,
    });
    const lost = await service.start(JSON.stringify({ target: { database: "d", table: "nothing" } }));
    expect(await upload(lost, service.session)).toMatchObject({ text: "Unable to find table. Cannot load data." });
    await service.cancel(lost);
    expect(await upload(lost, service.session)).toMatchObject({ text: `Cycle_id=[${lost}] is not accepting data.` });
    const fine = await service.start();
    const answer = await upload(fine, service.session);
    expect(answer.status).toBe(400);
    expect(answer.text).toContain("There is no file in the request");
  });

  test("A.9 a table that is gone when the commit runs fails the load", async () => {
    const id = await service.start(JSON.stringify({ target: { database: "d", table: "nothing" } }));
    await service.commit(id);
    expect((await service.ended(id)).status).toEqual({
      code: "LOAD_FAILED",
      message: "Unable to find table. Cannot load data.",
    });
  });
});

describe("A.6 the file part", () => {
  test.each(["file", "documents", "upload-file", "", "x y"])("of any name: %j", async (name) => {
    const id = await service.start();
    expect(await service.upload(id, [{ name, data: "1,one\n" }])).toMatchObject({ status: 202 });
    expect(await service.status(id)).toMatchObject({ bytes_written: "6" });
  });

  test.each(["text/csv", "application/octet-stream", "application/vnd.ms-excel", "text/plain; charset=utf-16"])(
    "of any type: %s",
    async (type) => {
      const id = await service.start();
      expect(await service.upload(id, [{ type, data: "1,one\n" }])).toMatchObject({ status: 202 });
      expect(await service.status(id)).toMatchObject({ bytes_written: "6" });
    },
  );

  test.each(["a.csv", "../../etc/passwd", "nö.txt", "x", ""])("of any filename: %j", async (filename) => {
    const id = await service.start();
    expect(await service.upload(id, [{ filename, data: "1,one\n" }])).toMatchObject({ status: 202 });
    expect(await service.status(id)).toMatchObject({ bytes_written: "6" });
  });

  test("the first one counts, and what has no filename is none, whatever its type", async () => {
    const id = await service.start();
    const parts = [
      { name: "file", filename: null, type: "application/octet-stream", data: "9,nine\n9,nine\n" },
      { name: "a", data: "1,one\n" },
      { name: "file", data: "2,two\n3,three\n" },
    ];
    expect(await service.upload(id, parts)).toMatchObject({ status: 202 });
    expect(await service.status(id)).toMatchObject({ bytes_written: "6" });
    const none = await service.upload(id, [{ filename: null, type: "application/octet-stream", data: "1,one\n" }]);
    expect(none).toMatchObject({ status: 400, headers: plainText });
  });

  test("a large one arrives as it was sent", async () => {
    const id = await service.start();
    const data = Buffer.from("1,".padEnd(99, "x").concat("\n").repeat(100_000));
    expect(await service.upload(id, data)).toMatchObject({ status: 202 });
    expect(await service.status(id)).toMatchObject({ bytes_written: "10000000" });
  });

  test.each([
    ["no body", "", multipartType],
    ["no part", multipart(), multipartType],
    ["no content type", multipart({ data: "1,one\n" }), undefined],
    ["another content type", "1,one\n", "text/csv"],
    ["no boundary", multipart({ data: "1,one\n" }), "multipart/form-data"],
    ["another boundary", multipart({ data: "1,one\n" }), "multipart/form-data; boundary=x"],
    ["no end", multipart({ data: "1,one\n".repeat(50_000) }).subarray(0, -60), multipartType],
  ] as const)("%s is a 400, and nothing is kept", async (_what, body, type) => {
    const id = await service.start();
    const answer = await service.call("POST", `/public/loads/${id}`, {
      body,
      headers: type === undefined ? {} : { "content-type": type },
    });
    expect(answer).toMatchObject({ status: 400, headers: plainText });
    expect(await service.status(id)).toMatchObject({ bytes_written: "0", buffered_bytes_size: "0" });
    expect(await service.upload(id, "1,one\n")).toMatchObject({ status: 202 });
  });
});

describe("A.8", () => {
  test("the same id again replaces the earlier chunk", async () => {
    const id = await service.start();
    const chunk = { "x-ts-chunk-id": "7" };
    await service.upload(id, "1,one\n2,two\n", chunk);
    await service.upload(id, "3,three\n", chunk);
    await service.upload(id, "4,four\n", { "X-TS-Chunk-Id": "8" });
    expect(await service.status(id)).toMatchObject({ bytes_written: "15" });
    await service.commit(id, { "x-ts-chunks": "2" });
    expect(await service.ended(id)).toMatchObject({ status: { code: "OK" }, rows_written: "2" });
  });

  test.each(["1", "3", "0"])(
    "%s chunks, where 2 arrived, are a 400, and the cycle goes on accepting",
    async (count) => {
      const id = await service.start();
      await service.upload(id, "1,one\n");
      await service.upload(id, "2,two\n");
      const refused = await service.commit(id, { "X-ts-chunks": count });
      expect(refused).toMatchObject({ status: 400, headers: plainText });
      expect(refused.text).toContain(`expects ${count} chunks, and 2 have arrived`);
      expect(await service.status(id)).toMatchObject({ internal_stage: "INGESTING" });
      expect(await service.upload(id, "3,three\n")).toMatchObject({ status: 202 });
      expect(await service.commit(id, { "X-ts-chunks": "3" })).toMatchObject({ status: 202 });
      expect(await service.ended(id)).toMatchObject({ rows_written: "3" });
    },
  );

  test("a count that is none is a 400", async () => {
    const id = await service.start();
    expect(await service.commit(id, { "x-ts-chunks": "two" })).toMatchObject({ status: 400 });
    expect(await service.status(id)).toMatchObject({ internal_stage: "INGESTING" });
  });

  test("an id that is too long is a 400", async () => {
    const id = await service.start();
    expect(await service.upload(id, "1,one\n", { "x-ts-chunk-id": "x".repeat(101) })).toMatchObject({ status: 400 });
  });

  test("chunks may arrive side by side", async () => {
    const id = await service.start();
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        service.upload(id, `${index},x\n`, index % 2 === 0 ? { "x-ts-chunk-id": String(index) } : {}),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 202));
    await service.commit(id, { "x-ts-chunks": "20" });
    expect(await service.ended(id)).toMatchObject({ status: { code: "OK" }, rows_written: "20" });
  });
});

describe("A.9", () => {
  const texts = { unknown: `Cycle_id=[${unknown}] does not exist.` };

  test("an unknown cycle", async () => {
    expect(await service.upload(unknown, "1,one\n")).toMatchObject({ status: 400, text: texts.unknown });
    expect(await service.cancel(unknown)).toMatchObject({ status: 400, text: texts.unknown });
    expect(await service.call("GET", `/loads/${unknown}`)).toMatchObject({ status: 400, text: texts.unknown });
    expect(await service.call("GET", `/public/loads/${unknown}`)).toMatchObject({ status: 400, text: texts.unknown });
    expect(await service.call("GET", `/public/loads/${unknown}/input_summary`)).toMatchObject({
      status: 400,
      text: texts.unknown,
    });
    expect(await service.commit(unknown)).toMatchObject({
      status: 500,
      headers: plainText,
      text: `Commit load cycle failed. Error ending load. Unknown cycle_id '${unknown}'`,
    });
    expect(await service.commit("x y")).toMatchObject({ text: expect.stringContaining("Unknown cycle_id") as string });
    for (const odd of ["%00", "a%00b", "%F0%9F%98%80", "%27"])
      expect(await service.call("GET", `/loads/${odd}`), odd).toMatchObject({ status: 400 });
    const long = "x".repeat(5000);
    expect(await service.upload(long, "1,one\n")).toMatchObject({
      status: 400,
      text: `Cycle_id=[${long}] does not exist.`,
    });
    expect(await service.badRecords(unknown)).toMatchObject({
      status: 500,
      text: `Node does not exist: /tmp/${unknown}.bad_record`,
    });
  });

  test("a cancelled cycle takes nothing any more", async () => {
    const id = await service.start();
    await service.upload(id, "1,one\n");
    expect(await service.cancel(id)).toMatchObject({ status: 200, headers: plainText, text: "" });
    const status = await service.status(id);
    expect(status).toMatchObject({ internal_stage: "DONE", rows_written: "0", buffered_bytes_size: "0" });
    expect(status.status.code).toBe("CANCELLED");
    expect(status.status.message).not.toBe("");
    const refused = { status: 400, headers: plainText, text: `Cycle_id=[${id}] is not accepting data.` };
    expect(await service.upload(id, "2,two\n")).toMatchObject(refused);
    expect(await service.commit(id)).toMatchObject(refused);
    expect(await service.cancel(id)).toMatchObject({ status: 200, text: "" });
  });

  test("a committed cycle takes no data, and its cancel has no effect", async () => {
    const id = await service.start();
    await service.upload(id, "1,one\n");
    await service.commit(id);
    const refused = { status: 400, text: `Cycle_id=[${id}] is not accepting data.` };
    expect(await service.upload(id, "2,two\n")).toMatchObject(refused);
    const ended = await service.ended(id);
    expect(await service.upload(id, "2,two\n")).toMatchObject(refused);
    // A count is for chunks that may still come.
    for (const count of ["7", "two"])
      expect(await service.commit(id, { "x-ts-chunks": count })).toMatchObject({ status: 202 });
    expect(await service.cancel(id)).toMatchObject({ status: 200, text: "" });
    expect(await service.status(id)).toEqual(ended);
  });
});

describe("A.14", () => {
  test("input_summary has every default", async () => {
    const id = await service.start('{"target_database":"d","target_table":"t"}');
    const answer = await service.call("GET", `/public/loads/${id}/input_summary`);
    expect(answer).toMatchObject({ status: 200, headers: plainText });
    expect(JSON.parse(answer.text)).toEqual({ load_params: defaultParameters });
  });

  test("the list has the caller's cycles, the oldest first", async () => {
    const first = await service.start();
    const second = await service.start();
    const answer = await service.call("GET", "/public/loads");
    expect(answer).toMatchObject({ status: 200, headers: plainText });
    const ids = (JSON.parse(answer.text) as { cycle_id: string }[]).map((status) => status.cycle_id);
    expect(ids.slice(-2)).toEqual([first, second]);
    expect(JSON.parse(answer.text)).toContainEqual(await service.status(second));
  });
});

test("A.21 the last row of a key wins, also where columns are called like those of the stage", async () => {
  const own = await startLoadService();
  try {
    for (const table of ["keyed", "numbered"]) {
      expect(await own.load(into(table), "1,one\n2,two\n2,zwei\n", "2,deux\n")).toMatchObject({ rows_written: "4" });
      expect(await own.load(into(table), "1,uno\n")).toMatchObject({ status: { code: "OK" } });
    }
    await own.stop();
    expect(await own.rows("FROM keyed ORDER BY id")).toEqual([
      { id: 1n, name: "uno" },
      { id: 2n, name: "deux" },
    ]);
    expect(await own.rows("FROM numbered ORDER BY row_number")).toEqual([
      { row_number: 1n, ROW_NUMBER_: "uno" },
      { row_number: 2n, ROW_NUMBER_: "deux" },
    ]);
  } finally {
    await own.end();
  }
});

test("405 where the path is another method's", async () => {
  expect(await service.call("GET", `/public/loads/${unknown}/commit`)).toMatchObject({ status: 405 });
  expect(await service.call("POST", `/loads/${unknown}`)).toMatchObject({ status: 405 });
});

test("0.4 a session of family B is good for loads, and none is a 401", async () => {
  expect((await list(service.url, service.session)).status).toBe(200);
  for (const [method, path] of [
    ["POST", "/public/loads"],
    ["GET", "/public/loads"],
    ["POST", `/public/loads/${unknown}`],
    ["POST", `/public/loads/${unknown}/commit`],
    ["POST", `/public/loads/${unknown}/cancel`],
    ["GET", `/loads/${unknown}`],
    ["GET", `/public/loads/${unknown}`],
    ["GET", `/public/loads/${unknown}/bad_records_file`],
    ["GET", `/public/loads/${unknown}/input_summary`],
  ] as const) {
    expect(await service.call(method, path, { session: "nobody" }), path).toMatchObject({
      status: 401,
      headers: plainText,
      text: "Unable to verify user. Please login again.",
    });
  }
});

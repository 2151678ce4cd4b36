import { readdir } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { request } from "undici";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { errorBody } from "#wire/errors.ts";
import { loadingOf } from "../e2e/interface/loading.ts";
import { pinboard, startPinboardService, visualization } from "../e2e/interface/pinboards.ts";
import type { PinboardService } from "../e2e/interface/pinboards.ts";

/** Takes some time, and tells its runs apart. */
const slow = "SELECT uuid() AS run, sum(a.i * b.i) AS sum FROM range(40000) a(i), range(1500) b(i)";
/** Would take days. `number` tells several of them apart, so that they are not one. */
const endless = (number: number): string =>
  `SELECT sum(a.i * b.i) + ${number} AS sum FROM range(10000000) a(i), range(10000000) b(i)`;

describe("queries", () => {
  let service: PinboardService;
  const queries = [
    "SELECT i AS number, 'a text of some length, so that this is much' AS text FROM range(150000) r(i) ORDER BY i",
    slow,
    endless(0),
    endless(1),
    endless(2),
    "SELECT count(*) AS rows FROM t",
    "SELECT (SELECT count(*) FROM t) AS rows, sum(a.i * b.i) AS sum FROM range(40000) a(i), range(4000) b(i)",
  ] as const;
  const [many, slowly, forever, , , rows, rowsSlowly] = [...queries.keys()] as number[];

  beforeAll(async () => {
    service = await startPinboardService(queries, { service: { queries: { timeout: "1h", maxRows: 120_000 } } });
  });
  afterAll(() => service.end());

  test("B.13 rows past the ceiling are cut, and rowCount < totalRowCount says so", async () => {
    const { data, ...rest } = await service.data(many!);
    expect(rest).toMatchObject({ totalRowCount: 150_000, rowCount: 120_000, pageSize: -1, offset: -1 });
    expect(data.length).toBe(120_000);
    expect([data[0], data.at(-1)]).toEqual([
      [0, expect.any(String)],
      [119_999, expect.any(String)],
    ]);
  });

  test("B.13 the ceiling is also that of a batch, and what is past it can be asked for", async () => {
    const { data, ...rest } = await service.data(many!, { batchsize: "140000", offset: "100000" });
    expect(rest).toMatchObject({ totalRowCount: 150_000, rowCount: 50_000, pageSize: 140_000, offset: 100_000 });
    expect([data[0]?.[0], data.at(-1)?.[0]]).toEqual([100_000, 149_999]);
    const whole = await service.data(many!, { batchsize: "140000" });
    expect(whole).toMatchObject({ totalRowCount: 150_000, rowCount: 120_000, pageSize: 140_000, offset: 0 });
  });

  test("B.10 large answers are compressed as they flow", async () => {
    const url = `${service.url}/tspublic/v1/pinboarddata?id=${pinboard}&formattype=FULL`;
    const answer = await request(`${url}&vizid=${visualization(many!)}`, {
      headers: { cookie: `JSESSIONID=${service.session}`, "accept-encoding": "gzip" },
    });
    expect(answer.headers).toMatchObject({ "content-encoding": "gzip", "content-type": "application/json" });
    const parsed = JSON.parse(gunzipSync(Buffer.from(await answer.body.arrayBuffer())).toString()) as Record<
      string,
      { data: unknown[] }
    >;
    expect(parsed[visualization(many!)]?.data.length).toBe(120_000);
  });

  test("equal requests that wait for their turn share one query; other pages and formats are others", async () => {
    // Every place is taken until all have come.
    const leaving = new AbortController();
    const { signal } = leaving;
    const taken = [0, 1, 2].map((number) => service.ask(forever! + number, {}, { signal }).catch(() => undefined));
    await delay(500);
    const asked = Promise.all([
      service.data(slowly!),
      service.data(slowly!),
      service.ask(slowly!, { formattype: "FULL" }),
      service.data(slowly!, { batchsize: "1" }),
    ]);
    await delay(500);
    leaving.abort();
    await Promise.all(taken);
    const [one, other, full, page] = await asked;
    expect(other).toEqual(one);
    expect(full.status).toBe(200);
    const run = String(one.data[0]?.[0]);
    expect(full.text).not.toContain(run);
    expect(page.data[0]?.[0]).not.toBe(run);
    expect((await service.data(slowly!)).data[0]?.[0]).not.toBe(run);
  });

  test("a client that leaves does not cancel the others", async () => {
    const leaving = new AbortController();
    const left = service.ask(rowsSlowly!, {}, { signal: leaving.signal });
    const staying = service.data(rowsSlowly!);
    await delay(100);
    leaving.abort();
    await expect(left).rejects.toThrow("aborted");
    expect((await staying).rowCount).toBe(1);
  });

  test("a query ends when its last client has gone away: others get their turn", async () => {
    const leaving = new AbortController();
    const all = [0, 1, 2, 0, 1].map((number) =>
      service.ask(forever! + number, {}, { signal: leaving.signal }).catch((error: unknown) => error),
    );
    await delay(500);
    leaving.abort();
    await Promise.all(all);
    // The endless ones would have held every place for an hour.
    expect((await service.data(rows!)).data).toEqual([[0]]);
  });

  test("who asks after a load has ended sees it, also while an equal query from before is under way", async () => {
    const before = service.data(rowsSlowly!);
    await delay(100);
    const body = JSON.stringify({ target: { database: "d", table: "t" } });
    const loading = loadingOf(service.url, service.session);
    expect(await loading.load(body, "1,one\n")).toMatchObject({ status: { code: "OK" } });
    const after = await service.data(rowsSlowly!);
    expect(after.data[0]?.[0]).toBe(1);
    expect((await before).rowCount).toBe(1);
  });
});

describe("time", () => {
  let service: PinboardService | undefined;

  afterEach(() => service?.end());

  test("a query that takes longer than it may is stopped; its pinboard's others are not to blame", async () => {
    service = await startPinboardService([endless(0), endless(1), "SELECT 1 AS one"], {
      service: { queries: { timeout: "1s" } },
    });
    for (const vizid of [visualization(0), ""]) {
      const answer = await service.ask(0, { vizid });
      expect(answer).toMatchObject({ status: 503, headers: { "content-type": "application/json" } });
      expect(errorBody.parse(JSON.parse(answer.text))).toMatchObject({
        code: 10_000,
        debug: expect.stringMatching(/^\["visualization v[01]: the query took longer than 1 s and was stopped"\]$/),
      });
    }
    expect((await service.data(2)).data).toEqual([[1]]);
  });

  test("0.9 a query under way does not keep the service from ending", async () => {
    service = await startPinboardService([endless(0)], { service: { queries: { timeout: "1h" } } });
    const asking = service.ask(0).catch((error: unknown) => error);
    await delay(500);
    expect(await service.service.stop()).toMatchObject({ code: 0 });
    await asking;
  });
});

describe("SQL reaches nothing but its database, and changes nothing", () => {
  const attempts = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM 'https://example.com/x.csv'",
    "SELECT * FROM read_parquet('https://example.com/x.parquet')",
    "SELECT * FROM other.secret",
    "SELECT * FROM other.core_default_schema.secret",
    "SELECT (SELECT max(id) FROM other.secret)",
    "ATTACH '/tmp/rollcall-attached.duckdb' AS x",
    "COPY t TO '/tmp/rollcall-copied.csv'",
    "COPY (SELECT 1) TO '/tmp/rollcall-copied.csv'",
    "EXPORT DATABASE '/tmp/rollcall-exported'",
    "PRAGMA database_list",
    "PRAGMA enable_external_access",
    "SET enable_external_access = true",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CALL pragma_version()",
    "USE other",
    "INSERT INTO t VALUES (1, 'x')",
    "WITH x AS (SELECT 1) INSERT INTO t SELECT 1, 'x'",
    "DROP TABLE t",
    "CREATE TABLE x (a INTEGER)",
    "SELECT 1; DROP TABLE t",
    "SELECT getenv('HOME')",
    "SELECT current_setting('temp_directory')",
    "SELECT * FROM duckdb_tables()",
    "SELECT * FROM information_schema.tables",
    "SHOW ALL TABLES",
    "SELECT * FROM query('SELECT * FROM other.secret')",
  ];
  let service: PinboardService;

  beforeAll(async () => {
    service = await startPinboardService([...attempts, "SELECT count(*) AS rows FROM t"]);
  });
  afterAll(() => service.end());

  test.each(attempts.map((sql, index) => [sql, index] as const))("%s", async (_, index) => {
    const answer = await service.ask(index);
    expect(answer.status, answer.text).toBe(400);
    expect(errorBody.parse(JSON.parse(answer.text)).code).toBe(10_002);
  });

  test("and afterwards everything is as it was", async () => {
    expect((await service.data(attempts.length)).data).toEqual([[0]]);
    expect((await readdir("/tmp")).filter((name) => /^rollcall-(?:attached|copied|exported)/.test(name))).toEqual([]);
  });
});

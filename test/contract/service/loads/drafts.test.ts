import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import pino from "pino";
import { expect, onTestFinished, test, vi } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import { openDuckDbEngine } from "#service/engine/duckdb.ts";
import { load } from "#service/loads/commit.ts";
import { openEmbeddedRecords } from "#service/records.ts";
import { Loads } from "#service/loads/loads.ts";
import { preview } from "#service/loads/preview.ts";
import { readStartRequest } from "#service/loads/start-request.ts";
import { Progress } from "#service/progress.ts";

const table = { database: "d", schema: "core_default_schema", table: "t" };

/** A service's loads in a folder of their own. */
async function openService(): Promise<{
  readonly place: string;
  readonly engine: Awaited<ReturnType<typeof openDuckDbEngine>>;
  readonly reopen: () => Promise<Loads>;
  readonly close: () => Promise<void>;
}> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-drafts-"));
  const place = join(folder, "loads");
  const engine = await openDuckDbEngine({ folder: join(folder, "databases"), memory: 2 ** 28, files: [place] });
  await engine.define(
    "CREATE DATABASE IF NOT EXISTS d; CREATE TABLE IF NOT EXISTS d.t (id BIGINT PRIMARY KEY, day DATE, cost DECIMAL(5, 2))",
    "tables.sql",
  );
  const database = await openDatabase({ path: join(folder, "service.duckdb"), memory: 2 ** 28, spill: folder });
  return {
    place,
    engine,
    reopen: async () =>
      Loads.open({
        records: await openEmbeddedRecords(database),
        folder: place,
        worker: {
          find: (name) => engine.find(name),
          load: (job, signal) => load(job, engine, signal),
        },
        expireAfter: 86_400_000,
        maxChunk: 2 ** 20,
        maxCycle: 2 ** 20,
        minFreeDisk: 0,
        log: pino({ level: "silent" }),
        progress: new Progress(),
      }),
    close: async () => {
      await engine.close();
      database.close();
      await rm(folder, { recursive: true });
    },
  };
}

function parameters(more: object = {}): NonNullable<ReturnType<typeof readStartRequest>> {
  const read = readStartRequest(JSON.stringify({ target: table, ...more }));
  if (read === undefined) throw new Error("the request is not valid");
  return read;
}

async function put(cycle: Awaited<ReturnType<Loads["start"]>>, text: string) {
  const upload = cycle.beginUpload(undefined);
  await upload.write(Readable.from([Buffer.from(text)]), new AbortController().signal);
  await cycle.publish(upload);
  await cycle.endUpload(upload);
}

test("a draft is gone after an hour that nobody looks at it, and at the start; other cycles stay", async () => {
  const service = await openService();
  const loads = await service.reopen();
  const client = await loads.start("me", parameters());
  const [seen, left, last] = [
    await loads.start("me", parameters(), "seen.csv"),
    await loads.start("me", parameters(), "left.csv"),
    await loads.start("you", parameters(), "last.csv"),
  ];
  for (const each of [client, seen, left, last]) await put(each, "1,,\n");
  const [chunk] = last.arrived();
  expect((await stat(chunk!)).mode & 0o777).toBe(0o600);
  expect((await loads.newest("me", 10)).map(({ file = "" }) => file).toSorted()).toEqual(["", "left.csv", "seen.csv"]);
  expect(await loads.newest(undefined, 2)).toHaveLength(2);
  onTestFinished(() => void vi.useRealTimers());
  vi.useFakeTimers({ now: Date.now() + 3_500_000, toFake: ["Date"] });
  seen.use();
  vi.setSystemTime(Date.now() + 200_000);
  expect((await loads.newest("me", 10)).map(({ file = "" }) => file).toSorted()).toEqual(["", "seen.csv"]);
  expect(await loads.find(left.id)).toBeUndefined();
  vi.useRealTimers();
  await loads.close();
  const again = await service.reopen();
  expect((await again.newest(undefined, 10)).map(({ id }) => id)).toEqual([client.id]);
  expect(await readdir(service.place)).toEqual([client.id]);
  await again.close();
  await service.close();
});

test("a draft is loaded with what it was configured with, once", async () => {
  const service = await openService();
  const loads = await service.reopen();
  const changes = vi.fn<() => void>();
  const stop = loads.subscribe(changes);
  const cycle = await loads.start("me", parameters(), "x.csv");
  await put(cycle, "id;day;cost\n1;31.01.2024;1.5\n");
  const format = { field_separator: ";", has_header_row: true, date_time: { date_format: "%d.%m.%Y" } };
  expect(await cycle.configure(parameters({ format }))).toBe(true);
  expect(cycle.isDraft()).toBe(true);
  await loads.commit(cycle, undefined);
  await cycle.ended;
  expect(cycle.outcome()).toMatchObject({ code: "OK", rowsWritten: 1, errors: [] });
  expect(await cycle.configure(parameters())).toBe(false);
  await expect.poll(() => loads.isBusy()).toBe(false);
  expect(changes.mock.calls.length).toBeGreaterThanOrEqual(4);
  stop();
  expect(await service.engine.list()).toEqual([
    {
      database: "d",
      schema: "core_default_schema",
      name: "t",
      columns: [
        { name: "id", type: "BIGINT", nullable: false },
        { name: "day", type: "DATE", nullable: true },
        { name: "cost", type: "DECIMAL(5,2)", nullable: true },
      ],
      primaryKey: ["id"],
      rows: 1,
      isEstimated: false,
      problem: undefined,
    },
  ]);
  await loads.close();
  await service.close();
});

test("a preview reads what a load reads: values, nulls, rejected rows; a cut-off row at the end does not count", async () => {
  const service = await openService();
  const loads = await service.reopen();
  const cycle = await loads.start("me", parameters(), "x.csv");
  const format = { null_value: "-", date_time: { date_format: "%Y-%m-%d" } };
  const look = async (text: string, isWhole: boolean) => {
    await put(cycle, text);
    const sample = cycle.arrived().at(-1) ?? "";
    const { signal } = new AbortController();
    return preview({ parameters: parameters({ format }), sample, isWhole }, service.engine, signal);
  };
  const text = `1,2024-02-29,1.50\n2,2023-02-29,0\n3,-,-\n4,"2024-01-01\n`;
  expect(await look(text, true)).toEqual({
    accepted: 2,
    rejected: 2,
    errors: ['row 2, column day: "2023-02-29" does not match %Y-%m-%d', expect.stringContaining("row 4, column day: ")],
    rows: [
      { number: 1, values: ["1", "2024-02-29", "1.50"] },
      { number: 2, flaw: 'column day: "2023-02-29" does not match %Y-%m-%d' },
      { number: 3, values: ["3", null, null] },
      { number: 4, flaw: expect.stringContaining("column day: ") },
    ],
    keys: {
      columns: ["id"],
      blank: { count: 0, rows: [] },
      doubled: { count: 0, keys: [] },
      known: { count: 0, of: 2 },
    },
    isWhole: true,
  });
  expect(await look(text, false)).toMatchObject({ accepted: 2, rejected: 1, rows: { length: 3 } });
  // Nothing of it was loaded, and nothing is left of the look.
  expect((await service.engine.list()).map(({ rows }) => rows)).toEqual([0]);
  expect((await readdir(join(service.place, cycle.id, "chunks"))).every((name) => /^\d+$/.test(name))).toBe(true);
  await loads.close();
  await service.close();
});

test("a look at a draft says which keys are blank, come more than once, or are in the table already", async () => {
  const service = await openService();
  const { engine } = service;
  const { signal } = new AbortController();
  await engine.define(
    "CREATE SCHEMA IF NOT EXISTS d.s; CREATE TABLE IF NOT EXISTS d.s.pair (site VARCHAR, day DATE, PRIMARY KEY (site, day))",
    "tables.sql",
  );
  const sink = { begin: async () => undefined, rows: async () => undefined };
  await engine.execute(
    "d",
    "INSERT INTO d.s.pair VALUES ('Porto', '2026-01-05'), ('it''s', '2026-01-06')",
    signal,
    sink,
  );
  const loads = await service.reopen();
  const into = { database: "d", schema: "s", table: "pair" };
  const cycle = await loads.start("me", parameters({ target: into }), "file.csv");
  const rows = [
    "Porto,2026-01-05",
    "it's,2026-01-06",
    " ,2026-01-05",
    "Porto,2026-01-05",
    "new,2026-01-05",
    "new,soon",
  ];
  await put(cycle, `${rows.join("\n")}\n`);
  const sample = cycle.arrived().at(-1) ?? "";
  const format = { date_time: { date_format: "%Y-%m-%d" } };
  const look = async (load_options: object) =>
    (
      await preview(
        { parameters: parameters({ target: into, load_options, format }), sample, isWhole: true },
        engine,
        signal,
      )
    ).keys;
  expect(await look({})).toEqual({
    columns: ["site", "day"],
    blank: { count: 1, rows: [3] },
    doubled: { count: 1, keys: [{ key: ["Porto", "2026-01-05"], rows: [1, 4] }] },
    known: { count: 2, of: 4 },
  });
  expect(await look({ empty_target: true })).toMatchObject({ known: undefined });
  await loads.close();
  await service.close();
});

import { execFileSync, fork } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import type { LoadJob } from "#service/loads/commit.ts";
import { Worker } from "#service/worker/worker.ts";
import type { Answer, WorkerOptions } from "#service/worker/worker.ts";
import { loadParameters } from "#wire/loads.ts";

const never = new AbortController().signal;
const memory = 64 * 2 ** 20;

let folder: string;
let worker: Worker;
const optionsOf = (place: string): WorkerOptions => ({
  folder: join(place, "databases"),
  answers: join(place, "answers"),
  memory,
  files: [join(place, "loads")],
  log: pino({ level: "silent" }),
});

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-worker-"));
  const sql = `CREATE DATABASE IF NOT EXISTS shop;
     CREATE TABLE IF NOT EXISTS shop.t (a INTEGER, b VARCHAR);
     CREATE TABLE IF NOT EXISTS shop.loaded (a INTEGER PRIMARY KEY, b VARCHAR)`;
  worker = await Worker.open({ ...optionsOf(folder), tables: { sql, origin: "tables.sql" } });
});
afterAll(async () => {
  await worker.close();
  await rm(folder, { recursive: true });
});

const request = (sql: string, timeout = 60_000, limit = 100_000) => ({ database: "shop", sql, limit, timeout });

async function rowsOf(answer: Answer): Promise<unknown[]> {
  try {
    return JSON.parse(`[${await text(answer.read())}]`) as unknown[];
  } finally {
    answer.release();
  }
}

/** The rows of a query as they are sent. */
const ask = async (sql: string, timeout?: number): Promise<unknown[]> =>
  rowsOf(await worker.query(request(sql, timeout), "COMPACT", never));

const answersLeft = (): Promise<string[]> => readdir(join(folder, "answers"));

/** The processes that this one has started. */
function processes(): number[] {
  const all = execFileSync("ps", ["-o", "pid=,args=", "--ppid", String(process.pid)], { encoding: "utf8" });
  return all
    .split("\n")
    .filter((line) => line.includes("worker/main.ts"))
    .map((line) => Number.parseInt(line, 10));
}

describe("what takes more memory than DuckDB counts is stopped, and the next one is answered", () => {
  const unavailable = {
    name: "UnavailableError",
    message: expect.stringMatching(/took more than the 608 MiB|too long/),
  };
  const greedy = [
    "SELECT repeat('x', 1000000000)",
    "SELECT range(1000000000)",
    "SELECT list_resize([1], 2000000000)",
    "SELECT string_split(repeat('a,', 100000000), ',')",
  ] as const;

  test.each(greedy)("a query: %s", async (sql) => {
    const before = process.memoryUsage().rss;
    await expect(ask(sql)).rejects.toMatchObject(unavailable);
    expect(process.memoryUsage().rss - before).toBeLessThan(300 * 2 ** 20);
    expect(await ask("SELECT 1")).toEqual([[1]]);
    expect(await answersLeft()).toEqual([]);
  });

  test("an administrator's SQL, and what was committed before stays", async () => {
    const before = await worker.execute("shop", "CREATE TABLE kept AS SELECT 1 AS a", never);
    before.release();
    await expect(worker.execute("shop", greedy[0], never)).rejects.toMatchObject(unavailable);
    await expect(worker.execute("shop", `INSERT INTO t (b) ${greedy[0]}`, never)).rejects.toMatchObject({
      name: "UnavailableError",
    });
    expect(await rowsOf(await worker.execute("shop", "FROM kept", never))).toEqual([[1]]);
    expect(await ask("SELECT count(*) FROM t")).toEqual([[0]]);
  });

  test("it is refused for a while then: it would end the process again and again", async () => {
    const sql = `${greedy[0]} AS again`;
    await expect(ask(sql)).rejects.toMatchObject({ name: "UnavailableError" });
    const [pid] = processes();
    await expect(ask(sql)).rejects.toThrow(/It can run again in \d+ s/);
    expect(processes()).toEqual(pid === undefined ? [] : [pid]);
  });
});

test("a query that does not let itself be stopped is over soon after its time", async () => {
  const started = performance.now();
  const sql = "SELECT levenshtein(repeat('a', 300000), repeat('b', 300000))";
  await expect(ask(sql, 1000)).rejects.toMatchObject({
    name: "UnavailableError",
    message: "the query took longer than 1 s and was stopped",
  });
  // By itself it would take minutes.
  expect(performance.now() - started).toBeLessThan(20_000);
  expect(await ask("SELECT 1")).toEqual([[1]]);
});

async function job(name: string, rows: string, options: object = {}): Promise<LoadJob> {
  const place = join(folder, "loads", name);
  await mkdir(place, { recursive: true });
  await writeFile(join(place, "1"), rows);
  const parameters = loadParameters.parse({ target: { database: "shop", table: "loaded" }, ...options });
  return { id: name, parameters, chunks: [join(place, "1")], badRecords: join(place, "bad_records") };
}

test("a load begins again when a query ends the process, and is written once", async () => {
  const count = 400_000;
  const rows = Array.from({ length: count }, (_, i) => `${i},row ${i}\n`).join("");
  const loading = worker.load(await job("many", `${rows}x,wrong\n`, { load_options: { max_ignored_rows: 1 } }), never);
  for (let round = 0; round < 2; round++)
    await expect(ask(`SELECT repeat('x', 1000000000) AS round_${round}`)).rejects.toMatchObject({
      name: "UnavailableError",
    });
  expect(await loading).toMatchObject({ code: "OK", rowsWritten: count, ignoredRows: 1 });
  expect(await ask("SELECT count(*), sum(a) FROM loaded")).toEqual([[count, (count * (count - 1)) / 2]]);
  expect(await readFile(join(folder, "loads", "many", "bad_records"), "utf8")).toBe("x,wrong\n");
});

test("a load during which the process ends again and again, as where memory is short, says so", async () => {
  const rows = Array.from({ length: 1_000_000 }, (_, i) => `-${i},row ${i}\n`).join("");
  const killing = setInterval(() => {
    for (const pid of processes()) process.kill(pid, "SIGKILL");
  }, 300);
  const loading = worker.load(await job("lost", rows), never);
  await expect(loading.finally(() => clearInterval(killing))).rejects.toMatchObject({
    name: "UnavailableError",
    message: expect.stringMatching(/the process of the databases ended: SIGKILL\. Nothing of the load.*lack of memory/),
  });
  expect(await ask("SELECT count(*) FROM loaded WHERE a < 0")).toEqual([[0]]);
});

const own = { sql: "CREATE DATABASE IF NOT EXISTS own", origin: "t.sql" };

test("the process ends when it has nothing to do, and gives the databases' files free; the next task starts it", async () => {
  const place = await mkdtemp(join(tmpdir(), "rollcall-worker-"));
  onTestFinished(() => rm(place, { recursive: true }));
  const others = processes();
  const resting = await Worker.open({ ...optionsOf(place), tables: own, whenUsed: true, idle: 100 });
  onTestFinished(() => resting.close());
  expect(processes()).toEqual(others);
  await resting.tables();
  await vi.waitFor(() => expect(processes()).toEqual(others), 10_000);
  const database = await openDatabase({ path: join(place, "databases", "own.duckdb"), memory, spill: place });
  database.close();
  const name = { database: "own", schema: "core_default_schema", table: "t" };
  expect(await resting.find(name)).toBeUndefined();
});

test("tables are created before the first task, once; for a single command that may need none, only then", async () => {
  const place = await mkdtemp(join(tmpdir(), "rollcall-worker-"));
  onTestFinished(() => rm(place, { recursive: true }));
  const others = processes();
  const sql = "CREATE DATABASE IF NOT EXISTS own; CREATE TABLE IF NOT EXISTS own.t (a INTEGER)";
  const options = { ...optionsOf(place), tables: { sql, origin: "tables.sql" }, whenUsed: true, idle: 100 };
  const single = await Worker.open(options);
  onTestFinished(() => single.close());
  expect(processes()).toEqual(others);
  const name = { database: "own", schema: "core_default_schema", table: "t" };
  expect(await single.find(name)).toBeDefined();
  (await single.execute("own", "DROP TABLE t", never)).release();
  await vi.waitFor(() => expect(processes()).toEqual(others), 10_000);
  expect(await single.find(name)).toBeUndefined();
  await single.close();

  const wrong = { ...options, tables: { sql: "CREATE TABEL own.t (a INTEGER)", origin: "tables.sql" } };
  await expect(Worker.open({ ...wrong, whenUsed: false })).rejects.toThrow(/^tables\.sql:1: /);
  const late = await Worker.open(wrong);
  onTestFinished(() => late.close());
  for (let times = 0; times < 2; times++) await expect(late.find(name)).rejects.toThrow(/^tables\.sql:1: /);
  expect(processes()).toEqual(others);
});

test("closing ends also what does not let itself be stopped", async () => {
  const place = await mkdtemp(join(tmpdir(), "rollcall-worker-"));
  onTestFinished(() => rm(place, { recursive: true }));
  const others = processes();
  const closing = await Worker.open({ ...optionsOf(place), tables: own });
  const sql = "SELECT levenshtein(repeat('a', 300000), repeat('b', 300000))";
  const query = { database: "own", sql, limit: 1, timeout: 600_000 };
  const asked = closing.query(query, "COMPACT", never).catch((error: Error) => error.name);
  await delay(1000);
  await closing.close();
  expect(await asked).toBe("UnavailableError");
  expect(processes()).toEqual(others);
});

test("a process that is killed from outside is started again for the next task", async () => {
  await ask("SELECT 1");
  for (const pid of processes()) process.kill(pid, "SIGKILL");
  expect(await ask("SELECT 2")).toEqual([[2]]);
});

test("when the service is killed, its process ends too, whatever it is doing: the next one gets the files", async () => {
  const place = await mkdtemp(join(tmpdir(), "rollcall-worker-"));
  onTestFinished(() => rm(place, { recursive: true }));
  const service = fork(fileURLToPath(new URL("busy-worker.ts", import.meta.url)), [place], { execArgv: [] });
  await once(service, "message");
  service.kill("SIGKILL");
  await once(service, "exit");
  const next = await Worker.open(optionsOf(place));
  onTestFinished(() => next.close());
  const answer = await next.query({ database: "own", sql: "SELECT 1", limit: 1, timeout: 60_000 }, "COMPACT", never);
  expect(await rowsOf(answer)).toEqual([[1]]);
});

describe("all answers together hold what service.memory allows", () => {
  /** An answer of about so many MiB. */
  const large = (mebibytes: number): string => `SELECT repeat('x', 10000) FROM range(${mebibytes * 104})`;

  test("one that is larger than that is refused, and nothing of it stays", async () => {
    await expect(ask(large(80))).rejects.toMatchObject({
      name: "UnavailableError",
      message: expect.stringMatching(/^the result is too large: all results together may have 64 MiB/),
    });
    expect(await answersLeft()).toEqual([]);
  });

  test("another waits until there is room, or its time is up", async () => {
    const first = await worker.query(request(large(40)), "COMPACT", never);
    expect(first.size).toBeGreaterThan(39 * 2 ** 20);
    await expect(ask(large(41), 1500)).rejects.toMatchObject({
      name: "UnavailableError",
      message: expect.stringContaining("results that are being sent take all the room there is"),
    });
    const second = ask(large(42));
    await vi.waitFor(async () => expect(await answersLeft()).toHaveLength(2), 10_000);
    expect(await ask("SELECT 1")).toEqual([[1]]);
    const rows = await rowsOf(first);
    expect(rows).toHaveLength(40 * 104);
    expect(await second).toHaveLength(42 * 104);
    await vi.waitFor(async () => expect(await answersLeft()).toEqual([]));
  });

  test("a client that goes away while its answer waits leaves nothing", async () => {
    const first = await worker.query(request(large(40)), "COMPACT", never);
    const away = new AbortController();
    const second = worker.query(request(large(43)), "COMPACT", away.signal).catch((error: unknown) => error);
    await vi.waitFor(async () => expect(await answersLeft()).toHaveLength(2), 10_000);
    const reason = new Error("gone");
    away.abort(reason);
    expect(await second).toBe(reason);
    first.release();
    await vi.waitFor(async () => expect(await answersLeft()).toEqual([]));
  });
});

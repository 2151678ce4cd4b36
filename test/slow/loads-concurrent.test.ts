import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { openDuckDbEngine } from "#service/engine/duckdb.ts";
import type { Engine } from "#service/engine/engine.ts";
import { load } from "#service/loads/commit.ts";
import type { Outcome } from "#service/loads/cycle.ts";
import { loadParameters } from "#wire/loads.ts";
import { executed, pageOf } from "../contract/engine/stage.ts";

const never = new AbortController().signal;
/** Every load writes these keys, so that a table always has the rows of one load, whole. */
const keys = 500;

let folder: string;
let engine: Engine;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-concurrent-"));
  engine = await openDuckDbEngine({
    folder: join(folder, "databases"),
    memory: 2 ** 28,
    files: [join(folder, "loads")],
  });
  await engine.define(
    `CREATE DATABASE IF NOT EXISTS d;
     CREATE TABLE IF NOT EXISTS d.keyed (id BIGINT PRIMARY KEY, load BIGINT NOT NULL);
     CREATE TABLE IF NOT EXISTS d.plain (id BIGINT, load BIGINT NOT NULL);
     CREATE TABLE IF NOT EXISTS d.one (id BIGINT PRIMARY KEY, name VARCHAR UNIQUE)`,
    "tables.sql",
  );
});
afterAll(async () => {
  await engine.close();
  await rm(folder, { recursive: true });
});

/** What a load ended with, and its file of bad records. */
async function loaded(
  id: string,
  table: string,
  rows: string,
  options: { readonly empty?: boolean; readonly tolerated?: number } = {},
  into: Engine = engine,
): Promise<{ outcome: Outcome; bad: string }> {
  const place = join(folder, "loads", id);
  await mkdir(place, { recursive: true });
  await writeFile(join(place, "1"), rows);
  const parameters = loadParameters.parse({
    target: { database: "d", table },
    load_options: { empty_target: options.empty ?? false, max_ignored_rows: options.tolerated ?? 0 },
  });
  const badRecords = join(place, "bad_records");
  const outcome = await load({ id, parameters, chunks: [join(place, "1")], badRecords }, into, never);
  return { outcome, bad: await readFile(badRecords, "utf8").catch(() => "") };
}

test.each(["keyed", "plain"])(
  "four clients that load into %s at once, some of them with empty_target, disturb neither each other nor who reads",
  async (table) => {
    const rounds = 25;
    const client = async (number: number): Promise<void> => {
      for (let round = 0; round < rounds; round++) {
        const load = round * 4 + number;
        const wrong = round % 3 === 0 ? `x,${load}\n` : "";
        const rows = Array.from({ length: keys }, (_, key) => `${key},${load}\n`).join("");
        // Only with it does a table without a key have the rows of one load.
        const empty = table === "plain" || (number + round) % 2 === 0;
        const { outcome, bad } = await loaded(`${table} ${load}`, table, rows + wrong, { empty, tolerated: 1 });
        expect(outcome, outcome.message).toMatchObject({
          code: "OK",
          rowsWritten: keys,
          ignoredRows: wrong === "" ? 0 : 1,
        });
        expect(bad).toBe(wrong);
      }
    };
    const over = new AbortController();
    const reader = async (): Promise<void> => {
      const sql = `SELECT count(*), count(DISTINCT id), count(DISTINCT load) FROM ${table}`;
      while (!over.signal.aborted) {
        const { rows } = await pageOf(engine, { database: "d", sql, limit: 1, timeout: 60_000 }, never);
        expect([[[0, 0, 0]], [[keys, keys, 1]]]).toContainEqual(rows);
        const found = await engine.find({ database: "d", schema: "core_default_schema", table });
        expect(found).toMatchObject({
          columns: [{ name: "id" }, { name: "load" }],
          primaryKey: table === "keyed" ? ["id"] : [],
        });
      }
    };
    const reading = Promise.all([reader(), reader()]);
    const clients = Promise.all([0, 1, 2, 3].map(client)).finally(() => {
      over.abort();
    });
    await Promise.all([clients, reading]);
  },
);

test("A.10 a load that contradicts a unique column fails with the true count of rejected rows, and their file", async () => {
  await loaded("first", "one", "1,ada\n");
  const { outcome, bad } = await loaded("second", "one", "2,ben\nx,wrong\n3,ada\n", { tolerated: 1 });
  expect(outcome).toMatchObject({
    code: "LOAD_FAILED",
    message: expect.stringContaining("ada"),
    rowsWritten: 0,
    ignoredRows: 1,
    errors: [expect.stringContaining("row 2")],
  });
  expect(bad).toBe("x,wrong\n");
});

describe("a table that is changed between reading a load and writing it", () => {
  /** The engine, with `sql` run before the first write. */
  function changing(sql: string): Engine {
    const write = engine.write.bind(engine);
    const spy = vi.spyOn(engine, "write").mockImplementationOnce(async (...args) => {
      await executed(engine, "d", sql, never);
      return write(...args);
    });
    onTestFinished(() => {
      spy.mockRestore();
    });
    return engine;
  }

  test.each([
    [
      "one that is made again",
      "DROP TABLE changed; CREATE TABLE changed (id BIGINT PRIMARY KEY, name VARCHAR)",
      "OK",
      0,
    ],
    ["a key that is gone", "DROP TABLE changed; CREATE TABLE changed (id BIGINT, name VARCHAR)", "OK", 0],
    [
      "a column that takes less",
      "DROP TABLE changed; CREATE TABLE changed (id SMALLINT, name VARCHAR)",
      "LOAD_FAILED",
      1,
    ],
    ["a column more", "ALTER TABLE changed ADD COLUMN more VARCHAR", "LOAD_FAILED", 2],
    ["one that is gone", "DROP TABLE changed", "LOAD_FAILED", 0],
  ] as const)("%s: the load is read again", async (name, sql, code, ignoredRows) => {
    await executed(engine, "d", "DROP TABLE IF EXISTS changed", never);
    await engine.define("CREATE TABLE IF NOT EXISTS d.changed (id BIGINT PRIMARY KEY, name VARCHAR)", "tables.sql");
    const { outcome } = await loaded(name, "changed", "1,one\n100000,two\n", {}, changing(sql));
    expect(outcome, outcome.message).toMatchObject({ code, ignoredRows });
  });
});

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Engine } from "#service/engine/engine.ts";
import { openPostgresEngine } from "#service/engine/postgres/postgres.ts";
import { postgres as options } from "#postgres/options.ts";
import { loadRows, pageOf } from "../contract/engine/stage.ts";
import { startPostgres } from "../support/postgres.ts";
import type { PostgresServer } from "../support/postgres.ts";

/*
 * A table that is partitioned over two servers: the first has the even years, the second, through postgres_fdw, the odd ones.
 */

const never = new AbortController().signal;
let first: PostgresServer;
let second: PostgresServer;
let log = "";
let folder: string;
let engine: Engine;

const orders = "year integer NOT NULL, id bigint NOT NULL, name varchar(20), net numeric(12, 2), ordered timestamp";
/** Of the second server. */
const there = `CREATE SCHEMA shop; CREATE TABLE shop.orders_odd (${orders}, CHECK (year % 2 = 1 AND id >= 0))`;
const tables = `
CREATE SCHEMA IF NOT EXISTS shop;
CREATE TABLE IF NOT EXISTS shop.orders (${orders}) PARTITION BY LIST ((year % 2));
CREATE TABLE IF NOT EXISTS shop.orders_even PARTITION OF shop.orders FOR VALUES IN (0);
CREATE FOREIGN TABLE IF NOT EXISTS shop.orders_odd PARTITION OF shop.orders FOR VALUES IN (1)
  SERVER second OPTIONS (schema_name 'shop', table_name 'orders_odd', batch_size '1000');
`;

beforeAll(async () => {
  [first, second] = await Promise.all([
    startPostgres(),
    startPostgres({
      settings: { log_statement: "all" },
      log: (text) => {
        log += text;
      },
    }),
  ]);
  const [url, other] = [await first.createDatabase(), new URL(await second.createDatabase())];
  const [here, remote] = [await first.connect("test1"), await second.connect("test1")];
  await here.query(`CREATE EXTENSION postgres_fdw;
    CREATE SERVER second FOREIGN DATA WRAPPER postgres_fdw
      OPTIONS (host '127.0.0.1', port '${second.port}', dbname 'test1');
    GRANT USAGE ON FOREIGN SERVER second TO rollcall;
    CREATE USER MAPPING FOR rollcall SERVER second OPTIONS (user 'rollcall', password '${other.password}')`);
  await remote.query(`SET ROLE rollcall; ${there}`);
  await Promise.all([here.end(), remote.end()]);
  folder = await mkdtemp(join(tmpdir(), "rollcall-foreign-"));
  engine = await openPostgresEngine({ postgres: options.parse({ postgres: url }), folder, memory: 512 * 2 ** 20 });
  // A service applies them at every start.
  for (let start = 0; start < 2; start++) await engine.define(tables, "tables.sql");
});
afterAll(async () => {
  await engine.close();
  await Promise.all([first.stop(), second.stop()]);
  await rm(folder, { recursive: true });
});

/** Rows of both servers. */
const rows = (count: number, name: string): string =>
  `SELECT 2000 + i % 10 AS year, i AS id, '${name}' AS name, i / 4 AS net, TIMESTAMP '2024-02-29 10:11:12' AS ordered
   FROM range(${count}) r(i)`;

/** How many rows each server has, by the name of their load. */
async function stored(): Promise<readonly (readonly unknown[])[]> {
  const sql = `SELECT name, count(*) FILTER (WHERE year % 2 = 0), count(*) FILTER (WHERE year % 2 = 1),
    count(DISTINCT (year, id)) FROM orders GROUP BY name ORDER BY name`;
  return (await pageOf(engine, { database: "shop", sql, limit: 100, timeout: 60_000 }, never)).rows;
}

test("loads add rows to both servers, or replace them on both", async () => {
  await loadRows(engine, "orders", rows(1_000, "one"), false, "one");
  await loadRows(engine, "orders", rows(500, "two"), false, "two");
  expect(await stored()).toEqual([
    ["one", 500, 500, 1_000],
    ["two", 250, 250, 500],
  ]);
  await loadRows(engine, "orders", rows(3_000, "three"), true, "three");
  expect(await stored()).toEqual([["three", 1_500, 1_500, 3_000]]);
  // A24: once, however often it is started.
  await loadRows(engine, "orders", rows(3_000, "three"), false, "three");
  expect(await stored()).toEqual([["three", 1_500, 1_500, 3_000]]);
  const client = await second.connect("test1");
  expect((await client.query("SELECT DISTINCT net, ordered::text FROM shop.orders_odd WHERE id = 7")).rows).toEqual([
    { net: "1.75", ordered: "2024-02-29 10:11:12" },
  ]);
  await client.end();
});

test("a row that the second server refuses fails the whole load", async () => {
  const loading = loadRows(
    engine,
    "orders",
    `SELECT * REPLACE (id - 5 AS id) FROM (${rows(10, "refused")})`,
    false,
    "refused",
  );
  await expect(loading).rejects.toMatchObject({ name: "InputError", message: expect.stringContaining("orders_odd") });
  expect(await stored()).toEqual([["three", 1_500, 1_500, 3_000]]);
});

test("a table without a key is only added to or replaced, and PostgreSQL gives none to a table with a foreign partition", async () => {
  const table = await engine.find({ database: "shop", schema: "core_default_schema", table: "orders" });
  expect(table?.primaryKey).toEqual([]);
  await expect(
    engine.define(
      `CREATE TABLE IF NOT EXISTS shop.keyed (id bigint PRIMARY KEY) PARTITION BY HASH (id);
       CREATE FOREIGN TABLE IF NOT EXISTS shop.keyed_1 PARTITION OF shop.keyed FOR VALUES WITH (MODULUS 2, REMAINDER 1) SERVER second`,
      "tables.sql",
    ),
  ).rejects.toThrow(/tables.sql:2: .*foreign/);
});

test("a second server that restarts while a load is written costs time, and nothing else", async () => {
  const copying = log.length;
  const writing = loadRows(engine, "orders", rows(50_000, "four"), true, "four");
  await expect.poll(() => log.slice(copying)).toContain("INSERT INTO shop.orders_odd");
  await second.halt();
  const sql = "SELECT count(*) FROM orders";
  const asked = engine.query({ database: "shop", sql, limit: 1, timeout: 60_000 }, never, {
    begin: () => Promise.resolve(),
    rows: () => Promise.resolve(),
  });
  await expect(asked).rejects.toMatchObject({ name: "UnavailableError", message: expect.stringContaining("second") });
  await second.start();
  await writing;
  expect(await stored()).toEqual([["four", 25_000, 25_000, 50_000]]);
});

import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Engine } from "#service/engine/engine.ts";
import { openPostgresEngine } from "#service/engine/postgres/postgres.ts";
import { Postgres } from "#postgres/database.ts";
import { postgres as options } from "#postgres/options.ts";
import { loadRows, pageOf, rowsPerLoad, stageOf } from "../contract/engine/stage.ts";
import { startPostgres } from "../support/postgres.ts";
import type { PostgresServer } from "../support/postgres.ts";
import { spawnProgram } from "../support/process.ts";
import { cases } from "../support/random.ts";

const never = new AbortController().signal;
let server: PostgresServer;
let log = "";
let folder: string;
let url: string;

beforeAll(async () => {
  server = await startPostgres({
    settings: { log_statement: "all" },
    log: (text) => {
      log += text;
    },
  });
  folder = await mkdtemp(join(tmpdir(), "rollcall-engine-"));
  url = await server.createDatabase();
});
afterAll(async () => {
  await server.stop();
  await rm(folder, { recursive: true });
});

const open = async (at = url): Promise<Engine> =>
  openPostgresEngine({ postgres: options.parse({ postgres: at }), folder, memory: 512 * 2 ** 20 });

test("every value of every type arrives as DuckDB has it", async () => {
  const engine = await open();
  const columns = {
    i8: ["bigint", fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n).map(String)],
    i4: ["integer", fc.integer().map(String)],
    i2: ["smallint", fc.integer({ min: -32_768, max: 32_767 }).map(String)],
    f8: ["double precision", fc.double().map(String)],
    f4: ["real", fc.float({ noNaN: true }).map(String)],
    d4: ["numeric(4, 4)", fc.integer({ min: -9999, max: 9999 }).map((n) => (n / 10_000).toFixed(4))],
    d9: ["numeric(9, 0)", fc.integer({ min: -999_999_999, max: 999_999_999 }).map(String)],
    d18: ["numeric(18, 3)", decimals(18, 3)],
    d38: ["numeric(38, 10)", decimals(38, 10)],
    b: ["boolean", fc.boolean().map(String)],
    day: ["date", moments.map((time) => time.slice(0, 10))],
    hour: ["time", moments.map((time) => time.slice(11))],
    moment: ["timestamp", moments],
    u: ["uuid", fc.uuid()],
    v: [
      "text",
      fc
        .oneof(fc.string({ unit: "binary", maxLength: 40 }), fc.constant("x".repeat(70_000)))
        .map((text) => text.replaceAll("\0", "").toWellFormed()),
    ],
  } as const satisfies Record<string, readonly [string, fc.Arbitrary<string>]>;
  const names = Object.keys(columns) as (keyof typeof columns)[];
  const list = names.map((name) => `${name} ${columns[name][0]}`).join(", ");
  await engine.define(
    `CREATE SCHEMA IF NOT EXISTS shop; CREATE TABLE IF NOT EXISTS shop.types (n integer, ${list})`,
    "t.sql",
  );
  const pool = await Postgres.open(options.parse({ postgres: url }));
  const row = fc.record(Object.fromEntries(names.map((name) => [name, fc.option(columns[name][1], { freq: 4 })])));
  let loads = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(row, { maxLength: 20 }), async (rows) => {
      const stage = await engine.openStage();
      const types = names.map((name) => `${name} ${columns[name][0]}`).join(", ");
      await stage.connection.run(`CREATE TABLE accepted (n INTEGER, ${types}, row_number BIGINT)`);
      const values = rows.map(
        (row, n) =>
          `(${n}, ${names.map((name) => (row[name] === null ? "NULL" : `'${row[name]!.replaceAll("'", "''")}'`)).join(", ")}, ${n})`,
      );
      if (values.length > 0) await stage.connection.run(`INSERT INTO accepted VALUES ${values.join(", ")}`);
      const table = await engine.find({ database: "shop", schema: "core_default_schema", table: "types" });
      loads += 1;
      await engine.write(stage, table!, { empty: true, load: `types ${loads}` }, never);
      await stage.close();
      // What PostgreSQL makes of the same texts.
      for (const [n, row] of rows.entries()) {
        const same = names.map(
          (name, index) => `${name} IS NOT DISTINCT FROM $${index + 1}::text::${columns[name][0]} AS ${name}`,
        );
        const [found] = await pool.rows<Record<string, boolean>>(
          `SELECT ${same.join(", ")} FROM shop.types WHERE n = ${n}`,
          names.map((name) => row[name] ?? null),
        );
        expect(found).toEqual(Object.fromEntries(names.map((name) => [name, true])));
      }
      expect(await pool.rows("SELECT count(*) AS n FROM shop.types")).toEqual([{ n: BigInt(rows.length) }]);
    }),
    { numRuns: cases(20) },
  );
  await pool.close();
  await engine.close();
});

const moments = fc
  .date({ min: new Date("0002-01-01"), max: new Date("9998-12-31"), noInvalidDate: true })
  .map((date) => date.toISOString().replace("T", " ").replace("Z", "123"));

function decimals(width: number, scale: number): fc.Arbitrary<string> {
  const most = 10n ** BigInt(width) - 1n;
  return fc.bigInt(-most, most).map((value) => {
    const digits = String(value < 0n ? -value : value).padStart(scale + 1, "0");
    return `${value < 0n ? "-" : ""}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
  });
}

test("A.24 a server that restarts while a load is written costs time, and nothing else", async () => {
  const engine = await open();
  await engine.define("CREATE SCHEMA IF NOT EXISTS shop; CREATE TABLE IF NOT EXISTS shop.t (a BIGINT)", "t.sql");
  await loadRows(engine, "t", "SELECT 1 AS a", false, "before");
  const copying = log.length;
  const writing = loadRows(engine, "t", "SELECT i AS a FROM range(2000000) r(i)", true, "interrupted");
  await expect.poll(() => log.slice(copying)).toContain('COPY "shop"."t"');
  await server.halt();
  await server.start();
  await writing;
  const count = { database: "shop", sql: "SELECT count(*), count(DISTINCT a) FROM t", limit: 1, timeout: 60_000 };
  expect((await pageOf(engine, count, never)).rows).toEqual([[2_000_000, 2_000_000]]);
  await engine.close();
});

test("A.24 a process killed while it loads leaves whole loads, and none that it reported is lost", async () => {
  await (await open()).close();
  let written = 0;
  for (const delay of [50, 200, 350]) {
    const loader = spawnProgram(new URL("../contract/engine/loader.ts", import.meta.url), [
      folder,
      String(written + 1),
      url,
    ]);
    let output = "";
    loader.stdout.on("data", (data: Buffer) => {
      output += data.toString();
    });
    await Promise.race([once(loader.stdout, "data"), once(loader, "exit")]);
    await after(delay);
    const ended = once(loader, "exit");
    loader.kill("SIGKILL");
    await ended;
    const reported = Number(output.trim().split("\n").at(-1));
    expect(reported).toBeGreaterThan(written);

    const engine = await open();
    for (const name of ["keyed", "plain"]) {
      // What the killed process was doing may not have ended yet: writing waits for it.
      const stage = await stageOf(engine, "SELECT -1 AS id, 'twice' AS name, -1 AS load");
      const table = await engine.find({ database: "shop", schema: "core_default_schema", table: name });
      await engine.write(stage, table!, { empty: false, load: `${name} ${reported}` }, never);
      await stage.close();
      const sql = `SELECT count(*), count(DISTINCT id), count(DISTINCT load), max(load) FROM ${name}`;
      const query = { database: "shop", sql, limit: 1, timeout: 60_000 };
      const [[rows, keys, loads, load] = []] = (await pageOf(engine, query, never)).rows;
      expect([rows, keys, loads], name).toEqual([rowsPerLoad, rowsPerLoad, 1]);
      expect(Number(load)).toBeGreaterThanOrEqual(reported);
      written = Math.max(written, Number(load));
    }
    await engine.close();
  }
});

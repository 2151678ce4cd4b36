import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Engine } from "#service/engine/engine.ts";
import { openPostgresEngine } from "#service/engine/postgres/postgres.ts";
import { postgres as options } from "#postgres/options.ts";
import { startPostgres } from "../../support/postgres.ts";
import type { PostgresServer } from "../../support/postgres.ts";
import { refusedByCitus, statementsOf } from "./citus.ts";
import { executed, loadRows, pageOf, stageOf } from "./stage.ts";
import { postgresDialect } from "./postgres-dialect.ts";
import { engineSuite } from "./suite.ts";

const never = new AbortController().signal;
let server: PostgresServer;
const urls = new Map<string, string>();
let log = "";

beforeAll(async () => {
  server = await startPostgres({
    settings: { log_statement: "all", log_line_prefix: "§" },
    log: (text) => {
      log += text;
    },
  });
});
afterAll(async () => {
  await server.stop();
});

const openAt = async (url: string, folder: string): Promise<Engine> =>
  openPostgresEngine({ postgres: options.parse({ postgres: url }), folder, memory: 512 * 2 ** 20 });

/** A database for each folder. */
const open = async (folder: string): Promise<Engine> => {
  const url = urls.get(folder) ?? (await server.createDatabase());
  urls.set(folder, url);
  return openAt(url, folder);
};

engineSuite("PostgreSQL", open, postgresDialect);

test("nothing that was sent for loads is refused by Citus on distributed tables", () => {
  const statements = statementsOf(log);
  const distributed = new Map([
    ['"shop"."people"', ['"id"']],
    ['"shop"."plain"', []],
    ['"shop"."pairs"', ['"a"', '"b"']],
    ['"shop"."checked"', []],
    ['"shop.Second Schema"."Orders"', ['"Customer"', '"no"']],
  ]);
  for (const name of distributed.keys())
    expect(
      statements.filter((sql) => sql.startsWith("COPY") || sql.includes(`INSERT INTO ${name}`)).join("\n"),
    ).toContain(name === '"shop"."checked"' ? "COPY" : name);
  expect(
    refusedByCitus(
      statements.filter((sql) => !sql.startsWith("CREATE TABLE")),
      distributed,
    ),
  ).toEqual([]);
  // The rules find what they are for.
  const wrong = [
    'INSERT INTO "shop"."people" ("id") VALUES ($1)',
    'INSERT INTO "shop"."people" ("id", "name") SELECT 1, 2 ON CONFLICT ("name") DO UPDATE SET "id" = 1',
    'DELETE FROM "shop"."people" WHERE "id" = $1',
    'SELECT * FROM "shop"."people" FOR UPDATE',
    'LOCK TABLE "shop"."people"',
  ];
  expect(refusedByCitus(wrong, distributed)).toHaveLength(6);
});

describe("queries are confined to their database", () => {
  let folder: string;
  let engine: Engine;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "rollcall-engine-"));
    engine = await open(folder);
    const sql = "CREATE TABLE t (a INTEGER); CREATE VIEW v AS SELECT a + 1 AS b FROM t; INSERT INTO t VALUES (1)";
    for (const database of ["own", "other"]) {
      await executed(engine, undefined, `CREATE DATABASE IF NOT EXISTS ${database}`, never);
      await executed(engine, database, sql, never);
    }
    await executed(engine, "own", 'CREATE SCHEMA "own.elsewhere"; CREATE TABLE "own.elsewhere".x (a INT)', never);
    await executed(engine, "own", "CREATE SEQUENCE s; CREATE FUNCTION twice(n int) RETURNS int RETURN n * 2", never);
    await executed(engine, "other", "CREATE FUNCTION peek() RETURNS int RETURN (SELECT max(a) FROM other.t)", never);
  });
  afterAll(async () => {
    await engine.close();
    await rm(folder, { recursive: true });
  });

  const ask = async (sql: string): Promise<unknown> =>
    pageOf(engine, { database: "own", sql, limit: 100, timeout: 60_000 }, never);

  test.each([
    "SELECT * FROM other.t",
    "SELECT * FROM rollcall.loads",
    "SELECT (SELECT max(a) FROM other.t)",
    "SELECT * FROM t WHERE a IN (SELECT a FROM other.t)",
    "SELECT 1 WHERE false AND EXISTS (SELECT FROM other.t)",
    "WITH x AS (SELECT * FROM other.t) SELECT * FROM x",
    "SELECT * FROM t, LATERAL (SELECT * FROM other.t) q",
    "SELECT 1 LIMIT (SELECT a FROM other.t)",
    "SELECT other.peek()",
    "SELECT * FROM other.peek()",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM pg_stat_activity",
    "SELECT * FROM information_schema.tables",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT * FROM pg_ls_dir('/')",
    "SELECT pg_sleep(1)",
    "SELECT pg_terminate_backend(1)",
    "SELECT pg_advisory_lock(1)",
    "SELECT set_config('statement_timeout', '0', false)",
    "SELECT current_setting('data_directory')",
    "SELECT query_to_xml('SELECT * FROM other.t', true, true, '')",
    "SELECT table_to_xml('other.t'::regclass, true, true, '')",
    "SELECT * FROM ts_stat('SELECT a FROM other.t')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT nextval('s')",
    "SELECT has_table_privilege('other.t', 'SELECT')",
    "SELECT count(*) FILTER (WHERE pg_sleep(1) IS NULL) FROM t",
    "SELECT max(a) OVER (ORDER BY pg_sleep(1)) FROM t",
    "EXPLAIN ANALYZE SELECT 1",
    "COPY t TO '/tmp/out.csv'",
    "COPY t TO PROGRAM 'cat'",
    "SET statement_timeout = 0",
    "SHOW ALL",
    "CALL x()",
    "DO $$ BEGIN END $$",
    "INSERT INTO t VALUES (2)",
    "WITH x AS (INSERT INTO t VALUES (2) RETURNING a) SELECT * FROM x",
    "SELECT * INTO x FROM t",
    "SELECT * FROM t FOR UPDATE",
    "UPDATE t SET a = 2",
    "DELETE FROM t",
    "TRUNCATE t",
    "DROP TABLE t",
    "CREATE TABLE x (a INT)",
    "CREATE TEMP TABLE x AS SELECT 1",
    "PREPARE x AS SELECT 1",
    "LISTEN x",
    "BEGIN",
    "COMMIT",
    "SELECT 1; SELECT 2",
    "SELECT 1; COMMIT; DROP TABLE t",
    "SELECT 1) q; DROP TABLE t; SELECT * FROM (SELECT 1",
    "SELECT 1) q UNION ALL SELECT * FROM (SELECT 1",
    "SELECT $1",
    "",
    "-- nothing",
  ])("refuses %s", async (sql) => {
    await expect(ask(sql)).rejects.toMatchObject({ name: "InputError" });
  });

  test.each([
    ["SELECT * FROM t", [[1]]],
    ["TABLE own.v", [[2]]],
    ["SELECT t.a FROM own.t AS t JOIN T AS u USING (a)", [[1]]],
    ['SELECT * FROM "own.elsewhere".x', []],
    ["SELECT twice(a) FROM t", [[2]]],
    ["WITH t AS (SELECT 7 AS a) SELECT * FROM t", [[7]]],
    ["WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT max(i) FROM n", [[3]]],
    ["SELECT ';' AS x /* ; */; -- ;", [[";"]]],
    ['SELECT $$a;\'b$$ || e\'\\\';\' || "a"";" FROM (SELECT \'c\' AS "a"";") q', [["a;'b';c"]]],
    [
      "SELECT count(*) FILTER (WHERE a > 0), string_agg(a::text, ','), row_number() OVER () FROM t GROUP BY ()",
      [[1, "1", 1]],
    ],
    ["VALUES (1), (2)", [[1], [2]]],
    [
      "SELECT extract(year FROM DATE '2024-02-29'), upper('a'), ARRAY[1, NULL], 'ab' LIKE 'a%'",
      [["2024", "A", [1, null], true]],
    ],
    ["SELECT random() < 2, now() > '2020-01-01', pg_typeof(1)::text, NULL", [[true, true, "integer", null]]],
    [
      "SELECT TIMESTAMPTZ '2024-02-29 10:00:00+02', TIMETZ '10:00:00.5+02', 'infinity'::date, INTERVAL '1 day'",
      [["2024-02-29T08:00:00", "10:00:00.500000", null, "1 day"]],
    ],
  ])("allows %s", async (sql, rows) => {
    expect(await ask(sql)).toMatchObject({ rows });
    // Also where it was checked before.
    expect(await ask(sql)).toMatchObject({ rows });
  });

  test("what an administrator runs is one transaction", async () => {
    await expect(executed(engine, "own", "INSERT INTO t VALUES (5); SELECT 1 / 0", never)).rejects.toThrow(
      "line 1 (nothing was changed): division by zero",
    );
    expect(await executed(engine, "own", "SELECT * FROM t", never)).toMatchObject({ rows: [[1]] });
    const written = "WITH x AS (INSERT INTO t VALUES (6) RETURNING a) SELECT a FROM x";
    expect(await executed(engine, "own", written, never)).toMatchObject({ rows: [[6]], totalRowCount: 1 });
    expect(await executed(engine, "own", "DELETE FROM t WHERE a = 6", never)).toMatchObject({ rows: [] });
    await expect(executed(engine, "own", "COPY t TO PROGRAM 'cat'", never)).rejects.toThrow("COPY cannot be run here");
  });
});

test("a superuser is refused, and so is a user of the server's files", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-engine-"));
  const url = await server.createDatabase();
  await expect(openAt(server.asSuperuser(url), folder)).rejects.toMatchObject({
    name: "RefusedError",
    message: expect.stringMatching(/postgres .* is a superuser.*CREATE ROLE/),
  });
  const admin = await server.connect();
  await admin.query("CREATE ROLE reader LOGIN PASSWORD 'secret' IN ROLE pg_read_server_files");
  await admin.end();
  await expect(openAt(url.replace(/\/\/[^@]*@/, "//reader:secret@"), folder)).rejects.toThrow("server's files");
  await rm(folder, { recursive: true });
});

test("A.21 tables with indexes, unique columns, partitions and references are upserted and emptied too", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-engine-"));
  const engine = await open(folder);
  await engine.define(
    `CREATE SCHEMA IF NOT EXISTS shop;
     CREATE TABLE IF NOT EXISTS shop.indexed (id INTEGER PRIMARY KEY, name VARCHAR);
     CREATE INDEX IF NOT EXISTS by_name ON shop.indexed (name);
     CREATE TABLE IF NOT EXISTS shop.one_name (id INTEGER PRIMARY KEY, name VARCHAR(5) UNIQUE);
     CREATE TABLE IF NOT EXISTS shop.split (id INTEGER, name VARCHAR, PRIMARY KEY (id)) PARTITION BY RANGE (id);
     CREATE TABLE IF NOT EXISTS shop.split_low PARTITION OF shop.split FOR VALUES FROM (MINVALUE) TO (2);
     CREATE TABLE IF NOT EXISTS shop.split_high PARTITION OF shop.split FOR VALUES FROM (2) TO (MAXVALUE);
     CREATE TABLE IF NOT EXISTS shop.referenced (id INTEGER PRIMARY KEY, name VARCHAR);
     CREATE TABLE IF NOT EXISTS shop.referring (id INTEGER PRIMARY KEY REFERENCES shop.referenced (id), name VARCHAR);
     COMMENT ON TABLE shop.split IS 'in two'`,
    "tables.sql",
  );
  let loads = 0;
  const write = (name: string, rows: string, empty: boolean): Promise<void> =>
    loadRows(engine, name, rows, empty, String((loads += 1)));
  const read = async (name: string): Promise<unknown> =>
    (await pageOf(engine, { database: "shop", sql: `TABLE ${name} ORDER BY id`, limit: 9, timeout: 60_000 }, never))
      .rows;
  for (const name of ["indexed", "one_name", "split", "referenced", "referring"]) {
    await write(name, "SELECT unnest([1, 2]) AS id, unnest(['a', 'b']) AS name", false);
    await write(name, "SELECT unnest([2, 3, 3]) AS id, unnest(['c', 'x', 'd']) AS name", false);
    expect(await read(name), name).toEqual([
      [1, "a"],
      [2, "c"],
      [3, "d"],
    ]);
    if (name === "referenced") continue;
    await write(name, "SELECT unnest([1, 2, 2]) AS id, unnest(['e', 'x', 'f']) AS name", true);
    expect(await read(name), name).toEqual([
      [1, "e"],
      [2, "f"],
    ]);
  }
  for (const [name, row, message] of [
    ["one_name", "SELECT 9 AS id, 'e' AS name", "already exists"],
    ["one_name", "SELECT 9 AS id, 'too long' AS name", "too long for type character varying(5)"],
    ["referring", "SELECT 9 AS id, 'e' AS name", "foreign key"],
    ["indexed", "SELECT 9 AS id, 'a' || chr(0) AS name", "0x00"],
  ] as const) {
    const refused = write(name, row, false);
    await expect(refused, message).rejects.toMatchObject({
      name: "InputError",
      message: expect.stringContaining(message),
    });
  }
  await engine.close();
  await rm(folder, { recursive: true });
});

test("a table that was changed after it was found is not written", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-engine-"));
  const engine = await open(folder);
  await engine.define("CREATE SCHEMA IF NOT EXISTS shop; CREATE TABLE IF NOT EXISTS shop.t (a INTEGER)", "t.sql");
  for (const change of ["ALTER TABLE t ALTER a TYPE bigint", "ALTER TABLE t ADD b INTEGER", "DROP TABLE t"]) {
    const table = await engine.find({ database: "shop", schema: "core_default_schema", table: "t" });
    const stage = await stageOf(engine, "SELECT 1 AS a");
    await executed(engine, "shop", change, never);
    await expect(engine.write(stage, table!, { empty: true, load: change }, never)).rejects.toThrow(
      "was changed while",
    );
    await stage.close();
  }
  await engine.close();
  await rm(folder, { recursive: true });
});

test("a process learns what another has changed, when it is committed, and of nothing else", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-engine-"));
  const url = await server.createDatabase();
  const [one, other] = [await openAt(url, folder), await openAt(url, folder)];
  const seen = [await other.revision()];
  const changed = async (): Promise<boolean> => {
    const revision = await other.revision();
    const isNew = !seen.includes(revision);
    seen.push(revision);
    return isNew;
  };
  const tables = "CREATE SCHEMA IF NOT EXISTS shop; CREATE TABLE IF NOT EXISTS shop.t (a INTEGER)";
  await one.define(tables, "tables.sql");
  expect(await changed()).toBe(true);
  await one.define(tables, "tables.sql");
  expect(await changed()).toBe(false);
  for (const sql of [
    "INSERT INTO t VALUES (1)",
    "WITH x AS (DELETE FROM t RETURNING a) SELECT * FROM x",
    "DROP TABLE t",
  ]) {
    await executed(one, "shop", sql, never);
    expect(await changed(), sql).toBe(true);
  }
  for (const sql of ["SELECT 1", "SET TRANSACTION READ ONLY; SELECT 1"]) {
    await executed(one, "shop", sql, never);
    expect(await changed(), sql).toBe(false);
  }
  await expect(executed(one, "shop", "CREATE TABLE t (a INTEGER); SELECT nonsense", never)).rejects.toThrow("nonsense");
  expect(await changed()).toBe(false);
  await one.define(tables, "tables.sql");
  expect(await changed()).toBe(true);
  for (const empty of [false, true]) {
    await loadRows(one, "t", "SELECT 1 AS a", empty, `load ${empty}`);
    expect(await changed()).toBe(true);
  }
  await pageOf(one, { database: "shop", sql: "SELECT * FROM t", limit: 1, timeout: 60_000 }, never);
  expect(await changed()).toBe(false);
  // A load that is being written hides from nobody that another one is over.
  await one.define("CREATE TABLE IF NOT EXISTS shop.u (a INTEGER)", "tables.sql");
  expect(await changed()).toBe(true);
  const client = await server.connect(new URL(url).pathname.slice(1));
  await client.query("BEGIN; SELECT * FROM rollcall.revisions WHERE part LIKE 'table %' FOR UPDATE");
  await loadRows(one, "u", "SELECT 1 AS a", false, "beside");
  expect(await changed()).toBe(true);
  await client.query("ROLLBACK");
  await client.end();
  await one.close();
  await other.close();
  await rm(folder, { recursive: true });
});

describe("tables.sql", () => {
  const tables = `
    CREATE SCHEMA IF NOT EXISTS shop; CREATE TABLE IF NOT EXISTS shop.t (a INTEGER PRIMARY KEY);
    CREATE TABLE IF NOT EXISTS shop.u (a INTEGER REFERENCES shop.t); CREATE INDEX IF NOT EXISTS u_a ON shop.u (a);
    ALTER TABLE shop.t ADD COLUMN IF NOT EXISTS b INTEGER; CREATE OR REPLACE VIEW shop.v AS SELECT a FROM shop.t;
    COMMENT ON TABLE shop.t IS 'it'`;

  test("is applied by several processes that start at the same moment", async () => {
    for (let round = 0; round < 3; round++) {
      const folder = await mkdtemp(join(tmpdir(), "rollcall-engine-"));
      const url = await server.createDatabase();
      const start = async (node: number): Promise<Engine> => {
        const engine = await openAt(url, join(folder, `node ${node}`));
        await engine.define(tables, "tables.sql");
        return engine;
      };
      for (let time = 0; time < 2; time++) {
        const engines = await Promise.all([1, 2, 3].map(start));
        const found = await engines[0]?.find({ database: "shop", schema: "core_default_schema", table: "t" });
        expect(found?.columns.map(({ name }) => name)).toEqual(["a", "b"]);
        await Promise.all(engines.map((engine) => engine.close()));
      }
      await rm(folder, { recursive: true });
    }
  });

  test("waits for a load without keeping readers out, and gives way where each waits for the other", async () => {
    const folder = await mkdtemp(join(tmpdir(), "rollcall-engine-"));
    const url = await server.createDatabase();
    const engine = await openAt(url, folder);
    await engine.define(tables, "tables.sql");
    const client = await server.connect(new URL(url).pathname.slice(1));
    await client.query("BEGIN; LOCK TABLE shop.t IN ROW EXCLUSIVE MODE");
    let isDefined = false;
    const defining = engine.define(tables, "tables.sql").finally(() => (isDefined = true));
    const waiting = "SELECT count(*)::integer AS n FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'";
    const isWaiting = async (): Promise<boolean> => (await client.query<{ n: number }>(waiting)).rows[0]?.n === 1;
    await expect.poll(isWaiting, { interval: 10 }).toBe(true);
    const query = { database: "shop", sql: "SELECT count(*) FROM t", limit: 1, timeout: 600_000 };
    expect((await pageOf(engine, query, never)).rows).toEqual([[0]]);
    expect(isDefined).toBe(false);
    // It has one table and wants the other; with this one it is the other way round.
    await client.query("ROLLBACK; BEGIN; LOCK TABLE shop.u IN ROW EXCLUSIVE MODE");
    await client.query("LOCK TABLE shop.t IN ROW EXCLUSIVE MODE; COMMIT");
    await defining;
    await client.end();
    await engine.close();
    await rm(folder, { recursive: true });
  });
});

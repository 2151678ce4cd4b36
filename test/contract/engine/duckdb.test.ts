import { once } from "node:events";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openDuckDbEngine } from "#service/engine/duckdb.ts";
import type { Engine } from "#service/engine/engine.ts";
import { spawnProgram } from "../../support/process.ts";
import { executed, pageOf, rowsPerLoad, stageOf } from "./stage.ts";
import { engineSuite } from "./suite.ts";

const open = async (folder: string): Promise<Engine> => openDuckDbEngine({ folder, memory: 512 * 2 ** 20 });
const never = new AbortController().signal;

engineSuite("DuckDB", open, {
  text: {},
  range: (n) => `range(${n}) r(i)`,
  schema: (name) => `"${name}"`,
  forever: "SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(10000000) b(i)",
  refused: [
    ["CREATE TABLE IF NOT EXISTS shop.x AS SELECT 1", "t.sql:1: the columns are missing"],
    [
      "\nCREATE TABLE IF NOT EXISTS shop.x (a INT, b HUGEINT, c INT[])",
      /t.sql:2: .*column b .*HUGEINT.*column c .*INTEGER\[\]/,
    ],
    [
      "CREATE TABLE IF NOT EXISTS shop.x (a INT, b INT GENERATED ALWAYS AS (a + 1))",
      /t.sql:1: table x: column b is GENERATED/,
    ],
    ["CREATE TABLE IF NOT EXISTS shop.x (a INT REFERENCES shop.core_default_schema.people (id))", "foreign keys"],
    ["CREATE TABLE IF NOT EXISTS shop.x (a INT REFERENCES people (id))", "t.sql:1: foreign keys (REFERENCES) cannot"],
  ],
  unloadable: "CREATE TABLE IF NOT EXISTS other.x (a BLOB)",
  counted: [["SELECT DISTINCT ON (i % 3) i FROM range(10) r(i) ORDER BY i", 3]],
  forbidden: [
    ["made", "ATTACH '/tmp/x.db'", "ATTACH cannot be run here"],
    ["made", "SELECT * FROM read_text('/etc/passwd')", "passwd"],
    [undefined, "CREATE TABLE lost (a INT)", "belongs to no database"],
  ],
});

describe("queries are confined to their database", () => {
  let folder: string;
  let engine: Engine;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "rollcall-engine-"));
    engine = await open(folder);
    const sql = "CREATE TABLE t (a INTEGER); CREATE VIEW v AS SELECT a + 1 AS b FROM t; INSERT INTO t VALUES (1)";
    for (const database of ["own", "other"]) {
      await executed(engine, undefined, `CREATE DATABASE ${database}`, never);
      await executed(engine, database, sql, never);
    }
    await executed(engine, "own", "CREATE MACRO peek() AS (SELECT a FROM other.core_default_schema.t)", never);
    await executed(
      engine,
      "own",
      'CREATE SEQUENCE s; CREATE SCHEMA elsewhere; CREATE TABLE elsewhere."x.csv" (a INT)',
      never,
    );
    // In the one folder that the instance itself can read.
    await writeFile(join(folder, "x.csv"), "a\nsecret\n");
  });
  afterAll(async () => {
    await engine.close();
    await rm(folder, { recursive: true });
  });

  const ask = async (sql: string): Promise<unknown> =>
    pageOf(engine, { database: "own", sql: sql.replaceAll("FOLDER", folder), limit: 100, timeout: 60_000 }, never);

  test.each([
    "SELECT * FROM other.core_default_schema.t",
    "SELECT * FROM other.t",
    "SELECT peek()",
    "SELECT (SELECT max(a) FROM OTHER.t)",
    "SELECT * FROM t WHERE a IN (SELECT a FROM other.t)",
    "WITH x AS (SELECT * FROM other.t) SELECT * FROM x",
    "SELECT * FROM t ORDER BY (SELECT a FROM other.t)",
    "FROM (PIVOT other.t ON a IN (1) USING count(*))",
    "SELECT * FROM t, LATERAL (SELECT * FROM other.t)",
    "SELECT 1 LIMIT (SELECT a FROM other.t)",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM 'FOLDER/x.csv'",
    'WITH "FOLDER/x.csv" AS (SELECT * FROM "FOLDER/x.csv") SELECT * FROM "FOLDER/x.csv"',
    'SELECT * FROM (WITH "FOLDER/x.csv" AS (SELECT 1) SELECT 1), "FOLDER/x.csv"',
    'SELECT * FROM "x.csv"',
    "SELECT * FROM read_csv('FOLDER/x.csv')",
    "SELECT * FROM read_csv_auto(['FOLDER/x.csv'])",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('FOLDER/own.duckdb')",
    "SELECT * FROM read_json('FOLDER/x.csv')",
    "SELECT * FROM sniff_csv('FOLDER/x.csv')",
    "SELECT * FROM parquet_scan('https://example.com/x.parquet')",
    "SELECT * FROM glob('FOLDER/*')",
    "SELECT * FROM query('SELECT * FROM other.t')",
    "SELECT * FROM query_table('other.t')",
    "SELECT json_execute_serialized_sql(json_serialize_sql('SELECT * FROM other.t'))",
    "FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM other.t'))",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_databases()",
    "SELECT * FROM duckdb_tables",
    "WITH duckdb_tables AS (SELECT * FROM duckdb_tables) SELECT * FROM duckdb_tables",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM pragma_database_list",
    "SELECT current_setting('temp_directory')",
    "SELECT getenv('HOME')",
    "SELECT getvariable('x')",
    "SELECT nextval('s')",
    "SELECT write_log('x')",
    "SELECT sleep_ms(10)",
    "SELECT * FROM checkpoint()",
    "SHOW ALL TABLES",
    "SELECT * FROM (SHOW DATABASES)",
    "DESCRIBE other.t",
    "EXPLAIN ANALYZE SELECT 1",
    "COPY t TO 'FOLDER/out.csv'",
    "COPY t FROM 'FOLDER/x.csv'",
    "EXPORT DATABASE 'FOLDER/out'",
    "ATTACH 'FOLDER/other.duckdb' AS x",
    "DETACH other",
    "USE other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET memory_limit = '1GB'",
    "SET enable_external_access = true",
    "RESET memory_limit",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "INSERT INTO t VALUES (2)",
    "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
    "UPDATE t SET a = 2",
    "DELETE FROM t",
    "TRUNCATE t",
    "DROP TABLE t",
    "CREATE TABLE x (a INT)",
    "CREATE TEMP TABLE x AS SELECT 1",
    "PREPARE x AS SELECT 1",
    "BEGIN",
    "COMMIT",
    "CHECKPOINT",
    "VACUUM",
    "SELECT 1; SELECT 2",
    "SELECT 1; COMMIT; DROP TABLE t",
    "SELECT 1) ; DROP TABLE t; SELECT * FROM (SELECT 1",
    "SELECT $1",
    "SELECT ?",
    "SELECT 1e400",
    "",
    "-- nothing",
  ])("refuses %s", async (sql) => {
    await expect(ask(sql)).rejects.toMatchObject({ name: "InputError" });
  });

  test.each([
    ["SELECT * FROM t", [[1]]],
    ["SELECT * FROM v", [[2]]],
    ["SELECT t.a FROM own.t AS t JOIN OWN.Core_Default_Schema.T AS u USING (a)", [[1]]],
    ['FROM elsewhere."x.csv"', []],
    ["WITH t AS (SELECT 7 AS a) SELECT * FROM t", [[7]]],
    ["WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT max(i) FROM n", [[3]]],
    ["SELECT ';' AS x /* ; */; -- ;", [[";"]]],
    ['SELECT $$a;\'b$$ || e\'\\\';\' || "a"";" FROM (SELECT \'c\' AS "a"";")', [["a;'b';c"]]],
    ["SELECT count(*) FILTER (a > 0), string_agg(a, ','), row_number() OVER () FROM t GROUP BY ALL", [[1, "1", 1]]],
    ["VALUES (1), (2)", [[1], [2]]],
    ["SELECT * FROM range(2) UNION ALL SELECT unnest([5])", [[0], [1], [5]]],
    [
      "SELECT extract(year FROM DATE '2024-02-29'), upper('a'), [x + 1 FOR x IN [1]], 'ab' LIKE 'a%'",
      [[2024, "A", [2], true]],
    ],
  ])("allows %s", async (sql, rows) => {
    expect(await ask(sql)).toMatchObject({ rows });
  });

  test("B.15 holds inside lists, structs, maps and unions; a struct without names is a list", async () => {
    const sql = `SELECT ROW(1, 'x'), [ROW(NULL)], {'a': ROW(3, 4), '__proto__': 'p'}, [0.1::FLOAT, 'nan'::FLOAT], {'f': 0.1::FLOAT},
      map([TIMESTAMP '2024-02-29 10:11:12.5'], [DATE '2024-02-29']), map([0.1::FLOAT], [9007199254740993]), union_value(f := 0.1::FLOAT)`;
    const { rows } = (await ask(sql)) as { rows: unknown };
    expect(JSON.stringify(rows)).toBe(
      JSON.stringify([
        [
          [1, "x"],
          [[null]],
          Object.fromEntries([
            ["a", [3, 4]],
            ["__proto__", "p"],
          ]),
          [0.1, null],
          { f: 0.1 },
          { "2024-02-29T10:11:12.500000": "2024-02-29" },
          { 0.1: "9007199254740993" },
          0.1,
        ],
      ]),
    );
  });

  test("B.15 entries of a struct whose names are numbers keep their own types, in any order", async () => {
    const sql = "SELECT {'2': 0.1::FLOAT, '1': DATE '2024-02-29'}, {'b': 1, '10': 'x', '9': [0.1::FLOAT]}";
    const rows = [
      [
        { 1: "2024-02-29", 2: 0.1 },
        { b: 1, 10: "x", 9: [0.1] },
      ],
    ];
    expect(await ask(sql)).toMatchObject({ rows });
  });

  test("not even an administrator reaches other files", async () => {
    const refusal = /file system operations are disabled/;
    await expect(executed(engine, "own", "FROM read_text('/etc/passwd')", never)).rejects.toThrow(refusal);
    await expect(executed(engine, "own", "FROM '/etc/hosts.csv'", never)).rejects.toThrow(refusal);
    await expect(executed(engine, "own", "FROM 'https://example.com/x.csv'", never)).rejects.toThrow(/https?/);
  });
});

test("a table that is named with its database alone is one of the default schema, whichever database is current", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-engine-"));
  const engine = await open(folder);
  await executed(engine, undefined, "CREATE DATABASE one; CREATE DATABASE other", never);
  const name = { database: "other", schema: "core_default_schema", table: "t" };
  const made = await executed(engine, undefined, "CREATE TABLE other.t (a INTEGER)", never);
  expect(made).toEqual({ columnNames: [], rows: [], totalRowCount: 0 });
  expect(await executed(engine, undefined, "INSERT INTO OTHER.t VALUES (1)", never)).toMatchObject({ rows: [[1]] });
  expect(await engine.find(name)).toBeDefined();
  const page = { rows: [[1]], totalRowCount: 1 };
  expect(await executed(engine, "one", 'FROM "other".t', never)).toMatchObject(page);
  expect(await executed(engine, "other", "FROM t", never)).toMatchObject(page);
  // It is reached where it is named, and only there.
  await expect(executed(engine, "one", "FROM other.t; FROM t", never)).rejects.toThrow(/t does not exist/);
  const within = "BEGIN; INSERT INTO other.t VALUES (2); ROLLBACK; USE other.core_default_schema; FROM t";
  expect(await executed(engine, "one", within, never)).toMatchObject(page);
  await engine.close();
  await rm(folder, { recursive: true });
});

test("A.21 tables with indexes, unique columns and references are upserted and emptied too", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-engine-"));
  const engine = await open(folder);
  await executed(engine, undefined, "CREATE DATABASE shop", never);
  const sql = `CREATE TABLE indexed (id INTEGER PRIMARY KEY, name VARCHAR); CREATE INDEX by_name ON indexed (name);
    CREATE TABLE one_name (id INTEGER PRIMARY KEY, name VARCHAR UNIQUE);
    CREATE TABLE referenced (id INTEGER PRIMARY KEY, name VARCHAR);
    CREATE TABLE referring (id INTEGER PRIMARY KEY REFERENCES referenced (id), name VARCHAR);
    CREATE TABLE computed (id DECIMAL(9, 2) DEFAULT 1, "a b" VARCHAR GENERATED ALWAYS AS ('(,' || id), c VARCHAR DEFAULT 'GENERATED ALWAYS AS');
    CREATE TABLE itself (id INTEGER PRIMARY KEY, name INTEGER REFERENCES itself (id));
    CREATE TABLE checked (id INTEGER PRIMARY KEY CHECK (id < 9), name VARCHAR CHECK (name <> 'no''ne'))`;
  await executed(engine, "shop", sql, never);
  let loads = 0;
  const load = async (name: string, rows: string, empty: boolean): Promise<void> => {
    const table = await engine.find({ database: "shop", schema: "core_default_schema", table: name });
    const stage = await stageOf(engine, rows);
    loads += 1;
    try {
      await engine.write(stage, table!, { empty, load: String(loads) }, never);
    } finally {
      await stage.close();
    }
  };
  for (const name of ["indexed", "one_name", "referenced", "referring"]) {
    await load(name, "SELECT unnest([1, 2]) AS id, unnest(['a', 'b']) AS name", false);
    await load(name, "SELECT unnest([2, 3, 3]) AS id, unnest(['c', 'x', 'd']) AS name", false);
    const query = { database: "shop", sql: `SELECT * FROM ${name} ORDER BY id`, limit: 9, timeout: 60_000 };
    expect((await pageOf(engine, query, never)).rows, name).toEqual([
      [1, "a"],
      [2, "c"],
      [3, "d"],
    ]);
    if (name === "referenced") continue;
    await load(name, "SELECT unnest([1, 2]) AS id, unnest(['e', 'f']) AS name", true);
    expect((await pageOf(engine, query, never)).rows, name).toEqual([
      [1, "e"],
      [2, "f"],
    ]);
  }
  await expect(load("referenced", "SELECT 1 AS id, 'e' AS name", true)).rejects.toThrow(
    /^the table referenced has rows that another table refers to \(id: \d\): empty the other table first$/,
  );
  await executed(engine, "shop", "CREATE INDEX too ON referenced (name)", never);
  await expect(load("referenced", "SELECT 1 AS id, 'e' AS name", false)).rejects.toThrow(
    "DuckDB cannot replace such a row in a table with an index or a UNIQUE column",
  );
  await expect(load("one_name", "SELECT 9 AS id, 'e' AS name", false)).rejects.toMatchObject({ name: "InputError" });
  await expect(load("referring", "SELECT 9 AS id, 'e' AS name", false)).rejects.toMatchObject({ name: "InputError" });
  const computed = "column a b is GENERATED ALWAYS and cannot be loaded";
  await expect(load("computed", "SELECT 1", false)).rejects.toThrow(
    `table shop.core_default_schema.computed: ${computed}`,
  );
  expect((await engine.list()).flatMap(({ problem }) => problem ?? [])).toEqual([computed]);
  await expect(load("itself", "SELECT 1 AS id, NULL AS name", false)).rejects.toMatchObject({
    name: "InputError",
    message: expect.stringContaining("the table itself has a foreign key to itself"),
  });
  await expect(
    load("checked", "SELECT unnest([1, 2, 3]) AS id, unnest([NULL, 'no''ne', 'no''ne']) AS name", true),
  ).rejects.toMatchObject({
    name: "InputError",
    message: expect.stringMatching(/^row 2: the table checked has CHECK \(/),
  });
  expect(
    await executed(engine, "shop", "SELECT count(*) FROM duckdb_indexes() WHERE index_name = 'by_name'", never),
  ).toMatchObject({ rows: [[1]] });
  await engine.close();
  await rm(folder, { recursive: true });
});

test("A.24 a process killed while it loads leaves whole loads, and none that it reported is lost", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-engine-"));
  let written = 0;
  for (const delay of [50, 190, 330]) {
    const loader = spawnProgram(new URL("loader.ts", import.meta.url), [folder, String(written + 1)]);
    let output = "";
    loader.stdout.on("data", (data: Buffer) => {
      output += data.toString();
    });
    let complaint = "";
    loader.stderr.on("data", (data: Buffer) => {
      complaint += data.toString();
    });
    await Promise.race([once(loader.stdout, "data"), once(loader, "exit")]);
    await after(delay);
    const ended = once(loader, "exit");
    loader.kill("SIGKILL");
    await ended;
    expect(complaint).toBe("");
    const reported = Number(output.trim().split("\n").at(-1));
    expect(reported).toBeGreaterThan(written);

    const engine = await open(folder);
    for (const name of ["keyed", "plain"]) {
      const sql = `SELECT count(*), count(DISTINCT id), count(DISTINCT load), max(load) FROM ${name}`;
      const query = { database: "shop", sql, limit: 1, timeout: 60_000 };
      const [[rows, keys, loads, load] = []] = (await pageOf(engine, query, never)).rows;
      expect([rows, keys, loads], name).toEqual([rowsPerLoad, rowsPerLoad, 1]);
      expect(Number(load)).toBeGreaterThanOrEqual(reported);
      // What a restarted service does with the commit that was cut off: nothing, if it was written.
      const stage = await stageOf(engine, "SELECT -1 AS id, 'twice' AS name, -1 AS load");
      const table = await engine.find({ database: "shop", schema: "core_default_schema", table: name });
      await engine.write(stage, table!, { empty: false, load: `${name} ${String(load)}` }, never);
      await stage.close();
      expect((await pageOf(engine, query, never)).rows).toEqual([[rows, keys, loads, load]]);
      written = Math.max(written, Number(load));
    }
    await engine.close();
  }
  await rm(folder, { recursive: true });
});

test("a database that was being made when the process died is not there, and can be made", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-engine-"));
  await writeFile(join(folder, "half.duckdb.new"), "half");
  const engine = await open(folder);
  expect(await readdir(folder)).toEqual([]);
  await engine.define("CREATE DATABASE IF NOT EXISTS half", "tables.sql");
  await engine.close();
  expect(await readdir(folder)).toEqual(["half.duckdb"]);
  await rm(folder, { recursive: true });
});

test("a file that is no database is named", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-engine-"));
  await writeFile(join(folder, "broken.duckdb"), "this is no database at all".repeat(1000));
  await expect(open(folder)).rejects.toMatchObject({
    name: "InputError",
    message: expect.stringContaining(join(folder, "broken.duckdb")),
  });
  await rm(folder, { recursive: true });
});

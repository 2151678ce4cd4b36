import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Engine } from "#service/engine/engine.ts";
import { openPostgresEngine } from "#service/engine/postgres/postgres.ts";
import { postgres as options } from "#postgres/options.ts";
import { load } from "#service/loads/commit.ts";
import { loadParameters } from "#wire/loads.ts";
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
     CREATE TABLE IF NOT EXISTS shop.referenced (id INTEGER PRIMARY KEY, name VARCHAR UNIQUE);
     CREATE TABLE IF NOT EXISTS shop.referring (id INTEGER PRIMARY KEY REFERENCES shop.referenced (id), name VARCHAR UNIQUE);
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
  await write("referring", "SELECT unnest([1, 2]) AS id, unnest(['f', 'e']) AS name", false);
  await write("referenced", "SELECT 1 AS id, 'z' AS name", false);
  expect([await read("referring"), await read("referenced")]).toMatchObject([
    [
      [1, "f"],
      [2, "e"],
    ],
    [[1, "z"], {}, {}],
  ]);
  for (const [name, row, message] of [
    ["one_name", "SELECT 9 AS id, 'e' AS name", "already exists"],
    ["one_name", "SELECT 9 AS id, 'too long' AS name", "too long for type character varying(5)"],
    ["referring", "SELECT 9 AS id, 'x' AS name", "foreign key"],
    ["referenced", "SELECT 1 AS id, 'c' AS name", "already exists"],
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

test("A.15 a load rejects rows with texts that PostgreSQL does not take", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-engine-"));
  const url = await server.createDatabase();
  const engine = await openPostgresEngine({
    postgres: options.parse({ postgres: url }),
    folder,
    memory: 2 ** 28,
    files: [folder],
  });
  await engine.define(
    "CREATE SCHEMA IF NOT EXISTS shop; CREATE TABLE IF NOT EXISTS shop.t (id INTEGER PRIMARY KEY, short varchar(3), long text)",
    "t.sql",
  );
  const chunk = join(folder, "chunk");
  await writeFile(chunk, "1,abc,x\n2,abcd,x\n3,é😀é  ,x\n4,a,b\0c\n5,\0,x\n6,(null),\n");
  const target = { database: "shop", table: "t" };
  const parameters = loadParameters.parse({ target, load_options: { max_ignored_rows: 3 } });
  const outcome = await load({ id: "1", parameters, chunks: [chunk], badRecords: `${chunk}.bad` }, engine, never);
  expect(outcome).toMatchObject({
    code: "OK",
    rowsWritten: 3,
    ignoredRows: 3,
    errors: [
      'row 2, column short: "abcd" has more than 3 characters',
      'row 4, column long: "b\0c" has the character U+0000, which the database cannot store',
      'row 5, column short: "\0" has the character U+0000, which the database cannot store',
    ],
  });
  expect(await readFile(`${chunk}.bad`, "utf8")).toBe("2,abcd,x\n4,a,b\0c\n5,\0,x\n");
  const read = pageOf(engine, { database: "shop", sql: "TABLE t ORDER BY id", limit: 9, timeout: 60_000 }, never);
  expect((await read).rows).toEqual([
    [1, "abc", "x"],
    [3, "é😀é", "x"],
    [6, null, ""],
  ]);
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

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Column, Engine, RowSink, Table } from "#service/engine/engine.ts";
import { executed, pageOf, stageOf } from "./stage.ts";

/** Opens an engine; opened again with the same folder, it has the same tables. */
export type OpenEngine = (folder: string) => Promise<Engine>;

/** Where the SQL of an engine is its own. */
export interface Dialect {
  /** What a column of texts has of its own. */
  readonly text: Partial<Column>;
  /** The numbers 0 to `n` - 1 in the column `i` of the table `r`. */
  readonly range: (n: number) => string;
  /** A schema of the database `shop`, as a query names it. */
  readonly schema: (name: string) => string;
  /** A query that does not end. */
  readonly forever: string;
  /** Definitions of tables that are refused, and what is said. */
  readonly refused: readonly (readonly [sql: string, message: string | RegExp])[];
  /** A definition of a table with a type that cannot be loaded. */
  readonly unloadable: string;
  /** Queries, and how many rows they have. */
  readonly counted: readonly (readonly [sql: string, rows: number])[];
  /** What an administrator may not run in the database `made`, and what is said. */
  readonly forbidden: readonly (readonly [database: string | undefined, sql: string, message: string])[];
}

const never = new AbortController().signal;
const people = { database: "shop", schema: "core_default_schema", table: "people" };

/** What every engine does, whatever holds its tables. */
export function engineSuite(name: string, open: OpenEngine, dialect: Dialect): void {
  describe(`engine ${name}`, () => {
    let folder: string;
    let engine: Engine;
    let loads = 0;

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "rollcall-engine-"));
      engine = await open(folder);
      await engine.define(definition, "tables.sql");
    });
    afterAll(async () => {
      await engine.close();
      await rm(folder, { recursive: true });
    });

    const tableOf = async (table: string, schema = people.schema): Promise<Table> =>
      (await engine.find({ database: "shop", schema, table }))!;
    const rowsOf = async (sql: string): Promise<unknown> =>
      (await pageOf(engine, { database: "shop", sql, limit: 1000, timeout: 60_000 }, never)).rows;

    /** Loads the rows that a query makes, with a `row_number`. */
    const load = async (
      table: string,
      rows: string,
      options: { empty?: boolean; load?: string; rows?: number; signal?: AbortSignal } = {},
    ): Promise<void> => {
      const stage = await stageOf(engine, rows);
      loads += 1;
      const { rows: expected, empty = false, load: name = `load ${loads}` } = options;
      const writing = { empty, load: name, rows: expected };
      try {
        await engine.write(stage, await tableOf(table), writing, options.signal ?? never);
      } finally {
        await stage.close();
      }
    };

    test("finds a table with its columns, their types, and its primary key", async () => {
      expect(await tableOf("everything")).toEqual({
        database: "shop",
        schema: "core_default_schema",
        name: "everything",
        columns: [
          { name: "v", type: "VARCHAR", nullable: false, ...dialect.text },
          { name: "b", type: "BIGINT", nullable: true },
          { name: "i", type: "INTEGER", nullable: true },
          { name: "s", type: "SMALLINT", nullable: true },
          { name: "d", type: "DOUBLE", nullable: true },
          { name: "f", type: "FLOAT", nullable: true },
          { name: "n", type: "DECIMAL", width: 12, scale: 4, nullable: true },
          { name: "o", type: "BOOLEAN", nullable: true },
          { name: "day", type: "DATE", nullable: true },
          { name: "t", type: "TIME", nullable: true },
          { name: "ts", type: "TIMESTAMP", nullable: true },
          { name: "u", type: "UUID", nullable: true },
        ],
        primaryKey: [],
      });
      expect((await tableOf("Orders", "Second Schema")).primaryKey).toEqual(["Customer", "no"]);
      expect(await engine.find({ ...people, table: "nobody" })).toBeUndefined();
      expect(await engine.find({ ...people, schema: "nothing" })).toBeUndefined();
      expect(await engine.find({ ...people, database: "nowhere" })).toBeUndefined();
      // Names that no table can have are those of no table.
      for (const name of ["people\0", "x".repeat(300), "pg_catalog", "a'b\"c"])
        for (const part of ["database", "schema", "table"])
          expect(await engine.find({ ...people, [part]: name }), `${part} ${name}`).toBeUndefined();
    });

    test("A.22 finds names without regard to case, and the schema by its alias", async () => {
      const found = await engine.find({ database: "SHOP", schema: "FALCON_Default_Schema", table: "PeoPle" });
      expect(found).toMatchObject({ database: "shop", schema: "core_default_schema", name: "people" });
      expect(await tableOf("OrDERS", "second SCHEMA")).toMatchObject({ schema: "Second Schema", name: "Orders" });
      expect(
        await engine.find({ database: "müll & söhne/ß", schema: "core_default_schema", table: "t" }),
      ).toMatchObject({ database: "Müll & Söhne/ß" });
    });

    test("a definition that is applied again changes nothing", async () => {
      await load("plain", "SELECT 1 AS a, 'x' AS b", { empty: true });
      await engine.define(definition, "tables.sql");
      expect(await rowsOf("SELECT * FROM plain")).toEqual([[1, "x"]]);
    });

    test.each<readonly [sql: string, message: string | RegExp]>([
      ["CREATE TABLE IF NOT EXISTS shop.x (a INT); DROP TABLE shop.x", "t.sql:1: a definition holds nothing but"],
      [
        "-- one\n/* two\n /* nested; */ */\nINSERT INTO shop.people VALUES (1)",
        "t.sql:4: a definition holds nothing but",
      ],
      ["CREATE TABLE shop.x (a INT)", "t.sql:1: write CREATE TABLE IF NOT EXISTS"],
      ["CREATE TABLE IF NOT EXISTS x (a INT)", "t.sql:1: the name does not fit"],
      ...dialect.refused,
      ["CREATE TABLE IF NOT EXISTS shop.x (a NOTATYPE)", /t.sql:1: .*NOTATYPE/i],
      ["CREATE TABLE IF NOT EXISTS nowhere.x (a INT)", "t.sql:1: there is no database nowhere"],
      ["CREATE TABLE IF NOT EXISTS shop.nothing.x (a INT)", /t.sql:1: .*nothing/],
    ])("refuses the definition %s", async (sql, message) => {
      await expect(engine.define(sql, "t.sql")).rejects.toThrow(message);
      expect(await engine.find({ ...people, table: "x" })).toBeUndefined();
    });

    test("names every problem of a definition, and makes nothing of it", async () => {
      const sql = `CREATE DATABASE IF NOT EXISTS other;\nDROP TABLE a;\n${dialect.unloadable}`;
      await expect(engine.define(sql, "t.sql")).rejects.toMatchObject({
        name: "InputError",
        problems: [expect.stringContaining("t.sql:2: "), expect.stringContaining("t.sql:3: ")],
      });
      expect(await engine.find({ database: "other", schema: "core_default_schema", table: "x" })).toBeUndefined();
      await expect(
        pageOf(engine, { database: "other", sql: "SELECT 1", limit: 1, timeout: 60_000 }, never),
      ).rejects.toThrow("there is no database other");
    });

    test("appends to a table without a key, or empties it first", async () => {
      await load("plain", "SELECT 1 AS a, 'x' AS b", { empty: true });
      await load("plain", "SELECT 1 AS a, 'y' AS b");
      expect(await rowsOf("SELECT * FROM plain ORDER BY b")).toEqual([
        [1, "x"],
        [1, "y"],
      ]);
      await load("plain", "SELECT 2 AS a, '\uFEFFz' AS b WHERE true", { empty: true });
      expect(await rowsOf("SELECT * FROM plain")).toEqual([[2, "\uFEFFz"]]);
      await load("plain", "SELECT 2 AS a, 'z' AS b WHERE false", { empty: true });
      expect(await rowsOf("SELECT * FROM plain")).toEqual([]);
    });

    test("A.21 replaces rows of known keys, and keeps the last of several with one key", async () => {
      await load("people", "SELECT i AS id, 'old ' || i AS name FROM range(5) r(i)", { empty: true });
      await load("people", "SELECT unnest([3, 4, 9, 3, 9]) AS id, unnest(['a', 'b', 'c', 'd', NULL]) AS name");
      expect(await rowsOf("SELECT * FROM people ORDER BY id")).toEqual([
        [0, "old 0"],
        [1, "old 1"],
        [2, "old 2"],
        [3, "d"],
        [4, "b"],
        [9, null],
      ]);
      await load("people", "SELECT unnest([3, 7, 7]) AS id, unnest(['x', 'y', 'z']) AS name", { empty: true });
      expect(await rowsOf("SELECT * FROM people ORDER BY id")).toEqual([
        [3, "x"],
        [7, "z"],
      ]);
      // The key still holds, and the table can be loaded on.
      await load("people", "SELECT 7 AS id, 'again' AS name");
      expect(await rowsOf("SELECT name FROM people WHERE id = 7")).toEqual([["again"]]);
      expect((await tableOf("people")).primaryKey).toEqual(["id"]);
    });

    test("A.21 upserts by a key of several columns, and where every column is of the key", async () => {
      const loadOrders = async (rows: string): Promise<void> => {
        const stage = await stageOf(engine, rows);
        loads += 1;
        await engine.write(stage, await tableOf("orders", "second schema"), { empty: false, load: `o${loads}` }, never);
        await stage.close();
      };
      await loadOrders(`SELECT 'a' AS "Customer", 1 AS no, 1.5 AS "sum ""net"""`);
      await loadOrders(
        `SELECT unnest(['a', 'a', 'b']) AS "Customer", unnest([2, 1, 1]) AS no, unnest([2, 9, 3]) AS "sum ""net"""`,
      );
      expect(await rowsOf(`SELECT * FROM ${dialect.schema("Second Schema")}."Orders" ORDER BY 1, 2`)).toEqual([
        ["a", 1, "9.00"],
        ["a", 2, "2.00"],
        ["b", 1, "3.00"],
      ]);
      // Texts in the place of values are what a look at a draft asks with.
      const known = `SELECT count(*) FROM ${engine.reference(await tableOf("Orders", "Second Schema"))}
        WHERE ("Customer" = 'a' AND "no" = '2') OR ("Customer" = 'b' AND "no" = '1') OR ("Customer" = 'c' AND "no" = '1')`;
      expect(Number(await rowsOf(known))).toBe(2);
      await load("pairs", "SELECT unnest([1, 1, 2]) AS a, 1 AS b");
      await load("pairs", "SELECT unnest([2, 3]) AS a, 1 AS b");
      expect(await rowsOf("SELECT * FROM pairs ORDER BY a")).toEqual([
        [1, 1],
        [2, 1],
        [3, 1],
      ]);
    });

    test("A.21 rows that are replaced may swap values of a unique column, in any order, but not share them", async () => {
      const names = (): Promise<unknown> => rowsOf("SELECT * FROM named ORDER BY id");
      await load("named", "SELECT i AS id, 'name ' || i AS name FROM range(3) r(i)", { empty: true });
      await load("named", "SELECT unnest([0, 2, 1]) AS id, unnest(['name 1', 'name 0', 'name 2']) AS name");
      const swapped = [
        [0, "name 1"],
        [1, "name 2"],
        [2, "name 0"],
      ];
      expect(await names()).toEqual(swapped);
      await expect(load("named", "SELECT 0 AS id, 'name 0' AS name")).rejects.toMatchObject({ name: "InputError" });
      await expect(load("named", "SELECT unnest([8, 9]) AS id, 'same' AS name")).rejects.toThrow("same");
      expect(await names()).toEqual(swapped);
    });

    test("A.15 a load that fails or is stopped leaves the table as it was, emptying included", async () => {
      await load("people", "SELECT 1 AS id, 'kept' AS name", { empty: true });
      await load("checked", "SELECT 1 AS a", { empty: true });
      const kept = [[1, "kept"]];
      await expect(load("checked", "SELECT unnest([2, -1]) AS a", { empty: true })).rejects.toMatchObject({
        name: "InputError",
      });
      expect(await rowsOf("SELECT * FROM checked")).toEqual([[1]]);
      // What is known of the rows only when they are written already.
      await expect(load("checked", "SELECT unnest([2, 3]) AS a", { empty: true, rows: 3 })).rejects.toThrow("2 rows");
      expect(await rowsOf("SELECT * FROM checked")).toEqual([[1]]);
      const early = AbortSignal.abort(new Error("cancelled"));
      await expect(load("people", "SELECT 1 AS id, 'x' AS name", { empty: true, signal: early })).rejects.toThrow(
        "cancelled",
      );
      for (const empty of [true, false]) {
        const late = new AbortController();
        const writing = load("people", "SELECT i AS id, 'x' AS name FROM range(3000000) r(i)", {
          empty,
          signal: late.signal,
          load: "stopped",
        });
        // Long enough for the stage's rows to be there or not: either way the load cannot have ended.
        setTimeout(() => {
          late.abort(new Error("cancelled"));
        }, 100);
        await expect(writing).rejects.toThrow("cancelled");
        expect(await rowsOf("SELECT * FROM people")).toEqual(kept);
      }
    });

    test("A.15 a load whose rows cannot all be read leaves the table as it was", async () => {
      await load("plain", "SELECT 1 AS a, 'kept' AS b", { empty: true });
      const stage = await engine.openStage();
      await stage.connection.run(`
        CREATE VIEW accepted AS SELECT CASE i WHEN 350000 THEN error('unreadable')::INTEGER ELSE 1 END AS a, 'x' AS b, i AS row_number
        FROM range(400000) r(i)`);
      const table = await tableOf("plain");
      await expect(engine.write(stage, table, { empty: false, load: "unreadable" }, never)).rejects.toThrow(
        /unreadable|failed after its first rows/,
      );
      await stage.close();
      expect(await rowsOf("SELECT * FROM plain")).toEqual([[1, "kept"]]);
    });

    test("A.24 a load is written once, however often it is started", async () => {
      await load("plain", "SELECT 1 AS a, 'once' AS b", { empty: true, load: "the same" });
      await load("plain", "SELECT 1 AS a, 'once' AS b", { load: "the same" });
      expect(await rowsOf("SELECT * FROM plain")).toEqual([[1, "once"]]);
      // How many rows were accepted then is not known, so a number is not confirmed.
      await expect(load("plain", "SELECT 1 AS a, 'x' AS b", { load: "the same", rows: 1 })).rejects.toThrow("before");
      expect(await rowsOf("SELECT * FROM plain")).toEqual([[1, "once"]]);
    });

    test("lists tables with their columns as DuckDB has them, their keys and rows", async () => {
      await load("people", "SELECT unnest([1, 2]) AS id, 'x' AS name", { empty: true });
      const listed = await engine.list();
      expect(listed.map(({ name }) => name)).toEqual(expect.arrayContaining(["everything", "Orders", "t"]));
      expect(listed.filter(({ name }) => name === "people")).toEqual([
        {
          database: "shop",
          schema: "core_default_schema",
          name: "people",
          columns: [
            { name: "id", type: "INTEGER", nullable: false },
            { name: "name", type: "VARCHAR", nullable: true },
          ],
          primaryKey: ["id"],
          rows: 2,
          isEstimated: false,
          problem: undefined,
        },
      ]);
      const orders = listed.find(({ name }) => name === "Orders");
      expect(orders).toMatchObject({ schema: "Second Schema", primaryKey: ["Customer", "no"] });
      expect(orders?.columns.map(({ type }) => type)).toEqual(["VARCHAR", "INTEGER", "DECIMAL(10,2)"]);
    });

    test("stages do not see each other, and `accepted` may be a view", async () => {
      const names = ["one", "two", "three"];
      await load("plain", "SELECT 0 AS a, 'zero' AS b", { empty: true });
      await Promise.all(
        names.map(async (name) => {
          const stage = await engine.openStage();
          await stage.connection.run(`CREATE TABLE parsed AS SELECT 1 AS a, '${name}' AS b`);
          await stage.connection.run("CREATE VIEW accepted AS SELECT *, rowid AS row_number FROM parsed");
          await engine.write(stage, await tableOf("plain"), { empty: false, load: `stage ${name}` }, never);
          await stage.close();
        }),
      );
      expect(await rowsOf("SELECT b FROM plain ORDER BY a, b")).toEqual([["zero"], ["one"], ["three"], ["two"]]);
    });

    test("concurrent loads into one table follow each other, and readers see whole loads only", async () => {
      await load("people", "SELECT i AS id, 'load 0' AS name FROM range(20000) r(i)", { empty: true });
      const reader = { done: false };
      const states: unknown[] = [];
      const reading = (async () => {
        while (!reader.done) states.push(await rowsOf("SELECT count(*), count(DISTINCT name) FROM people"));
      })();
      await Promise.all(
        [1, 2, 3, 4].map(async (number) =>
          load("people", `SELECT i AS id, 'load ${number}' AS name FROM range(20000) r(i)`, { empty: number > 2 }),
        ),
      );
      reader.done = true;
      await reading;
      expect(new Set(states.map((state) => JSON.stringify(state)))).toEqual(new Set(["[[20000,1]]"]));
    });

    test("B.15 gives values as JSON holds them", async () => {
      const sql = `SELECT 9007199254740992::BIGINT, 9007199254740993::BIGINT, -9007199254740993::BIGINT, 12.5::DECIMAL(10,4),
        -0.05::DECIMAL(3,2), DATE '2024-02-29', TIME '10:00:00', TIME '23:59:59.5', TIMESTAMP '2024-02-29 10:11:12',
        TIMESTAMP '2024-02-29 10:11:12.000001', 'NaN'::DOUBLE PRECISION, '-Infinity'::DOUBLE PRECISION, 'inf'::REAL, 0.1::REAL, 0.1::DOUBLE PRECISION,
        true, NULL, '\uFEFFbom', 'a2a4b0a6-9e4b-4c5d-8a3d-111213141516'::UUID, sum(1)`;
      expect(await rowsOf(sql)).toEqual([
        [
          9007199254740992,
          "9007199254740993",
          "-9007199254740993",
          "12.5000",
          "-0.05",
          "2024-02-29",
          "10:00:00",
          "23:59:59.500000",
          "2024-02-29T10:11:12",
          "2024-02-29T10:11:12.000001",
          null,
          null,
          null,
          0.1,
          0.1,
          true,
          null,
          "\uFEFFbom",
          "a2a4b0a6-9e4b-4c5d-8a3d-111213141516",
          1,
        ],
      ]);
    });

    test("SQL with U+0000, where parsers stop, is refused", async () => {
      for (const sql of ["SELECT 'a\0b'", "SELECT 1\0, 2", "SELECT 1 -- \0"]) {
        const refused = { name: "InputError", message: expect.stringContaining("U+0000") };
        await expect(rowsOf(sql)).rejects.toMatchObject(refused);
        await expect(executed(engine, "shop", sql, never)).rejects.toMatchObject(refused);
      }
    });

    test("B.15 writes years before 0001 and after 9999 as ISO 8601 does", async () => {
      const sql = `SELECT DATE '0001-01-01' - 1, DATE '0001-01-01' - 367, DATE '9999-12-31' + 1,
        TIMESTAMP '0001-01-01 00:00:00' - INTERVAL '1' SECOND, TIMESTAMP '0044-03-15 12:00:00.5' - INTERVAL '88' YEAR,
        TIMESTAMP '9999-12-31 23:59:59' + INTERVAL '1' SECOND, TIMESTAMPTZ '0044-03-15 12:00:00+00' - INTERVAL '88' YEAR`;
      expect(await rowsOf(sql)).toEqual([
        [
          "0000-12-31",
          "-000001-12-31",
          "+010000-01-01",
          "0000-12-31T23:59:59",
          "-000044-03-15T12:00:00.500000",
          "+010000-01-01T00:00:00",
          "-000044-03-15T12:00:00",
        ],
      ]);
    });

    test("a page is cut by the engine and says how many rows there are", async () => {
      const page = async (offset: number | undefined, limit: number): Promise<unknown> => {
        const sql = `SELECT i AS x, i AS x FROM ${dialect.range(10)} ORDER BY i DESC; -- the end`;
        const where = offset === undefined ? {} : { offset };
        return pageOf(engine, { database: "shop", sql, limit, timeout: 60_000, ...where }, never);
      };
      const columnNames = ["x", "x"];
      expect(await page(undefined, 2)).toEqual({
        columnNames,
        rows: [
          [9, 9],
          [8, 8],
        ],
        totalRowCount: 10,
      });
      expect(await page(8, 2)).toEqual({
        columnNames,
        rows: [
          [1, 1],
          [0, 0],
        ],
        totalRowCount: 10,
      });
      expect(await page(9, 5)).toEqual({ columnNames, rows: [[0, 0]], totalRowCount: 10 });
      expect(await page(20, 5)).toEqual({ columnNames, rows: [], totalRowCount: 10 });
      for (const offset of [2 ** 31 - 1, 2 ** 31, Number.MAX_SAFE_INTEGER])
        expect(await page(offset, 5), String(offset)).toEqual({ columnNames, rows: [], totalRowCount: 10 });
    });

    test.each<readonly [sql: string, rows: number]>([
      ...dialect.counted,
      [`SELECT i FROM ${dialect.range(10)} ORDER BY i LIMIT 5`, 5],
      [`SELECT i FROM ${dialect.range(10)} LIMIT 6`, 6],
      [`SELECT i FROM (SELECT * FROM ${dialect.range(10)} ORDER BY i LIMIT 4) q`, 4],
      [`SELECT i FROM ${dialect.range(10)} UNION ALL SELECT 5 ORDER BY i DESC -- the end`, 11],
      [`SELECT i, rank() OVER (ORDER BY i) FROM ${dialect.range(10)}`, 10],
      [
        `WITH o AS (SELECT * FROM ${dialect.range(10)} ORDER BY i) SELECT i AS "order" FROM o ORDER BY "order" NULLS FIRST`,
        10,
      ],
    ])("counts all rows of %s", async (sql, rows) => {
      expect(await pageOf(engine, { database: "shop", sql, limit: 2, timeout: 60_000 }, never)).toMatchObject({
        totalRowCount: rows,
      });
    });

    test("a query that takes too long is stopped, and others are answered meanwhile", async () => {
      const away = new AbortController();
      const query = { database: "shop", sql: dialect.forever, limit: 1 };
      const stopped = pageOf(engine, { ...query, timeout: 100 }, never).catch((error: unknown) => error);
      const left = pageOf(engine, { ...query, timeout: 600_000 }, away.signal).catch((error: unknown) => error);
      expect(await stopped).toMatchObject({ name: "UnavailableError", message: expect.stringContaining("0.1 s") });
      expect(await rowsOf("SELECT 1")).toEqual([[1]]);
      const reason = new Error("gone away");
      away.abort(reason);
      expect(await left).toBe(reason);
    });

    test("a query that fails after its first rows gives none, and says by what", async () => {
      const sql = `SELECT CAST(CASE i WHEN 350000 THEN 'none' ELSE '1' END AS INTEGER) FROM ${dialect.range(400_000)}`;
      const query = { database: "shop", sql, limit: 400_000, timeout: 60_000 };
      const reason = { name: "InputError", message: expect.stringMatching(/['"]none['"]/) };
      await expect(pageOf(engine, query, never)).rejects.toMatchObject(reason);
      await expect(executed(engine, "shop", sql, never)).rejects.toMatchObject(reason);
    });

    test("a query that is stopped after its first rows gives none", async () => {
      const sql = `SELECT i, repeat('x', 1000) AS x FROM ${dialect.range(300_000)}`;
      const query = { database: "shop", sql, limit: 300_000 };
      const away = new AbortController();
      const sink = (stop: () => void): RowSink => ({ begin: async () => undefined, rows: async () => stop() });
      const left = engine.query(
        { ...query, timeout: 600_000 },
        away.signal,
        sink(() => away.abort(new Error("gone"))),
      );
      await expect(left).rejects.toThrow("gone");
      await expect(
        engine.query(
          { ...query, timeout: 100 },
          never,
          sink(() => undefined),
        ),
      ).rejects.toMatchObject({
        name: "UnavailableError",
        message: expect.stringContaining("0.1 s"),
      });
    });

    test("a query that waits for others is not blamed for their time", async () => {
      const ask = async (sql: string, timeout: number): Promise<unknown> =>
        pageOf(engine, { database: "shop", sql, limit: 1, timeout }, never).catch((error: Error) => error.name);
      // Two after the other, in each of three places: longer than the last may take.
      const others = Array.from({ length: 6 }, () => ask(dialect.forever, 500));
      expect(await ask("SELECT 1", 900)).toMatchObject({ rows: [[1]] });
      expect(new Set(await Promise.all(others))).toEqual(new Set(["UnavailableError"]));
    });

    test("an administrator runs any statements, and gets the rows of the last", async () => {
      await executed(engine, undefined, "CREATE DATABASE IF NOT EXISTS made", never);
      const sql =
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR); INSERT INTO t VALUES (1, 'a;b'), (2, NULL); TABLE t;";
      expect(await executed(engine, "MADE", sql, never)).toEqual({
        columnNames: ["a", "b"],
        rows: [
          [1, "a;b"],
          [2, null],
        ],
        totalRowCount: 2,
      });
      expect(await engine.find({ database: "made", schema: "core_default_schema", table: "t" })).toBeDefined();
      await expect(executed(engine, "made", "SELECT nosuch FROM t", never)).rejects.toMatchObject({
        name: "InputError",
      });
      for (const [database, sql, message] of dialect.forbidden)
        await expect(executed(engine, database, sql, never), sql).rejects.toThrow(message);
    });

    test("everything is there after a restart", async () => {
      await load("people", "SELECT unnest([1, 2]) AS id, 'before' AS name", { empty: true });
      await engine.close();
      engine = await open(folder);
      expect(await rowsOf("SELECT * FROM people ORDER BY id")).toEqual([
        [1, "before"],
        [2, "before"],
      ]);
      await load("people", "SELECT 2 AS id, 'after' AS name");
      expect(await rowsOf("SELECT * FROM people ORDER BY id")).toEqual([
        [1, "before"],
        [2, "after"],
      ]);
      expect(
        await engine.find({ database: "müll & söhne/ß", schema: "falcon_default_schema", table: "T" }),
      ).toBeDefined();
    });
  });
}

const definition = `
  -- What the suite loads; and a ; in a comment.
  CREATE DATABASE IF NOT EXISTS shop;
  create schema if not exists shop."Second Schema";
  CREATE TABLE IF NOT EXISTS shop.people (id INTEGER PRIMARY KEY, name VARCHAR);
  CREATE TABLE IF NOT EXISTS shop.falcon_default_schema.plain (a INTEGER, b VARCHAR DEFAULT 'a;b(' /* ; */);
  CREATE TABLE IF NOT EXISTS shop.pairs (a INTEGER, b INTEGER, PRIMARY KEY (a, b));
  CREATE TABLE IF NOT EXISTS shop.named (id INTEGER PRIMARY KEY, name VARCHAR UNIQUE);
  CREATE TABLE IF NOT EXISTS shop.checked (a INTEGER CHECK (a > 0));
  CREATE TABLE IF NOT EXISTS shop."Second Schema"."Orders" (
    "Customer" VARCHAR, no INTEGER, "sum ""net""" DECIMAL(10, 2), PRIMARY KEY ("Customer", no)
  );
  CREATE TABLE IF NOT EXISTS shop.core_default_schema.everything (
    v TEXT NOT NULL, b BIGINT, i INT, s SMALLINT, d DOUBLE PRECISION, f REAL, n NUMERIC(12, 4), o BOOL, day DATE, t TIME,
    ts TIMESTAMP, u UUID
  );
  CREATE DATABASE IF NOT EXISTS "Müll & Söhne/ß";
  CREATE TABLE IF NOT EXISTS "Müll & Söhne/ß".t (a INTEGER);
`;

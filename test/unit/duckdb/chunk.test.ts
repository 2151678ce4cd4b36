import { afterAll, beforeAll, expect, test } from "vitest";
import { tmpdir } from "node:os";
import { openDatabase } from "#duckdb/database.ts";
import type { Connection, Database } from "#duckdb/database.ts";

let database: Database;
let connection: Connection;

beforeAll(async () => {
  database = await openDatabase({ path: ":memory:", memory: 2 ** 27, spill: tmpdir() });
  connection = await database.connect();
});

afterAll(() => {
  connection.close();
  database.close();
});

test("B.5 a U+FEFF at the start of a text stays, wherever the text is", async () => {
  const sql = `SELECT '\uFEFFa' AS text, ['\uFEFFb', NULL] AS list, {a: '\uFEFFc', b: [1]} AS struct,
    map {'\uFEFFd': '\uFEFFe'} AS map, union_value(a := '\uFEFFf') AS either, array_value('\uFEFFg') AS fixed,
    [{a: ['\uFEFF']}] AS nested, '\uFEFF a text of more than twelve bytes' AS long`;
  const row = {
    text: "\uFEFFa",
    list: ["\uFEFFb", null],
    struct: { a: "\uFEFFc", b: [1] },
    map: [{ key: "\uFEFFd", value: "\uFEFFe" }],
    either: { tag: "a", value: "\uFEFFf" },
    fixed: ["\uFEFFg"],
    nested: [{ a: ["\uFEFF"] }],
    long: "\uFEFF a text of more than twelve bytes",
  };
  expect(await connection.rows(sql)).toEqual([row]);
  expect(await Array.fromAsync(connection.batches(sql))).toEqual([[row]]);
});

test("other values are what the library returns", async () => {
  const [row] =
    await connection.rows(`SELECT NULL::VARCHAR AS nothing, NULL::VARCHAR[] AS list, '\\xEF\\xBB\\xBF'::BLOB AS bytes,
    9007199254740993 AS big, 1.5::DOUBLE AS double, true AS yes, 'x'::ENUM ('x') AS one, ['\\xAA'::BLOB] AS many`);
  expect(row).toEqual({
    nothing: null,
    list: null,
    bytes: Buffer.from([0xef, 0xbb, 0xbf]),
    big: 9007199254740993n,
    double: 1.5,
    yes: true,
    one: "x",
    many: [Buffer.from([0xaa])],
  });
});

test("columns of one name and several batches are all there", async () => {
  const rows = await connection.rows<{ n: bigint; "n:1": string }>(
    "SELECT i AS n, 'row ' || i AS n FROM range(5000) t(i) ORDER BY i",
  );
  expect(rows).toHaveLength(5000);
  expect(Object.values(rows[4999] ?? {})).toEqual([4999n, "row 4999"]);
});

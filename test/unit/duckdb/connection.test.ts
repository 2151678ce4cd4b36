import { tmpdir } from "node:os";
import { expect, onTestFinished, test } from "vitest";
import { openDatabase } from "#duckdb/database.ts";

test("what broke a transaction is said until it is rolled back, which takes memory that may be in use", async () => {
  const database = await openDatabase({ path: ":memory:", memory: 64 * 2 ** 20, spill: tmpdir() });
  onTestFinished(() => database.close());
  const connection = await database.connect();
  onTestFinished(() => connection.close());
  const { raw } = connection;
  const run = raw.run.bind(raw);
  let isShort = true;
  // Another connection takes the memory for a moment, as reading a list does.
  raw.run = (sql, ...rest) =>
    isShort && sql === "ROLLBACK"
      ? Promise.reject(new Error("Out of Memory Error: failed to allocate data of size 2.0 KiB"))
      : run(sql, ...rest);
  await connection.run("CREATE TABLE t (n INTEGER)");
  const work = async (): Promise<void> => {
    await connection.run("INSERT INTO t VALUES (1)");
    await connection.run("SELECT error('this came first')");
  };
  await expect(connection.transaction(work)).rejects.toThrow("this came first");
  await expect(connection.returnMemory()).rejects.toThrow("this came first");
  await expect(connection.rows("FROM t")).rejects.toThrow("this came first");
  isShort = false;
  expect(await connection.rows("FROM t")).toEqual([]);
  await connection.transaction(() => connection.run("INSERT INTO t VALUES (2)"));
  expect(await connection.rows("FROM t")).toEqual([{ n: 2 }]);
});

test("rows of a query that fails, or is stopped, after the first of them are never taken for all", async () => {
  const database = await openDatabase({ path: ":memory:", memory: 64 * 2 ** 20, spill: tmpdir() });
  onTestFinished(() => database.close());
  const connection = await database.connect();
  onTestFinished(() => connection.close());
  const failing = "SELECT CASE i WHEN 190000 THEN error('no') ELSE repeat('x', 100) END AS x FROM range(200000) r(i)";
  let given = 0;
  const read = async (sql: string, after?: () => void): Promise<void> => {
    for await (const rows of connection.batches(sql)) {
      given += rows.length;
      after?.();
    }
  };
  await expect(read(failing)).rejects.toThrow("failed after its first rows");
  expect(given).toBeGreaterThan(0);
  await expect(read(failing.replace("190000", "-1"), connection.interrupt)).rejects.toThrow(
    "failed after its first rows",
  );
  expect(await connection.rows("SELECT 1 AS one")).toEqual([{ one: 1 }]);
});

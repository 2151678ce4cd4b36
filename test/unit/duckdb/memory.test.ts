import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { literal, openDatabase } from "#duckdb/database.ts";
import { Workbench } from "#duckdb/workbench.ts";

const mebibyte = 2 ** 20;

test("a workbench moves its tables to disk for what needs the memory, and they come back as they are read", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-workbench-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const workbench = await Workbench.open({ folder, memory: 1024 * mebibyte });
  onTestFinished(() => workbench.close());
  const { connection } = workbench;
  const read = async <Row extends object>(sql: string): Promise<Row | undefined> =>
    (await connection.rows<Row>(sql))[0];
  const used = async (): Promise<number> =>
    (await read<{ used: number }>("SELECT sum(memory_usage_bytes)::DOUBLE AS used FROM duckdb_memory()"))?.used ?? 0;
  const limit = (): Promise<object | undefined> => read("SELECT current_setting('memory_limit') AS memory");

  await connection.run("CREATE TEMP TABLE few AS SELECT range AS n FROM range(1000)");
  const before = await used();
  await workbench.makeRoom();
  expect(await used()).toBe(before);

  const limited = await limit();
  await connection.run(
    "CREATE TEMP TABLE many AS SELECT range AS n, hash(range) AS h, hash(range + 1) AS g FROM range(8_000_000)",
  );
  expect(await used()).toBeGreaterThan(150 * mebibyte);
  await workbench.makeRoom();
  expect(await used()).toBeLessThan(50 * mebibyte);
  expect(await limit()).toEqual(limited);
  expect(
    await read("SELECT count(*)::INTEGER AS rows, bool_and(h = hash(n) AND g = hash(n + 1)) AS same FROM many"),
  ).toEqual({
    rows: 8_000_000,
    same: true,
  });
});

test("closing a workbench frees its large tables in a thread, and none of an attached file", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-workbench-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "file.duckdb");
  const workbench = await Workbench.open({ folder: join(folder, "work"), memory: 512 * mebibyte });
  const { connection } = workbench;
  const many = "AS SELECT range AS n FROM range(200_000)";
  await connection.run(`
    ATTACH ${literal(file)} AS owned; CREATE TABLE owned.many ${many};
    CREATE TABLE "two ""words""" ${many}; CREATE TEMP TABLE many ${many}; CREATE TABLE few AS SELECT 1 AS n`);
  const ran = vi.spyOn(connection, "run");
  await workbench.close();
  const statements = ran.mock.calls.map(([sql]) => sql).join(" ");
  expect(statements.split(/(?<=;) ?/).filter((each) => each !== "")).toEqual(
    expect.arrayContaining(['DROP TABLE memory.main."two ""words""";', 'DROP TABLE temp.main."many";']),
  );
  expect(statements).not.toMatch(/few|owned/);

  const database = await openDatabase({
    path: file,
    memory: 256 * mebibyte,
    spill: join(folder, "spill"),
    readOnly: true,
  });
  onTestFinished(() => {
    database.close();
  });
  await database.use(async (stored) => {
    expect(await stored.rows("SELECT count(*)::INTEGER AS rows FROM many")).toEqual([{ rows: 200_000 }]);
  });
});

test("a workbench that is closed does not wait for a statement that only begins", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-workbench-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const workbench = await Workbench.open({ folder, memory: 512 * mebibyte });
  const running = workbench.connection.rows(
    "SELECT count(*) FROM range(1_000_000) a, range(1_000_000) b WHERE hash(a, b) = 1",
  );
  await Promise.all([expect(running).rejects.toThrow(/interrupt/i), workbench.close()]);
});

test("a database that is trimmed has next to nothing in memory, and goes on as before", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-trim-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const spill = join(folder, "spill");
  const database = await openDatabase({ path: join(folder, "file.duckdb"), memory: 256 * mebibyte, spill });
  onTestFinished(() => {
    database.close();
  });
  const connection = await database.connect();
  onTestFinished(() => {
    connection.close();
  });
  const used = async (tag: string): Promise<number> => {
    const [row] = await connection.rows<{ used: number }>(
      "SELECT memory_usage_bytes::DOUBLE AS used FROM duckdb_memory() WHERE tag = ?",
      [tag],
    );
    return row?.used ?? 0;
  };
  const limit = (): Promise<object[]> => connection.rows("SELECT current_setting('memory_limit') AS memory");
  const limited = await limit();
  const many = "SELECT hash(range) AS h FROM range(500_000)";
  await connection.run(`CREATE TABLE stored AS ${many}; CHECKPOINT; CREATE TEMP TABLE made AS ${many}`);
  const sums = "SELECT (SELECT sum(h) FROM stored) AS stored, (SELECT sum(h) FROM made) AS made";
  const before = await connection.rows(sums);
  expect(await used("BASE_TABLE")).toBeGreaterThan(3 * mebibyte);

  await database.trim();
  // Tiny buffers are never moved.
  expect(await used("BASE_TABLE")).toBeLessThan(mebibyte / 16);
  expect(await used("IN_MEMORY_TABLE")).toBeLessThan(mebibyte / 16);
  expect(await limit()).toEqual(limited);
  expect(await connection.rows(sums)).toEqual(before);
});

test("what a database no longer uses goes back to the system", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-workbench-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const workbench = await Workbench.open({ folder, memory: 1024 * mebibyte });
  onTestFinished(() => workbench.close());
  const { connection } = workbench;
  const used = (): number => process.memoryUsage.rss();
  await connection.returnMemory();
  const before = used();
  await connection.run("CREATE TEMP TABLE many AS SELECT range AS n, hash(range) AS h FROM range(10_000_000)");
  expect(used() - before).toBeGreaterThan(100 * mebibyte);
  await connection.run("DROP TABLE many");
  // While DuckDB's own thread gives memory back, nobody else does.
  await expect
    .poll(async () => {
      await connection.returnMemory();
      return used() - before;
    })
    .toBeLessThan(50 * mebibyte);
  const [setting] = await connection.rows<{ by: boolean }>(
    "SELECT current_setting('allocator_background_threads') AS by",
  );
  expect(setting).toEqual({ by: true });
});

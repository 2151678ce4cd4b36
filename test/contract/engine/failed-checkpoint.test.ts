import { mkdtemp, readdir, readlink, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import type { Connection, Database } from "#duckdb/database.ts";
import { ReopeningError } from "#duckdb/connection.ts";
import { limitFiles } from "../../support/file-size.ts";
import { canMount, mountSmallDisk } from "../../support/small-disk.ts";

let folder: string;
let database: Database;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-checkpoint-"));
});
afterEach(async () => {
  await limitFiles(process.pid, undefined);
  database.close();
  await rm(folder, { recursive: true, force: true });
});

const file = (): string => join(folder, "d.duckdb");
const open = (): Promise<Database> =>
  openDatabase({ path: file(), memory: 256 * 2 ** 20, spill: join(folder, "spill") });

const insert = async (connection: Connection, count: number): Promise<void> => {
  await connection.run(`INSERT INTO t SELECT md5(random()::VARCHAR) FROM range(${count})`);
};
const counted = async (): Promise<number> => {
  const [row] = await database.use((connection) =>
    connection.rows<{ n: number }>("SELECT count(*)::INTEGER AS n FROM t"),
  );
  return row?.n ?? -1;
};
const grows = async (): Promise<void> => {
  while ((await database.problem()) !== undefined);
};

/** How often this process has the file open. */
async function handles(): Promise<number> {
  const names = await readdir("/proc/self/fd");
  const paths = await Promise.all(names.map((name) => readlink(`/proc/self/fd/${name}`).catch(() => "")));
  return paths.filter((path) => path === file()).length;
}

/** A database in whose file there is no room for its log, of about a mebibyte. */
async function nearLimit(): Promise<void> {
  database = await open();
  await database.use(async (connection) => {
    await connection.run("CREATE TABLE t (text VARCHAR)");
    await insert(connection, 100_000);
    await connection.run("CHECKPOINT");
    await connection.run("SET GLOBAL checkpoint_threshold = '1MiB'");
  });
  const { size } = await stat(file());
  await limitFiles(process.pid, size + 2 ** 16);
}

describe("a database whose checkpoint fails", () => {
  // Small ones are in the log when the checkpoint begins, large ones are not.
  test.each([
    [500, "alone"],
    [20_000, "in a transaction"],
  ] as const)("commits of %i rows, %s, are made once", async (rows, how) => {
    await nearLimit();
    let [made, isStuck] = [100_000, false];
    while (!isStuck) {
      const work = (connection: Connection): Promise<void> => insert(connection, rows);
      await database.use((connection) =>
        how === "alone" ? work(connection) : connection.transaction(() => work(connection)),
      );
      made += rows;
      isStuck = (await database.problem()) !== undefined;
    }
    expect(await counted()).toBe(made);
    await database.use((connection) => insert(connection, 1));
    await limitFiles(process.pid, undefined);
    await grows();
    await database.use((connection) => connection.run("CHECKPOINT"));
    expect(await counted()).toBe(made + 1);
    database.close();
    database = await open();
    expect(await counted()).toBe(made + 1);
  });

  test("is opened again: what runs is begun again, a connection of before is told, and its file is open once", async () => {
    await nearLimit();
    const before = await database.connect();
    await before.rows("SELECT count(*) AS n FROM t WHERE text > $1", ["8"]);
    let [begun, made] = [0, 0];
    while (!before.isLost()) {
      begun = 0;
      await database.use(async (connection) => {
        begun++;
        await connection.run("CREATE TEMP TABLE own AS SELECT 1 AS one");
        await insert(connection, 20_000);
        expect(await connection.rows("FROM own")).toEqual([{ one: 1 }]);
      });
      made += 20_000;
    }
    expect(begun).toBe(2);
    await expect(before.rows("SELECT 1")).rejects.toThrow(ReopeningError);
    before.interrupt();
    before.close();
    expect(await counted()).toBe(100_000 + made);
    expect(await handles()).toBe(1);
  });

  test.skipIf(!canMount)("on a full disk (a tmpfs, mounted by root), nothing is lost either", async () => {
    await using disk = await mountSmallDisk(folder, "64m");
    database = await open();
    await database.use(async (connection) => {
      await connection.run("CREATE TABLE t (text VARCHAR)");
      await insert(connection, 100_000);
    });
    await disk.fill(0);
    await expect(database.use((connection) => connection.run("CHECKPOINT"))).rejects.toThrow("No space left on device");
    expect(await database.problem()).toBeDefined();
    expect(await counted()).toBe(100_000);
    await expect(database.use((connection) => insert(connection, 100_000))).rejects.toThrow("No space left on device");
    await disk.empty();
    await grows();
    await database.use((connection) => insert(connection, 1));
    await database.use((connection) => connection.run("CHECKPOINT"));
    expect(await counted()).toBe(100_001);
    database.close();
  });
});

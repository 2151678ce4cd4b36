import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { Databases } from "#service/engine/databases.ts";
import { openStage } from "#service/engine/engine.ts";
import { define } from "#service/engine/tables.ts";
import { canMount, mountSmallDisk } from "../support/small-disk.ts";

interface Opened {
  readonly connection: Connection;
  close(): Promise<void>;
}

const memory = 256 * 2 ** 20;

/** Ways to open a database that is a file in a folder; its table is `t`. */
const ways: Readonly<Record<string, (folder: string) => Promise<Opened>>> = {
  alone: async (folder) => {
    const database = await openDatabase({ path: join(folder, "d.duckdb"), memory, spill: join(folder, "spill") });
    const connection = await database.connect();
    return {
      connection,
      close: async () => {
        connection.close();
        database.close();
      },
    };
  },
  "attached by the engine": async (folder) => {
    const databases = await Databases.open({ folder, memory, files: [] });
    await databases.create("d");
    const stage = await openStage(databases.instance);
    const { connection } = stage;
    await connection.run("USE d.core_default_schema");
    return {
      connection,
      close: async () => {
        await stage.close();
        databases.close();
      },
    };
  },
};

/** How many rows make the log almost as large as it becomes, and how many more make it larger. */
const rowsOf = { most: 120_000, more: 2000 };

describe.skipIf(!canMount)("a database on a disk that is full (a tmpfs, mounted by root)", () => {
  // Less than what has to be written when the log is moved into the file, and more than the log takes.
  test.each(Object.entries(ways).flatMap(([way, open]) => [2, 4].map((left) => [way, left, open] as const)))(
    "%s: with %i MiB left, a commit is made or rolled back, and it goes on",
    async (_, left, open) => {
      const folder = await mkdtemp(join(tmpdir(), "rollcall-database-"));
      await using disk = await mountSmallDisk(folder, "96m");
      onTestFinished(() => rm(folder, { recursive: true }));
      const { connection, close } = await open(folder);
      await connection.run("CREATE TABLE t (id INTEGER, text VARCHAR)");
      let rows = 0;
      const insert = async (count: number): Promise<void> => {
        const select = `SELECT i, repeat(md5(i::VARCHAR), 4) FROM range(${rows}, ${rows + count}) r(i)`;
        await connection.transaction(() => connection.run(`INSERT INTO t ${select}`));
        rows += count;
      };
      await insert(rowsOf.most);
      await disk.fill(left * 2 ** 20);
      for (let k = 0; k < 20; k++) {
        await insert(rowsOf.more).catch((error: unknown) => {
          expect(String(error)).toContain("Failed to commit");
        });
      }
      await disk.empty();
      await insert(1);
      const count = async (of: Connection): Promise<unknown> =>
        (await of.rows("SELECT count(*)::INTEGER AS n FROM t"))[0];
      expect(await count(connection)).toEqual({ n: rows });
      await close();
      const again = await open(folder);
      expect(await count(again.connection)).toEqual({ n: rows });
      await again.close();
    },
  );

  // The first two end a commit, the others the checkpoint of a new file.
  test.each([8, 16, 32, 64, 128])(
    "tables that are not made with %i KiB left: the error names the file and says to make room",
    async (left) => {
      const folder = await mkdtemp(join(tmpdir(), "rollcall-database-"));
      await using disk = await mountSmallDisk(folder, "16m");
      onTestFinished(() => rm(folder, { recursive: true }));
      const databases = await Databases.open({ folder, memory, files: [] });
      const sql = "CREATE DATABASE IF NOT EXISTS d; CREATE TABLE IF NOT EXISTS d.t (id INTEGER)";
      await disk.fill(left * 2 ** 10);
      await expect(define(databases, sql, "tables.sql")).rejects.toThrow(
        `the database file ${join(folder, "d.duckdb")} cannot be written: the disk is full; make room, then try again`,
      );
      await disk.empty();
      await define(databases, sql, "tables.sql");
      databases.close();
    },
  );
});

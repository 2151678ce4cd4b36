import { mkdir, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createDatabase } from "#duckdb/database.ts";
import { Workbench } from "#duckdb/workbench.ts";
import { filesIn } from "#state/folder/store.ts";
import { Ledger } from "#state/ledger/ledger.ts";
import type { LedgerOptions } from "#state/ledger/ledger.ts";
import { limitFiles } from "../../support/file-size.ts";

const count = 100_000;

let folder: string;
let workbench: Workbench;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-ledger-"));
});
afterEach(async () => {
  await limitFiles(process.pid, undefined);
  await workbench.close();
  await rm(folder, { recursive: true });
});

/** A run of its own that is about to own many users. */
async function open(mode: LedgerOptions["mode"]): Promise<Ledger> {
  workbench = await Workbench.open({ folder: join(folder, "work"), memory: 2 ** 30 });
  const { signal } = new AbortController();
  await workbench.connection.run(`
    CREATE TABLE assembled AS
      SELECT 'user' AS kind, 'user ' || i AS name, 'hr' AS source, md5(random()::VARCHAR) || repeat(i::VARCHAR, 30) AS source_id
      FROM range(${count}) r(i);
    CREATE TABLE contributor AS FROM assembled WHERE false;
    CREATE TABLE managed AS SELECT kind, name FROM assembled;
    CREATE TABLE kept_by_hand (kind VARCHAR, name VARCHAR, grp VARCHAR)`);
  return Ledger.open(workbench.connection, { files: filesIn(folder), place: "p", sync: "s", mode, signal });
}

async function owned(): Promise<unknown> {
  return (await workbench.connection.rows("SELECT count(*)::INTEGER AS n FROM ledger"))[0];
}

test("a ledger whose log cannot be moved into its file is used until the end of the run, and by the next ones", async () => {
  const file = join(folder, "ledgers", "p.duckdb");
  let ledger = await open("write");
  await limitFiles(process.pid, 2 ** 24 + 2 ** 23);
  await ledger.claim();
  // As large as a log that is moved with the next commit usually.
  expect((await stat(`${file}.wal`)).size).toBeGreaterThan(2 ** 24);
  await limitFiles(process.pid, 2 ** 20);
  await expect(ledger.keep("x".repeat(2 ** 21))).rejects.toThrow("File too large");
  await limitFiles(process.pid, 2 ** 24 + 2 ** 23);
  await ledger.keep("of this run");
  await limitFiles(process.pid, 2 ** 20);
  await ledger.close();
  await workbench.close();
  await open("read");
  expect(await owned()).toEqual({ n: count });
  await workbench.close();
  await limitFiles(process.pid, undefined);
  ledger = await open("write");
  expect(ledger.kept).toBe("of this run");
  expect(await owned()).toEqual({ n: count });
  await ledger.close();
});

test("a ledger that cannot be read is closed again: closed later, it would take the lock of a run of the same process", async () => {
  const file = join(folder, "ledgers", "p.duckdb");
  await mkdir(dirname(file));
  await createDatabase(file);
  await expect(open("read")).rejects.toThrow("cannot be read");
  const attached = await workbench.connection.rows("FROM duckdb_databases() WHERE database_name = 'owned'");
  expect(attached).toEqual([]);
});

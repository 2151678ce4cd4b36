import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rm, stat, truncate, writeFile, rename, symlink, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { postgres as options } from "#postgres/options.ts";
import { openPostgresReader } from "#state/postgres/store.ts";
import { PostgresFiles } from "#state/postgres/files.ts";
import type { Node } from "#state/postgres/nodes.ts";
import { endLease, sharedDatabaseOfEachTest, thrown } from "./support.ts";

const shared = sharedDatabaseOfEachTest();
const part = 256 * 1024;
const all = ["ledgers/", "runs/", "configuration.json"];

interface Machine {
  readonly folder: string;
  readonly node: Node;
  readonly files: PostgresFiles;
  write(path: string, content: Buffer | string): Promise<void>;
}

async function machine(): Promise<Machine> {
  const [folder, node] = [await shared.folder(), await shared.node()];
  return {
    folder,
    node,
    files: new PostgresFiles(shared.postgres, folder, node),
    write: async (path, content) => {
      await mkdir(dirname(join(folder, path)), { recursive: true });
      await writeFile(join(folder, path), content);
    },
  };
}

/** The files of a folder with their contents. */
async function contents(folder: string): Promise<Record<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.filter((each) => each.isFile()).map((each) => join(each.parentPath, each.name));
  const read = async (path: string) => [path.slice(folder.length + 1), (await readFile(path)).toString("base64")];
  return Object.fromEntries(await Promise.all(paths.sort().map(read))) as Record<string, string>;
}

const inBase64 = (content: Buffer | string): string => Buffer.from(content).toString("base64");

/** Which parts have been written since the last call, by the versions of their rows. */
let versions = new Map<string, string>();
async function writtenParts(): Promise<string[]> {
  const rows = await shared.postgres.rows<{ path: string; part: number; version: string }>(
    "SELECT path, part, xmin::text || ctid::text AS version FROM rollcall.files ORDER BY path, part",
  );
  const now = new Map(rows.map((row) => [`${row.path} ${row.part}`, row.version]));
  const changed = [...now].filter(([key, version]) => versions.get(key) !== version).map(([key]) => key);
  versions = now;
  return changed;
}

test("files of every size arrive as they are, and only changed parts travel", async () => {
  const [one, other] = [await machine(), await machine()];
  const ledger = randomBytes(3 * part + 17);
  const files: Record<string, Buffer | string> = {
    "ledgers/a.duckdb": ledger,
    "ledgers/exactly two parts.duckdb": randomBytes(2 * part),
    "runs/20261121-100000-000001/plan.json": "{}",
    "runs/20261121-100000-000001/empty.parquet": "",
    "configuration.json": "ü",
  };
  for (const [path, content] of Object.entries(files)) await one.write(path, content);
  // Not meant, and not yet finished.
  await one.write("audit.jsonl", "x");
  await one.write("runs/20261121-100000-000002.partial/plan.json", "x");
  await one.write("ledgers/a.duckdb.new", "x");
  await one.files.save(all);
  await other.files.fetch(all);
  const expected = Object.fromEntries(Object.entries(files).map(([path, content]) => [path, inBase64(content)]));
  expect(await contents(other.folder)).toEqual(expected);
  expect((await stat(join(other.folder, "ledgers/a.duckdb"))).mode & 0o077).toBe(0);

  versions = new Map();
  await writtenParts();
  await one.files.save(all);
  expect(await writtenParts()).toEqual([]);
  // One part in the middle, and an end that grows over the border of a part.
  ledger[part + 5] = (ledger[part + 5]! + 1) % 256;
  const grown = Buffer.concat([ledger, randomBytes(part)]);
  await other.write("ledgers/a.duckdb", grown);
  await other.files.save(["ledgers/a.duckdb"]);
  expect(await writtenParts()).toEqual(["ledgers/a.duckdb 1", "ledgers/a.duckdb 3", "ledgers/a.duckdb 4"]);
  await one.files.fetch(["ledgers/"]);
  expect((await readFile(join(one.folder, "ledgers/a.duckdb"))).equals(grown)).toBe(true);

  // Shorter: exactly at a border, then inside a part, then empty.
  for (const size of [2 * part, part + 1, part, 1, 0]) {
    await truncate(join(one.folder, "ledgers/a.duckdb"), size);
    await one.files.save(["ledgers/"]);
    await other.files.fetch(["ledgers/"]);
    expect((await readFile(join(other.folder, "ledgers/a.duckdb"))).equals(grown.subarray(0, size))).toBe(true);
  }
  // The database says the same of what it has.
  const wrong = "SELECT FROM rollcall.files WHERE hash <> sha256(content)";
  expect(await shared.postgres.rows(wrong)).toEqual([]);
});

test("what is removed on one machine goes everywhere, except what was not meant, and a ledger", async () => {
  const [one, other] = [await machine(), await machine()];
  await one.write("ledgers/a.duckdb", "a");
  await one.write("ledgers/a.duckdb.wal", "a");
  await one.write("runs/1/plan.json", "1");
  await one.write("runs/1/changes.parquet", "1");
  await one.write("runs/10/plan.json", "10");
  await one.files.save(all);
  await other.files.fetch(all);
  await rm(join(one.folder, "runs"), { recursive: true });
  await rm(join(one.folder, "ledgers/a.duckdb.wal"));
  // The beginning of another name is not it.
  await one.files.save(["runs/1/", "ledgers/a.duckdb"]);
  await other.files.fetch(all);
  expect(Object.keys(await contents(other.folder))).toEqual(["ledgers/a.duckdb", "runs/10/plan.json"]);
  expect(await readdir(join(other.folder, "runs"))).toEqual(["10"]);
  // A folder that somebody has taken away takes no ledger with it.
  await rm(join(one.folder, "ledgers"), { recursive: true });
  expect((await thrown(one.files.save(["ledgers/a.duckdb"]))).message).toContain("no run removes a ledger");
  await one.files.fetch(["ledgers/"]);
  expect(Object.keys(await contents(one.folder))).toEqual(["ledgers/a.duckdb"]);
  await one.files.prune("runs", (name) => name !== "10");
  await other.files.fetch(["runs/"]);
  expect(Object.keys(await contents(other.folder))).toEqual(["ledgers/a.duckdb"]);
});

test("a folder that cannot be read is not an empty one, and one behind a link is one", async () => {
  const one = await machine();
  await one.write("runs/1/plan.json", "1");
  await one.files.save(all);
  const [runs, elsewhere] = [join(one.folder, "runs"), join(one.folder, "elsewhere")];
  await rename(runs, elsewhere);
  // The link leads to itself.
  await symlink("runs", runs);
  expect((await thrown(one.files.save(all))).message).toContain("ELOOP");
  await unlink(runs);
  await symlink("elsewhere", runs);
  await one.files.save(all);
  expect(await shared.postgres.rows("SELECT FROM rollcall.files")).toHaveLength(1);
});

test("a push that does not come to its end changes nothing", async () => {
  const [one, other] = [await machine(), await machine()];
  await one.write("runs/1/plan.json", "before");
  await one.write("ledgers/a.duckdb", randomBytes(5 * part));
  await one.files.save(all);
  await other.files.fetch(all);
  const before = await contents(other.folder);
  await one.write("runs/1/plan.json", "after");
  await one.write("runs/2/plan.json", "after");
  await one.write("ledgers/a.duckdb", randomBytes(5 * part));
  await shared.postgres.transaction((transaction) =>
    transaction.run(`CREATE FUNCTION rollcall.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF NEW.path = 'runs/2/plan.json' THEN RAISE 'the connection is lost'; END IF; RETURN NEW; END $$;
      CREATE TRIGGER fail BEFORE INSERT ON rollcall.files FOR EACH ROW EXECUTE FUNCTION rollcall.fail()`),
  );
  expect((await thrown(one.files.save(all))).message).toContain("the connection is lost");
  await other.files.fetch(all);
  expect(await contents(other.folder)).toEqual(before);
  await shared.postgres.rows("DROP TRIGGER fail ON rollcall.files");
  await endLease(shared.postgres, one.node);
  expect((await thrown(one.files.save(all))).message).toContain("has lost its lease");
  expect((await thrown(one.files.prune("runs", () => false))).message).toContain("has lost its lease");
  await other.files.fetch(all);
  expect(await contents(other.folder)).toEqual(before);
});

test.each([
  ["changed", "UPDATE rollcall.files SET content = content || 'x' WHERE part = 1"],
  ["missing", "UPDATE rollcall.files SET part = part + 100 WHERE part = 1"],
])("a file with a part that is %s in the database is not taken", async (_, sql) => {
  const [one, other] = [await machine(), await machine()];
  await one.write("ledgers/a.duckdb", randomBytes(2 * part));
  await one.files.save(all);
  await other.files.fetch(all);
  const before = await contents(other.folder);
  await one.write("ledgers/a.duckdb", randomBytes(2 * part));
  await one.files.save(all);
  await shared.postgres.rows(sql);
  expect((await thrown(other.files.fetch(all))).message).toContain("ledgers/a.duckdb in the database is damaged");
  expect(await contents(other.folder)).toEqual(before);
});

test("several processes of a machine bring the same files at the same time while they change", async () => {
  const one = await machine();
  const readers = await shared.folder();
  // Every part of a version says which it is: a mixture would be seen.
  const version = (number: number): Buffer =>
    Buffer.concat([0, 1, 2, 3].map((at) => Buffer.alloc(part, at < 2 && number % 2 === 0 ? `same` : `v${number} `)));
  const seen = new Set<string>();
  for (let number = 0; number < 6; number++) {
    await one.write("ledgers/a.duckdb", version(number));
    await one.write(`runs/${number}/plan.json`, String(number));
    const pushed = one.files.save(all);
    await Promise.all([
      pushed,
      ...Array.from({ length: 4 }, async () => {
        await new PostgresFiles(shared.postgres, readers).fetch(all);
        const content = await readFile(join(readers, "ledgers/a.duckdb")).catch(() => undefined);
        if (content !== undefined) seen.add(content.toString("base64"));
      }),
    ]);
    // What the last one has brought, a slower one does not take away.
    await new PostgresFiles(shared.postgres, readers).fetch(all);
    expect(await contents(readers)).toEqual(await contents(one.folder));
  }
  const versions = new Set(Array.from({ length: 6 }, (_, number) => version(number).toString("base64")));
  for (const content of seen) expect(versions.has(content)).toBe(true);
});

test("copies for readers go with what they are copies of", async () => {
  const { write, files } = await machine();
  const reader = await shared.folder();
  const settings = options.parse({ postgres: shared.url });
  const read = async (path: string): Promise<void> => {
    await using state = await openPostgresReader(settings, reader);
    await state.files.fetch([path]);
    await expect(state.files.save([path])).rejects.toThrow("only read");
  };
  for (const run of ["one", "two"]) await write(`runs/${run}/plan.json`, run);
  await files.save(["runs/"]);
  await read("runs/one/");
  await read("runs/two/");
  await files.prune("runs", (name) => name === "two");
  await read("runs/two/");
  expect(await readdir(join(reader, "copies/runs"))).toEqual(["two"]);
});

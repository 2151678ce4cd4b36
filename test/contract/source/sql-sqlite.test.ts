import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readlink,
  realpath,
  rename,
  rm,
  truncate,
  writeFile,
} from "node:fs/promises";
import { DatabaseSync } from "node:sqlite";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { commonFaults, read, sqlMedium } from "./sql-medium.ts";
import type { SqlPlace, SqlProvision } from "./sql-medium.ts";
import { sourceSuite } from "./suite.ts";

/** Who writes, and does not end. */
let writer: ChildProcess | undefined;
const writing = `const { DatabaseSync } = require("node:sqlite");
const database = new DatabaseSync("hr.db");
database.exec("BEGIN EXCLUSIVE");
process.send("begun");
setInterval(() => database.isOpen, 1_000);`;

/** Of all processes but that. */
async function openFiles(folder: string): Promise<number> {
  const processes = (await readdir("/proc")).filter((name) => /^\d+$/.test(name) && Number(name) !== writer?.pid);
  const files = processes.map(async (id) => {
    const numbers = await readdir(`/proc/${id}/fd`).catch(() => []);
    return Promise.all(numbers.map((number) => readlink(`/proc/${id}/fd/${number}`).catch(() => "")));
  });
  return (await Promise.all(files)).flat().filter((target) => target.startsWith(folder)).length;
}

async function make(): Promise<SqlPlace> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "rollcall-sqlite-")));
  return {
    folder,
    options: { url: "sqlite:hr.db" },
    async run(...statements) {
      const database = new DatabaseSync(join(folder, "hr.db"));
      for (const statement of statements) database.exec(statement);
      database.close();
    },
    held: () => openFiles(folder),
    async dispose() {
      writer?.kill("SIGKILL");
      await rm(folder, { recursive: true });
    },
  };
}

/** Memberships in a column of the groups, by login and name. */
const parts = {
  timeouts: { connect: "1s" },
  users: { query: "SELECT * FROM users", id: "number", keys: ["login"], minRows: 9 },
  groups: {
    query: `SELECT number, name, description,
        (SELECT group_concat(coalesce(u.login, g.name), '|') FROM members
         LEFT JOIN users u ON kind = 'person' AND u.number = member
         LEFT JOIN teams g ON kind = 'team' AND g.number = member
         WHERE members.team = teams.number) AS members
      FROM teams -- all of them`,
    id: "number",
    keys: ["name"],
    members: { column: "members", separator: "|" },
  },
};

const file = ({ folder }: SqlProvision): string => join(folder, "hr.db");

sourceSuite(
  sqlMedium("SQLite", parts, make, {
    describes: [/^SQLite 3\.\d+\.\d+, \/.*hr\.db$/m, /^9 users, 7 groups$/m],
    faults: {
      before: [
        ...commonFaults,
        {
          name: "a program that wrote was killed in the middle of it",
          inject: async (place) => {
            const database = new DatabaseSync(file(place));
            database.exec(
              "PRAGMA cache_size = 1; BEGIN; DELETE FROM members; CREATE TABLE t AS SELECT zeroblob(1000000)",
            );
            for (const name of ["hr.db-journal", "hr.db"])
              await copyFile(join(place.folder, name), join(place.folder, `${name}.copy`));
            database.close();
            for (const name of ["hr.db-journal", "hr.db"])
              await rename(join(place.folder, `${name}.copy`), join(place.folder, name));
          },
          message:
            /^SQLite at hr\.db: a program ended while it was writing \(its -journal file is there\); open the file once/,
        },
        { name: "the file is gone", inject: (place) => rm(file(place)), message: /^hr\.db does not exist/ },
        {
          name: "it is a folder",
          inject: async (place) => {
            await rm(file(place));
            await mkdir(file(place));
          },
          message: /^hr\.db is not a file \(looked in /,
        },
        {
          name: "the file is something else",
          inject: (place) => writeFile(file(place), "number,login\n1,ada\n"),
          message: /^SQLite at hr\.db: file is not a database$/,
        },
        {
          name: "somebody writes for longer than a connection may take",
          inject: async ({ folder }) => {
            writer = spawn(process.execPath, ["-e", writing], {
              cwd: folder,
              stdio: ["ignore", "inherit", "inherit", "ipc"],
            });
            await once(writer, "message");
          },
          message: /^SQLite at hr\.db: database is locked$/,
        },
      ],
      during: [
        {
          name: "the file is cut off",
          inject: (place) => truncate(file(place), 100_000),
          message: /^SQLite at hr\.db, \w+: (?:database disk image is malformed|disk I\/O error)$/,
        },
      ],
    },
  }),
);

test("values have the forms that the README states", async () => {
  const { options, folder, run } = await make();
  await run(
    "CREATE TABLE t (id integer, large integer, ratio real, yes boolean, many boolean, day date, bytes blob, blank text, no_text text)",
    "INSERT INTO t VALUES (7, 9007199254740993, 0.5, 1, 2, '2026-11-26', x'01FF', '', NULL)",
  );
  const users = { query: "SELECT *, id = 7 AS is_seven, 1e999 AS endless, 'Jörg 🦉' AS name FROM t", id: "id" };
  const [user] = await read({ ...options, users }, {}, undefined, folder);
  expect(JSON.parse(JSON.stringify(user))).toMatchObject({ id: "7", origin: "hr.db, users with id 7" });
  expect(JSON.parse(JSON.stringify(user))).toHaveProperty("attributes", {
    id: 7,
    large: { unreadable: "is a number with more than 15 digits; cast it to text in the query" },
    ratio: 0.5,
    yes: true,
    many: 2,
    day: "2026-11-26",
    bytes: "01ff",
    is_seven: 1,
    endless: { unreadable: "is Infinity, which is no number" },
    name: "Jörg 🦉",
  });
  const byLarge = { ...users, id: "large", keys: ["bytes", "large"] };
  expect(await read({ ...options, users: byLarge }, {}, undefined, folder)).toMatchObject([
    { id: "9007199254740993", keys: ["01ff", "9007199254740993"] },
  ]);
});

test("bytes that are no text quarantine a record, and fail the read as an id", async () => {
  const { options, folder } = await make();
  await writeFile(join(folder, "hr.db"), "");
  const users = { query: "SELECT 7 AS id, CAST(x'4AF67267' AS TEXT) AS name", id: "id" };
  expect(await read({ ...options, users }, {}, undefined, folder)).toMatchObject([
    { attributes: { name: { unreadable: "has bytes that are no text in UTF-8, or U+FFFD in their place" } } },
  ]);
  await expect(read({ ...options, users: { ...users, id: "name" } }, {}, undefined, folder)).rejects.toThrow(
    /, users, row 1: column "name" is no id: it is a list, or has bytes that are no text in UTF-8; every row needs one$/,
  );
});

test("a query that is running keeps nobody up who wants to stop, nor the event loop", async () => {
  const { options, folder, held } = await make();
  await writeFile(join(folder, "hr.db"), "");
  const endless = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id FROM n WHERE id < 0";
  const abort = new AbortController();
  const reading = read(
    { ...options, users: { query: endless, id: "id" } },
    { signal: abort.signal },
    undefined,
    folder,
  );
  setTimeout(() => abort.abort("enough"), 100);
  await expect(reading).rejects.toBe("enough");
  expect(await held()).toBe(0);
});

test("two columns with one name are told apart, several statements and what writes are refused", async () => {
  const { options, folder, run } = await make();
  await run("CREATE TABLE t (id integer)");
  const reading = (query: string) => read({ ...options, users: { query, id: "id" } }, {}, undefined, folder);
  // SQLite gives the second one of a subquery another name.
  expect(await reading("SELECT 1 AS id, 2 AS id")).toMatchObject([{ attributes: { id: 1, "id:1": 2 } }]);
  await expect(reading("SELECT 1 AS id) AS a -- (")).rejects.toThrow(/, users: near .*syntax error/);
  await expect(reading("WITH a AS (SELECT 1) DELETE FROM t")).rejects.toThrow(/, users: near .*syntax error/);
});

test("the process that reads ends with the one that asked, in the middle of a statement", async () => {
  const { folder } = await make();
  await writeFile(join(folder, "hr.db"), "");
  const program = fileURLToPath(new URL("../../../connectors/sql/sqlite-process.ts", import.meta.url));
  const endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
  const asking = `const reader = require("node:child_process").fork(${JSON.stringify(program)},
      ['{"file":"hr.db","busy":0}'], { serialization: "advanced", stdio: ["ignore", "ignore", "ignore", "ipc"] });
    reader.send({ sql: "SELECT 1", size: 2 });
    reader.once("message", () => {
      reader.send({ sql: "${endless}", size: 1 });
      process.send(reader.pid);
    });`;
  const asker = spawn(process.execPath, ["-e", asking], {
    cwd: folder,
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const [reader] = (await once(asker, "message")) as [number];
  expect(isThere(reader)).toBe(true);
  asker.kill("SIGKILL");
  await expect.poll(() => isThere(reader), { timeout: 30_000 }).toBe(false);
});

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

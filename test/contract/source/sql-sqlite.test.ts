import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readlink, realpath, rm, truncate, writeFile } from "node:fs/promises";
import { DatabaseSync } from "node:sqlite";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { commonFaults, sqlMedium } from "./sql-medium.ts";
import type { SqlPlace, SqlProvision } from "./sql-medium.ts";
import { sourceSuite } from "./suite.ts";

/** Who writes, and does not end. Within one process, SQLite keeps files open for each other. */
let writer: ChildProcess | undefined;
const writing = `const { DatabaseSync } = require("node:sqlite");
const database = new DatabaseSync("hr.db");
database.exec("BEGIN EXCLUSIVE");
process.send("begun");
setInterval(() => database.isOpen, 1_000);`;

async function openFiles(folder: string): Promise<number> {
  const numbers = await readdir("/proc/self/fd");
  const targets = await Promise.all(numbers.map((number) => readlink(`/proc/self/fd/${number}`).catch(() => "")));
  return targets.filter((target) => target.startsWith(folder)).length;
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
        { name: "the file is gone", inject: (place) => rm(file(place)), message: /^hr\.db does not exist/ },
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

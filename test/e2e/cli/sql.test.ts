import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { rollcall } from "../../support/rollcall/command.ts";
import { atTerminal } from "../../support/rollcall/terminal.ts";
import { startRollcall } from "../../support/rollcall/rollcall.ts";
import type { Ended } from "../../support/rollcall/rollcall.ts";
import { call, login } from "../../support/rollcall/service.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-sql-"));
  await writeFile(join(folder, "tables.sql"), "CREATE DATABASE IF NOT EXISTS d;");
  await writeFile(
    join(folder, "rollcall.yaml"),
    `service: { listen: "127.0.0.1:0", data: data, tables: tables.sql, administrator: { password: secret } }`,
  );
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const sql = (...args: string[]): Promise<Ended> => rollcall(["sql", ...args], { cwd: folder });
const made = `CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR, price DECIMAL(9, 2));
  INSERT INTO t VALUES (1, 'a,"b"', 1.5), (20, NULL, 2), (3, '', NULL)`;

describe("sql, where no service runs", () => {
  test("Ctrl-C ends it while it waits for the rest of standard input", async () => {
    const running = startRollcall(["sql", "-"], { cwd: folder, stdin: null });
    // More than a pipe holds: it has begun to read.
    await new Promise<void>((resolve) => {
      running.process.stdin.write("-".repeat(2 ** 20), () => {
        resolve();
      });
    });
    running.process.kill("SIGINT");
    const { code, stderr } = await running.ended;
    expect([code, stderr]).toEqual([1, expect.stringContaining("Cancelled.")]);
  });

  test("definitions, rows as a table, as CSV and as JSON", async () => {
    const defined = await sql(made);
    expect(defined.code, defined.stderr).toBe(0);
    const query = "SELECT * FROM d.t ORDER BY name NULLS FIRST";
    expect((await sql(query)).stdout).toBe(
      'id  name   price\n--  -----  -----\n20  NULL   2.00\n 3         NULL\n 1  a,"b"  1.50\n(3 rows)\n',
    );
    expect((await sql(query, "--csv")).stdout).toBe('id,name,price\n20,,2.00\n3,"",\n1,"a,""b""",1.50\n');
    const { columnNames, rows } = JSON.parse((await sql(query, "--json")).stdout);
    expect(columnNames).toEqual(["id", "name", "price"]);
    expect(rows).toEqual([
      [20, null, "2.00"],
      [3, "", null],
      [1, 'a,"b"', "1.50"],
    ]);
  });

  test("a terminal shows 1,000 rows within its width, and says how many there are", async () => {
    const query = "SELECT i, repeat(md5(i::VARCHAR), 9) AS text, 7 AS last FROM range(1234) r(i)";
    const terminal = atTerminal(["sql", query], { cwd: folder, columns: 40 });
    expect(await terminal.ended, terminal.shown()).toBe(0);
    const lines = terminal.shown().trimEnd().split(/\r?\n/);
    expect(lines[2]).toMatch(/^ +0 {2}[0-9a-f]+… +7$/);
    expect(lines.slice(-2)).toEqual([
      "(1,234 rows)",
      "only the first 1,000 rows of 1,234 are shown; --csv and --json show more",
    ]);
    expect(lines).toHaveLength(1004);
    expect(Math.max(...lines.slice(0, 1002).map((line) => line.length))).toBeLessThanOrEqual(40);
    expect((await sql(query, "--csv")).stdout.split("\n")).toHaveLength(1236);
    const wide = atTerminal(
      ["sql", `SELECT ${Array.from({ length: 9 }, (_, i) => `md5(1::VARCHAR) AS c${i}`).join(", ")}`],
      {
        cwd: folder,
        columns: 40,
      },
    );
    expect(await wide.ended).toBe(0);
    expect(wide.shown()).toMatch(
      /the terminal has no room for 5 columns: c4, c5, c6, c7, c8; --csv and --json show more/,
    );
  });

  test("what takes too much memory is stopped with the reason, and what was complete stays", async () => {
    const config = `service: { listen: "127.0.0.1:0", data: data, tables: tables.sql, memory: 64MiB }`;
    await writeFile(join(folder, "rollcall.yaml"), config);
    const greedy = await sql(
      "CREATE TABLE d.kept AS SELECT 1 AS a; CREATE TABLE d.large AS SELECT range(1000000000) AS a",
    );
    expect(greedy.code).toBe(1);
    expect(greedy.stderr).toMatch(
      /^rollcall: the SQL did not end: it (?:took more than the 608 MiB that queries may have|needs more memory)[^.]*\. What was not complete is undone; look at the tables/m,
    );
    expect((await sql("FROM d.kept", "--csv")).stdout).toBe("a\n1\n");
    expect((await sql("FROM d.large")).stderr).toMatch(/^rollcall: Catalog Error/);
  });

  test("what is wrong is said with its position; files and other databases stay out of reach", async () => {
    for (const [statements, message] of [
      ["SELECT * FRO t", /^rollcall: Parser Error: syntax error at or near "t"\s+LINE 1: SELECT \* FRO t\n +\^$/m],
      [
        "SELECT 1;\n\nSELECT nope",
        /^rollcall: the statement on line 3 \(the statements before it were executed\): Binder/,
      ],
      ["ATTACH '/tmp/x.db'", /^rollcall: line 1: ATTACH cannot be run here/],
      ["SELECT * FROM read_text('/etc/passwd')", /^rollcall: Permission Error/],
      ["SELECT * FROM nope.main.t", /^rollcall: (?:Catalog|Binder) Error/],
      [" ", /^rollcall: there is no SQL/],
    ] as const) {
      const { code, stdout, stderr } = await sql(statements);
      expect(code).toBe(1);
      expect(stdout).toBe("");
      expect(stderr).toMatch(message);
    }
    const database = await sql("SELECT 1", "--database", "nope");
    expect(database.stderr).toMatch(/^rollcall: there is no database nope/);
    const json = await sql("SELECT nope", "--json");
    expect(JSON.parse(json.stdout)).toMatchObject({
      error: { advice: "fix", message: expect.stringMatching(/^Binder/) },
    });
    await writeFile(
      join(folder, "rollcall.yaml"),
      `targets: { far: { url: https://far.example, username: a, password: b } }`,
    );
    expect((await sql("SELECT 1")).stderr).toMatch(/has no `service:`, so there are no databases to run SQL in\n$/);
  });
});

test("sql beside a running service goes through it, and only with the session of its data folder", async () => {
  const service = startRollcall(["start", "--only", "service"], { cwd: folder });
  try {
    await service.wrote("the service is listening");
    expect((await sql(made)).code).toBe(0);
    expect((await sql("SELECT count(*) AS n FROM t")).stdout).toBe("n\n-\n3\n(1 row)\n");
    const { url, session } = JSON.parse(await readFile(join(folder, "data", "service.json"), "utf8")) as {
      url: string;
      session: string;
    };
    const ask = (session?: string, body: string = JSON.stringify({ sql: "SELECT 1 AS a" })) =>
      call(`${url}/local/sql`, { method: "POST", body, ...(session === undefined ? {} : { session }) });
    const allowed = await ask(session);
    expect(allowed.status).toBe(200);
    expect(JSON.parse(allowed.text)).toEqual({ columnNames: ["a"], rows: [[1]], totalRowCount: 1 });
    expect((await ask()).status).toBe(401);
    expect((await ask(await login(url, { name: "admin", password: "secret" }))).status).toBe(403);
    expect((await ask(session, "SELECT 1")).status).toBe(400);
  } finally {
    service.process.kill("SIGTERM");
    await service.ended;
  }
});

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { expect, onTestFinished, test } from "vitest";
import { definedTables } from "#service/engine/statements.ts";
import { Worker } from "#service/worker/worker.ts";

test("the columns of a definition are told from its constraints, types and defaults", () => {
  const sql = `CREATE DATABASE IF NOT EXISTS hr; -- hr.old (x INTEGER)
    create table if not exists hr.k (id BIGINT CHECK (id > 0, TRUE), "Primary" DECIMAL(12, 2) DEFAULT round(1, 2),
      UNIQUE (id, name), name VARCHAR, primary key (id));
    CREATE TABLE IF NOT EXISTS hr."a b".t ("x ""y""" DATE) WITH (fillfactor = 70);
    CREATE TABLE IF NOT EXISTS hr.part PARTITION OF hr.k FOR VALUES FROM (MINVALUE) TO (7)`;
  expect(definedTables(sql)).toEqual([
    { parts: ["hr", "k"], columns: ["id", "Primary", "name"], line: 2 },
    { parts: ["hr", "a b", "t"], columns: ['x "y"'], line: 4 },
    { parts: ["hr", "part"], columns: [], line: 5 },
  ]);
});

test("a table that lacks columns of its definition is named, with its line", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-definitions-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const start = async (columns: string): Promise<string[]> => {
    const lines: string[] = [];
    const worker = await Worker.open({
      folder: join(folder, "databases"),
      answers: join(folder, "answers"),
      memory: 64 * 2 ** 20,
      files: [],
      log: pino({ level: "warn" }, { write: (line) => lines.push((JSON.parse(line) as { msg: string }).msg) }),
      tables: {
        sql: `CREATE DATABASE IF NOT EXISTS hr;\nCREATE TABLE IF NOT EXISTS hr.people (${columns})`,
        origin: "tables.sql",
      },
    });
    await worker.close();
    return lines;
  };
  expect(await start("id BIGINT, name VARCHAR")).toEqual([]);
  expect(await start("ID BIGINT")).toEqual([]);
  expect(await start("id BIGINT, mail VARCHAR, name VARCHAR, since DATE")).toEqual([
    "tables.sql:2: the table hr.people exists without mail, since, and a definition changes no table; " +
      "add what is missing with `rollcall sql`: ALTER TABLE … ADD COLUMN …",
  ]);
});

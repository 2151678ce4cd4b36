import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadPinboards } from "#config/pinboards.ts";
import { openDuckDbEngine } from "#service/engine/duckdb.ts";
import type { Engine } from "#service/engine/engine.ts";
import { executed, pageOf as enginePage } from "../../engine/stage.ts";
import type { Page } from "../../engine/stage.ts";

const config = join(import.meta.dirname, "../../../../config/sample");
const [directory, ...others] = await loadPinboards(join(config, "pinboards"));
const never = new AbortController().signal;
let folder: string;
let engine: Engine;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-directory-"));
  engine = await openDuckDbEngine({ folder, memory: 256 * 2 ** 20 });
  await engine.define(await readFile(join(config, "tables.sql"), "utf8"), "tables.sql");
});

afterAll(async () => {
  await engine.close();
  await rm(folder, { recursive: true });
});

async function pageOf(name: string): Promise<Page> {
  const { database, sql } = directory?.visualizations.find((one) => one.name === name) ?? { database: "", sql: "" };
  return enginePage(engine, { database, sql, limit: 1000, timeout: 60_000 }, never);
}

const names = directory?.visualizations.map(({ name }) => name) ?? [];

test("the sample has one pinboard", () => {
  expect(others).toEqual([]);
  expect(directory?.name).toBe("Directory");
});

test.each(names)("%s works over empty tables, and its chart shows columns that are there", async (name) => {
  const { columnNames, rows } = await pageOf(name);
  expect(rows).toEqual(name === "People" ? [[0]] : []);
  const { chart } = directory?.visualizations.find((one) => one.name === name) ?? {};
  for (const column of [chart?.x, chart?.y, chart?.series]) {
    if (column !== undefined) expect(columnNames).toContain(column);
  }
});

test("over a small directory", async () => {
  // Ada is in engines, which is in staff; Bo is in staff; Cy is in nothing. Of the groups, `ghosts` has only a group.
  await executed(
    engine,
    "directory",
    `INSERT INTO users VALUES ('ada', 'Ada', NULL, NULL), ('bo', 'Bo', 'bo@example.com', NULL), ('cy', 'Cy', '', NULL);
     INSERT INTO groups VALUES ('engines', 'Engines', NULL), ('staff', 'Staff', 'All of us'), ('ghosts', 'Ghosts', NULL),
       ('empty', 'Empty', 'Nobody');
     INSERT INTO memberships VALUES ('user', 'ada', 'engines'), ('user', 'bo', 'staff'), ('group', 'engines', 'staff'),
       ('group', 'empty', 'ghosts');
     INSERT INTO effective_memberships VALUES ('ada', 'engines', 1, 'engines'), ('ada', 'staff', 2, 'engines > staff'),
       ('bo', 'staff', 1, 'staff')`,
    never,
  );
  const rows = Object.fromEntries(await Promise.all(names.map(async (name) => [name, (await pageOf(name)).rows])));
  expect(rows).toEqual({
    People: [[3]],
    "People by group": [
      ["Staff", 2],
      ["Engines", 1],
    ],
    "Nesting depth": [
      [1, 2, 2],
      [2, 1, 1],
    ],
    "Members without mail": [["ada", "Ada", 2, "engines"]],
    "Largest groups": [
      ["staff", "Staff", 2, 1, 1, 2],
      ["engines", "Engines", 1, 1, 0, 1],
      ["empty", "Empty", 0, 0, 0, 0],
      ["ghosts", "Ghosts", 0, 0, 1, 0],
    ],
    "Groups without members": [
      ["empty", "Empty", "Nobody"],
      ["ghosts", "Ghosts", null],
    ],
  });
});

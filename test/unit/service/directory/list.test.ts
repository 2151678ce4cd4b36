import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import { ListAnswer } from "#service/directory/list.ts";

test("B.9 a list that is larger than the memory is sorted on disk: users first, then groups, each by name", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-list-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const database = await openDatabase({
    path: join(folder, "directory.duckdb"),
    memory: 64 * 2 ** 20,
    spill: join(folder, "spill"),
  });
  const connection = await database.connect();
  onTestFinished(() => {
    connection.close();
    database.close();
  });
  const principals = (kind: string, count: number): string => `
    SELECT '${kind}' || hash(i) AS name, repeat('Ada', 20) AS display_name, NULL::VARCHAR AS description,
      NULL::VARCHAR AS mail, ['All', 'Team ' || (i % 100)] AS group_names, 1 AS created, 2 AS modified
    FROM range(${count}) t(i)`;
  await connection.run(`
    SET threads = 1;
    CREATE TABLE actual_users AS ${principals("u", 300_000)};
    CREATE TABLE actual_groups AS ${principals("g", 1000)};
    CHECKPOINT`);

  const list = (await json(await new ListAnswer(folder).compute(connection, "1"))) as {
    readonly name: string;
  }[];
  const names = list.map(({ name }) => name);
  expect(names).toHaveLength(301_000);
  const [users, groups] = [names.slice(0, 300_000), names.slice(300_000)];
  expect(users).toEqual(users.toSorted());
  expect(groups).toEqual(groups.toSorted());
  expect(users.every((name) => name.startsWith("u"))).toBe(true);
});

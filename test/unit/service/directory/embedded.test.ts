import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setImmediate } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import type { Database } from "#duckdb/database.ts";
import { Directory } from "#service/directory/directory.ts";
import { openEmbeddedStore } from "#service/directory/embedded.ts";
import { Progress } from "#service/progress.ts";
import { callSync } from "../../../support/rollcall/sync-call.ts";

let folder: string;
let database: Database;
let directory: Directory;
/** How often a user was looked up in the database. */
let lookups: number;
let trims: number;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-embedded-"));
  database = await openDatabase({ path: ":memory:", memory: 2 ** 28, spill: join(folder, "spill") });
  const counting: Pick<Database, "use" | "trim"> = {
    trim: async () => {
      trims++;
      await database.trim();
    },
    use: (work) =>
      database.use((connection) => {
        const rows: typeof connection.rows = (sql, parameters) => {
          if (/WHERE lookup = /.test(sql)) lookups++;
          return connection.rows(sql, parameters);
        };
        return work({ ...connection, rows });
      }),
  };
  const store = await openEmbeddedStore(counting);
  const administrator = { name: "admin", password: "correct horse battery staple" };
  directory = await Directory.open({ store, database: counting, folder, administrator, progress: new Progress() });
  [lookups, trims] = [0, 0];
});
afterEach(async () => {
  await directory.close();
  database.close();
  await rm(folder, { recursive: true });
});

/** Makes these users, by name with their group, all there are. */
async function apply(users: Readonly<Record<string, string>>, isApplied = true): Promise<void> {
  const groups = new Set(Object.values(users));
  const list = [
    ...Object.entries(users).map(([name, group]) => ({
      name,
      displayName: name,
      principalTypeEnum: "LOCAL_USER",
      groupNames: [group],
    })),
    ...[...groups].map((name) => ({ name, displayName: name, principalTypeEnum: "LOCAL_GROUP" })),
  ];
  const call = { list, apply: isApplied, removeDeleted: true, defaultPassword: "initial" };
  await text(await callSync(directory, folder, call));
}

const groupsOf = async (name: string): Promise<string[]> => [...(await directory.store.effectiveGroups(name))];

test("0.6 who calls is looked up once, and again when users or groups have changed", async () => {
  await apply({ ada: "a", ben: "b" });
  lookups = 0;
  for (let request = 0; request < 20; request++) {
    const both = await Promise.all([directory.store.account("ada"), directory.store.account("ada"), groupsOf("ada")]);
    expect(both).toMatchObject([{ name: "ada" }, { name: "ada" }, ["a"]]);
    if (request === 10) await apply({ ada: "b" }, false);
  }
  expect(lookups).toBe(2);
  await apply({ ada: "b" });
  expect(await groupsOf("ada")).toEqual(["b"]);
  expect(await directory.store.account("ben")).toBeUndefined();
  await apply({ ben: "b" });
  expect(await directory.store.account("ben")).toMatchObject({ name: "ben" });
  expect(await directory.store.account("ada")).toBeUndefined();
});

test("0.5 whoever asks while users change is told nothing old once that is done", async () => {
  const over = new AbortController();
  const asking = (async () => {
    while (!over.signal.aborted) {
      await Promise.all([directory.store.account("ada"), groupsOf("ada")]);
      await setImmediate();
    }
  })();
  for (const group of ["a", "b", "", "c", "", "d"]) {
    await apply(group === "" ? { ben: "b" } : { ada: group });
    const expected = group === "" ? [undefined, []] : [{ name: "ada" }, [group]];
    expect(await Promise.all([directory.store.account("ada"), groupsOf("ada")])).toMatchObject(expected);
  }
  over.abort();
  await asking;
});

test("names that nobody has are not remembered", async () => {
  for (let time = 0; time < 3; time++) expect(await directory.store.account("nobody")).toBeUndefined();
  expect(lookups).toBe(3);
});

test("now and then the database is trimmed, while no call is under way", async () => {
  const preview = (): Promise<void> => apply({ ada: "b" }, false);
  await apply({ ada: "a" });
  // What is refused is a call too, and takes half the time.
  const refused = { list: [{}], apply: false, removeDeleted: true };
  for (let call = 2; call < 100; call++)
    await expect(callSync(directory, folder, refused)).rejects.toThrow("principals");
  expect(trims).toBe(0);
  // The second of these begins before the first, which is the hundredth, has ended.
  await Promise.all([preview(), preview()]);
  expect(trims).toBe(1);
  await preview();
  expect(trims).toBe(1);
  expect(await groupsOf("ada")).toEqual(["a"]);
});

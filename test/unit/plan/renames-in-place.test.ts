import { beforeEach, expect, test } from "vitest";
import { knownTables } from "#plan/remote.ts";
import { renameAgain, renameInPlace } from "#plan/renames-in-place.ts";
import { tablesOf } from "#plan/tables.ts";
import { Attributes } from "#principals/attributes.ts";
import { useConnection } from "../../support/duckdb.ts";
import { attributesOfObjects } from "../../support/object-target.ts";

const connection = useConnection();
const attributes = new Attributes(attributesOfObjects);
const tables = { ...tablesOf(attributes), ...knownTables, remote_name: "kind VARCHAR, id VARCHAR, name VARCHAR" };

beforeEach(async () => {
  for (const [table, columns] of Object.entries(tables))
    await connection().run(`CREATE OR REPLACE TEMP TABLE ${table} (${columns.replaceAll(" NOT NULL", "")})`);
});

interface Scene {
  /** Users of the source `hr`, by the ids of their records; `2:vpn` is of another source. */
  readonly sources: Readonly<Record<string, string>>;
  readonly owns: Readonly<Record<string, string>>;
  readonly target: readonly string[];
  /** Names of the target of principals of other types. */
  readonly foreign?: readonly string[];
  readonly protected?: readonly string[];
  readonly unread?: readonly string[];
}

/** Who is renamed: `ada → countess`. */
async function renamed(scene: Scene): Promise<string[]> {
  const insert = async (table: string, records: Scene["owns"]): Promise<void> => {
    for (const [key, name] of Object.entries(records)) {
      const [id = "", source = "hr"] = key.split(":");
      await connection().rows(
        `INSERT INTO ${table} BY NAME SELECT 'user' AS kind, ? AS name, ? AS source, ? AS source_id`,
        [name, source, id],
      );
    }
  };
  await insert("assembled", scene.sources);
  await insert("ledger", scene.owns);
  for (const name of scene.target)
    await connection().rows("INSERT INTO actual BY NAME SELECT 'user' AS kind, ? AS name, [] AS group_names", [name]);
  for (const name of scene.foreign ?? [])
    await connection().rows("INSERT INTO actual_foreign BY NAME SELECT 'user' AS kind, ? AS name, 'x' AS type", [name]);
  const { examples } = await renameInPlace(connection(), {
    attributes,
    protection: { users: scene.protected ?? [], groups: [] },
    unread: scene.unread ?? [],
    hasBaseline: false,
  });
  return examples.map(({ from, to }) => `${from} → ${to}`);
}

const ada: Scene = { sources: { 1: "countess" }, owns: { 1: "ada" }, target: ["ada"] };

test("a record with another name renames its account, and what is known of it", async () => {
  await connection().run(`
    INSERT INTO by_hand VALUES ('user', 'ada', 'chess'); INSERT INTO remote_name VALUES ('user', 'id', 'ada');
    INSERT INTO leaving_since VALUES ('user', 'ada', 0)`);
  expect(await renamed(ada)).toEqual(["ada → countess"]);
  for (const table of ["actual", "ledger", "by_hand", "remote_name", "leaving_since"])
    expect(await connection().rows(`SELECT name FROM ${table}`)).toEqual([{ name: "countess" }]);
});

test.each<[string, Partial<Scene>]>([
  ["that has it already", { target: ["ada", "Countess"] }],
  ["of another type that has it", { foreign: ["countess"] }],
  ["that the sync owns, though it is gone from the target", { owns: { 1: "ada", 2: "countess" } }],
  ["whose old name another record has", { sources: { 1: "countess", 2: "ada" } }],
  [
    "that two records would get",
    { sources: { 1: "countess", 2: "Countess" }, owns: { 1: "ada", 2: "bob" }, target: ["ada", "bob"] },
  ],
  ["whose records have two names now", { sources: { 1: "countess", 2: "baroness" }, owns: { 1: "ada", 2: "ada" } }],
  ["whose old name is protected", { protected: ["ada"] }],
  ["whose new name is protected", { protected: ["count*"] }],
  ["that a source made, too, that cannot be read", { owns: { 1: "ada", "2:vpn": "ada" }, unread: ["vpn"] }],
  ["that is not in the target", { target: [] }],
])("not one %s", async (_, other) => {
  expect(await renamed({ ...ada, ...other })).toEqual([]);
});

test("a stored plan gives the names that nobody has given or taken meanwhile", async () => {
  await connection().run(`
    INSERT INTO actual BY NAME SELECT 'user' AS kind, unnest(['ada', 'bob', 'baroness', 'dora']) AS name, [] AS group_names;
    INSERT INTO renamed_in_place BY NAME
    SELECT 'user' AS kind, unnest(['ada', 'bob', 'cem']) AS was, unnest(['countess', 'baroness', 'dora']) AS becomes`);
  await renameAgain(connection());
  const names = await connection().rows<{ name: string }>("SELECT name FROM actual ORDER BY name");
  expect(names.map(({ name }) => name)).toEqual(["baroness", "bob", "countess", "dora"]);
});

import { expect, test } from "vitest";
import { serviceAttributes } from "#principals/attributes.ts";
import { depart } from "#plan/departures.ts";
import { renameInPlace } from "#plan/renames-in-place.ts";
import { findByHand } from "#plan/by-hand.ts";
import { measure } from "#plan/limits.ts";
import { createChanges, createPlan } from "#plan/diff.ts";
import { combine, freeze } from "#plan/protect.ts";
import { addRuleGroups } from "#plan/rule-groups.ts";
import { narrow, narrowTo, withhold } from "#plan/selection.ts";
import { tablesOf } from "#plan/tables.ts";
import { assemble } from "#principals/assembly.ts";
import { compileRules } from "#principals/compile.ts";
import type { Entry } from "#principals/entry.ts";
import { assembledOf, assemblyTables, stagedTables } from "#principals/tables.ts";
import { findCauses } from "#plan/causes.ts";
import { leaveDrift } from "#plan/drift.ts";
import { filesIn } from "#state/folder/store.ts";
import { loadBaseline } from "#sync/planning/baseline.ts";
import { refuseTorn } from "#sync/planning/torn.ts";
import { useConnection } from "../../support/duckdb.ts";

const tables = tablesOf(serviceAttributes);

const connection = useConnection();

/** Names and types, without constraints: `CREATE TABLE AS` has none. */
async function columnsOf(table: string): Promise<string[]> {
  const rows = await connection().rows<{ column: string }>(
    `SELECT column_name || ' ' || data_type AS column FROM duckdb_columns() WHERE table_name = $1 ORDER BY column_index`,
    [table],
  );
  return rows.map(({ column }) => column);
}

async function declared(ddl: string): Promise<string[]> {
  await connection().run(`CREATE OR REPLACE TEMP TABLE declared (${ddl})`);
  return columnsOf("declared");
}

async function expectDeclared(relations: Readonly<Record<string, string>>): Promise<void> {
  for (const [table, ddl] of Object.entries(relations))
    expect({ table, columns: await columnsOf(table) }).toEqual({ table, columns: await declared(ddl) });
}

const rules = compileRules({
  users: {
    name: "entry.name",
    displayName: "entry.name",
    description: 'join(memberOf(entry) + nestedMemberOf(entry), " ")',
    onlyMembersOf: ["staff"],
    nested: true,
  },
  groups: { name: { value: "entry.name", unique: "name + string(n)" }, displayName: "entry.name" },
  defaultGroups: ["all"],
  staticGroups: [{ name: "all", displayName: "All", groups: [] }],
  join: { users: "entry.name" },
});

function entry(kind: Entry["kind"], id: string, memberOf: string[] = []): Entry {
  return { kind, id, origin: `${id}.csv`, attributes: { name: id }, keys: [id], memberOf, members: [] };
}

async function* batches(...entries: Entry[]): AsyncIterable<readonly Entry[]> {
  yield entries;
}

test("every relation of the pipeline has its declared columns", async () => {
  const { ledger, leaving_since: leavingSince, actual, arrived, arrived_foreign: arrivedForeign } = tables;
  const sources = [
    {
      name: "hr",
      records: batches(entry("user", "ada", ["staff", "gone"]), entry("group", "staff"), {
        ...entry("group", "crew"),
        attributes: { name: "staff" },
      }),
    },
    { name: "vpn", records: batches(entry("user", "ada")) },
  ];
  await assemble(connection(), sources, rules, {
    signal: new AbortController().signal,
    observer: {
      judged: () => {},
      assembled: async () => {
        const attributes = {
          staged_entry: stagedTables.staged_entry + rules.declared.staged + rules.kept.ddl,
          staged_raw: stagedTables.staged_raw + rules.kept.ddl,
          staged_excluded: stagedTables.staged_excluded + rules.kept.ddl,
        };
        await expectDeclared({ ...stagedTables, ...assemblyTables, ...attributes });
      },
    },
  });
  await expectDeclared(assembledOf(serviceAttributes));
  await connection().run(`
    CREATE OR REPLACE TEMP TABLE ledger (${ledger}); CREATE OR REPLACE TEMP TABLE leaving_since (${leavingSince});
    CREATE OR REPLACE TEMP TABLE owned_by_others (${tables.owned_by_others});
    CREATE OR REPLACE TEMP TABLE owned_before (${tables.owned_before});
    CREATE OR REPLACE TEMP TABLE lost_recently (${tables.lost_recently}); CREATE OR REPLACE TABLE actual_foreign (${tables.actual_foreign});
    INSERT INTO ledger VALUES ('user', 'eve', 'hr', 'ada'), ('user', 'zoe', 'hr', 'zoe'), ('group', 'made', '(rules)', 'made');
    CREATE OR REPLACE TABLE actual (${actual}); CREATE OR REPLACE TABLE arrived (${arrived});
    CREATE OR REPLACE TABLE actual_extra (${tables.actual_extra}); CREATE OR REPLACE TABLE arrived_extra (${tables.arrived_extra}); CREATE OR REPLACE TABLE arrived_foreign (${arrivedForeign});
    INSERT INTO actual VALUES
      ('user', 'eve', 'Eve', NULL, NULL, []), ('user', 'zoe', 'Zoe', NULL, NULL, []), ('group', 'made', 'Made', NULL, NULL, [])`);
  await addRuleGroups(connection(), { manage: "owned" }, true);
  const protection = { users: [], groups: [], others: ["other"] };
  const renaming = { attributes: serviceAttributes, protection, unread: [], hasBaseline: false };
  await renameInPlace(connection(), renaming);
  await freeze(connection(), { manage: "owned", makesGroups: true, ...protection });
  await connection().run(`CREATE OR REPLACE TEMP TABLE by_hand (${tables.by_hand})`);
  await findByHand(connection(), ["*"], false);
  await depart(connection(), { renames: "apply", reusedNames: "apply", after: 0, administrators: ["admins"] }, 0);
  await combine(connection(), serviceAttributes);
  await createPlan(connection(), serviceAttributes);
  await measure(connection(), serviceAttributes, { sources: {}, floor: 10, action: "hold" });
  await withhold(connection(), serviceAttributes, new Set(["creates", "deletes", "emptied"]));
  await narrow(connection(), { only: ["create"] });
  await narrowTo(connection(), [{ kind: "user", name: "ada" }]);
  await measure(connection(), serviceAttributes, { sources: {}, floor: 10, action: "hold" });
  await createChanges(connection(), serviceAttributes, { actual: "arrived", desired: "desired", into: "missing" });
  await loadBaseline(connection(), filesIn("/nowhere"), { name: "staff", place: "here" }, serviceAttributes);
  await findCauses(connection(), {
    attributes: serviceAttributes,
    reads: rules.reads(),
    hasBaseline: true,
    hasGrace: false,
    changedKeys: [],
  });
  await leaveDrift(connection(), serviceAttributes, { policy: "leave", ignore: [] });
  await connection().run(`CREATE OR REPLACE TEMP TABLE left_out (${tables.left_out})`);
  const hr = { read: () => batches(), find: () => batches() };
  await refuseTorn(connection(), [{ name: "hr", source: hr }], {
    signal: new AbortController().signal,
    warn: () => {},
  });
  for (const table of ["opinion", "unwritten"])
    await connection().run(`CREATE OR REPLACE TEMP TABLE ${table} AS SELECT action, kind, name FROM missing`);
  await expectDeclared(tables);
  const made = await connection().rows<{ name: string }>(
    `SELECT DISTINCT table_name AS name FROM duckdb_columns() WHERE NOT internal AND table_name <> 'declared'`,
  );
  expect(made.map(({ name }) => name).filter((name) => !(name in tables))).toEqual([]);
});

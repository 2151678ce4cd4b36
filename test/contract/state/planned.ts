import { join } from "node:path";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { Workbench } from "#duckdb/workbench.ts";
import { serviceAttributes } from "#principals/attributes.ts";
import { tablesOf } from "#plan/tables.ts";
import { Ledger } from "#state/ledger/ledger.ts";
import type { PlanToStore } from "#state/plans.ts";
import type { Opened, OpenedReader } from "./opened.ts";

const emptyTables = Object.entries(tablesOf(serviceAttributes))
  .map(([table, columns]) => `CREATE OR REPLACE TABLE ${table} (${columns.replaceAll(" NOT NULL", "")});`)
  .join("\n");

const place = "https://analytics.example:8443/a b";

/** Does something with the relations of a plan that creates these users, from the source `hr`. */
export async function withPlan<Result>(
  folder: string,
  users: readonly string[],
  work: (connection: Connection) => Promise<Result>,
): Promise<Result> {
  const workbench = await Workbench.open({ folder: join(folder, "work"), memory: 2 ** 28 });
  const { connection } = workbench;
  try {
    await connection.run(`
      ${emptyTables}
      CREATE TABLE person AS SELECT unnest([${users.map(literal).join()}]::VARCHAR[]) AS name;
      INSERT INTO assembled BY NAME SELECT 'user' AS kind, name, 'hr' AS source, 'id of ' || name AS source_id FROM person;
      INSERT INTO managed SELECT kind, name FROM assembled;
      INSERT INTO desired BY NAME SELECT kind, name FROM assembled;
      INSERT INTO changes BY NAME SELECT 'create' AS action, kind, name FROM assembled;
      INSERT INTO change_sides BY NAME SELECT 'create' AS action, kind, name, ['source:hr'] AS causes,
        {name: name, display_name: upper(name), description: NULL, mail: NULL, group_names: []::VARCHAR[]} AS after FROM assembled;
      INSERT INTO quarantined BY NAME SELECT 'user' AS kind, 'doubtful ' || name AS name, 'hr' AS source, name AS source_id,
        'hr.csv:7' AS origin, 'no mail' AS reason FROM assembled`);
    return await work(connection);
  } finally {
    await workbench.close();
  }
}

const planned: PlanToStore = {
  plan: { digest: "d".repeat(64) },
  checks: [],
  waiting: [],
  amounts: [{ measure: "creates", of: "users", amount: 1, base: 0 }],
  scope: { sizes: [{ source: "hr", kind: "user", size: 1 }] },
};

/** Stores a plan that creates these users. @returns its seal */
export function savePlan({ files, plans }: Opened, id: string, users: readonly string[]): Promise<string> {
  return withPlan(files.folder, users, (connection) => plans.save(id, connection, planned));
}

/** The users that a stored plan creates. */
export function loadPlan({ files, plans }: Opened, id: string): Promise<string[]> {
  return withPlan(files.folder, [], async (connection) => {
    await plans.load(id, connection, serviceAttributes);
    const rows = await connection.rows<{ name: string }>("SELECT name FROM shown ORDER BY name");
    return rows.map(({ name }) => name);
  });
}

const never = new AbortController().signal;

/** The run of a sync applies a plan, after which the sync owns these users, and no others. */
export async function ownInLedger(
  { files }: Opened,
  sync: string,
  users: readonly string[],
  run: string,
): Promise<void> {
  await withPlan(files.folder, users, async (connection) => {
    const ledger = await Ledger.open(connection, {
      files,
      place,
      sync,
      mode: "write",
      signal: never,
    });
    try {
      await ledger.claim();
      const facts = { now: Date.now(), declared: serviceAttributes, amounts: [], scope: { sizes: [] }, checks: [] };
      await ledger.settle({ ...facts, run, keep: run });
    } finally {
      await ledger.close();
    }
  });
}

/** The users that a sync owns, for a reader. */
export async function ownedIn({ files }: OpenedReader, sync: string): Promise<string[]> {
  return withPlan(files.folder, [], async (connection) => {
    await Ledger.open(connection, { files, place, sync, mode: "read", signal: never });
    const rows = await connection.rows<{ name: string }>("SELECT name FROM ledger ORDER BY name");
    return rows.map(({ name }) => name);
  });
}

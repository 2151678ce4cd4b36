import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import { verifyAudit } from "#state/audit/verify.ts";
import { chainIn } from "#state/folder/chain.ts";
import { readJournal } from "#state/folder/journal.ts";

/* What must be true of a daemon's folder whenever nothing runs. */

/** No plan is left that belongs to no run. */
export async function checkLists(daemon: string): Promise<void> {
  const { runs } = await readJournal(daemon);
  const kept = runs.filter((run) => run.kept).map(({ id }) => id);
  const lists = join(daemon, "runs");
  expect(existsSync(lists) ? readdirSync(lists).sort() : []).toEqual(kept.sort());
}

/** No temporary file is left. */
export function checkFiles(daemon: string): void {
  expect(readdirSync(join(daemon, "work"))).toEqual([]);
  const others = readdirSync(daemon, { recursive: true }).map(String);
  expect(others.filter((name) => /\.(new|partial|part|wal|spill)$/.test(name))).toEqual([]);
}

/** The chain is complete up to what the journal knows, and contains everything that was applied. */
export async function checkAudit(daemon: string): Promise<void> {
  const { audit, runs } = await readJournal(daemon);
  const applied = new Set<unknown>();
  const { broken, damages } = await verifyAudit(chainIn(daemon), {
    ...(audit === undefined ? {} : { expected: audit }),
    visit: ({ facts }) => {
      if (facts["result"] === "applied") applied.add(facts["digest"]);
    },
  });
  expect(broken).toBeUndefined();
  expect(damages).toEqual([]);
  const digests = runs.filter(({ state }) => state === "applied").map(({ digest }) => digest);
  expect([...applied]).toEqual(expect.arrayContaining(digests));
}

/** Every applied change counts for limits exactly once. */
export async function checkHistory(daemon: string, sync: string): Promise<void> {
  const folder = join(daemon, "ledgers");
  const ledger = existsSync(folder) ? readdirSync(folder).find((name) => name.endsWith(".duckdb")) : undefined;
  if (ledger === undefined) return;
  const path = join(folder, ledger);
  const database = await openDatabase({ path, memory: 32 * 1024 * 1024, spill: `${path}.spill` });
  const connection = await database.connect();
  const tables = await connection.rows("FROM duckdb_tables() WHERE table_name = 'applied'");
  const rows = await connection.rows<{ measure: string; amount: number }>(
    tables.length === 0
      ? "SELECT '' AS measure, 0 AS amount"
      : `SELECT measure, sum(amount)::INTEGER AS amount FROM applied WHERE sync = '${sync}' GROUP BY ALL`,
  );
  connection.close();
  database.close();
  const counted = Object.fromEntries(rows.map(({ measure, amount }) => [measure, amount]));
  const applied = (await readJournal(daemon)).runs.filter((run) => run.sync === sync && run.state === "applied");
  const sum = (action: "create" | "update" | "delete", but: string): number =>
    applied
      .filter(({ limits }) => !limits.some(({ limit, overridden }) => limit === but && overridden))
      .reduce((all, { counts }) => all + (counts?.users[action] ?? 0) + (counts?.groups[action] ?? 0), 0);
  expect({ creates: 0, updates: 0, deletes: 0, ...pick(counted) }).toEqual({
    creates: sum("create", "creates"),
    updates: sum("update", "updates"),
    deletes: sum("delete", "deletes"),
  });
}

function pick({ creates = 0, updates = 0, deletes = 0 }: Readonly<Record<string, number>>): Record<string, number> {
  return { creates, updates, deletes };
}

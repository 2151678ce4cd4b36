import assert from "node:assert/strict";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { openDatabase } from "#duckdb/database.ts";
import type { Postgres } from "#postgres/database.ts";
import { verifyAudit } from "#state/audit/verify.ts";
import type { RunRecord } from "#state/record.ts";
import { openPostgresReader } from "#state/postgres/store.ts";
import type { RecordedTarget } from "./target.ts";

interface Stored {
  readonly settings: Parameters<typeof openPostgresReader>[0];
  readonly postgres: Postgres;
  readonly target: RecordedTarget;
  /** A folder for copies. */
  readonly folder: string;
  /** In milliseconds. */
  readonly lease: number;
}

/** Nothing is left that belongs to no run, and nothing was done twice. */
export async function checkStored(
  { settings, postgres, target, folder, lease }: Stored,
  syncs: readonly string[],
  versionNow: (sync: string) => Readonly<Record<string, string>>,
): Promise<void> {
  const copies = join(folder, "checks");
  await using read = await openPostgresReader(settings, copies);
  await read.files.fetch(["ledgers/"]);
  const journal = await read.journal();
  const applied = journal.runs.filter(({ state }) => state === "applied");
  const expected = await read.audit.head();
  const digests = new Set<unknown>();
  const { broken, damages } = await verifyAudit(read.audit, {
    ...(expected && { expected }),
    visit: ({ facts }) => {
      if (facts["result"] === "applied") digests.add(facts["digest"]);
    },
  });
  assert.deepEqual({ broken, damages }, { broken: undefined, damages: [] });
  for (const { digest } of applied) assert.ok(digests.has(digest));
  // What the target has done is in the record of exactly one run, in that order. A list that changes nothing was there before.
  const done = target.sendings.flatMap(({ did }) => did ?? []);
  const recorded = applied.map(({ counts }) => ({
    creates: (counts?.users.create ?? 0) + (counts?.groups.create ?? 0),
    updates: (counts?.users.update ?? 0) + (counts?.groups.update ?? 0),
    deletes: (counts?.users.delete ?? 0) + (counts?.groups.delete ?? 0),
  }));
  const inOrder = (some: typeof recorded): string[] => some.map((each) => JSON.stringify(each)).sort();
  assert.deepEqual(inOrder(done), inOrder(recorded));
  assert.ok(done.every(({ creates, updates, deletes }) => creates + updates + deletes > 0));
  // A slot is one run's.
  const slots = await postgres.rows<{ sync: string; slot: Date; run: string }>("SELECT * FROM rollcall.slots");
  const begun = journal.runs.filter(({ slot }) => slot !== undefined);
  assert.equal(new Set(begun.map(({ sync, slot }) => `${sync} ${slot}`)).size, begun.length);
  const known = new Map(slots.map(({ sync, slot, run }) => [`${sync} ${slot.toISOString()}`, run]));
  for (const { id, sync, slot = "" } of begun) assert.equal(known.get(`${sync} ${slot}`), id);
  // The ids are in the order of the times, which are as exact as the answers of the database are fast.
  const times = journal.runs.map(({ startedAt }) => Date.parse(startedAt));
  for (const [index, time] of times.entries()) assert.ok(time >= (times[index - 1] ?? 0) - lease);
  await checkLedger(join(read.files.folder, "ledgers"), journal.runs, syncs, versionNow);
  await rm(copies, { recursive: true });
}

/** The ledger has what is in the target, and every applied change counts for limits exactly once. */
async function checkLedger(
  folder: string,
  runs: readonly RunRecord[],
  syncs: readonly string[],
  versionNow: (sync: string) => Readonly<Record<string, string>>,
): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  const name = names.find((each) => each.endsWith(".duckdb"));
  if (name === undefined) return;
  const path = join(folder, name);
  await mkdir(`${path}.spill`, { recursive: true });
  const database = await openDatabase({ path, memory: 64 * 1024 * 1024, spill: `${path}.spill` });
  const connection = await database.connect();
  try {
    for (const sync of syncs) {
      const owned = await connection.rows<{ name: string }>(
        `SELECT DISTINCT name FROM principal WHERE sync = '${sync}' ORDER BY name`,
      );
      const applied = runs.filter((run) => run.sync === sync && run.state === "applied");
      if (applied.length === 0) continue;
      assert.deepEqual(
        owned.map((each) => each.name),
        Object.keys(versionNow(sync)).sort(),
      );
      const rows = await connection.rows<{ measure: string; amount: number }>(
        `SELECT measure, sum(amount)::INTEGER AS amount FROM applied WHERE sync = '${sync}' GROUP BY ALL`,
      );
      const counted = new Map(rows.map(({ measure, amount }) => [measure, amount]));
      for (const action of ["create", "update", "delete"] as const) {
        const sum = applied.reduce((total, { counts }) => total + (counts?.users[action] ?? 0), 0);
        assert.equal(counted.get(`${action}s`) ?? 0, sum, `${sync}: ${action}s`);
      }
    }
  } finally {
    connection.close();
    database.close();
  }
}

import { open, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { literal, useThreads } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { firstLineOf, HeldError, InputError } from "#errors.ts";
import { exists, makeFolder } from "#files/disk.ts";
import { syncFolder, writeDurably } from "#files/durable.ts";
import { changes } from "#plan/change.ts";
import { createPlan } from "#plan/diff.ts";
import { narrow } from "#plan/selection.ts";
import type { Selection } from "#plan/selection.ts";
import { listTarget } from "#sync/planning/desired.ts";
import type { LimitedPlan } from "#sync/planning/limits.ts";
import { planWithinLimits } from "#sync/planning/limits.ts";
import type { Planner } from "#sync/planning/planning.ts";
import type { RunRecord } from "#sync/record.ts";
import { formatName } from "#text.ts";

/**
 * The tables of a workbench that a plan is kept with, each as a Parquet file:
 *
 * - `changes (action, kind, name, before, after)`: a principal's two sides, as in `change_sides`; they are NULL where it
 *   is created or deleted.
 * - `desired`: the list that is sent. `actual` is that with the changes taken back.
 * - `owned (kind, name, source, source_id)`: what the sync owned before.
 * - the rest: what the ledger is written from after it was applied.
 */
const tables = {
  changes: "SELECT action, kind, name, before, after FROM change_sides",
  desired: "SELECT kind, name, display_name, description, mail, group_names FROM desired",
  owned: "SELECT kind, name, source, source_id FROM ledger",
  assembled: "SELECT kind, name, source, source_id FROM assembled",
  contributor: "SELECT kind, name, source, source_id FROM contributor",
  managed: "SELECT kind, name FROM managed",
  gone: "SELECT kind, name, since FROM gone",
  frozen: "SELECT kind, name, reason FROM frozen",
} as const;

/** What is needed of them to apply the plan later. `actual` and the ledger are read anew then. */
const applied = ["desired", "assembled", "contributor", "managed", "gone", "frozen"] as const;

/** What of a plan is in no table. */
interface Kept extends Omit<LimitedPlan, "plan"> {
  readonly version: 1;
  readonly digest: string;
}

/** Keeps plans, each whole, in a folder `runs` of the daemon's: `runs/<id>`. */
export interface Store {
  /** Keeps what the workbench has planned: all of it, or nothing. Expects the tables of `planWithinLimits`. */
  keep(id: string, connection: Connection, planned: LimitedPlan): Promise<void>;
  /**
   * Makes the tables of a plan that was kept in a workbench, but for `actual` and `ledger`; and `shown`, its changes.
   * @throws {InputError} when it cannot be read
   */
  load(id: string, connection: Connection): Promise<Kept>;
  /** The path of one of its tables, for `read_parquet`. */
  file(id: string, table: keyof typeof tables): string;
  /**
   * Gives the part that was chosen of a plan the place of the whole; where there is no such part, that has happened
   * already.
   */
  replaceByPart(id: string): Promise<void>;
  /** Removes what is kept of all other runs; of those that have ended, also what was not finished and the chosen part. */
  prune(runs: { readonly ended: readonly string[]; readonly underWay: readonly string[] }): Promise<void>;
}

/** As what the part is kept that was chosen of a plan, while it is not known yet whether it was applied. */
export function partOf(id: string): string {
  return `${id}.part`;
}

/** As what it is written: its name shows that it is whole. */
function halfOf(name: string): string {
  return `${name}.partial`;
}

/** Where plans are kept that belong to a journal that was put aside: nothing may take them for superfluous. */
export async function setListsAside(daemonFolder: string, suffix: string): Promise<void> {
  const folder = join(daemonFolder, "runs");
  if (await exists(folder)) await rename(folder, `${folder}.${suffix}`);
}

export function openStore(daemonFolder: string): Store {
  const folder = join(daemonFolder, "runs");
  const file = (id: string, table: string): string => join(folder, id, `${table}.parquet`);
  return {
    keep: async (id, connection, { plan, checks, waiting, amounts, scope }) => {
      const partial = join(folder, halfOf(id));
      await rm(partial, { recursive: true, force: true });
      await makeFolder(partial, "the folder of a run");
      try {
        for (const [table, query] of Object.entries(tables)) {
          const path = join(partial, `${table}.parquet`);
          await connection.run(`COPY (${query}) TO ${literal(path)} (FORMAT parquet, COMPRESSION zstd)`);
          await syncFile(path);
        }
        await writeDurably(
          join(partial, "plan.json"),
          JSON.stringify({ version: 1, digest: plan.digest, checks, waiting, amounts, scope } satisfies Kept),
        );
      } catch (error) {
        // On a full disk it is in the way of writing down what has become of the run.
        await rm(partial, { recursive: true, force: true });
        throw error;
      }
      await rm(join(folder, id), { recursive: true, force: true });
      await rename(partial, join(folder, id));
      for (const changed of [folder, daemonFolder]) await syncFolder(changed);
    },
    load: async (id, connection) => {
      try {
        const kept = JSON.parse(await readFile(join(folder, id, "plan.json"), "utf8")) as Kept;
        const read = (table: string): string => `read_parquet(${literal(file(id, table))})`;
        for (const table of applied) await connection.run(`CREATE OR REPLACE TABLE ${table} AS FROM ${read(table)}`);
        await connection.run(`CREATE OR REPLACE TABLE shown AS FROM ${read("changes")}`);
        return kept;
      } catch (error) {
        throw new InputError(`what the run ${id} has planned cannot be read (${firstLineOf(error)}): plan again`, {
          cause: error,
        });
      }
    },
    file,
    replaceByPart: async (id) => {
      const part = join(folder, partOf(id));
      if (!(await exists(part))) return;
      await rm(join(folder, id), { recursive: true, force: true });
      await rename(part, join(folder, id));
      await syncFolder(folder);
    },
    prune: async ({ ended, underWay }) => {
      const keeping = new Set([
        ...ended,
        ...underWay.flatMap((id) => [id, partOf(id)].flatMap((name) => [name, halfOf(name)])),
      ]);
      const names = await readdir(folder).catch(() => []);
      for (const name of names) if (!keeping.has(name)) await rm(join(folder, name), { recursive: true, force: true });
    },
  };
}

/** The library does not wait until a file that it has written would survive a power failure. */
async function syncFile(path: string): Promise<void> {
  const handle = await open(path, "r+");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Plans what a run has planned before and has kept: the target is listed again, and what would change then must be what
 * was shown; after that, only what is selected of it.
 */
export function planFromStore(store: Store, run: RunRecord, selection: Selection = {}): Planner {
  return async (sync, workbench, options) => {
    const { connection } = workbench;
    const { signal, progress, history, overrides = [] } = options;
    progress?.("list");
    await listTarget(sync.target, workbench, "actual", signal);
    await useThreads(connection);
    progress?.("plan");
    const { scope } = await store.load(run.id, connection);
    const whole = await createPlan(connection);
    if (whole.digest !== run.digest) throw noLongerShown(run.id, await differences(connection));
    await narrow(connection, selection);
    const limited = await planWithinLimits(connection, sync, { scope, history, overrides });
    if (changes(limited.plan.counts) === 0 && changes(whole.counts) > 0)
      throw new InputError(`nothing of what the run ${run.id} has planned is left by what was chosen of it`);
    return {
      ...limited,
      waiting: [...new Set([...run.waiting, ...limited.waiting])],
      notes: run.notes,
      ...(run.subjects === undefined ? {} : { subjects: run.subjects }),
    };
  };
}

function noLongerShown(id: string, differences: readonly string[]): HeldError {
  return new HeldError(
    `the changes are no longer those that the run ${id} has shown: somebody has changed the target since; nothing was applied. Plan again`,
    differences,
    "digest",
  );
}

/** How many differences are named. */
const most = 20;

/** What is different in the changes now (`changes`, with their sides) from what was shown (`shown`). */
async function differences(connection: Connection): Promise<string[]> {
  const rows = await connection.rows<{ kind: string; name: string; was: string | null; is: string | null }>(`
    WITH present AS (SELECT action, kind, name, before, after FROM change_sides)
    SELECT coalesce(s.kind, p.kind) AS kind, coalesce(s.name, p.name) AS name, s.action AS was, p.action AS is
    FROM shown s FULL JOIN present p ON p.kind = s.kind AND p.name = s.name
    WHERE s.name IS NULL OR p.name IS NULL OR s.action <> p.action
      OR to_json(s.before)::VARCHAR IS DISTINCT FROM to_json(p.before)::VARCHAR
      OR to_json(s.after)::VARCHAR IS DISTINCT FROM to_json(p.after)::VARCHAR
    ORDER BY 1, 2 LIMIT ${most + 1}`);
  const lines = rows.slice(0, most).map(({ kind, name, was, is }) => {
    const who = `${kind} ${formatName(name)}`;
    if (was === null) return `${who}: it would be ${past(is)} now, which was not shown`;
    if (is === null) return `${who}: it was to be ${past(was)}, which is no longer needed`;
    if (was !== is) return `${who}: it was to be ${past(was)}, and would be ${past(is)} now`;
    return `${who}: it was to be ${past(was)}, and is not in the target what it was then`;
  });
  return rows.length > most ? [...lines, "and more"] : lines;
}

function past(action: string | null): string {
  return `${action ?? "left"}d`.replace("leftd", "left alone");
}

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { firstLineOf, InputError } from "#errors.ts";
import { exists, makeFolder } from "#files/disk.ts";
import { syncFolder, writeDurably } from "#files/durable.ts";
import type { Amount, Facts, LimitCheck, Measure } from "#plan/limits.ts";
import { changesIn } from "#plan/stored.ts";
import { tables as planTables, tablesOf } from "#plan/tables.ts";
import type { Attributes } from "#principals/attributes.ts";
import { paths } from "./store.ts";
import type { StateFiles } from "./store.ts";

/**
 * The tables of a workbench that are stored with a plan, each as a Parquet file:
 *
 * - `changes (action, kind, name, before, after, causes, fields, sources)`: the two sides of a principal, as in `change_sides`;
 *   `before` is NULL for a create, `after` for a delete. `fields` are the target's own, as in `actual_extra`; `sources` are those
 *   whose records make the principal, or made it. The list that is sent is the target as it is then, with these changes.
 * - `owned (kind, name, source, source_id)`: what the sync owned before.
 * - `quarantined`: the records in doubt, for whoever keeps the source. Of a run without a plan it is the only one.
 * - the rest: what the ledger is written from after the apply.
 */
const tables = {
  changes: `
    SELECT action, kind, name, before, after, causes, fields, sources
    FROM change_sides LEFT JOIN actual_extra USING (kind, name) LEFT JOIN change_source USING (kind, name)`,
  owned: "SELECT kind, name, source, source_id FROM ledger",
  assembled: "SELECT kind, name, source, source_id FROM assembled",
  contributor: "SELECT kind, name, source, source_id FROM contributor",
  managed: "SELECT kind, name FROM managed",
  gone: "SELECT kind, name, since FROM gone",
  frozen: "SELECT kind, name, reason FROM frozen",
  record: "SELECT kind, name, source, source_id, scope, container, attributes FROM record",
  rule_membership: "SELECT kind, name, grp FROM rule_membership",
  drift_item: "FROM drift_item",
  drift_left: "FROM drift_left",
  drift_wanted: "FROM drift_wanted",
  group_loss: "FROM group_loss",
  renamed: "SELECT kind, was, becomes FROM renamed",
  renamed_in_place: "FROM renamed_in_place",
  left_out: "FROM left_out",
  kept_by_hand: "FROM kept_by_hand",
  adoptable: "SELECT kind, name, source, was_id, is_id FROM adoptable",
  quarantined: "SELECT kind, name, source, source_id, origin, reason FROM quarantined",
} as const;

/** Stored beside them once the plan was applied, and so in no seal: the changes that were not made. */
const unwritten = "unwritten";

/**
 * Makes `change_source`: the sources whose records make the principal of each change, or made it. DuckDB cannot spill lists that
 * it is gathering, so the sources of a principal are bits, by their place among all sources, until all are known.
 */
async function createSources(connection: Connection): Promise<void> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE change_source AS
    WITH record_of AS (
      SELECT kind, name, source FROM assembled
      UNION ALL SELECT kind, name, source FROM contributor
      UNION ALL SELECT kind, name, source FROM ledger),
    every AS MATERIALIZED (SELECT list_sort(list(DISTINCT source)) AS sources FROM record_of)
    SELECT kind, name, list_filter(sources, lambda source, place: get_bit(bits, (place - 1)::INTEGER) = 1) AS sources
    FROM every, (
      SELECT kind, name,
        bit_or(set_bit(bitstring('0', len(sources)::INTEGER), (list_position(sources, source) - 1)::INTEGER, 1)) AS bits
      FROM record_of SEMI JOIN changes USING (kind, name), every
      GROUP BY kind, name)`);
}

/** The tables needed to apply the plan later, besides its changes. `actual` and the ledger are read again then. */
const applied = ["assembled", "contributor", "managed", "gone", "frozen"] as const;

/** Further ones, which plans of 0.1.0 do not have. */
const explaining = [
  "record",
  "rule_membership",
  "drift_item",
  "drift_left",
  "drift_wanted",
  "group_loss",
  "renamed",
  "renamed_in_place",
  "left_out",
  "kept_by_hand",
  "adoptable",
  "quarantined",
] as const;

/** The part of a plan that is in no table. */
export interface PlanFacts {
  readonly checks: readonly LimitCheck[];
  readonly waiting: readonly Measure[];
  readonly amounts: readonly Amount[];
  readonly scope: Pick<Facts, "sizes" | "inScope">;
}

/** The same, as it is stored. */
export interface StoredPlan extends PlanFacts {
  readonly version: 1;
  readonly digest: string;
}

/** A plan that is to be stored. */
export interface PlanToStore extends PlanFacts {
  readonly plan: { readonly digest: string };
}

/** The stored plans of a state: a folder `runs/<id>` each. */
export class Plans {
  readonly #files: StateFiles;

  constructor(files: StateFiles) {
    this.#files = files;
  }

  /**
   * Stores the plan of a workbench, all of it or nothing.
   * @returns its seal: a digest of all that is stored
   */
  async save(id: string, connection: Connection, planned: PlanToStore): Promise<string> {
    const { checks, waiting, amounts, scope } = planned;
    const document: StoredPlan = { version: 1, digest: planned.plan.digest, checks, waiting, amounts, scope };
    await connection.run(`CREATE TEMP TABLE IF NOT EXISTS renamed_in_place (${planTables.renamed_in_place})`);
    const [renamed] = await connection.rows("FROM renamed_in_place LIMIT 1");
    // Most targets cannot rename: their stored plans have the tables that they always had.
    const names = (Object.keys(tables) as (keyof typeof tables)[]).filter(
      (table) => table !== "renamed_in_place" || renamed !== undefined,
    );
    const seal = await this.#write(id, connection, names, document);
    await this.#files.save(paths.plans(id));
    return seal;
  }

  /** Stores the quarantined records alone, of a run that has no plan to store. */
  async saveQuarantined(id: string, connection: Connection): Promise<void> {
    await this.#write(id, connection, ["quarantined"]);
    await this.#files.save(paths.plans(id));
  }

  /** Stores the rows of `unwritten` with a plan that was applied. */
  async saveUnwritten(id: string, connection: Connection): Promise<void> {
    const path = this.file(id, unwritten);
    await connection.run(`COPY (FROM unwritten) TO ${literal(`${path}.partial`)} (FORMAT parquet, COMPRESSION zstd)`);
    await syncFile(`${path}.partial`);
    await rename(`${path}.partial`, path);
    await syncFolder(this.#folderOf(id));
    await this.#files.save(paths.plans(id));
  }

  /**
   * Makes the tables of a stored plan in a workbench, without `actual` and `ledger`: `shown` has its changes, for
   * `carryOver`.
   * @throws {InputError} when it cannot be read
   */
  async load(id: string, connection: Connection, attributes: Attributes): Promise<StoredPlan> {
    await this.fetch([id]);
    try {
      const kept = JSON.parse(await readFile(join(this.#folderOf(id), "plan.json"), "utf8")) as StoredPlan;
      const read = (table: keyof typeof tables): string => `read_parquet(${literal(this.file(id, table))})`;
      for (const table of applied) await connection.run(`CREATE OR REPLACE TABLE ${table} AS FROM ${read(table)}`);
      for (const table of explaining) {
        const isStored = await exists(this.file(id, table));
        await connection.run(
          isStored
            ? `CREATE OR REPLACE TEMP TABLE ${table} AS FROM ${read(table)}`
            : `CREATE OR REPLACE TEMP TABLE ${table} (${tablesOf(attributes)[table]})`,
        );
      }
      await connection.run(`
        CREATE OR REPLACE TABLE shown AS
        SELECT action::VARCHAR AS action, kind::VARCHAR AS kind, name, before, after, causes, fields
        FROM ${changesIn([this.file(id, "changes")])};
        CREATE OR REPLACE TEMP TABLE change_cause AS SELECT kind, name, causes FROM shown`);
      return kept;
    } catch (error) {
      throw unreadable(id, error);
    }
  }

  /** Brings what is stored of runs here, where other processes have stored it. */
  fetch(ids: readonly string[]): Promise<void> {
    return this.#files.fetch(paths.plans(...ids));
  }

  /** Whether anything of a plan is stored. */
  async isStored(id: string): Promise<boolean> {
    await this.fetch([id]);
    return exists(this.#folderOf(id));
  }

  /** The path of one of its tables, for `read_parquet`. */
  file(id: string, table: keyof typeof tables | typeof unwritten): string {
    return join(this.#folderOf(id), `${table}.parquet`);
  }

  /**
   * Checks that what is stored is what was stored. An approval writes from it who is owned from then on, of which the
   * digest of the changes says nothing.
   * @param seal absent: of a version that stored plans without
   * @throws {InputError} when somebody has changed it
   */
  async verify(id: string, seal: string | undefined): Promise<void> {
    if (seal === undefined) return;
    await this.fetch([id]);
    const found = await sealOf(this.#folderOf(id)).catch((error: unknown) => {
      throw unreadable(id, error);
    });
    if (found !== seal)
      throw new InputError(`the stored plan of run ${id} was altered: its files have changed since the run`);
  }

  /** Replaces a plan by the part of it that was selected. Without a stored part, that has happened already. */
  async replaceByPart(id: string): Promise<void> {
    const both = [id, partOf(id)];
    await this.fetch(both);
    const part = this.#folderOf(partOf(id));
    if (!(await exists(part))) return;
    await rm(this.#folderOf(id), { recursive: true, force: true });
    await rename(part, this.#folderOf(id));
    await syncFolder(this.#folder);
    await this.#files.save(paths.plans(...both));
  }

  /** Moves a plan to the place of another one with the same changes: it knows more of the sources. */
  async renew(id: string, newer: string): Promise<void> {
    const both = [id, newer];
    await this.fetch(both);
    // One file at a time, so that there is a whole plan whenever the process ends.
    const names = await readdir(this.#folderOf(newer)).catch(() => []);
    for (const name of names) await rename(join(this.#folderOf(newer), name), join(this.#folderOf(id), name));
    if (names.length > 0) await syncFolder(this.#folder);
    await this.#files.save(paths.plans(...both));
  }

  /** Removes what is stored of all other runs; of runs that have ended, also unfinished plans and selected parts. */
  async prune(runs: { readonly ended: readonly string[]; readonly underWay: readonly string[] }): Promise<void> {
    const kept = new Set([...runs.ended, ...runs.underWay.flatMap((id) => [id, partOf(id)])]);
    const partial = new Set(runs.underWay.flatMap((id) => [partialOf(id), partialOf(partOf(id))]));
    const names = await readdir(this.#folder).catch(() => []);
    for (const name of names)
      if (!kept.has(name) && !partial.has(name)) await rm(this.#folderOf(name), { recursive: true, force: true });
    await this.#files.prune("runs", (name) => kept.has(name));
  }

  get #folder(): string {
    return join(this.#files.folder, "runs");
  }

  #folderOf(name: string): string {
    return join(this.#folder, name);
  }

  /** Writes tables of a workbench for a run, and what is in none, all of it or nothing. */
  async #write(
    id: string,
    connection: Connection,
    some: readonly (keyof typeof tables)[],
    document?: StoredPlan,
  ): Promise<string> {
    const partial = this.#folderOf(partialOf(id));
    await rm(partial, { recursive: true, force: true });
    await makeFolder(partial, "the folder of a run");
    try {
      if (some.includes("changes")) await createSources(connection);
      for (const table of some) {
        const path = join(partial, `${table}.parquet`);
        await connection.run(`COPY (${tables[table]}) TO ${literal(path)} (FORMAT parquet, COMPRESSION zstd)`);
        await syncFile(path);
      }
      if (document !== undefined) await writeDurably(join(partial, "plan.json"), JSON.stringify(document));
    } catch (error) {
      // On a full disk it would leave no room to write down how the run ended.
      await rm(partial, { recursive: true, force: true });
      throw error;
    }
    const seal = await sealOf(partial);
    await rm(this.#folderOf(id), { recursive: true, force: true });
    await rename(partial, this.#folderOf(id));
    for (const changed of [this.#folder, this.#files.folder]) await syncFolder(changed);
    return seal;
  }
}

/** The name of the selected part of a plan, while it is not known yet whether it was applied. */
export function partOf(id: string): string {
  return `${id}.part`;
}

/** The name of a plan that is being written: only a complete one gets its own name. */
function partialOf(name: string): string {
  return `${name}.partial`;
}

/** Moves the plans of a damaged journal aside: the new journal would remove them as unneeded. */
export async function setPlansAside(daemonFolder: string, suffix: string): Promise<void> {
  const folder = join(daemonFolder, "runs");
  if (await exists(folder)) await rename(folder, `${folder}.${suffix}`);
}

function unreadable(id: string, error: unknown): InputError {
  return new InputError(`the stored plan of run ${id} cannot be read: ${firstLineOf(error)}`, {
    cause: error,
  });
}

/** SHA-256 over the names and the SHA-256 of everything that belongs to a stored plan. */
async function sealOf(folder: string): Promise<string> {
  const all = createHash("sha256");
  for (const name of ["plan.json", ...Object.keys(tables).map((table) => `${table}.parquet`)].sort()) {
    const path = join(folder, name);
    if (!(await exists(path))) continue;
    const one = createHash("sha256");
    for await (const chunk of createReadStream(path)) one.update(chunk as Buffer);
    all.update(`${name} ${one.digest("hex")}\n`);
  }
  return all.digest("hex");
}

/** DuckDB does not sync the files that it writes. */
async function syncFile(path: string): Promise<void> {
  await using handle = await open(path, "r+");
  await handle.sync();
}

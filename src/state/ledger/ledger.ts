import { readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isDetached } from "#duckdb/checkpoints.ts";
import { createDatabase, literal, lockHolder, openDatabase } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { firstLineOf, InputError, UnavailableError } from "#errors.ts";
import type { RollcallError } from "#errors.ts";
import { exists, forbidden, makeFolder, obstacleOf, unwritable } from "#files/disk.ts";
import { syncFolder } from "#files/durable.ts";
import type { History } from "#plan/limits.ts";
import { tables } from "#plan/tables.ts";

import { paths } from "#state/store.ts";
import type { StateFiles } from "#state/store.ts";
import { addHistory, createHistory, leavers, noHistory, readHistory } from "./history.ts";
import type { Addition, Missed } from "./history.ts";
import { createRemote, emptyRemote, readRemote, replaceRemote, sqlOf } from "./remote.ts";
import type { Remembered } from "./remote.ts";

export interface LedgerOptions {
  /** Of the state that has the ledger. */
  readonly files: StateFiles;
  /** Identifies the target's service, whatever its name. */
  readonly place: string;
  /** The name of the sync. */
  readonly sync: string;
  /** The names of the other syncs to the target. Absent: there are none. */
  readonly others?: readonly string[] | undefined;
  /** `read` for a dry run: the file is not created or changed. */
  readonly mode: "read" | "write";
  readonly signal: AbortSignal;
  /** True: waits for another run to the same target, however long that takes. */
  readonly waits?: boolean | undefined;
  /** The time, in epoch milliseconds; default: now. */
  readonly now?: number;
}

const columns = "kind VARCHAR NOT NULL, name VARCHAR NOT NULL, source VARCHAR NOT NULL, source_id VARCHAR NOT NULL";

const membershipColumns = "kind VARCHAR NOT NULL, name VARCHAR NOT NULL, grp VARCHAR NOT NULL";

/** SQL: every record that an assembled principal was made of. Principals without a source belong to nobody. */
export const origins = `
  SELECT kind, name, source, source_id FROM assembled WHERE source <> '' UNION ALL SELECT kind, name, source, source_id FROM contributor`;

/** How often others get what was remembered, where the file is a copy, in milliseconds. */
const shareEvery = 30_000;

/** How long to wait for another run to the same target, and how often to look, in milliseconds. */
const patience = { limit: 5000, pause: 200 };

/**
 * What syncs own in one target: the principals they created or adopted, with the source and the immutable id of every
 * record they came from; and the memberships that somebody added to these by hand and that stay. A DuckDB file for each
 * target. The run that applies to the target holds the file's lock: two runs at once would delete what the other has just
 * created.
 */
export class Ledger {
  readonly #connection: Connection;
  readonly #options: LedgerOptions;
  readonly #file: string;
  /** The name of the sync, as a literal. */
  readonly #sync: string;
  #history = noHistory;
  #settled: string | undefined;
  #kept: string | undefined;
  #others: string | undefined;
  #sharedAt = 0;

  /**
   * Opens the ledger and makes the tables `ledger`, `owned_by_others` (without whom those syncs' sources have lost), `owned_before`, `by_hand`, `leaving_since`, `lost_recently`, and those of `knownTables`, of the workbench from it.
   * `claim` and `settle` read what planning made.
   * @throws {UnavailableError} when another process is applying to the same target
   * @throws {InputError} when the file cannot be read; nothing may be concluded from it then
   */
  static async open(connection: Connection, options: LedgerOptions): Promise<Ledger> {
    const { files, place, mode } = options;
    await files.fetch(paths.ledger(place));
    await connection.run(`
      CREATE OR REPLACE TEMP TABLE ledger (${tables.ledger});
      CREATE OR REPLACE TEMP TABLE owned_by_others (${tables.owned_by_others});
      CREATE OR REPLACE TEMP TABLE owned_before (${tables.owned_before});
      CREATE OR REPLACE TEMP TABLE leaving_since (${tables.leaving_since});
      CREATE OR REPLACE TEMP TABLE by_hand (${tables.by_hand});
      CREATE OR REPLACE TEMP TABLE lost_recently (${tables.lost_recently});
      ${emptyRemote}`);
    const ledger = new Ledger(connection, options);
    const file = ledgerFile(options);
    if (mode === "read" && !(await exists(file))) return ledger;
    await makeFolder(dirname(file), "the folder of the ledgers");
    await attach(connection, file, options);
    try {
      if (mode === "write") await ledger.#prepare();
      await ledger.#read();
    } catch (error) {
      throw unusable(file, error);
    } finally {
      // After an error, too: closed later, the file would take the lock of a run that this process has begun meanwhile.
      if (mode === "read") await connection.run("DETACH owned").catch(() => undefined);
    }
    return ledger;
  }

  private constructor(connection: Connection, options: LedgerOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#file = ledgerFile(options);
    this.#sync = literal(options.sync);
  }

  /** The facts of earlier runs that limits need. */
  get history(): History {
    return this.#history;
  }

  /** The last run of the sync that was settled. */
  get settled(): string | undefined {
    return this.#settled;
  }

  /** What the last settled run kept for the next one, as it was given to `settle`. */
  get kept(): string | undefined {
    return this.#kept;
  }

  /** A digest of what the other syncs to the target own. Absent: there are none. */
  get others(): string | undefined {
    return this.#others;
  }

  /** Adds, before anything is applied, what the run is about to own. */
  async claim(): Promise<void> {
    const sync = this.#sync;
    await this.#write(() =>
      this.#connection.run(`
        DELETE FROM owned.kept WHERE sync = ${sync};
        INSERT INTO owned.principal
        SELECT ${sync}, s.* FROM (${origins}) s ANTI JOIN ledger USING (kind, name) SEMI JOIN managed USING (kind, name);
        INSERT INTO owned.by_hand SELECT ${sync}, k.* FROM kept_by_hand k ANTI JOIN by_hand USING (kind, name, grp)`),
    );
    // DuckDB syncs its files, but not the folder with a new one.
    await syncFolder(dirname(this.#file));
    await this.#share();
  }

  /**
   * Writes, after the target was verified, what the sync owns now, and what the run adds to the history: in one
   * transaction, once for each run.
   * @param addition.keep a text for the next run; absent: there is none
   */
  async settle({
    run,
    keep,
    ...addition
  }: Addition & { readonly run?: string; readonly keep?: string | undefined }): Promise<void> {
    const sync = this.#sync;
    const connection = this.#connection;
    await this.#writeTransaction(async () => {
      // Rows that stay are not written again: most runs change little or nothing.
      await connection.run(`
        CREATE OR REPLACE TEMP TABLE ledger_change AS
        WITH owns AS (
          SELECT s.* FROM (${origins}) s SEMI JOIN managed USING (kind, name)
          UNION ALL
          SELECT l.* FROM ledger l ANTI JOIN managed USING (kind, name) SEMI JOIN desired USING (kind, name))
        SELECT place, kind, name, source, source_id
        FROM (SELECT rowid AS place, * EXCLUDE (sync) FROM owned.principal WHERE sync = ${sync})
        FULL JOIN (SELECT *, true AS is_owned FROM owns) USING (kind, name, source, source_id)
        WHERE place IS NULL OR is_owned IS NULL;
        DELETE FROM owned.principal WHERE rowid IN (SELECT place FROM ledger_change WHERE place IS NOT NULL);
        INSERT INTO owned.principal SELECT ${sync}, kind, name, source, source_id FROM ledger_change WHERE place IS NULL`);
      await connection.run(`
        DELETE FROM owned.by_hand WHERE sync = ${sync};
        INSERT INTO owned.by_hand
        SELECT ${sync}, k.* FROM kept_by_hand k JOIN desired d ON d.kind = k.kind AND d.name = k.name
        WHERE list_contains(d.group_names, k.grp)`);
      await addHistory(connection, this.#options.sync, addition);
      await connection.run(`DELETE FROM owned.settled WHERE sync = ${sync}`);
      if (run !== undefined) await connection.run(`INSERT INTO owned.settled VALUES (${sync}, ${literal(run)})`);
      await this.#replaceKept(keep);
    });
    await this.#share();
  }

  /** Writes down who is gone from the sources, after a run that read them and applies nothing: it may be the first to miss them. */
  async miss(found: Missed): Promise<void> {
    await this.#writeTransaction(() => this.#connection.run(leavers(this.#options.sync, found, "actual").join(";")));
    await this.#share();
  }

  /** Writes down what a target has taken. */
  async remember(all: readonly Remembered[]): Promise<void> {
    const statements = all.map((each) => sqlOf(this.#sync, each));
    await this.#writeTransaction(() => this.#connection.run([createRemote, ...statements].join("; ")));
    if (performance.now() - this.#sharedAt < shareEvery) return;
    await this.#share();
    this.#sharedAt = performance.now();
  }

  /**
   * Writes down which objects of the target the principals of the sync are (`remote_name`), and of which attributes it holds
   * something else than it was sent (`remote_known`). Runs before `settle`.
   */
  async settleRemote(): Promise<void> {
    await this.#writeTransaction(() => this.#connection.run(`${createRemote}; ${replaceRemote(this.#sync)}`));
  }

  /** Keeps another text for the next run, where nothing else has changed. */
  async keep(content: string): Promise<void> {
    await this.#writeTransaction(() => this.#replaceKept(content));
    await this.#share();
  }

  /** Releases the lock. */
  async close(): Promise<void> {
    if (this.#options.mode === "write") await detach(this.#connection);
  }

  /** Creates missing tables, and reads what only a run that applies needs. */
  async #prepare(): Promise<void> {
    const connection = this.#connection;
    await this.#write(async () => {
      await connection.run(`CREATE TABLE IF NOT EXISTS owned.principal (sync VARCHAR NOT NULL, ${columns})`);
      await createHistory(connection);
      await connection.run(`CREATE TABLE IF NOT EXISTS owned.by_hand (sync VARCHAR NOT NULL, ${membershipColumns})`);
      await connection.run("CREATE TABLE IF NOT EXISTS owned.settled (sync VARCHAR NOT NULL, run VARCHAR NOT NULL)");
      await connection.run("CREATE TABLE IF NOT EXISTS owned.kept (sync VARCHAR NOT NULL, content VARCHAR NOT NULL)");
    });
    const ofSync = `WHERE sync = ${this.#sync}`;
    const [last] = await connection.rows<{ run: string }>(`SELECT run FROM owned.settled ${ofSync}`);
    this.#settled = last?.run;
    const [found] = await connection.rows<{ content: string }>(`SELECT content FROM owned.kept ${ofSync}`);
    this.#kept = found?.content;
  }

  async #read(): Promise<void> {
    const connection = this.#connection;
    const { sync, others = [], now = Date.now() } = this.#options;
    await connection.run(
      `INSERT INTO ledger SELECT kind, name, source, source_id FROM owned.principal WHERE sync = ${this.#sync}`,
    );
    await connection.run(`
      INSERT INTO owned_before SELECT DISTINCT kind, name, sync FROM owned.principal
      WHERE sync NOT IN (${[sync, ...others].map(literal).join(", ")})`);
    if (others.length > 0) {
      const lost = (await hasTable(connection, "leaving")) ? "ANTI JOIN owned.leaving USING (sync, kind, name)" : "";
      await connection.run(`
        INSERT INTO owned_by_others SELECT DISTINCT kind, name FROM owned.principal ${lost}
        WHERE sync IN (${others.map(literal).join(", ")})`);
      const [found] = await connection.rows<{ digest: string }>(
        "SELECT count(*) || ' ' || coalesce(bit_xor(hash(kind, name)), 0) AS digest FROM owned_by_others",
      );
      this.#others = found?.digest;
    }
    if (await hasTable(connection, "by_hand"))
      await connection.run(`INSERT INTO by_hand SELECT kind, name, grp FROM owned.by_hand WHERE sync = ${this.#sync}`);
    if (await hasTable(connection, "remote")) await connection.run(readRemote(this.#sync));
    this.#history = await readHistory(connection, sync, now);
  }

  async #replaceKept(content: string | undefined): Promise<void> {
    await this.#connection.run(`DELETE FROM owned.kept WHERE sync = ${this.#sync}`);
    if (content !== undefined)
      await this.#connection.run(`INSERT INTO owned.kept VALUES (${this.#sync}, ${literal(content)})`);
  }

  /** Where the file is a copy, others get what was written. Nobody may have it open meanwhile. */
  async #share(): Promise<void> {
    const { files, place } = this.#options;
    if (!files.isCopy) return;
    await detach(this.#connection);
    await files.save(paths.ledger(place));
    await attach(this.#connection, this.#file, this.#options);
  }

  async #write(work: () => Promise<void>): Promise<void> {
    if (this.#options.mode === "read") throw new Error("a dry run does not write the ledger");
    await work();
  }

  async #writeTransaction(work: () => Promise<void>): Promise<void> {
    await this.#write(() => this.#connection.transaction(work));
  }
}

/** Closes the file. Where its log cannot be moved into it, that lies beside it, and is part of it. */
async function detach(connection: Connection): Promise<void> {
  try {
    await connection.run("DETACH owned");
  } catch (error) {
    if (!isDetached(error)) throw error;
  }
}

function ledgerFile({ files, place }: Pick<LedgerOptions, "files" | "place">): string {
  return join(files.folder, ...paths.ledger(place));
}

/**
 * Copies the ledger of a target, where there is one, for a rehearsal.
 * @throws what `Ledger.open` throws
 */
export async function copyLedger(
  connection: Connection,
  to: StateFiles,
  options: Omit<LedgerOptions, "mode">,
): Promise<void> {
  await options.files.fetch(paths.ledger(options.place));
  const file = ledgerFile(options);
  if (!(await exists(file))) return;
  const copy = ledgerFile({ ...options, files: to });
  await makeFolder(dirname(copy), "the folder of the ledgers");
  await attach(connection, file, { ...options, mode: "read" });
  try {
    await connection.run(`ATTACH ${literal(copy)} AS copied; COPY FROM DATABASE owned TO copied; DETACH copied`);
  } catch (error) {
    throw unusable(file, error);
  } finally {
    await connection.run("DETACH owned");
  }
}

/** Forgets what a run of a rehearsal applied, so that it does not count against the limits of the next. */
export async function forgetApplied(connection: Connection, options: LedgerOptions): Promise<void> {
  await attach(connection, ledgerFile(options), options);
  await connection.run(
    `DELETE FROM owned.applied WHERE sync = ${literal(options.sync)} AND moment = ${options.now ?? 0}`,
  );
  await detach(connection);
}

/** A ledger of an earlier release, which is only read, may not have it. */
async function hasTable(connection: Connection, table: string): Promise<boolean> {
  const rows = await connection.rows(
    "SELECT true FROM duckdb_tables() WHERE database_name = 'owned' AND table_name = ?",
    [table],
  );
  return rows.length > 0;
}

/**
 * Has the ledger of a target attached as `owned`, to be read, for as long as `work` takes.
 * @returns undefined where there is no ledger yet
 * @throws as `Ledger.open` does
 */
export async function readingLedger<Result>(
  connection: Connection,
  options: LedgerOptions,
  work: () => Promise<Result>,
): Promise<Result | undefined> {
  await options.files.fetch(paths.ledger(options.place));
  const file = ledgerFile(options);
  if (!(await exists(file))) return undefined;
  await attach(connection, file, { ...options, mode: "read" });
  try {
    return await work();
  } catch (error) {
    throw unusable(file, error);
  } finally {
    // Where the work has failed, that error is the one to tell.
    await connection.run("DETACH owned").catch(() => undefined);
  }
}

async function attach(
  connection: Connection,
  file: string,
  { mode, signal, waits = false }: LedgerOptions,
): Promise<void> {
  const patienceEnds = waits ? Number.POSITIVE_INFINITY : performance.now() + patience.limit;
  for (;;) {
    signal.throwIfAborted();
    try {
      if (mode === "write") await createDatabase(file);
      await connection.run(`ATTACH ${literal(file)} AS owned ${mode === "read" ? "(READ_ONLY)" : ""}`);
      return;
    } catch (error) {
      const holder = lockHolder(error);
      if (holder === undefined) throw unusable(file, error);
      if (performance.now() > patienceEnds) throw lockedBy(holder.pid, error);
    }
    await delay(patience.pause, undefined, { signal }).catch(() => undefined);
  }
}

function lockedBy(pid: number | undefined, error: unknown): UnavailableError {
  return new UnavailableError(
    `another run to this target is under way${pid === undefined ? "" : ` (process ${pid})`}: try again when it has ended`,
    { cause: error },
  );
}

function unusable(file: string, error: unknown): RollcallError {
  const what = `the ledger ${file}`;
  if (obstacleOf(error) !== undefined) return unwritable(what, error);
  const damaged = new InputError(
    `${what} cannot be read (${firstLineOf(error)}): restore it from a backup, or remove it. ` +
      "Without it the syncs own only principals that they find in their sources again; delete those who have left since by hand",
    { cause: error },
  );
  return forbidden(what, error) ?? damaged;
}

/** In bytes: a name for each sync is all that is asked for. */
const memory = 64 * 1024 * 1024;

/**
 * The names of the syncs that have ever applied anything, or were about to, as the ledgers of a daemon's folder know them.
 * Nobody else may write to that meanwhile.
 * @throws when one of them cannot be read
 */
export async function syncsInLedgers(daemonFolder: string): Promise<readonly string[]> {
  const folder = join(daemonFolder, "ledgers");
  const names = await readdir(folder).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  });
  const syncs = new Set<string>();
  for (const name of names.filter((each) => each.endsWith(".duckdb")))
    for (const sync of await syncsIn(join(folder, name))) syncs.add(sync);
  return [...syncs].sort();
}

async function syncsIn(path: string): Promise<string[]> {
  const database = await openDatabase({ path, memory, spill: `${path}.spill`, readOnly: true });
  try {
    const connection = await database.connect();
    try {
      const found = await connection.rows<{ name: string }>(
        "SELECT table_name AS name FROM duckdb_tables() WHERE table_name IN ('principal', 'settled')",
      );
      if (found.length === 0) return [];
      const all = found.map(({ name }) => `SELECT sync FROM ${name}`).join(" UNION ");
      return (await connection.rows<{ sync: string }>(all)).map(({ sync }) => sync);
    } finally {
      connection.close();
    }
  } finally {
    database.close();
  }
}

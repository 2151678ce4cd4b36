import { existsSync } from "node:fs";
import { readdir, rename, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { makeFolders, obstacleOf } from "#files/disk.ts";
import { InputError, messageOf } from "#errors.ts";
import { createQueue } from "#queue.ts";
import { identifier, literal, openDatabase } from "#duckdb/database.ts";
import type { Connection, DatabaseOptions } from "#duckdb/database.ts";
import type { Stage } from "./engine.ts";
import { createStages, stagePrefix } from "./stage.ts";

/** The database files of a folder, attached to one DuckDB instance. */
export interface Databases {
  /** Opens a connection with an in-memory database of its own as the current one, until it is closed. */
  openStage(): Promise<Stage>;
  /** Runs `work` with a connection, and closes it afterwards. */
  use<Result>(work: (connection: Connection) => Promise<Result>): Promise<Result>;
  /** The name of a database as it was created; undefined if there is none. Case does not matter. */
  find(name: string): string | undefined;
  names(): readonly string[];
  /**
   * Creates a database with its default schema if it does not exist.
   * @throws {InputError} if the name is not valid
   */
  create(name: string): Promise<void>;
  /** Why nothing large can be written, for a person; undefined: it can. */
  problem(): Promise<string | undefined>;
  /** Call it only when all connections are closed. */
  close(): void;
}

/** A table in the schema `main` of every database, with the loads written to it. */
export const ledgerName = "rollcall loads";

const suffix = ".duckdb";
const halfMade = ".new";
/** Names that DuckDB reserves: a database attached under one of them would be mistaken for DuckDB's own. */
const reserved = new Set(["main", "memory", "system", "temp", "pg_catalog", "information_schema"]);

/**
 * Opens every database of the folder, and creates the folder if it is missing.
 * @param options.memory DuckDB's limit in bytes
 * @param options.files other folders whose files SQL may use: those that loads read from
 * @throws {InputError} naming a file that cannot be opened
 */
export async function openDatabases(
  options: {
    readonly folder: string;
    readonly memory: number;
    readonly defaultSchema: string;
    readonly files: readonly string[];
  } & Pick<DatabaseOptions, "hasFailed" | "onInvalidated">,
): Promise<Databases> {
  const folder = resolve(options.folder);
  const spill = join(folder, ".spill");
  await makeFolders(folder, 0o700);
  // Leftovers of a killed process: spilled rows, and databases that were never finished.
  await rm(spill, { recursive: true, force: true });
  for (const file of await readdir(folder)) {
    if (file.endsWith(halfMade) || file.endsWith(`${halfMade}.wal`)) await rm(join(folder, file));
  }
  const byName = new Map<string, string>();
  const instance = await openDatabase({
    path: ":memory:",
    memory: options.memory,
    spill,
    folders: [folder, ...options.files.map((path) => resolve(path))],
    attached: () => [...byName.values()].map((name) => join(folder, fileName(name))),
    hasFailed: options.hasFailed,
    onInvalidated: options.onInvalidated,
  });
  const making = createQueue();

  const use = async <Result>(work: (connection: Connection) => Promise<Result>): Promise<Result> => {
    const connection = await instance.connect();
    try {
      return await work(connection);
    } finally {
      connection.close();
    }
  };

  const attach = async (connection: Connection, name: string): Promise<void> => {
    const path = join(folder, fileName(name));
    await connection.run(`ATTACH ${literal(path)} AS ${identifier(name)}`).catch((cause: unknown) => {
      throw new InputError(`the database file ${path} cannot be opened: ${messageOf(cause)}`, { cause });
    });
    await connection.run(`CREATE SCHEMA IF NOT EXISTS ${identifier(name)}.${identifier(options.defaultSchema)}`);
    const ledger = `${identifier(name)}.main.${identifier(ledgerName)}`;
    await connection.run(`CREATE TABLE IF NOT EXISTS ${ledger} (load VARCHAR, written TIMESTAMP)`);
    const old = `DELETE FROM ${ledger} WHERE written < now()::TIMESTAMP - INTERVAL 60 DAY`;
    await connection.run(old).catch((error: unknown) => {
      // A full disk is no reason not to read.
      if (obstacleOf(error) === undefined) throw error;
    });
    byName.set(name.toLowerCase(), name);
  };

  /** The file gets its name only when it is complete, so that a crash cannot leave half a database. */
  const make = async (connection: Connection, name: string): Promise<void> => {
    const path = join(folder, fileName(name));
    if (!existsSync(path)) {
      // Of an attempt that failed: the disk was full.
      for (const left of ["", ".wal"]) await rm(path + halfMade + left, { force: true });
      const temporary = identifier(`${name}${halfMade}`);
      await connection.run(`ATTACH ${literal(path + halfMade)} AS ${temporary}`);
      await connection.run(`CREATE SCHEMA ${temporary}.${identifier(options.defaultSchema)}`);
      await connection.run(`DETACH ${temporary}`);
      await rename(path + halfMade, path);
    }
    await attach(connection, name);
  };

  const createOnce = async (name: string): Promise<void> => {
    if (byName.has(name.toLowerCase())) return;
    checkName(name);
    await use(async (connection) => make(connection, name));
  };

  try {
    await use(async (connection) => {
      for (const file of (await readdir(folder)).sort()) {
        if (file.endsWith(suffix)) await attach(connection, decodeURIComponent(file.slice(0, -suffix.length)));
      }
    });
  } catch (error) {
    instance.close();
    throw error;
  }
  return {
    openStage: createStages(instance),
    use,
    find: (name) => byName.get(name.toLowerCase()),
    names: () => [...byName.values()],
    create: (name) => making(() => createOnce(name)),
    problem: () => instance.problem(),
    close: () => {
      instance.close();
    },
  };
}

function fileName(name: string): string {
  return `${encodeURIComponent(name)}${suffix}`;
}

function checkName(name: string): void {
  if (reserved.has(name.toLowerCase()) || name.toLowerCase().startsWith(stagePrefix)) {
    throw new InputError(`a database cannot be called "${name}": the engine reserves that name`);
  }
  if (!name.isWellFormed() || name.includes("\0")) {
    throw new InputError("the name of a database contains an invalid character");
  }
  if (fileName(name).length > 200) {
    throw new InputError(`the name of the database "${name.slice(0, 40)}…" is too long for a file`);
  }
}

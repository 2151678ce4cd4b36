import { existsSync } from "node:fs";
import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { InputError, messageOf } from "#errors.ts";
import { createQueue } from "#queue.ts";
import { identifier, literal, openDatabase } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Stage } from "./engine.ts";

/** The database files of a folder, attached to one DuckDB instance. */
export interface Databases {
  /** Opens a connection whose current database is its own, in memory, until it is closed. */
  openStage(): Promise<Stage>;
  /** Opens a connection for `work`, and closes it afterwards. */
  use<Result>(work: (connection: Connection) => Promise<Result>): Promise<Result>;
  /** The name as it was given when the database was made; undefined when there is none. Case does not matter. */
  find(name: string): string | undefined;
  names(): readonly string[];
  /**
   * Makes a database with its default schema, unless it is there.
   * @throws {InputError} when the name cannot be one
   */
  create(name: string): Promise<void>;
  /** Once all connections are closed. */
  close(): void;
}

/** In the schema `main` of every database: the loads that were written to it. */
export const ledgerName = "rollcall loads";

const suffix = ".duckdb";
const halfMade = ".new";
const stagePrefix = "rollcall stage ";
/** Names DuckDB keeps for itself: attached under them, a database could not be told from its own. */
const reserved = new Set(["main", "memory", "system", "temp", "pg_catalog", "information_schema"]);

/**
 * Opens every database of the folder; the folder is made when it is missing.
 * @param options.memory DuckDB's limit in bytes
 * @param options.files further folders whose files SQL may reach: those a load is read from
 * @throws {InputError} naming the file that cannot be opened
 */
export async function openDatabases(options: {
  readonly folder: string;
  readonly memory: number;
  readonly defaultSchema: string;
  readonly files: readonly string[];
}): Promise<Databases> {
  const folder = resolve(options.folder);
  const spill = join(folder, ".spill");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  // What a killed process left: spilled rows, and databases that were never used.
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
  });
  let stages = 0;
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
    await connection.run(`DELETE FROM ${ledger} WHERE written < now()::TIMESTAMP - INTERVAL 60 DAY`);
    byName.set(name.toLowerCase(), name);
  };

  /** A crash while a file is made must not leave half of it: it gets its name once it is whole. */
  const make = async (connection: Connection, name: string): Promise<void> => {
    const path = join(folder, fileName(name));
    if (!existsSync(path)) {
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
    openStage: async () => {
      stages += 1;
      const name = identifier(`${stagePrefix}${stages}`);
      const connection = await instance.connect();
      await connection.run(`ATTACH ':memory:' AS ${name}`);
      await connection.run(`USE ${name}`);
      return {
        connection,
        close: async () => {
          connection.close();
          await use(async (other) => other.run(`DETACH ${name}`));
        },
      };
    },
    use,
    find: (name) => byName.get(name.toLowerCase()),
    names: () => [...byName.values()],
    create: (name) => making(() => createOnce(name)),
    close: instance.close,
  };
}

function fileName(name: string): string {
  return `${encodeURIComponent(name)}${suffix}`;
}

function checkName(name: string): void {
  if (reserved.has(name.toLowerCase()) || name.toLowerCase().startsWith(stagePrefix)) {
    throw new InputError(`a database cannot be called "${name}": the engine keeps that name for itself`);
  }
  if (!name.isWellFormed() || name.includes("\0")) {
    throw new InputError("the name of a database holds a character that is none");
  }
  if (fileName(name).length > 200) {
    throw new InputError(`the name of the database "${name.slice(0, 40)}…" is too long for a file`);
  }
}

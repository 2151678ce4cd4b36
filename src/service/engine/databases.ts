import { existsSync } from "node:fs";
import { readdir, rename, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { makeFolders, obstacleOf, removeFile } from "#files/disk.ts";
import { InputError, messageOf } from "#errors.ts";
import { createQueue } from "#queue.ts";
import { identifier, literal, openDatabase } from "#duckdb/database.ts";
import type { Connection, Database, DatabaseOptions } from "#duckdb/database.ts";
import { defaultSchema, stagePrefix } from "./engine.ts";

/** A table in the schema `main` of every database, with the loads written to it. */
export const ledgerName = "rollcall loads";

const suffix = ".duckdb";
const halfMade = ".new";
/** Names that DuckDB reserves: a database attached under one of them would be mistaken for DuckDB's own. */
const reserved = new Set(["main", "memory", "system", "temp", "pg_catalog", "information_schema"]);

export interface DatabasesOptions extends Pick<DatabaseOptions, "hasFailed" | "onInvalidated"> {
  readonly folder: string;
  /** DuckDB's limit in bytes. */
  readonly memory: number;
  /** Other folders whose files SQL may use: those that loads read from. */
  readonly files: readonly string[];
}

/** The database files of a folder, attached to one DuckDB instance. */
export class Databases {
  readonly #folder: string;
  /** That all of them are attached to. */
  readonly instance: Database;
  /** The names as they were created, by their lower case. */
  readonly #byName: Map<string, string>;
  readonly #making = createQueue();

  /**
   * Opens every database of the folder, and creates the folder if it is missing.
   * @throws {InputError} naming a file that cannot be opened
   */
  static async open(options: DatabasesOptions): Promise<Databases> {
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
    const databases = new Databases(folder, instance, byName);
    try {
      await databases.#attachAll();
    } catch (error) {
      instance.close();
      throw error;
    }
    return databases;
  }

  private constructor(folder: string, instance: Database, byName: Map<string, string>) {
    this.#folder = folder;
    this.instance = instance;
    this.#byName = byName;
  }

  /** Runs `work` with a connection, and closes it afterwards. */
  async use<Result>(work: (connection: Connection) => Promise<Result>): Promise<Result> {
    const connection = await this.instance.connect();
    try {
      return await work(connection);
    } finally {
      connection.close();
    }
  }

  /** The name of a database as it was created; undefined if there is none. Case does not matter. */
  find(name: string): string | undefined {
    return this.#byName.get(name.toLowerCase());
  }

  names(): readonly string[] {
    return [...this.#byName.values()];
  }

  /** The file of a database, whether or not there is one. */
  pathOf(name: string): string {
    return join(this.#folder, fileName(this.find(name) ?? name));
  }

  /**
   * Creates a database with its default schema if it does not exist.
   * @throws {InputError} if the name is not valid
   */
  create(name: string): Promise<void> {
    return this.#making(async () => {
      if (this.find(name) !== undefined) return;
      checkName(name);
      await this.use((connection) => this.#make(connection, name));
    });
  }

  /** Call it only when all connections are closed. */
  close(): void {
    this.instance.close();
  }

  async #attachAll(): Promise<void> {
    await this.use(async (connection) => {
      for (const file of (await readdir(this.#folder)).sort()) {
        if (file.endsWith(suffix)) await this.#attach(connection, decodeURIComponent(file.slice(0, -suffix.length)));
      }
    });
  }

  async #attach(connection: Connection, name: string): Promise<void> {
    const path = this.pathOf(name);
    await connection.run(`ATTACH ${literal(path)} AS ${identifier(name)}`).catch((cause: unknown) => {
      throw new InputError(`the database file ${path} cannot be opened: ${messageOf(cause)}`, { cause });
    });
    await connection.run(`CREATE SCHEMA IF NOT EXISTS ${identifier(name)}.${defaultSchema}`);
    const ledger = `${identifier(name)}.main.${identifier(ledgerName)}`;
    await connection.run(`CREATE TABLE IF NOT EXISTS ${ledger} (load VARCHAR, written TIMESTAMP)`);
    const old = `DELETE FROM ${ledger} WHERE written < now()::TIMESTAMP - INTERVAL 60 DAY`;
    await connection.run(old).catch((error: unknown) => {
      // A full disk is no reason not to read.
      if (obstacleOf(error) === undefined) throw error;
    });
    this.#byName.set(name.toLowerCase(), name);
  }

  /** The file gets its name only when it is complete, so that a crash cannot leave half a database. */
  async #make(connection: Connection, name: string): Promise<void> {
    const path = this.pathOf(name);
    if (!existsSync(path)) {
      // Left by an attempt that failed: the disk was full.
      for (const left of ["", ".wal"]) await removeFile(path + halfMade + left);
      const temporary = identifier(`${name}${halfMade}`);
      await connection.run(`ATTACH ${literal(path + halfMade)} AS ${temporary}`);
      await connection.run(`CREATE SCHEMA ${temporary}.${defaultSchema}`);
      await connection.run(`DETACH ${temporary}`);
      await rename(path + halfMade, path);
    }
    await this.#attach(connection, name);
  }
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

import { randomUUID } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { makeFolder } from "#files/disk.ts";
import { isAlive } from "#files/durable.ts";
import { identifier, openDatabase } from "./database.ts";
import type { Connection, Database } from "./database.ts";

/** Enough for a million users, in bytes: with a third less, some of their plans fail. */
const leastMemory = 512 * 1024 ** 2;

/** How much the tables may take without being moved to disk for something else, in bytes. */
const muchMemory = 128 * 1024 ** 2;

/** A table of so many rows takes milliseconds to free. */
const manyRows = 100_000;

/** Where one plan is made: a database in memory that spills to disk, and a folder for lists. `close` removes both. */
export class Workbench {
  readonly connection: Connection;
  readonly #database: Database;
  readonly #folder: string;

  /**
   * Opens a workbench in a new folder below `folder`, and removes those that killed processes have left there. It uses one
   * thread until `useThreads`.
   * @param options.memory the configured limit in bytes. DuckDB takes half of it here, or `leastMemory`: the service often runs in
   *   the same process, and with more a run is no faster
   */
  static async open(options: { folder: string; memory: number }): Promise<Workbench> {
    await makeFolder(options.folder, "the folder of the workbenches");
    await removeAbandoned(options.folder);
    const folder = join(options.folder, `${process.pid}-${randomUUID()}`);
    await mkdir(folder, { mode: 0o700 });
    const memory = Math.min(options.memory, Math.max(options.memory / 2, leastMemory));
    const database = await openDatabase({ path: ":memory:", memory, spill: join(folder, "spill") });
    const connection = await database.connect();
    await connection.run("SET threads = 1");
    return new Workbench(connection, database, folder);
  }

  private constructor(connection: Connection, database: Database, folder: string) {
    this.connection = connection;
    this.#database = database;
    this.#folder = folder;
  }

  /** Another connection, for what runs beside the statements of `connection`. Temporary tables are its own. Close it first. */
  connect(): Promise<Connection> {
    return this.#database.connect();
  }

  /** The path of a file of this workbench. */
  file(name: string): string {
    return join(this.#folder, name);
  }

  /** Moves tables to disk where they take much memory, for what is about to need it. They come back as they are read. */
  async makeRoom(): Promise<void> {
    const { connection } = this;
    const [row] = await connection.rows<{ used: number }>(
      "SELECT sum(memory_usage_bytes)::DOUBLE AS used FROM duckdb_memory()",
    );
    if ((row?.used ?? 0) < muchMemory) return connection.returnMemory();
    try {
      await connection.run(`SET memory_limit = '${muchMemory / 8 / 1024}KiB'`);
    } catch {
      // What could be moved was. The rest is in use.
    } finally {
      // Sets the limit of before.
      await connection.returnMemory();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Stops what is running and removes everything. */
  async close(): Promise<void> {
    const { connection } = this;
    connection.interrupt();
    // An interrupt between two statements is lost, and the next statement would run to its end.
    const again = setInterval(connection.interrupt, 20);
    await connection.rows("SELECT 1").catch(() => undefined);
    clearInterval(again);
    await this.#dropLargeTables().catch(() => undefined);
    connection.close();
    this.#database.close();
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** Does in a thread what closing would do on the event loop: freeing the tables of a million users takes some 0.3 s. */
  async #dropLargeTables(): Promise<void> {
    const { connection } = this;
    const tables = await connection.rows<{ database: string; name: string }>(`
      SELECT database_name AS database, table_name AS name FROM duckdb_tables()
      WHERE database_name IN ('memory', 'temp') AND schema_name = 'main' AND estimated_size >= ${manyRows}`);
    if (tables.length === 0) return;
    await connection.run(
      tables.map(({ database, name }) => `DROP TABLE ${database}.main.${identifier(name)};`).join(" "),
    );
    await connection.returnMemory();
  }
}

async function removeAbandoned(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const pid = Number(name.split("-", 1)[0]);
    if (Number.isInteger(pid) && pid > 0 && !isAlive(pid))
      await rm(join(folder, name), { recursive: true, force: true });
  }
}

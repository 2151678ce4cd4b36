import { mkdir, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { openDatabase } from "#duckdb/database.ts";
import type { Database } from "#duckdb/database.ts";
import { InputError } from "#errors.ts";
import { identifier, Postgres } from "#postgres/database.ts";
import type { Transaction } from "#postgres/database.ts";
import { inputError } from "#postgres/errors.ts";
import { migrate } from "#postgres/migrations.ts";
import type { Schema } from "#postgres/migrations.ts";
import type { PostgresSettings } from "#postgres/options.ts";
import { createKeyedQueue, createQueue } from "#queue.ts";
import type { Queue } from "#queue.ts";
import { inTime, keyOf, openStage, queriesOf, soleOf } from "#service/engine/engine.ts";
import type { Engine, ListedTable, Query, RowSink, Stage, Table, TableName, Writing } from "#service/engine/engine.ts";
import { meaningOf, soleStatement } from "#service/engine/query.ts";
import { checkQuery } from "./confine.ts";
import { define } from "./define.ts";
import { execute } from "./execute.ts";
import { meant, readNamespaces, schemasOf, soughtPlace } from "./names.ts";
import { readPage } from "./query.ts";
import { findTable, listTables } from "./tables.ts";
import { textSettings } from "./values.ts";
import { writeTable } from "./write.ts";

export interface PostgresEngineOptions {
  readonly postgres: PostgresSettings;
  /** A folder for what DuckDB, which reads the loads, cannot hold in memory. */
  readonly folder: string;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
  /** The folders that loads read and write. */
  readonly files?: readonly string[];
  /** Whether a server that is away is waited for: it was there when the service began. */
  readonly isExpected?: boolean;
}

/** What a load leaves beside its rows (A.24), and what tells other processes of it. */
const schema: Schema = {
  part: "loads",
  migrations: [
    `CREATE TABLE IF NOT EXISTS rollcall.loads (
      load text PRIMARY KEY,
      written_at timestamptz NOT NULL DEFAULT now()
    )`,
    // Of Rollcall 0.2.
    "CREATE TABLE IF NOT EXISTS rollcall.revisions (part text PRIMARY KEY, revision bigint NOT NULL)",
  ],
};

/**
 * Opens the engine on PostgreSQL: DuckDB reads, converts and checks loads, PostgreSQL holds the tables.
 * @throws {InputError} when the database cannot be used; {UnavailableError} when it does not answer; {RefusedError} when it
 *   does not let this user in
 */
export async function openPostgresEngine(options: PostgresEngineOptions): Promise<Engine> {
  const postgres = await Postgres.open(options.postgres, { isExpected: options.isExpected });
  try {
    await migrate(postgres, [schema]);
    await postgres.rows("DELETE FROM rollcall.loads WHERE written_at < now() - INTERVAL '60 days'", [], {
      isRepeatable: true,
    });
    return new PostgresEngine(postgres, await openInstance(options), options.postgres.poolSize);
  } catch (error) {
    await postgres.close();
    throw error;
  }
}

/** The DuckDB that reads loads. */
async function openInstance({ folder, memory, files = [] }: PostgresEngineOptions): Promise<Database> {
  const spill = join(resolve(folder), ".spill");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await rm(spill, { recursive: true, force: true });
  return openDatabase({ path: ":memory:", memory, spill, folders: files.map((path) => resolve(path)) });
}

/** How many queries are known to be good. Pinboards have few. */
const mostChecked = 1_000;

class PostgresEngine implements Engine {
  readonly #postgres: Postgres;
  /** Reads loads. */
  readonly #instance: Database;
  readonly #queries: Queue;
  readonly #tables = createKeyedQueue();
  /** Queries that were checked. What they mean then, they mean always: a name leads nowhere but into their database. */
  readonly #checked = new Set<string>();

  /** @param poolSize how many connections there are */
  constructor(postgres: Postgres, instance: Database, poolSize: number) {
    this.#postgres = postgres;
    this.#instance = instance;
    // Queries do not take the connections of loads and of looking for tables.
    this.#queries = createQueue(queriesOf(poolSize));
  }

  define(sql: string, origin: string): Promise<void> {
    return define(this.#postgres, sql, origin);
  }

  execute(name: string | undefined, sql: string, signal: AbortSignal, sink: RowSink): Promise<number> {
    return this.#postgres.transaction(
      async (transaction) => {
        const namespaces = await readNamespaces(transaction);
        const database =
          name === undefined ? soleOf(namespaces.filter((other) => other !== "public")) : existing(name, namespaces);
        // A table that is named without a schema belongs to no database then.
        await transaction.run(
          `SET LOCAL search_path = ${database === undefined ? "''" : `${identifier(database)}, pg_temp`}`,
        );
        return execute(transaction, sql, sink);
      },
      // How strings end must be what `splitStatements` takes for it.
      { timeout: 0, signal, settings: { ...textSettings, standard_conforming_strings: "on" } },
    );
  }

  async find(name: TableName): Promise<Table | undefined> {
    return (await findTable(this.#postgres, name))?.table;
  }

  async problem(): Promise<string | undefined> {
    return undefined;
  }

  list(): Promise<readonly ListedTable[]> {
    return this.#postgres.transaction((transaction) => listTables(transaction), {
      readOnly: true,
      isRepeatable: true,
    });
  }

  async holdCheckpoints(): Promise<void> {}

  openStage(): Promise<Stage> {
    return openStage(this.#instance);
  }

  write(stage: Stage, table: Table, writing: Writing, signal: AbortSignal): Promise<void> {
    return this.#tables(keyOf(table), async () => {
      try {
        await writeTable(this.#postgres, stage, table, writing, signal);
      } catch (error) {
        throw signal.aborted ? error : meaningOf(error);
      }
    });
  }

  async query(query: Query, signal: AbortSignal, sink: RowSink): Promise<number> {
    const statement = soleStatement(query.sql);
    const run = (limited: AbortSignal): Promise<number> =>
      this.#postgres.transaction((transaction) => this.#read(transaction, query, statement, sink), {
        signal: limited,
        isRepeatable: true,
        // The server stops it even if this process does not come to it.
        timeout: query.timeout + 1_000,
        settings: { ...textSettings, cursor_tuple_fraction: "1" },
      });
    return this.#queries(() => inTime(query, signal, run), signal);
  }

  reference({ database, schema, name }: Table): string {
    return `${identifier(soughtPlace(database, schema).namespace)}.${identifier(name)}`;
  }

  async close(): Promise<void> {
    await this.#tables.idle();
    this.#instance.close();
    await this.#postgres.close();
  }

  async #read(transaction: Transaction, query: Query, statement: string, sink: RowSink): Promise<number> {
    const namespaces = await readNamespaces(transaction);
    const database = existing(query.database, namespaces);
    const key = JSON.stringify([query.database.toLowerCase(), statement]);
    await transaction.run(`SET LOCAL search_path = ${identifier(database)}, pg_temp`);
    try {
      if (!this.#checked.has(key)) await checkQuery(transaction, statement, database, namespaces);
      if (this.#checked.size >= mostChecked) this.#checked.clear();
      this.#checked.add(key);
      await transaction.run("SET TRANSACTION READ ONLY");
      return await readPage(transaction, statement, { offset: query.offset ?? 0, limit: query.limit }, sink);
    } catch (error) {
      throw inputError(error) ?? error;
    }
  }
}

/** The schema of the database, which its queries begin in. */
function existing(name: string, namespaces: readonly string[]): string {
  // No list of the others: not everybody who may query one database should see them.
  if (schemasOf(name, namespaces).length === 0) throw new InputError(`there is no database ${name}`);
  return meant(name, namespaces) ?? name;
}

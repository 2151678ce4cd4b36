import { CutOffError } from "#duckdb/chunk.ts";
import { identifier, interruptible } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { InputError } from "#errors.ts";
import { createKeyedQueue, createQueue } from "#queue.ts";
import { checkQuery, readVocabulary } from "./confine.ts";
import type { Holdings, Vocabulary } from "./confine.ts";
import { Databases, ledgerName } from "./databases.ts";
import { defaultSchema, inTime, keyOf, openStage, queriesOf, schemaOf, soleOf } from "./engine.ts";
import type { Engine, ListedTable, Query, RowSink, Stage, Table, TableName, Writing } from "./engine.ts";
import { execute, refuseUnplaced } from "./execute.ts";
import { meaningOf, readAll, readPage, soleStatement } from "./query.ts";
import { define, findTable, listTables } from "./tables.ts";
import { writeTable } from "./write.ts";

export interface DuckDbOptions {
  /** The folder of the databases, one file each. */
  readonly folder: string;
  /** DuckDB's memory limit in bytes; beyond it, DuckDB spills to disk. */
  readonly memory: number;
  /** The folders that loads read and write. SQL can use no other files. */
  readonly files?: readonly string[];
  /** A checkpoint has failed in the process before this one. */
  readonly hasFailed?: boolean | undefined;
  /** Is called when a database must be opened again, with all others, before it can be used. */
  readonly onInvalidated?: ((error: unknown) => void) | undefined;
}

/**
 * Opens the embedded engine: every database is a DuckDB file, all of them attached to one instance.
 * @throws {InputError} naming a file that cannot be opened
 */
export async function openDuckDbEngine(options: DuckDbOptions): Promise<Engine> {
  const { folder, memory, files = [], hasFailed, onInvalidated } = options;
  return new DuckDbEngine(await Databases.open({ folder, memory, files, hasFailed, onInvalidated }));
}

class DuckDbEngine implements Engine {
  readonly #databases: Databases;
  readonly #queries = createQueue(queriesOf(undefined));
  readonly #tables = createKeyedQueue();
  /** The contents of each database, cached until a statement may have changed them. */
  readonly #holdings = new Map<string, Promise<Holdings>>();
  /** Read at the first query: it takes a while, and not every service has pinboards. */
  #vocabulary: Promise<Vocabulary> | undefined;

  constructor(databases: Databases) {
    this.#databases = databases;
  }

  async define(sql: string, origin: string): Promise<void> {
    await define(this.#databases, sql, origin);
    this.#holdings.clear();
  }

  async execute(name: string | undefined, sql: string, signal: AbortSignal, sink: RowSink): Promise<number> {
    const database = name === undefined ? soleOf(this.#databases.names()) : this.#existing(name);
    return this.#databases.use(async (connection) => {
      // Whatever fails may have defined something before.
      let mayDefine = true;
      try {
        if (database !== undefined) await connection.run(useOf(database));
        const executed = await interruptible(connection, signal, async () =>
          execute(this.#databases, connection, sql, sink),
        );
        if (database === undefined) await refuseUnplaced(connection);
        ({ mayDefine } = executed);
        return executed.rows;
      } catch (error) {
        throw meaningOf(error);
      } finally {
        if (mayDefine) this.#holdings.clear();
      }
    });
  }

  async find(name: TableName): Promise<Table | undefined> {
    const database = this.#databases.find(name.database);
    if (database === undefined) return undefined;
    const place = { database, schema: schemaOf(name.schema), table: name.table };
    // In one transaction: a load may be replacing the table.
    return this.#databases.use((connection) => connection.transaction(() => findTable(connection, place)));
  }

  list(): Promise<readonly ListedTable[]> {
    return this.#databases.use((connection) =>
      connection.transaction(() => listTables(connection, this.#databases.names())),
    );
  }

  problem(): Promise<string | undefined> {
    return this.#databases.instance.problem();
  }

  holdCheckpoints(isHeld: boolean): Promise<void> {
    return this.#databases.instance.holdCheckpoints(isHeld);
  }

  openStage(): Promise<Stage> {
    return openStage(this.#databases.instance);
  }

  write({ connection }: Stage, table: Table, writing: Writing, signal: AbortSignal): Promise<void> {
    // Loads write to a table one at a time: two would conflict over its keys.
    return this.#tables(keyOf(table), async () => {
      try {
        await writeTable(connection, table, writing, signal);
      } catch (error) {
        throw signal.aborted ? error : meaningOf(error);
      }
    });
  }

  async query(query: Query, signal: AbortSignal, sink: RowSink): Promise<number> {
    const database = this.#existing(query.database);
    const statement = soleStatement(query.sql);
    const vocabulary = await this.#readVocabulary();
    const read = async (connection: Connection): Promise<number> => {
      await connection.run(useOf(database));
      const checked = <Result>(work: () => Promise<Result>): Promise<Result> =>
        connection.transaction(async () => {
          await checkQuery(connection, vocabulary, await this.#holdingsOf(database), statement);
          return work();
        });
      const page = { offset: query.offset ?? 0, limit: query.limit };
      try {
        return await checked(() => readPage(connection, statement, page, sink));
      } catch (error) {
        if (error instanceof CutOffError) await checked(() => readAll(connection, statement));
        throw error;
      }
    };
    const run = (limited: AbortSignal): Promise<number> =>
      this.#databases.use(async (connection) => {
        try {
          return await interruptible(connection, limited, () => read(connection));
        } catch (error) {
          throw limited.aborted ? error : meaningOf(error);
        }
      });
    return this.#queries(() => inTime(query, signal, run), signal);
  }

  reference({ schema, name }: Table): string {
    return `${identifier(schema)}.${identifier(name)}`;
  }

  async close(): Promise<void> {
    await this.#tables.idle();
    this.#databases.close();
  }

  #existing(name: string): string {
    const database = this.#databases.find(name);
    // No list of the others: not everybody who may query one database should see them.
    if (database === undefined) throw new InputError(`there is no database ${name}`);
    return database;
  }

  #holdingsOf(database: string): Promise<Holdings> {
    const known = this.#holdings.get(database);
    if (known !== undefined) return known;
    const read = this.#databases.use((connection) => readHoldings(connection, database));
    this.#holdings.set(database, read);
    read.catch(() => this.#holdings.delete(database));
    return read;
  }

  #readVocabulary(): Promise<Vocabulary> {
    if (this.#vocabulary !== undefined) return this.#vocabulary;
    const read = this.#databases.use(readVocabulary);
    this.#vocabulary = read;
    read.catch(() => {
      this.#vocabulary = undefined;
    });
    return read;
  }
}

function useOf(database: string): string {
  return `USE ${identifier(database)}.${defaultSchema}`;
}

async function readHoldings(connection: Connection, database: string): Promise<Holdings> {
  const relations = await connection.rows<{ schema: string; name: string }>(
    `SELECT schema_name AS schema, table_name AS name FROM duckdb_tables() WHERE database_name = $1
     UNION ALL SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = $1 AND NOT internal`,
    [database],
  );
  const macros = await connection.rows<{ name: string }>(
    "SELECT DISTINCT lower(function_name) AS name FROM duckdb_functions() WHERE NOT internal",
  );
  return {
    database,
    relations: new Set(
      relations
        .filter(({ name }) => name !== ledgerName)
        .map(({ schema, name }) => `${schema.toLowerCase()}\0${name.toLowerCase()}`),
    ),
    macros: new Set(macros.map(({ name }) => name)),
  };
}

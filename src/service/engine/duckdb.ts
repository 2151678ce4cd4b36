import { availableParallelism } from "node:os";
import { identifier, interruptible } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { InputError } from "#errors.ts";
import { createKeyedQueue, createQueue } from "#queue.ts";
import { checkQuery, readVocabulary } from "./confine.ts";
import type { Holdings, Vocabulary } from "./confine.ts";
import { ledgerName, openDatabases } from "./databases.ts";
import { aliasOf, inTime } from "./engine.ts";
import type { Engine, Table } from "./engine.ts";
import { execute, refuseUnplaced } from "./execute.ts";
import { meaningOf, readPage, soleStatement } from "./query.ts";
import { define, findTable, listTables } from "./tables.ts";
import { writeTable } from "./write.ts";

export interface DuckDbOptions {
  /** The folder of the databases, one file each. */
  readonly folder: string;
  /** DuckDB's memory limit in bytes; beyond it, DuckDB spills to disk. */
  readonly memory: number;
  /** The default schema of every database (A.22). */
  readonly defaultSchema?: string;
  /** Aliases of schemas, in lower case (A.22). */
  readonly schemaAliases?: Readonly<Record<string, string>>;
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
  const defaultSchema = options.defaultSchema ?? "core_default_schema";
  const aliases = options.schemaAliases ?? { falcon_default_schema: defaultSchema };
  const databases = await openDatabases({
    folder: options.folder,
    memory: options.memory,
    defaultSchema,
    files: options.files ?? [],
    hasFailed: options.hasFailed,
    onInvalidated: options.onInvalidated,
  });
  const schemaOf = (name: string | undefined): string =>
    name === undefined ? defaultSchema : (aliasOf(name, aliases) ?? name);
  // A query occupies a thread of Node's pool, which files and loads need too.
  const queries = createQueue(Math.min(3, Math.max(2, availableParallelism())));
  const tables = createKeyedQueue();
  /** The contents of each database, cached until a statement may have changed them. */
  const holdings = new Map<string, Promise<Holdings>>();

  const holdingsOf = async (database: string): Promise<Holdings> => {
    const known = holdings.get(database);
    if (known !== undefined) return known;
    const read = databases.use(async (connection) => readHoldings(connection, database, defaultSchema));
    holdings.set(database, read);
    read.catch(() => holdings.delete(database));
    return read;
  };

  /** Read at the first query: it takes a while, and not every service has pinboards. */
  let vocabulary: Promise<Vocabulary> | undefined;
  const readOnce = async (): Promise<Vocabulary> => {
    vocabulary ??= databases.use(readVocabulary);
    vocabulary.catch(() => {
      vocabulary = undefined;
    });
    return vocabulary;
  };

  const existing = (name: string): string => {
    const database = databases.find(name);
    // No list of the others: not everybody who may query one database should see them.
    if (database === undefined) throw new InputError(`there is no database ${name}`);
    return database;
  };

  /** Loads write to a table one at a time: two would conflict over its keys. */
  const inTurn = (table: Table, work: () => Promise<void>): Promise<void> =>
    tables([table.database, table.schema, table.name].join("\0").toLowerCase(), work);

  return {
    define: async (sql, origin) => {
      await define(databases, sql, origin, schemaOf);
      holdings.clear();
    },
    execute: async (name, sql, signal, sink) => {
      const [only, ...more] = databases.names();
      const database = name === undefined ? (more.length === 0 ? only : undefined) : existing(name);
      return databases.use(async (connection) => {
        // Whatever fails may have defined something before.
        let mayDefine = true;
        try {
          if (database !== undefined) await connection.run(useOf(database, defaultSchema));
          const executed = await interruptible(connection, signal, async () =>
            execute(databases, connection, sql, defaultSchema, sink),
          );
          if (database === undefined) await refuseUnplaced(connection);
          ({ mayDefine } = executed);
          return executed.rows;
        } catch (error) {
          throw meaningOf(error);
        } finally {
          if (mayDefine) holdings.clear();
        }
      });
    },
    find: async (name) => {
      const database = databases.find(name.database);
      if (database === undefined) return undefined;
      // In one transaction: a load may be replacing the table.
      return databases.use(async (connection) =>
        connection.transaction(() =>
          findTable(connection, { database, schema: schemaOf(name.schema), table: name.table }),
        ),
      );
    },
    list: () => databases.use((connection) => connection.transaction(() => listTables(connection, databases.names()))),
    revision: async () => "",
    problem: databases.problem,
    openStage: databases.openStage,
    write: async ({ connection }, table, writing, signal) => {
      await inTurn(table, async () => {
        try {
          await writeTable(connection, table, writing, signal);
        } catch (error) {
          throw signal.aborted ? error : meaningOf(error);
        }
      });
    },
    query: async (query, signal, sink) => {
      const database = existing(query.database);
      const statement = soleStatement(query.sql);
      const vocabulary = await readOnce();
      return queries(
        async () =>
          inTime(query, signal, async (limited) =>
            databases.use(async (connection) =>
              interruptible(connection, limited, async () => {
                await connection.run(useOf(database, defaultSchema));
                return connection.transaction(async () => {
                  await checkQuery(connection, vocabulary, await holdingsOf(database), statement);
                  return readPage(connection, statement, { offset: query.offset ?? 0, limit: query.limit }, sink);
                });
              }).catch((error: unknown) => {
                throw limited.aborted ? error : meaningOf(error);
              }),
            ),
          ),
        signal,
      );
    },
    close: async () => {
      await tables.idle();
      databases.close();
    },
  };
}

function useOf(database: string, schema: string): string {
  return `USE ${identifier(database)}.${identifier(schema)}`;
}

async function readHoldings(connection: Connection, database: string, defaultSchema: string): Promise<Holdings> {
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
    defaultSchema,
    relations: new Set(
      relations
        .filter(({ name }) => name !== ledgerName)
        .map(({ schema, name }) => `${schema.toLowerCase()}\0${name.toLowerCase()}`),
    ),
    macros: new Set(macros.map(({ name }) => name)),
  };
}

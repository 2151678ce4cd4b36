import { mkdir, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { openDatabase } from "#duckdb/database.ts";
import { InputError } from "#errors.ts";
import { identifier, openPostgres } from "#postgres/database.ts";
import type { Postgres } from "#postgres/database.ts";
import { inputError } from "#postgres/errors.ts";
import { migrate } from "#postgres/migrations.ts";
import type { Schema } from "#postgres/migrations.ts";
import type { PostgresSettings } from "#postgres/options.ts";
import { createKeyedQueue, createQueue } from "#queue.ts";
import { inTime, queriesOf } from "#service/engine/engine.ts";
import type { Engine } from "#service/engine/engine.ts";
import { meaningOf, soleStatement } from "#service/engine/query.ts";
import { createStages } from "#service/engine/stage.ts";
import { checkQuery } from "./confine.ts";
import { define } from "./define.ts";
import { execute } from "./execute.ts";
import { meant, readNamespaces, schemasOf, usualNaming } from "./names.ts";
import type { Naming } from "./names.ts";
import { readPage } from "./query.ts";
import { raiseRevision, readRevision, revisionsTable } from "./revisions.ts";
import { findTable, listTables } from "./tables.ts";
import { textSettings } from "./values.ts";
import { writeTable } from "./write.ts";

export interface PostgresEngineOptions {
  readonly postgres: PostgresSettings;
  /** A folder for what DuckDB, which reads the loads, cannot hold in memory. */
  readonly folder: string;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
  /** The default schema of every database (A.22). */
  readonly defaultSchema?: string;
  /** Aliases of schemas, in lower case (A.22). */
  readonly schemaAliases?: Readonly<Record<string, string>>;
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
    revisionsTable,
  ],
};

/**
 * Opens the engine on PostgreSQL: DuckDB reads, converts and checks loads, PostgreSQL holds the tables.
 * @throws {InputError} when the database cannot be used; {UnavailableError} when it does not answer; {RefusedError} when it
 *   does not let this user in
 */
export async function openPostgresEngine(options: PostgresEngineOptions): Promise<Engine> {
  const postgres = await openPostgres(options.postgres, { isExpected: options.isExpected });
  try {
    await migrate(postgres, [schema]);
    await postgres.rows("DELETE FROM rollcall.loads WHERE written_at < now() - INTERVAL '60 days'", [], {
      isRepeatable: true,
    });
    return await engineOf(postgres, options);
  } catch (error) {
    await postgres.close();
    throw error;
  }
}

async function engineOf(postgres: Postgres, options: PostgresEngineOptions): Promise<Engine> {
  const naming: Naming = {
    defaultSchema: options.defaultSchema ?? usualNaming.defaultSchema,
    aliases: options.schemaAliases ?? usualNaming.aliases,
  };
  const spill = join(resolve(options.folder), ".spill");
  await mkdir(options.folder, { recursive: true, mode: 0o700 });
  await rm(spill, { recursive: true, force: true });
  const instance = await openDatabase({
    path: ":memory:",
    memory: options.memory,
    spill,
    folders: (options.files ?? []).map((path) => resolve(path)),
  });
  // Queries do not take the connections of loads and of looking for tables.
  const queries = createQueue(queriesOf(options.postgres.poolSize));
  const tables = createKeyedQueue();
  /** Queries that were checked. What they mean then, they mean always: a name leads nowhere but into their database. */
  const checked = new Set<string>();
  const remember = (key: string): void => {
    if (checked.size >= mostChecked) checked.clear();
    checked.add(key);
  };

  return {
    define: (sql, origin) => define(postgres, sql, origin, naming),
    execute: (name, sql, signal, sink) =>
      postgres.transaction(
        async (transaction) => {
          const namespaces = await readNamespaces(transaction);
          const [only, ...more] = namespaces.filter((other) => other !== "public");
          const database = name === undefined ? (more.length === 0 ? only : undefined) : existing(name, namespaces);
          // A table that is named without a schema belongs to no database then.
          await transaction.run(
            `SET LOCAL search_path = ${database === undefined ? "''" : `${identifier(database)}, pg_temp`}`,
          );
          const { rows, mayHaveWritten } = await execute(transaction, sql, naming, sink);
          if (mayHaveWritten) await raiseRevision(transaction, "sql");
          return rows;
        },
        // How strings end must be what `splitStatements` takes for it.
        { timeout: 0, signal, settings: { ...textSettings, standard_conforming_strings: "on" } },
      ),
    find: async (name) => (await findTable(postgres, name, naming))?.table,
    revision: () => readRevision(postgres),
    problem: async () => undefined,
    list: () =>
      postgres.transaction((transaction) => listTables(transaction, naming), { readOnly: true, isRepeatable: true }),
    openStage: createStages(instance),
    write: (stage, table, writing, signal) =>
      tables([table.database, table.schema, table.name].join("\0").toLowerCase(), async () => {
        try {
          await writeTable(postgres, stage, table, writing, naming, signal);
        } catch (error) {
          throw signal.aborted ? error : meaningOf(error);
        }
      }),
    query: async (query, signal, sink) => {
      const statement = soleStatement(query.sql);
      const key = JSON.stringify([query.database.toLowerCase(), statement]);
      return queries(
        () =>
          inTime(query, signal, (limited) =>
            postgres.transaction(
              async (transaction) => {
                const namespaces = await readNamespaces(transaction);
                const database = existing(query.database, namespaces);
                await transaction.run(`SET LOCAL search_path = ${identifier(database)}, pg_temp`);
                try {
                  if (!checked.has(key)) await checkQuery(transaction, statement, database, namespaces);
                  remember(key);
                  await transaction.run("SET TRANSACTION READ ONLY");
                  return await readPage(
                    transaction,
                    statement,
                    { offset: query.offset ?? 0, limit: query.limit },
                    sink,
                  );
                } catch (error) {
                  throw inputError(error) ?? error;
                }
              },
              // The server stops it even if this process does not come to it.
              {
                signal: limited,
                isRepeatable: true,
                timeout: query.timeout + 1_000,
                settings: { ...textSettings, cursor_tuple_fraction: "1" },
              },
            ),
          ),
        signal,
      );
    },
    close: async () => {
      await tables.idle();
      instance.close();
      await postgres.close();
    },
  };
}

/** How many queries are known to be good. Pinboards have few. */
const mostChecked = 1_000;

/** The schema of the database, which its queries begin in. */
function existing(name: string, namespaces: readonly string[]): string {
  // No list of the others: not everybody who may query one database should see them.
  if (schemasOf(name, namespaces).length === 0) throw new InputError(`there is no database ${name}`);
  return meant(name, namespaces) ?? name;
}

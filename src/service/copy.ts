import { randomUUID } from "node:crypto";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { identifier, literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { InputError, messageOf } from "#errors.ts";
import { emptyFolder, exists } from "#files/disk.ts";
import { Postgres } from "#postgres/database.ts";
import type { Transaction } from "#postgres/database.ts";
import { migrate } from "#postgres/migrations.ts";
import type { PostgresSettings } from "#postgres/options.ts";
import { openEmbeddedStore } from "#service/directory/embedded.ts";
import { directorySchema } from "#service/directory/postgres.ts";
import { ledgerName } from "#service/engine/databases.ts";
import { exactType, rowNumberOf } from "#service/engine/engine.ts";
import type { Column, Engine, Stage, Table } from "#service/engine/engine.ts";
import { qualified } from "#service/engine/postgres/names.ts";
import { findTable as findInPostgres } from "#service/engine/postgres/tables.ts";
import { textSettings } from "#service/engine/postgres/values.ts";
import { openPostgresEngine } from "#service/engine/postgres/postgres.ts";
import { findTable } from "#service/engine/tables.ts";
import { listOf } from "#service/engine/write.ts";
import { recordsSchema, recordTables } from "./records.ts";
import { openStorage } from "./storage.ts";
import { receiveRows, stageLines, writeRows } from "./transfers.ts";

/** What was copied: a table of the service's own or of loads, and how many rows. */
export interface Copied {
  /** `users`, `sessions`, or `database.schema.table`. */
  readonly what: string;
  readonly rows: number;
  /** A digest of all rows in any order, the same on both sides. */
  readonly digest: string;
}

export interface CopyOptions {
  /** The data folder. No service may be running on it; it is only read. */
  readonly data: string;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
  readonly postgres: PostgresSettings;
  /** Gets each part as soon as it is copied and compared. */
  readonly copied: (part: Copied) => Promise<void>;
  /** Stops it. What is half copied is copied anew the next time. */
  readonly signal: AbortSignal;
}

/** What the service's own tables have in both engines: names of columns, and their types in PostgreSQL. */
const own = [
  {
    what: "groups",
    from: "directory.groups",
    columns: { name: "text", display_name: "text", group_names: "text[]", created: "bigint", modified: "bigint" },
    texts: ["description", "mail"],
  },
  {
    what: "users",
    from: "directory.users",
    columns: {
      name: "text",
      display_name: "text",
      group_names: "text[]",
      created: "bigint",
      modified: "bigint",
      id: "uuid",
      password_hash: "text",
    },
    texts: ["description", "mail"],
  },
  ...(["sessions", "known_addresses", "ended_loads"] as const).map((what) => ({
    what,
    from: what,
    columns: recordTables[what],
    texts: [],
  })),
] as const;

type OwnTable = (typeof own)[number];

/** DuckDB's name of each of these types. */
const inDuckDb: Readonly<Record<string, string>> = {
  text: "VARCHAR",
  "text[]": "VARCHAR[]",
  uuid: "VARCHAR",
  bigint: "BIGINT",
  boolean: "BOOLEAN",
};

/**
 * Copies everything that a service has in its data folder into an empty PostgreSQL database: tables first, each in a
 * transaction of its own, then users, groups and the small tables in one. What has arrived is read back and compared before
 * that is committed, by the number of rows and by a digest. So a database has users only when all of it was copied.
 * @throws {InputError} when a service runs on the data folder, when the database has users or rows already, or a table has
 *   what PostgreSQL cannot hold; {UnavailableError}
 */
export async function copyToPostgres(options: CopyOptions): Promise<void> {
  const { signal, copied } = options;
  await using opening = new AsyncDisposableStack();
  const { database, folder } = await openStorage(options.data, options.memory);
  opening.defer(() => {
    database.close();
  });
  const place = join(folder, "transfers");
  await emptyFolder(place);
  opening.defer(() => rm(place, { recursive: true, force: true }));
  // Creates what an older data folder does not have yet.
  await (await openEmbeddedStore(database)).close();

  const postgres = await Postgres.open(options.postgres);
  opening.defer(() => postgres.close());
  await migrate(postgres, [directorySchema, recordsSchema]);
  await refuseUsed(postgres, postgres.place);
  await copyTables(options, { databases: join(folder, "databases"), spill: place, postgres });

  const connection = await database.connect();
  opening.defer(() => {
    connection.close();
  });
  const present = new Set(
    (
      await connection.rows<{ name: string }>(
        "SELECT CASE schema_name WHEN 'main' THEN table_name ELSE schema_name || '.' || table_name END AS name FROM duckdb_tables()",
      )
    ).map(({ name }) => name),
  );
  const parts: Copied[] = [];
  await postgres.transaction(
    async (transaction) => {
      await transaction.lock("user/sync");
      await transaction.lock("directory");
      await refuseUsed(transaction, postgres.place);
      for (const table of own) {
        if (present.has(table.from)) parts.push(await copyOwn(transaction, connection, table, place));
      }
      await transaction.run("UPDATE rollcall.directory SET revision = revision + 1");
    },
    { timeout: 0, signal },
  );
  for (const part of parts) await copied(part);
}

/** @throws {InputError} when the database has users: those of another service, or of an earlier copy */
async function refuseUsed(database: Pick<Transaction, "rows">, place: string): Promise<void> {
  const [found] = await database.rows<{ users: bigint }>("SELECT count(*) AS users FROM rollcall.users");
  if (found === undefined || found.users === 0n) return;
  throw new InputError(
    `the database ${place} has ${found.users} users already: copy into a database that no service has used, or recreate this one`,
  );
}

async function copyOwn(
  transaction: Transaction,
  connection: Connection,
  { what, from, columns, texts }: OwnTable,
  folder: string,
): Promise<Copied> {
  const names = Object.keys(columns);
  const all = [...names, ...texts];
  const shown = all.map((name) => (name === "id" ? "id::VARCHAR AS id" : name)).join(", ");
  await connection.run(`CREATE OR REPLACE TEMP VIEW leaving AS SELECT ${shown} FROM ${from}`);
  // PostgreSQL's text has no U+0000, which descriptions may contain: they stay JSON.
  const json = `to_json({${names.map((name) => `${name}: ${name}`).join(", ")}})::VARCHAR`;
  const more = ["description", "mail"].map((name) =>
    texts.some((text) => text === name) ? `to_json(${name})::VARCHAR` : "NULL",
  );
  await writeRows(folder, connection, `SELECT ${json}, ${more.join(", ")} FROM leaving`, (path) =>
    stageLines(transaction, path),
  );
  const typed = Object.entries(columns).map(([name, type]) => `${name} ${type}`);
  await transaction.run(`
    INSERT INTO rollcall.${what} (${all.join(", ")})
    SELECT ${[...names.map((name) => `r.${name}`), ...texts].join(", ")}
    FROM rollcall_lines, json_to_record(line) AS r(${typed.join(", ")});
    DROP TABLE rollcall_lines`);
  const types = [...Object.entries(columns), ...texts.map((name) => [name, "text"] as const)];
  await receiveRows(folder, transaction, connection, {
    query: `SELECT row_to_json(t) FROM (SELECT ${all.join(", ")} FROM rollcall.${what}) t`,
    columns: types.map(([name, type]) => `${name}: '${inDuckDb[type] ?? type}'`).join(", "),
    select: all.join(", "),
    into: "arrived",
  });
  return compare(connection, what);
}

/** Compares `leaving` with `arrived`. */
async function compare(connection: Connection, what: string): Promise<Copied> {
  const of = async (relation: string): Promise<{ rows: bigint; digest: string }> => {
    const [found] = await connection.rows<{ rows: bigint; digest: string }>(
      `SELECT count(*) AS rows, left(md5(coalesce(sum(hash(t)::HUGEINT), 0)::VARCHAR), 16) AS digest FROM ${relation} t`,
    );
    return found ?? { rows: 0n, digest: "" };
  };
  const [left, arrived] = [await of("leaving"), await of("arrived")];
  if (left.rows !== arrived.rows || left.digest !== arrived.digest) {
    throw new Error(
      `${what} arrived altered in PostgreSQL: ${left.rows} rows with the digest ${left.digest} here, ` +
        `${arrived.rows} with ${arrived.digest} there; nothing of it was kept there`,
    );
  }
  return { what, rows: Number(left.rows), digest: left.digest };
}

const suffix = ".duckdb";

/** Where tables are copied from and to. */
interface Places {
  /** The folder of the databases. */
  readonly databases: string;
  /** The folder of the transfers, which also has what does not fit into memory. */
  readonly spill: string;
  readonly postgres: Postgres;
}

/** Copies the tables of all databases. A copy that was stopped is repeated from its first table. */
async function copyTables(
  { memory, postgres: target, copied, signal }: CopyOptions,
  { databases, spill, postgres }: Places,
): Promise<void> {
  const files = (await exists(databases))
    ? (await readdir(databases)).filter((file) => file.endsWith(suffix)).sort()
    : [];
  if (files.length === 0) return;
  const engine = await openPostgresEngine({
    postgres: target,
    folder: spill,
    memory,
    files: [databases, spill],
  });
  try {
    for (const file of files) {
      const name = decodeURIComponent(file.slice(0, -suffix.length));
      const stage = await engine.openStage();
      try {
        await stage.connection.run(`ATTACH ${literal(join(databases, file))} AS source (READ_ONLY)`);
        await engine.define(`CREATE DATABASE IF NOT EXISTS ${identifier(name)}`, name);
        for (const table of await tablesOf(stage)) {
          await copied(await copyTable(engine, stage, { ...table, database: name }, { postgres, spill, signal }));
        }
      } finally {
        await stage.connection.run("DETACH DATABASE IF EXISTS source").catch(() => undefined);
        await stage.close();
      }
    }
  } finally {
    await engine.close();
  }
}

async function tablesOf({ connection }: Stage): Promise<Table[]> {
  const found = await connection.rows<{ schema: string; table: string }>(
    `SELECT schema_name AS schema, table_name AS "table" FROM duckdb_tables()
     WHERE database_name = 'source' AND table_name <> ${literal(ledgerName)} ORDER BY ALL`,
  );
  const tables: Table[] = [];
  for (const { schema, table } of found) {
    const known = await findTable(connection, { database: "source", schema, table });
    if (known !== undefined) tables.push(known);
  }
  return tables;
}

async function copyTable(
  engine: Engine,
  stage: Stage,
  table: Table,
  { postgres, spill, signal }: { readonly postgres: Postgres; readonly spill: string; readonly signal: AbortSignal },
): Promise<Copied> {
  const { database, schema, name, columns, primaryKey } = table;
  const what = `${database}.${schema}.${name}`;
  const { connection } = stage;
  const place = [database, schema, name].map(identifier).join(".");
  const key = primaryKey.length === 0 ? "" : `, PRIMARY KEY (${primaryKey.map(identifier).join(", ")})`;
  const body = `${columns.map(ddlOf).join(", ")}${key}`;
  await engine.define(
    `CREATE SCHEMA IF NOT EXISTS ${identifier(database)}.${identifier(schema)}; CREATE TABLE IF NOT EXISTS ${place} (${body})`,
    what,
  );
  const list = listOf(columns);
  const source = ["source", schema, name].map(identifier).join(".");
  await connection.run(`
    CREATE OR REPLACE TEMP VIEW leaving AS SELECT ${list} FROM ${source};
    CREATE OR REPLACE VIEW accepted AS
      SELECT ${list}, row_number() OVER () AS ${identifier(rowNumberOf(columns))} FROM ${source}`);
  const found = await findInPostgres(postgres, { database, schema, table: name });
  if (found === undefined) throw new Error(`the table ${what} was not made`);
  const target = qualified(found.namespace, name);
  await refuseFilled(postgres, what, target);
  const load = `${markOf(what)}${randomUUID()}`;
  await engine.write(stage, found.table, { empty: true, load }, signal).catch((error: unknown) => {
    if (!(error instanceof InputError)) throw error;
    throw new InputError(`the table ${what} cannot be copied: ${messageOf(error)}`, { cause: error });
  });
  await postgres.transaction(
    async (transaction) => {
      const values = columns.map((column) => `t.${identifier(column.name)}::text`).join(", ");
      await receiveRows(spill, transaction, connection, {
        query: `SELECT json_build_object('v', ARRAY[${values}]) FROM ${target} t`,
        columns: "v: 'VARCHAR[]'",
        select: columns
          .map((column, index) => `CAST(v[${index + 1}] AS ${exactType(column)}) AS ${identifier(column.name)}`)
          .join(", "),
        into: "arrived",
      });
    },
    { readOnly: true, timeout: 0, settings: textSettings, signal },
  );
  return compare(connection, what);
}

/** The names of the loads that copies of a table were begin so. */
const markOf = (what: string): string => `copy ${what} `;

/** @throws {InputError} when a table has rows that no earlier copy has written */
async function refuseFilled(postgres: Postgres, what: string, target: string): Promise<void> {
  const [first] = await postgres.rows(`SELECT FROM ${target} LIMIT 1`);
  if (first === undefined) return;
  const mark = markOf(what);
  const [copy] = await postgres.rows("SELECT FROM rollcall.loads WHERE left(load, $1) = $2 LIMIT 1", [
    mark.length,
    mark,
  ]);
  if (copy !== undefined) return;
  throw new InputError(
    `the table ${what} has rows in PostgreSQL already: empty it there, or copy into another database`,
  );
}

/** DuckDB's names of types that PostgreSQL calls otherwise. */
const inPostgres: Readonly<Record<string, string>> = { VARCHAR: "text", DOUBLE: "double precision", FLOAT: "real" };

function ddlOf(column: Column): string {
  const type = inPostgres[column.type] ?? exactType(column);
  return `${identifier(column.name)} ${type}${column.nullable ? "" : " NOT NULL"}`;
}

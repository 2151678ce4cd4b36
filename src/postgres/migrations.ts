import { InputError, messageOf, RefusedError } from "#errors.ts";
import { identifier } from "./database.ts";
import type { Postgres, Transaction } from "./database.ts";
import { sqlState } from "./errors.ts";

/** The tables of one part of Rollcall, and how they came about. */
export interface Schema {
  /** `directory`, `loads`: what messages call it. */
  readonly part: string;
  /**
   * Statements in the schema `rollcall`, numbered from 1 by their place. What was released is never changed: a change of the tables is
   * a further one. Each can be repeated (`IF NOT EXISTS`).
   */
  readonly migrations: readonly string[];
}

/** The oldest version that has everything Rollcall uses. */
const oldest = 14;

/**
 * Brings the schema `rollcall` to what this program needs: in one transaction, one process at a time.
 * @throws {InputError} when the server is too old, its encoding lacks characters, or a newer program has changed the schema; {RefusedError} when the user may too little
 *   or too much; {UnavailableError}
 */
export async function migrate(postgres: Postgres, schemas: readonly Schema[]): Promise<void> {
  try {
    await checkServer(postgres);
    // Most starts change nothing, and should not wait for each other.
    if (await isCurrent(postgres, schemas)) return;
    await postgres.transaction(
      async (transaction) => {
        await transaction.lock("migrations");
        await createHistory(transaction);
        const versions = await readVersions(transaction);
        refuseNewer(postgres, schemas, versions);
        for (const { part, migrations } of schemas) {
          for (const [index, sql] of migrations.entries()) {
            if (index < (versions.get(part) ?? 0)) continue;
            await transaction.run(sql);
            await transaction.rows("INSERT INTO rollcall.migrations (part, number) VALUES ($1, $2)", [part, index + 1]);
          }
        }
      },
      { isRepeatable: true },
    );
  } catch (error) {
    throw sqlState(error) === "42501" ? await notPermitted(postgres, error) : error;
  }
}

/** What an administrator has to do: after a restore, say, everything may belong to whoever restored it. */
async function notPermitted(postgres: Postgres, cause: unknown): Promise<RefusedError> {
  const [found] = await postgres.rows<{ user: string; owner: string | null }>(
    `SELECT quote_ident(current_user) AS user,
       (SELECT quote_ident(pg_get_userbyid(nspowner)) FROM pg_namespace WHERE nspname = 'rollcall') AS owner`,
  );
  const { user = "", owner = null } = found ?? {};
  const at = `the user ${user} of PostgreSQL at ${postgres.place}`;
  if (owner === null) return new RefusedError(mayNotCreate(postgres, user), { cause });
  return new RefusedError(
    `${at} may not use all of the schema rollcall, which belongs to ${owner}: ${messageOf(cause)}; let an administrator run ALTER SCHEMA rollcall OWNER TO ${user}, and ALTER TABLE rollcall.… OWNER TO ${user} for each of its tables`,
    { cause },
  );
}

function mayNotCreate({ place }: Postgres, user: string): string {
  return `the user ${user} of PostgreSQL at ${place} may not create the schema rollcall: let an administrator run GRANT CREATE ON DATABASE ${databaseOf(place)} TO ${user}, or CREATE SCHEMA rollcall AUTHORIZATION ${user}`;
}

function databaseOf(place: string): string {
  return identifier(place.split("/").slice(1).join("/"));
}

/**
 * Whether Rollcall can use the server and the database, or make its schema there. It changes nothing.
 * @throws as `migrate` does
 */
export async function checkServer(postgres: Postgres): Promise<void> {
  const [server] = await postgres.rows<{
    user: string;
    version: number;
    encoding: string;
    isNew: boolean;
    mayCreate: boolean;
    mighty: boolean;
  }>(
    `SELECT quote_ident(current_user) AS user, current_setting('server_version_num')::integer / 10000 AS version,
       current_setting('server_encoding') AS encoding, to_regclass('rollcall.migrations') IS NULL AS "isNew",
       to_regnamespace('rollcall') IS NOT NULL OR has_database_privilege(current_database(), 'CREATE') AS "mayCreate",
       (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
       OR pg_has_role(current_user, 'pg_execute_server_program', 'MEMBER')
       OR pg_has_role(current_user, 'pg_read_server_files', 'MEMBER')
       OR pg_has_role(current_user, 'pg_write_server_files', 'MEMBER') AS mighty`,
  );
  if (server === undefined) return;
  if (server.version < oldest)
    throw new InputError(`PostgreSQL at ${postgres.place} is version ${server.version}; ${oldest} or later is needed`);
  // Others lack characters that names have. SQL_ASCII stores what it is given; a database that is in use goes on with what it can.
  if (server.isNew && server.encoding !== "UTF8" && server.encoding !== "SQL_ASCII")
    throw new InputError(
      `the database of PostgreSQL at ${postgres.place} has the encoding ${server.encoding}, which lacks characters that names and rows may have: make one with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`,
    );
  // What an administrator and a pinboard may run must not reach the files and programs of the server.
  if (server.mighty)
    throw new RefusedError(
      `the user ${server.user} of PostgreSQL at ${postgres.place} is a superuser, or may use the server's files: make one that is not: CREATE ROLE rollcall LOGIN PASSWORD '…'; GRANT CREATE ON DATABASE ${databaseOf(postgres.place)} TO rollcall`,
    );
  if (!server.mayCreate) throw new RefusedError(mayNotCreate(postgres, server.user));
}

async function isCurrent(postgres: Postgres, schemas: readonly Schema[]): Promise<boolean> {
  const [found] = await postgres.rows<{ there: boolean }>(
    "SELECT to_regclass('rollcall.migrations') IS NOT NULL AS there",
  );
  if (found?.there !== true) return false;
  const versions = await readVersions(postgres);
  refuseNewer(postgres, schemas, versions);
  return schemas.every(({ part, migrations }) => versions.get(part) === migrations.length);
}

/** `CREATE SCHEMA IF NOT EXISTS` needs the privilege even where there is nothing to create. */
async function createHistory(transaction: Transaction): Promise<void> {
  // From the table: to_regnamespace may remember that it was not there before the lock was had.
  const [found] = await transaction.rows<{ there: boolean }>(
    "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'rollcall') AS there",
  );
  if (found?.there !== true) await transaction.run("CREATE SCHEMA rollcall");
  await transaction.run(`CREATE TABLE IF NOT EXISTS rollcall.migrations (
    part text NOT NULL,
    number integer NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (part, number)
  )`);
}

async function readVersions(database: Pick<Transaction, "rows">): Promise<Map<string, number>> {
  const rows = await database.rows<{ part: string; number: number }>(
    "SELECT part, max(number) AS number FROM rollcall.migrations GROUP BY part",
  );
  return new Map(rows.map(({ part, number }) => [part, number]));
}

function refuseNewer({ place }: Postgres, schemas: readonly Schema[], versions: ReadonlyMap<string, number>): void {
  for (const { part, migrations } of schemas) {
    const version = versions.get(part) ?? 0;
    if (version > migrations.length)
      throw new InputError(
        `a newer Rollcall uses the database ${place}: its ${part} has version ${version}, and this program knows ${migrations.length}; start the newer program, or restore the backup from before the upgrade`,
      );
  }
}

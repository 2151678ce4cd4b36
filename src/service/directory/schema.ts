import { randomBytes } from "node:crypto";
import { principalColumns, principalDdl } from "#principals/tables.ts";
import type { Connection } from "#duckdb/database.ts";
import { hashPassword, verifyPassword } from "./passwords.ts";

/** The groups that exist from the first start and are never deleted (0.7). */
export const lastingGroups = ["Administrator", "All"] as const;

/** Everybody and every group, with `principalColumns`, as a query. */
export const everything = `
  SELECT ${principalColumns.join(", ")} FROM directory.users
  UNION ALL
  SELECT ${principalColumns.join(", ")} FROM directory.groups`;

/** The `lookup` of a name, as SQL. */
export const lookupOf = (name: string): string => `md5_number_lower(${name})`;

/**
 * Creates the tables, where they are missing. Times are epoch milliseconds.
 *
 * `sync` keeps names unique among users and among groups; DuckDB's own constraint would refuse a transaction that
 * deletes a name and inserts it again. `lookup` finds a user among a million in about two milliseconds: scanning
 * this narrow column is enough, and an index would have to stay in memory.
 */
export async function createTables(connection: Connection): Promise<void> {
  const times = "created BIGINT NOT NULL, modified BIGINT NOT NULL";
  await connection.run(`
    CREATE SCHEMA IF NOT EXISTS directory;
    CREATE TABLE IF NOT EXISTS directory.users (
      lookup UBIGINT NOT NULL, id UUID NOT NULL, password_hash VARCHAR NOT NULL, ${principalDdl}, ${times});
    CREATE TABLE IF NOT EXISTS directory.groups (${principalDdl}, ${times});
    -- Of Rollcall 0.1.0, which compared a list with the one before.
    DROP TABLE IF EXISTS directory.unlisted;
    DROP TABLE IF EXISTS directory.revision;`);
}

/** The configured bootstrap administrator. */
export interface Administrator {
  readonly name: string;
  readonly password?: string;
}

/**
 * Creates the administrator and the lasting groups, and sets
 * the configured password of the administrator, if any (0.7).
 * @returns the administrator's password when it was generated now
 */
export async function bootstrap(connection: Connection, administrator: Administrator): Promise<string | undefined> {
  const now = Date.now();
  const { name, password } = administrator;
  const [user] = await connection.rows<{ hash: string }>(
    "SELECT password_hash AS hash FROM directory.users WHERE name = $1",
    [name],
  );
  const generated = user === undefined && password === undefined ? randomBytes(18).toString("base64url") : undefined;
  const valid = password ?? generated;
  const isCurrent = user !== undefined && (password === undefined || (await verifyPassword(user.hash, password)));
  const hash = valid === undefined || isCurrent ? undefined : await hashPassword(valid);

  await connection.transaction(async () => {
    if (user === undefined && hash !== undefined) {
      await connection.run(
        `INSERT INTO directory.users BY NAME
         SELECT ${lookupOf("$1")} AS lookup, uuid() AS id, $2 AS password_hash, 'user' AS kind, $1 AS name,
           'Administrator' AS display_name, []::VARCHAR[] AS group_names, $3 AS created, $3 AS modified`,
        [name, hash, BigInt(now)],
      );
    } else if (hash !== undefined) {
      await connection.run("UPDATE directory.users SET password_hash = $2 WHERE name = $1", [name, hash]);
    }
    for (const group of lastingGroups) {
      await connection.run(
        `INSERT INTO directory.groups BY NAME
         SELECT 'group' AS kind, $1 AS name, $1 AS display_name, []::VARCHAR[] AS group_names, $2 AS created, $2 AS modified
         WHERE NOT EXISTS (FROM directory.groups WHERE name = $1)`,
        [group, BigInt(now)],
      );
    }
  });
  return generated;
}

import type { Connection } from "#duckdb/database.ts";
import type { Account } from "./directory.ts";
import { lookupOf } from "./schema.ts";

/** A user that may log in, or undefined. */
export async function findAccount(connection: Connection, name: string): Promise<Account | undefined> {
  const [account] = await connection.rows<Account>(
    `SELECT id::VARCHAR AS id, name, password_hash AS "passwordHash"
     FROM directory.users WHERE lookup = ${lookupOf("$1")} AND name = $1`,
    [name],
  );
  return account;
}

/** The names of all groups the user is in, directly or through groups (0.6). Cycle-safe: UNION meets no group twice. */
export async function findEffectiveGroups(connection: Connection, name: string): Promise<ReadonlySet<string>> {
  const rows = await connection.rows<{ name: string }>(
    `WITH RECURSIVE member_of(name) AS (
       SELECT unnest(group_names) FROM directory.users WHERE lookup = ${lookupOf("$1")} AND name = $1
       UNION
       SELECT unnest(g.group_names) FROM directory.groups g JOIN member_of USING (name)
     )
     SELECT name FROM member_of`,
    [name],
  );
  return new Set(rows.map((row) => row.name));
}

import { comparedColumns, principalColumns } from "#principals/tables.ts";
import type { Connection } from "#duckdb/database.ts";
import { hashPassword } from "./passwords.ts";
import { listed } from "./listed.ts";
import { lookupOf, renewRevision, unlisted } from "./schema.ts";

export interface Application {
  /** The changes, as `createChanges` makes them of what is and `desired`. */
  readonly changes: string;
  readonly desired: string;
  /** Those of `desired` that are not in the list. */
  readonly kept: string;
  readonly defaultPassword: string | undefined;
  readonly signal: AbortSignal;
}

/** How many users' own passwords are hashed before the hashes are written down. */
const batch = 256;

/**
 * Applies the changes in one transaction (B.8). Passwords are hashed before it: the default one once for all created
 * users, own ones each (B.7).
 * @returns the revision of the directory that came of it
 */
export async function applyChanges(connection: Connection, application: Application): Promise<string> {
  const { changes, desired, kept, defaultPassword, signal } = application;
  await connection.run("CREATE TEMP TABLE hashes (name VARCHAR NOT NULL, hash VARCHAR NOT NULL)");
  if (defaultPassword === undefined) await hashOwnPasswords(connection, changes, signal);
  else await hashOnce(connection, changes, defaultPassword, signal);

  const now = Date.now();
  const assigned = comparedColumns.map((column) => `${column} = d.${column}`).join(", ");
  const columns = principalColumns.map((column) => `d.${column}`).join(", ");
  return connection.transaction(async () => {
    for (const [table, kind] of [
      ["directory.users", "user"],
      ["directory.groups", "group"],
    ] as const) {
      await connection.run(`
        DELETE FROM ${table} WHERE name IN (SELECT name FROM ${changes} c WHERE ${which("delete", kind)});
        UPDATE ${table} t SET ${assigned}, modified = ${now}
        FROM ${desired} d JOIN ${changes} c USING (kind, name) WHERE t.name = d.name AND ${which("update", kind)};`);
    }
    await connection.run(`
      INSERT INTO directory.users BY NAME
      SELECT ${lookupOf("d.name")} AS lookup, uuid() AS id, h.hash AS password_hash, ${columns},
        ${now} AS created, ${now} AS modified
      FROM ${desired} d JOIN ${changes} c USING (kind, name) JOIN hashes h ON h.name = d.name
      WHERE ${which("create", "user")};
      INSERT INTO directory.groups BY NAME
      SELECT ${columns}, ${now} AS created, ${now} AS modified
      FROM ${desired} d JOIN ${changes} c USING (kind, name) WHERE ${which("create", "group")};
      DELETE FROM ${unlisted};
      INSERT INTO ${unlisted} SELECT kind, name FROM ${kept};`);
    const revision = await renewRevision(connection);
    signal.throwIfAborted();
    return revision;
  });
}

const which = (action: string, kind: string): string => `c.action = '${action}' AND c.kind = '${kind}'`;

async function hashOnce(connection: Connection, changes: string, password: string, signal: AbortSignal): Promise<void> {
  const created = `FROM ${changes} WHERE action = 'create' AND kind = 'user'`;
  const [any] = await connection.rows(`${created} LIMIT 1`);
  if (any === undefined) return;
  const hash = await hashPassword(password, signal);
  await connection.run(`INSERT INTO hashes SELECT name, $1 ${created}`, [hash]);
}

async function hashOwnPasswords(connection: Connection, changes: string, signal: AbortSignal): Promise<void> {
  let last = -1n;
  for (;;) {
    const users = await connection.rows<{ index: bigint; name: string; password: string }>(
      `SELECT l.index, l.name, l.password FROM ${listed} l JOIN ${changes} c USING (kind, name)
       WHERE c.action = 'create' AND c.kind = 'user' AND l.index > $1 ORDER BY l.index LIMIT ${batch}`,
      [last],
    );
    const lastUser = users.at(-1);
    if (lastUser === undefined) return;
    last = lastUser.index;
    const hashes = await Promise.all(users.map(({ password }) => hashPassword(password, signal)));
    const rows = users.map((_, index) => `($${2 * index + 1}, $${2 * index + 2})`).join(", ");
    await connection.run(
      `INSERT INTO hashes VALUES ${rows}`,
      users.flatMap(({ name }, index) => [name, hashes[index] ?? ""]),
    );
  }
}

import type { Connection } from "#duckdb/database.ts";
import type { PrincipalTable } from "#plan/tables.ts";
import { columnOf, columnOfAttribute, textOf } from "#principals/attributes.ts";
import type { Attributes } from "#principals/attributes.ts";
import type { Kind } from "#principals/principal.ts";

/** The tables of an export, in the order of loading. */
export const exportedNames = ["users", "groups", "memberships", "effective_memberships"] as const;
export type ExportedTable = (typeof exportedNames)[number];

/**
 * Their columns for a target with these attributes; those of the service: config/sample/tables.sql. What people know principals
 * by comes first.
 */
export function columnsOf(declared: Attributes): Readonly<Record<ExportedTable, readonly string[]>> {
  const of = (kind: Kind): string[] => {
    const known = declared.of(kind).filter(({ identifies }) => identifies === true);
    return ["name", ...new Set([...known, ...declared.of(kind)].map(({ name }) => columnOfAttribute(name)))];
  };
  return {
    users: of("user"),
    groups: of("group"),
    memberships: ["member_kind", "member_name", "group_name"],
    effective_memberships: ["user_name", "group_name", "depth", "path"],
  };
}

/** How many groups a path names. The middle of a longer one is left out: chains of thousands must not fill the disk. */
export const longestPath = 50;

/**
 * Makes a view for each table of an export from a table of principals with these attributes.
 *
 * Nesting is resolved among the groups alone, level by level and each pair once, so that neither cycles nor the number of
 * paths matter. Only then are users joined, with numbers for names, so that what grows with the directory spills to disk.
 */
export async function createRelations(
  connection: Connection,
  principals: PrincipalTable,
  declared: Attributes,
  signal: AbortSignal,
): Promise<void> {
  const attributes = (kind: Kind): string =>
    declared
      .of(kind)
      .map((each) => `, ${textOf(each)} AS ${columnOf(each)}`)
      .join("");
  await connection.run(`
    CREATE OR REPLACE TABLE numbered_groups AS
    SELECT name, row_number() OVER (ORDER BY name)::INTEGER AS id
    FROM (SELECT name FROM ${principals} WHERE kind = 'group' UNION SELECT unnest(group_names) FROM ${principals});
    CREATE OR REPLACE TABLE numbered_users AS
    SELECT name, group_names, row_number() OVER (ORDER BY name)::INTEGER AS id FROM ${principals} WHERE kind = 'user';
    CREATE OR REPLACE TABLE user_in AS
    SELECT u.id AS user_id, g.id AS group_id
    FROM (SELECT id, unnest(group_names) AS name FROM numbered_users) u JOIN numbered_groups g USING (name);
    CREATE OR REPLACE TABLE group_in AS
    SELECT m.id AS member_id, g.id AS group_id
    FROM (SELECT name, unnest(group_names) AS group_name FROM ${principals} WHERE kind = 'group') e
    JOIN numbered_groups m ON m.name = e.name JOIN numbered_groups g ON g.name = e.group_name`);
  await findWays(connection, signal);
  await connection.run(`
    CREATE OR REPLACE TABLE ranked AS SELECT *, row_number() OVER (ORDER BY depth, start) AS rank FROM ways;
    CREATE OR REPLACE TABLE shortest AS
    SELECT u.user_id, r.node, min(r.rank) AS rank FROM user_in u JOIN ranked r ON r.start = u.group_id GROUP BY ALL;
    CREATE OR REPLACE VIEW users AS SELECT name${attributes("user")} FROM ${principals} WHERE kind = 'user';
    CREATE OR REPLACE VIEW groups AS SELECT name${attributes("group")} FROM ${principals} WHERE kind = 'group';
    CREATE OR REPLACE VIEW memberships AS
    SELECT kind AS member_kind, name AS member_name, unnest(group_names) AS group_name FROM ${principals};
    CREATE OR REPLACE VIEW effective_memberships AS
    SELECT u.name AS user_name, g.name AS group_name, r.depth, r.path
    FROM shortest s JOIN numbered_users u ON u.id = s.user_id JOIN numbered_groups g ON g.id = s.node
    JOIN ranked r USING (rank)`);
}

/**
 * Makes `ways`: the depth and the path from every group `start` that a user is directly in to every group `node` that it
 * leads to. Of several shortest paths, the one whose second to last group comes first.
 */
async function findWays(connection: Connection, signal: AbortSignal): Promise<void> {
  await connection.run(`
    CREATE OR REPLACE TABLE ways (
      start INTEGER, node INTEGER, depth INTEGER, head VARCHAR, path VARCHAR, PRIMARY KEY (start, node));
    INSERT INTO ways SELECT g.id, g.id, 1, g.name, g.name
    FROM numbered_groups g SEMI JOIN user_in u ON u.group_id = g.id`);
  for (let depth = 2, found = true; found; depth += 1) {
    signal.throwIfAborted();
    // A conflict: a path that is not longer is already known.
    await connection.run(
      `INSERT INTO ways
       SELECT found.start, found.node, found.depth,
         CASE WHEN found.depth < ${longestPath} THEN concat(found.head, ' > ', g.name) ELSE found.head END,
         concat(found.head, CASE WHEN found.depth > ${longestPath} THEN ' > …' ELSE '' END, ' > ', g.name)
       FROM (
         SELECT w.start, e.group_id AS node, w.depth + 1 AS depth, arg_min(w.head, e.member_id) AS head
         FROM ways w JOIN group_in e ON e.member_id = w.node
         WHERE w.depth = $1 GROUP BY ALL
       ) found JOIN numbered_groups g ON g.id = found.node
       ON CONFLICT DO NOTHING`,
      [depth - 1],
    );
    [{ found } = { found: false }] = await connection.rows<{ found: boolean }>(
      "SELECT EXISTS (FROM ways WHERE depth = $1) AS found",
      [depth],
    );
  }
}

import { stat } from "node:fs/promises";
import { InputError, firstLineOf } from "#errors.ts";
import { identifier, literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";

/** The answer of `user/sync` (specification 2.8) as rows: its six arrays, and what each says of the principals it names. */
export const syncArrays = [
  ["usersAdded", "create", "user"],
  ["usersDeleted", "delete", "user"],
  ["usersUpdated", "update", "user"],
  ["groupsAdded", "create", "group"],
  ["groupsDeleted", "delete", "group"],
  ["groupsUpdated", "update", "group"],
] as const;

/**
 * Reads a file that holds a JSON array of principal objects (B.9) into the table `into` with `principalColumns`.
 * @throws {InputError} when the file is no such list; nothing may be concluded from it then
 */
export async function readPrincipals(connection: Connection, file: string, into: string): Promise<void> {
  // The reader takes an empty file for an empty list. Unknown is not absent.
  if ((await stat(file)).size === 0) throw new InputError("the list of principals is empty: not even a JSON array");
  const table = identifier(into);
  try {
    await connection.run(`
      CREATE OR REPLACE TABLE ${table} AS
      SELECT
        CASE principalTypeEnum WHEN 'LOCAL_USER' THEN 'user' WHEN 'LOCAL_GROUP' THEN 'group'
          ELSE error('principal ' || coalesce(name, '(without a name)') || ' has the type ' || coalesce(principalTypeEnum, 'null')) END AS kind,
        coalesce(name, error('a principal has no name')) AS name,
        coalesce(displayName, '') AS display_name,
        nullif(description, '') AS description,
        CASE principalTypeEnum WHEN 'LOCAL_USER' THEN nullif(mail, '') END AS mail,
        CASE WHEN ${isSet("groupNames")} THEN groupNames ELSE list_sort(list_distinct(coalesce(groupNames, []))) END AS group_names
      FROM read_json(${literal(file)}, format = 'array', columns = {
        name: 'VARCHAR', displayName: 'VARCHAR', description: 'VARCHAR', mail: 'VARCHAR',
        principalTypeEnum: 'VARCHAR', groupNames: 'VARCHAR[]'})`);
  } catch (error) {
    throw new InputError(`the list of principals cannot be read: ${firstLineOf(error)}`, { cause: error });
  }
  const doubles = await connection.rows<{ kind: string; name: string }>(
    `SELECT kind, name FROM ${table} GROUP BY kind, name HAVING count(*) > 1 ORDER BY kind, name LIMIT 1`,
  );
  const double = doubles[0];
  if (double !== undefined)
    throw new InputError(`the list of principals holds the ${double.kind} ${double.name} twice`);
}

/** An SQL condition: a list of names is sorted by code point and holds none twice. To look takes half the time of sorting. */
function isSet(list: string): string {
  return `coalesce(list_bool_and(list_transform(range(1, len(${list})), lambda i: coalesce(${list}[i] < ${list}[i + 1], false))), len(${list}) < 2 AND ${list}[1] IS NOT NULL)`;
}

/**
 * Writes the relation `from` as a JSON array of principal objects (specification 2.7) to a file, users first, each kind by
 * name: two lists of the same differ nowhere, and a service that compares one with the one before finds the same in the
 * same place.
 */
export async function writePrincipals(connection: Connection, from: string, file: string): Promise<void> {
  await connection.run(`
    COPY (
      SELECT '{"name":' || to_json(name) || ',"displayName":' || to_json(display_name)
        || CASE WHEN description IS NULL THEN '' ELSE ',"description":' || to_json(description) END
        || CASE WHEN mail IS NULL THEN '' ELSE ',"mail":' || to_json(mail) END
        || ',"principalTypeEnum":"' || CASE kind WHEN 'user' THEN 'LOCAL_USER' ELSE 'LOCAL_GROUP' END
        || '","groupNames":' || to_json(group_names) || '}'
      FROM (FROM ${identifier(from)} ORDER BY kind = 'group', name)
    ) TO ${literal(file)}
    (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\n', PREFIX '[', SUFFIX ']', NEW_LINE ',\n')`);
}

/**
 * Reads a file that holds the answer of `user/sync` into the temporary table `into (action, kind, name)`.
 * @throws {InputError} when the file is no such answer
 */
export async function readSyncAnswer(connection: Connection, file: string, into: string): Promise<void> {
  const columns = syncArrays.map(([array]) => `"${array}":["VARCHAR"]`).join(",");
  const parts = syncArrays.map(
    ([array, action, kind]) => `
      SELECT '${action}' AS action, '${kind}' AS kind, unnest(coalesce(${array}, error('${array} is missing'))) AS name
      FROM answer`,
  );
  try {
    await connection.run(`
      CREATE OR REPLACE TEMP TABLE ${identifier(into)} AS
      WITH answer AS MATERIALIZED (
        SELECT unnest(from_json(content::JSON, '{${columns}}')) FROM read_text(${literal(file)})
      )
      ${parts.join(" UNION ALL ")}`);
  } catch (error) {
    throw new InputError(`the answer of user/sync cannot be read: ${firstLineOf(error)}`, { cause: error });
  }
}

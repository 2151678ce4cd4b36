import { createReadStream } from "node:fs";
import { dirname } from "node:path";
import { obstacleOf, unwritable } from "#files/disk.ts";
import { InputError, firstLineOf, messageOf } from "#errors.ts";
import { isOutOfMemory, literal, useThreads } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { ListPieces } from "./list-pieces.ts";
import type { ListPiece } from "./list-pieces.ts";
import { principalFields } from "./list-scan.ts";
import { hasType, keepCarried, ownFields } from "./carried.ts";
import type { ChangeTable, PrincipalTable } from "./tables.ts";

/** The six arrays in the answer of `user/sync` (2.8), each with the action and the kind that it stands for. */
export const syncArrays = [
  ["usersAdded", "create", "user"],
  ["usersDeleted", "delete", "user"],
  ["usersUpdated", "update", "user"],
  ["groupsAdded", "create", "group"],
  ["groupsDeleted", "delete", "group"],
  ["groupsUpdated", "update", "group"],
] as const;

/** The longest element that DuckDB takes without more memory, in bytes. It reads twice as much at once, its least. */
const usualElement = 16 * 1024 * 1024;

/** A relation: what a reader of DuckDB finds in a piece, and `index`, the place in the list. */
type Elements = (reader: string, options?: string) => string;

/**
 * Reads a piece of a list. DuckDB's readers are as strict as `JSON.parse`, except for what `ListScan` refuses.
 * @param load runs a statement that reads what `elements` gives; `read_json_objects` finds the elements as they are written, in `json`
 * @throws {InputError} when it is no JSON
 */
export async function readPiece(
  { file, first, bytes }: ListPiece,
  load: (elements: Elements) => Promise<void>,
): Promise<void> {
  // One read holds all of it: DuckDB 1.5 takes a list for malformed where a read ends in white space before a comma.
  const longest = Math.max(bytes, usualElement);
  try {
    await load(
      (reader, options = "") => `(
        SELECT ${first} + row_number() OVER () - 1 AS index, *
        FROM ${reader}(${literal(file)}, format = 'array', maximum_object_size = ${longest}${options}))`,
    );
  } catch (error) {
    throw notJson(error, first);
  }
}

/** An error without the list, which DuckDB quotes in some messages. DuckDB counts elements from 2. */
function notJson(error: unknown, first: number): unknown {
  const message = messageOf(error);
  if (isOutOfMemory(error))
    return new InputError(
      "principals: reading the list takes more memory than DuckDB may use; raise its memory, or send smaller objects",
    );
  const [, record, reason] = /Malformed JSON in file .* in record\/value (\d+): ([^.]*)\./.exec(message) ?? [];
  if (reason === undefined) return error;
  return new InputError(`principals: not valid JSON at principals[${first + Number(record) - 2}]: ${reason}`);
}

/** Those that `user/list` gives (B.9). Of what is carried through, only `visibility` has a column. */
const readFields = [...ownFields.user, "visibility"];

/**
 * A piece of a target's list as principals, as a query: `Attributes.relation`, `visibility` as JSON, and `index`, which counts from 0.
 * Values of other types are taken as text. What is absent or null is empty where it is required and NULL where it is optional;
 * `kind` is empty when `principalTypeEnum` is neither of its two values.
 *
 * - `is_repeated`: the element has a field of a principal twice
 * - `json`: the element as it is written, unless these columns have all of it
 * @param elements what `readPiece` calls `load` with
 */
function principalsOf(elements: Elements): string {
  return `
    SELECT
      CASE WHEN is_user THEN 'user' WHEN is_group THEN 'group' ELSE '' END AS kind,
      coalesce(given.name, '') AS name,
      coalesce(given.displayName, '') AS display_name,
      nullif(given.description, '') AS description,
      CASE WHEN is_user THEN nullif(given.mail, '') END AS mail,
      ${setOf("given.groupNames")} AS group_names,
      given.visibility::VARCHAR AS visibility,
      index,
      is_repeated,
      CASE WHEN has_all AND (is_user OR (is_group AND given.mail IS NULL)) THEN NULL ELSE json END AS json
    FROM (
      SELECT *,
        coalesce(given.principalTypeEnum = 'LOCAL_USER', false) AS is_user,
        coalesce(given.principalTypeEnum = 'LOCAL_GROUP', false) AS is_group
      FROM (${parsed(elements)}))`;
}

function parsed(elements: Elements): string {
  const types = Object.fromEntries(
    readFields.map((field) => [
      field,
      field === "groupNames" ? ["VARCHAR"] : field === "visibility" ? "JSON" : "VARCHAR",
    ]),
  );
  const found = readFields.map((field) => `(given.${field} IS NOT NULL)::INTEGER`).join(" + ");
  const knownKeys = `list_filter(keys, lambda key: key IN (${principalFields.map(literal).join(", ")}))`;
  return `
    SELECT *,
      CASE WHEN has_all THEN false
        ELSE coalesce(len(${knownKeys}) > len(list_distinct(${knownKeys})), false) END AS is_repeated
    FROM (
      SELECT index, json, keys, given,
        -- A number goes back as it is written, so only its own text will do.
        len(keys) = ${found} AND coalesce(starts_with(given.visibility::VARCHAR, '"'), true) AS has_all
      FROM (
        SELECT index, json, json_keys(json) AS keys, from_json(json, '${JSON.stringify(types)}') AS given
        FROM ${elements("read_json_objects")}))`;
}

/**
 * Reads what must be a JSON array of principal objects (specification 2.7), as `user/list` answers it, into the table
 * `read_principals`: what `principalsOf` makes of it.
 * @param folder where its pieces are meanwhile
 * @throws {InputError} when it is no JSON array, or a principal gives a field twice; what `bytes` throws
 */
export async function readList(connection: Connection, bytes: AsyncIterable<Buffer>, folder: string): Promise<void> {
  let loaded = Promise.resolve();
  const list = new ListPieces(folder, (piece) => {
    loaded = loaded.then(async () => loadPiece(connection, await piece));
    loaded.catch(() => undefined);
  });
  try {
    for await (const some of bytes) {
      list.write(some);
      await list.room();
    }
    await list.end();
    await loaded;
  } finally {
    await loaded.catch(() => undefined);
    await list.discard();
  }
  await useThreads(connection);
  // DuckDB takes the first of two fields with one name.
  const [twice] = await connection.rows<{ index: bigint; field: string }>(`
    SELECT index, field FROM (
      SELECT index, unnest([${principalFields.map(literal).join(", ")}]) AS field, json_keys(json) AS keys
      FROM read_principals WHERE is_repeated AND kind <> '')
    WHERE len(list_filter(keys, lambda key: key = field)) > 1 ORDER BY index LIMIT 1`);
  if (twice !== undefined) throw new InputError(`principals[${twice.index}].${twice.field}: is given twice`);
}

function loadPiece(connection: Connection, piece: ListPiece): Promise<void> {
  const into = piece.first === 0 ? "CREATE OR REPLACE TABLE read_principals AS" : "INSERT INTO read_principals";
  return readPiece(piece, (elements) => connection.run(`${into} ${principalsOf(elements)}`));
}

/** `receivePrincipals` of a file. */
export function readPrincipals(connection: Connection, file: string, table: PrincipalTable): Promise<void> {
  return receivePrincipals(connection, createReadStream(file, { highWaterMark: 256 * 1024 }), {
    table,
    folder: dirname(file),
  });
}

/**
 * Reads the answer of `user/list` (B.9) into a table as it arrives. Principals of other types than the interface's two are
 * not in it; for `actual` and `arrived` they are in tables of their own, with what else is carried through (`keepCarried`).
 * @param to.folder where pieces of the list are meanwhile
 * @throws {InputError} when it is no such list: then nothing may be concluded from it
 */
export async function receivePrincipals(
  connection: Connection,
  bytes: AsyncIterable<Buffer>,
  { table, folder }: { readonly table: PrincipalTable; readonly folder: string },
): Promise<void> {
  let unknown: { readonly name: string } | undefined;
  try {
    await readList(connection, bytes, folder);
    [unknown] = await connection.rows<{ name: string }>(
      `SELECT name FROM read_principals WHERE name = '' OR (kind = '' AND NOT ${hasType}) LIMIT 1`,
    );
    if (table === "actual" || table === "arrived") await keepCarried(connection, table, "read_principals");
    const others = ["visibility", "index", "is_repeated", "json"];
    await connection.run(`
      DELETE FROM read_principals WHERE kind = '';
      ${others.map((column) => `ALTER TABLE read_principals DROP COLUMN ${column};`).join("\n")}
      DROP TABLE IF EXISTS ${table};
      ALTER TABLE read_principals RENAME TO ${table};`);
    await connection.returnMemory();
  } catch (error) {
    if (obstacleOf(error) !== undefined) throw unwritable(`the folder ${folder}`, error);
    throw new InputError(`the list of principals cannot be read: ${firstLineOf(error)}`, { cause: error });
  }
  if (unknown !== undefined)
    throw new InputError(
      unknown.name === ""
        ? "a principal in the list has no name"
        : `the principal ${unknown.name} in the list has no type: it is neither a user nor a group`,
    );
  const [double] = await connection.rows<{ kind: string; name: string }>(
    `SELECT kind, name FROM ${table} GROUP BY kind, name HAVING count(*) > 1 ORDER BY kind, name LIMIT 1`,
  );
  if (double !== undefined)
    throw new InputError(`the list of principals holds the ${double.kind} ${double.name} twice`);
}

/** SQL: a list of names, sorted by code point without duplicates. To see that it is takes half as long as sorting. */
export function setOf(names: string): string {
  const isSorted = `list_bool_and(list_transform(range(1, len(${names})), lambda i: coalesce(${names}[i] < ${names}[i + 1], false)))`;
  return `CASE WHEN coalesce(${isSorted}, len(${names}) < 2 AND ${names}[1] IS NOT NULL) THEN ${names}
    ELSE list_sort(list_distinct(coalesce(${names}, []))) END`;
}

/** How DuckDB's COPY writes one column of JSON texts as an array. JSON escapes line ends, so no text has one. */
export const jsonArray =
  "(FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\n', PREFIX '[', SUFFIX ']', NEW_LINE ',\n')";

/**
 * Writes `desired` to a file as a JSON array of principal objects (2.7): users first, each kind by name, then principals of
 * other types, as the target listed them. Users and groups keep the target's own fields. The same principals always give
 * the same bytes, so a service can compare one list with the one before.
 */
export async function writePrincipals(connection: Connection, file: string): Promise<void> {
  await connection.run(`
    COPY (
      SELECT line FROM (
        SELECT kind = 'group' AS is_group, name, '{"name":' || to_json(name) || ',"displayName":' || to_json(display_name)
          || CASE WHEN description IS NULL THEN '' ELSE ',"description":' || to_json(description) END
          || CASE WHEN mail IS NULL THEN '' ELSE ',"mail":' || to_json(mail) END
          || ',"principalTypeEnum":"' || CASE kind WHEN 'user' THEN 'LOCAL_USER' ELSE 'LOCAL_GROUP' END
          || '","groupNames":' || to_json(group_names) || coalesce(',' || fields, '') || '}' AS line
        FROM desired LEFT JOIN actual_extra USING (kind, name)
        UNION ALL
        SELECT NULL, name, json FROM actual_foreign)
      ORDER BY is_group NULLS LAST, name, line
    ) TO ${literal(file)} ${jsonArray}`);
}

/**
 * Reads a file that holds the answer of `user/sync` into a temporary table.
 * @throws {InputError} when the file is not such an answer
 */
export async function readSyncAnswer(connection: Connection, file: string, into: ChangeTable): Promise<void> {
  const columns = syncArrays.map(([array]) => `"${array}":["VARCHAR"]`).join(",");
  const parts = syncArrays.map(
    ([array, action, kind]) => `
      SELECT '${action}' AS action, '${kind}' AS kind, unnest(coalesce(${array}, error('${array} is missing'))) AS name
      FROM answer`,
  );
  try {
    await connection.run(`
      CREATE OR REPLACE TEMP TABLE ${into} AS
      WITH answer AS MATERIALIZED (
        SELECT unnest(from_json(content::JSON, '{${columns}}')) FROM read_text(${literal(file)})
      )
      ${parts.join(" UNION ALL ")}`);
  } catch (error) {
    throw new InputError(`the answer of user/sync cannot be read: ${firstLineOf(error)}`, { cause: error });
  }
}

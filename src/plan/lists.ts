import { createReadStream } from "node:fs";
import { InputError, firstLineOf, messageOf } from "#errors.ts";
import { literal, useThreads } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { hasType, keepCarried } from "./carried.ts";
import type { ChangeTable, PrincipalTable } from "./tables.ts";
import { principalColumns } from "#principals/tables.ts";

/** The six arrays in the answer of `user/sync` (2.8), each with the action and the kind that it stands for. */
export const syncArrays = [
  ["usersAdded", "create", "user"],
  ["usersDeleted", "delete", "user"],
  ["usersUpdated", "update", "user"],
  ["groupsAdded", "create", "group"],
  ["groupsDeleted", "delete", "group"],
  ["groupsUpdated", "update", "group"],
] as const;

/** The fields of a principal that hold text (specification 2.7); the other one is `groupNames`. */
const textFields = ["name", "displayName", "description", "mail", "principalTypeEnum", "password"] as const;
const fields = [...textFields, "groupNames"] as const;

/** The longest element of the first attempt, in bytes. DuckDB reads twice as much at once, its least. */
const usualElement = 16 * 1024 * 1024;

/** Of further attempts. */
const otherElements = [17, 23].map((mebibytes) => mebibytes * 1024 * 1024);

/**
 * Reads a file that must hold a JSON array into the temporary table `into (index, json)`: one row for each element,
 * whatever it is, counted from 0. DuckDB's reader is as strict as `JSON.parse`, except for what `checkStrictly` refuses.
 * @param isVerbatim true: as it is written there, a null too; false: minified, and NULL for null
 * @throws {InputError} when the file is no JSON array. The message names the place and never quotes the list, which may
 *   hold passwords.
 */
async function readElements(connection: Connection, file: string, into: string, isVerbatim: boolean): Promise<void> {
  const reader = (longest: number): string =>
    isVerbatim
      ? `read_json_objects(${literal(file)}, format = 'array', maximum_object_size = ${longest})`
      : `read_json(${literal(file)}, format = 'array', records = false, columns = {json: 'JSON'}, maximum_object_size = ${longest})`;
  const load = (longest: number): Promise<void> =>
    connection.run(`
      CREATE OR REPLACE TEMP TABLE ${into} AS
      SELECT row_number() OVER () - 1 AS index, json FROM ${reader(longest)}`);
  const [loaded, checked] = await Promise.allSettled([load(usualElement), checkStrictly(file)]);
  if (checked.status === "rejected") throw checked.reason as Error;
  if (loaded.status === "fulfilled") return;
  let failure: unknown = loaded.reason;
  const isTooLong = messageOf(failure).includes('"maximum_object_size"');
  if (!isTooLong && checked.value.bytes <= 2 * usualElement) throw notJson(failure);
  // DuckDB 1.5 takes a list for malformed where one of its reads ends in white space before a comma: other reads end
  // elsewhere, and one of the whole file does not.
  const enough = checked.value.longest + 1024;
  for (const longest of [...otherElements, checked.value.bytes]) {
    try {
      return await load(Math.max(longest, enough));
    } catch (error) {
      failure = error;
    }
  }
  throw notJson(failure);
}

/**
 * Refuses what DuckDB's reader accepts and JSON forbids: an empty file, a byte
 * order mark, a comma before a closing bracket, an element behind the array, `NaN` and `Infinity`, other white
 * space. Also finds where a list is cut off: DuckDB does not say at which byte.
 * @returns the length of the longest element, including its separators, and of the file, in bytes
 */
async function checkStrictly(file: string): Promise<{ readonly longest: number; readonly bytes: number }> {
  let offset = 0;
  let depth = 0;
  let elementAt = 0;
  let longest = 0;
  let isBegun = false;
  let isString = false;
  let isEscape = false;
  /** The last byte outside of strings that is no white space. */
  let last = 0;

  function endElement(at: number): void {
    longest = Math.max(longest, at - elementAt);
    elementAt = at;
  }

  /** @throws {InputError} at the first byte that JSON does not have there */
  function scan(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; at++) {
      if (isEscape) {
        isEscape = false;
        continue;
      }
      if (isString) at = skipText(bytes, at);
      const byte = bytes[at] as number;
      if (isString) {
        isEscape = byte === backslash;
        isString = byte !== quote;
      } else if (byte > space) {
        if (!isBegun && byte !== openBracket) throw notJsonAt(offset + at, "an array in [ ]");
        if (isBegun && depth === 0) throw notJsonAt(offset + at, "nothing after the end of the array");
        isBegun = true;
        if (byte === quote) {
          isString = true;
        } else if (byte === openBrace || byte === openBracket) {
          depth++;
        } else if (byte === closeBrace || byte === closeBracket) {
          if (last === comma) throw notJsonAt(offset + at, "a key or a value");
          depth--;
        } else if (byte === comma) {
          if (depth === 1) endElement(offset + at);
        } else if (isOfNoNumber(byte, last)) {
          throw notJsonAt(offset + at, "true, false, null or a number");
        }
        last = byte;
      } else if (byte === verticalTab || byte === formFeed) {
        throw notJsonAt(offset + at, "no other white space than spaces, tabs and line ends");
      }
    }
    offset += bytes.length;
  }

  for await (const bytes of createReadStream(file, { highWaterMark: 256 * 1024 })) scan(bytes as Buffer);
  if (!isBegun) throw notJsonAt(offset, "an array in [ ]");
  if (isString) throw notJsonAt(offset, "a double quote at the end of the string");
  if (depth > 0) throw notJsonAt(offset, "a comma, or the end of the array or object");
  endElement(offset);
  return { longest, bytes: offset };
}

const [verticalTab, formFeed, space, quote, comma] = [0x0b, 0x0c, 0x20, 0x22, 0x2c];
const [openBracket, backslash, closeBracket, openBrace, closeBrace] = [0x5b, 0x5c, 0x5d, 0x7b, 0x7d];
const [letterI, letterN, smallA, smallI, smallN] = [0x49, 0x4e, 0x61, 0x69, 0x6e];

/** Where the first quote or backslash is from `from` on; the length when there is none. By itself it is compiled well. */
function skipText(bytes: Buffer, from: number): number {
  let at = from;
  while (at < bytes.length && bytes[at] !== quote && bytes[at] !== backslash) at++;
  return at;
}

/**
 * Whether a letter is part of `NaN` or `Infinity`, in any case. `true`, `false` and `null` have no `i`, no `N`, and no
 * `a` after an `n`.
 */
function isOfNoNumber(byte: number, last: number): boolean {
  if (byte === letterN || byte === letterI || byte === smallI) return true;
  return (last === smallN || last === letterN) && (byte | 0x20) === smallA;
}

function notJsonAt(byte: number, expected: string): InputError {
  return new InputError(`principals: not valid JSON at byte ${byte}: expected ${expected}`);
}

/** An error without the list, which DuckDB quotes in some messages. DuckDB counts elements from 2. */
function notJson(error: unknown): unknown {
  const message = messageOf(error);
  const [, record, reason] = /Malformed JSON in file .* in record\/value (\d+): ([^.]*)\./.exec(message) ?? [];
  if (reason === undefined) return error;
  return new InputError(`principals: not valid JSON at principals[${Number(record) - 2}]: ${reason}`);
}

/**
 * The elements of a list as principals, as a query: `index`, `principalColumns` and `password`. What is absent, null or
 * of another type is empty where it is required and NULL where it is optional; `kind` is empty when `principalTypeEnum`
 * is neither of its two values.
 *
 * - `is_typed`: it is an object, and every field of a principal has the type of specification 2.7, is null or absent
 * - `is_repeated`: it has a field of a principal twice
 * @param isLenient takes what has another type as text
 */
function principalsOf(elements: string, isLenient: boolean): string {
  const known = fields.map(literal).join(", ");
  const paths = fields.map((field) => `'$.${field}'`).join(", ");
  const types = JSON.stringify({
    ...Object.fromEntries(textFields.map((field) => [field, "VARCHAR"])),
    groupNames: ["VARCHAR"],
  });
  const typed = textFields.map(
    (field) => `${field}: CASE WHEN json_type(json, '$.${field}') = 'VARCHAR' THEN json ->> '$.${field}' END`,
  );
  const areTexts = textFields
    .map((_, index) => `coalesce(types[${index + 1}] IN ('VARCHAR', 'NULL'), true)`)
    .join(" AND ");
  const isUser = "principal.principalTypeEnum = 'LOCAL_USER'";
  const names = "principal.groupNames";
  return `
    SELECT
      index,
      CASE principal.principalTypeEnum WHEN 'LOCAL_USER' THEN 'user' WHEN 'LOCAL_GROUP' THEN 'group' ELSE '' END AS kind,
      coalesce(principal.name, '') AS name,
      coalesce(principal.displayName, '') AS display_name,
      nullif(principal.description, '') AS description,
      CASE WHEN ${isUser} THEN nullif(principal.mail, '') END AS mail,
      CASE WHEN ${isSet(names)} THEN ${names} ELSE list_sort(list_distinct(coalesce(${names}, []))) END AS group_names,
      CASE WHEN ${isUser} THEN nullif(principal.password, '') END AS password,
      is_typed,
      is_repeated
    FROM (
      SELECT index, is_typed, is_repeated,
        CASE WHEN ${isLenient ? "true" : "is_typed"} THEN from_json(json, '${types}')
        ELSE {${typed.join(", ")}, groupNames: CASE WHEN ${areGroupNames} THEN json ->> '$.groupNames[*]' END} END AS principal
      FROM (
        SELECT index, json,
          coalesce(
            (len(keys) > 0 OR json = '{}')
            AND ${areTexts}
            AND coalesce(types[${fields.length}] IN ('ARRAY', 'NULL'), true)
            AND len(list_filter(group_types, lambda type: type <> 'VARCHAR')) = 0, false) AS is_typed,
          coalesce(len(list_filter(keys, lambda key: key IN (${known}))) > list_count(types), false) AS is_repeated
        FROM (
          SELECT index, json, json_keys(json) AS keys, json_type(json, [${paths}]) AS types,
            json_type(json, '$.groupNames[*]') AS group_types
          FROM ${elements})))`;
}

/** An SQL condition on the element `json`: its `groupNames` is an array of strings. */
export const areGroupNames = `(
  json_type(json, '$.groupNames') = 'ARRAY'
  AND list_filter(json_type(json, '$.groupNames[*]'), lambda type: type <> 'VARCHAR') = [])`;

/** How a list is read. */
export interface ListReading {
  /** The temporary table for `(index, json)` of every element. */
  readonly elements: string;
  /** The temporary table for what `principalsOf` makes of them. */
  readonly into: string;
  /** What a service lists: takes a value of another type as text, and keeps every element as it is written. */
  readonly isLenient: boolean;
}

/**
 * Reads a file that must hold a JSON array of principal objects (specification 2.7): what `user/sync` is given, and
 * what `user/list` answers.
 * @throws {InputError} when the file is no JSON array, or an element gives a field twice
 */
export async function readList(
  connection: Connection,
  file: string,
  { elements, into, isLenient }: ListReading,
): Promise<void> {
  await readElements(connection, file, elements, isLenient);
  await useThreads(connection);
  await connection.run(`CREATE OR REPLACE TEMP TABLE ${into} AS ${principalsOf(elements, isLenient)}`);
  // DuckDB takes the first of two fields with one name.
  const [twice] = await connection.rows<{ index: bigint; field: string }>(`
    SELECT index, field FROM (
      SELECT index, unnest([${fields.map(literal).join(", ")}]) AS field, json_keys(json) AS keys
      FROM ${elements} SEMI JOIN (FROM ${into} WHERE is_repeated AND (kind <> '' OR NOT ${isLenient})) USING (index))
    WHERE len(list_filter(keys, lambda key: key = field)) > 1 ORDER BY index LIMIT 1`);
  if (twice !== undefined) throw new InputError(`principals[${twice.index}].${twice.field}: is given twice`);
}

/**
 * Reads the answer of `user/list` (B.9) from a file into a table. Principals of other types than the interface's two are
 * not in it; for `actual` and `arrived` they are in tables of their own, with what else is carried through (`keepCarried`).
 * @throws {InputError} when the file is not such a list: then nothing may be concluded from it
 */
export async function readPrincipals(connection: Connection, file: string, table: PrincipalTable): Promise<void> {
  let unknown: { readonly name: string } | undefined;
  try {
    await readList(connection, file, { elements: "read_elements", into: "read_principals", isLenient: true });
    [unknown] = await connection.rows<{ name: string }>(`
      SELECT name FROM (FROM read_principals WHERE kind = '' OR name = '') JOIN read_elements USING (index)
      WHERE name = '' OR NOT ${hasType} LIMIT 1`);
    if (table === "actual" || table === "arrived")
      await keepCarried(connection, table, { elements: "read_elements", principals: "read_principals" });
    await connection.run(`
      DROP TABLE read_elements;
      CREATE OR REPLACE TABLE ${table} AS SELECT ${principalColumns.join(", ")} FROM read_principals WHERE kind <> '';
      DROP TABLE read_principals;`);
    await connection.returnMemory();
  } catch (error) {
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

/** An SQL condition: a list of names is sorted by code point without duplicates. Checking takes half as long as sorting. */
function isSet(list: string): string {
  return `coalesce(list_bool_and(list_transform(range(1, len(${list})), lambda i: coalesce(${list}[i] < ${list}[i + 1], false))), len(${list}) < 2 AND ${list}[1] IS NOT NULL)`;
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

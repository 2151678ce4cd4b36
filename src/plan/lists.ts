import { open } from "node:fs/promises";
import { InputError, firstLineOf, messageOf } from "#errors.ts";
import { isOutOfMemory, literal, useThreads } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { hasType, keepCarried, ownFields } from "./carried.ts";
import { formatNumber } from "#text.ts";
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

/** The fields of a principal that hold text (specification 2.7); the other one is `groupNames`. */
const textFields = ["name", "displayName", "description", "mail", "principalTypeEnum", "password"] as const;
const fields = [...textFields, "groupNames"] as const;

/** What no principal has, and what would take all of DuckDB's memory. */
const [deepestElement, mostElementValues] = [250_000, 1_000_000];

/** The longest element of the first attempt, in bytes. DuckDB reads twice as much at once, its least. */
const usualElement = 16 * 1024 * 1024;

/** Of further attempts. */
const otherElements = [17, 23].map((mebibytes) => mebibytes * 1024 * 1024);

/**
 * Runs `load` with a DuckDB reader of a file that must hold a JSON array: one row `(json)` for each element, whatever it is,
 * as it is written there. DuckDB's reader is as strict as `JSON.parse`, except for what `checkStrictly` refuses.
 * @throws {InputError} when the file is no JSON array. The message names the place and never quotes the list, which may
 *   hold passwords.
 */
async function readArray(file: string, load: (reader: string) => Promise<void>): Promise<void> {
  const loadWith = (longest: number): Promise<void> =>
    load(`read_json_objects(${literal(file)}, format = 'array', maximum_object_size = ${longest})`);
  const [loaded, checked] = await Promise.allSettled([loadWith(usualElement), checkStrictly(file)]);
  if (checked.status === "rejected") throw checked.reason as Error;
  if (loaded.status === "fulfilled") return;
  let failure: unknown = loaded.reason;
  if (isOutOfMemory(failure)) throw notJson(failure);
  const isTooLong = messageOf(failure).includes('"maximum_object_size"');
  const isMalformed = messageOf(failure).includes("Malformed JSON");
  if (!isTooLong && !(isMalformed && checked.value.bytes > 2 * usualElement)) throw notJson(failure);
  // DuckDB 1.5 takes a list for malformed where one of its reads ends in white space before a comma: other reads end
  // elsewhere, and one of the whole file does not.
  const enough = checked.value.longest + 1024;
  for (const longest of [...otherElements, checked.value.bytes]) {
    try {
      return await loadWith(Math.max(longest, enough));
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
  let elements = 0;
  let values = 0;
  let isBegun = false;
  let isString = false;
  let isEscape = false;
  /** The last byte outside of strings that is no white space. */
  let last = 0;

  function endElement(at: number): void {
    longest = Math.max(longest, at - elementAt);
    elementAt = at;
    values = 0;
    elements++;
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
          if (++depth > deepestElement) throw tooMuch("arrays and objects inside each other", deepestElement, elements);
        } else if (byte === closeBrace || byte === closeBracket) {
          if (last === comma) throw notJsonAt(offset + at, "a key or a value");
          depth--;
        } else if (byte === comma) {
          if (depth === 1) endElement(offset + at);
          else if (++values > mostElementValues) throw tooMuch("values", mostElementValues, elements);
        } else if (isOfNoNumber(byte, last)) {
          throw notJsonAt(offset + at, "true, false, null or a number");
        }
        last = byte;
      } else if (byte !== space && byte !== lineFeed && byte !== tab && byte !== carriageReturn) {
        throw notJsonAt(offset + at, "no other white space than spaces, tabs and line ends");
      }
    }
    offset += bytes.length;
  }

  // One buffer for all of it: new ones would be garbage to collect.
  const bytes = Buffer.allocUnsafe(256 * 1024);
  await using opened = await open(file);
  for (;;) {
    const { bytesRead } = await opened.read(bytes, 0, bytes.length);
    if (bytesRead === 0) break;
    scan(bytes.subarray(0, bytesRead));
  }
  if (!isBegun) throw notJsonAt(offset, "an array in [ ]");
  if (isString) throw notJsonAt(offset, "a double quote at the end of the string");
  if (depth > 0) throw notJsonAt(offset, "a comma, or the end of the array or object");
  endElement(offset);
  return { longest, bytes: offset };
}

const [tab, lineFeed, carriageReturn, space, quote, comma] = [0x09, 0x0a, 0x0d, 0x20, 0x22, 0x2c];
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

function tooMuch(what: string, most: number, element: number): InputError {
  return new InputError(`principals[${element}]: has more than ${formatNumber(most)} ${what}`);
}

function notJsonAt(byte: number, expected: string): InputError {
  return new InputError(`principals: not valid JSON at byte ${byte}: expected ${expected}`);
}

/** An error without the list, which DuckDB quotes in some messages. DuckDB counts elements from 2. */
function notJson(error: unknown): unknown {
  const message = messageOf(error);
  if (isOutOfMemory(error))
    return new InputError(
      "principals: reading the list takes more memory than DuckDB may use; raise its memory, or send smaller objects",
    );
  const [, record, reason] = /Malformed JSON in file .* in record\/value (\d+): ([^.]*)\./.exec(message) ?? [];
  if (reason === undefined) return error;
  return new InputError(`principals: not valid JSON at principals[${Number(record) - 2}]: ${reason}`);
}

/** An SQL condition on the element `json`: its `groupNames` is an array of strings. */
export const areGroupNames = `(
  json_type(json, '$.groupNames') = 'ARRAY'
  AND list_filter(json_type(json, '$.groupNames[*]'), lambda type: type <> 'VARCHAR') = [])`;

/** SQL: the fields of a principal in the element `json`, of which those of another type than specification 2.7's are NULL. */
const typedFields = `{
  ${textFields
    .map((field) => `${field}: CASE WHEN json_type(json, '$.${field}') = 'VARCHAR' THEN json ->> '$.${field}' END`)
    .join(",\n")},
  groupNames: CASE WHEN ${areGroupNames} THEN json ->> '$.groupNames[*]' END}`;

/** SQL: what `isTyped` needs of the element `json`. */
const typesFound = `
  json_type(json, [${fields.map((field) => `'$.${field}'`).join(", ")}]) AS types,
  json_type(json, '$.groupNames[*]') AS group_types`;

/** An SQL condition on an element: it is an object whose fields of a principal have the types of 2.7, are null or absent. */
const isTyped = `(
  ${textFields.map((_, place) => `coalesce(types[${place + 1}] IN ('VARCHAR', 'NULL'), true)`).join(" AND ")}
  AND coalesce(types[${fields.length}] IN ('ARRAY', 'NULL'), true)
  AND len(list_filter(group_types, lambda type: type <> 'VARCHAR')) = 0
  AND CASE WHEN keys = [] THEN json_type(json) = 'OBJECT' ELSE true END)`;

/**
 * A list as principals, as a query: `Attributes.relation`, `password`, `visibility` as JSON, and `index`, which counts from 0.
 * What is absent, null or of another type is empty where it is required and NULL where it is optional; `kind` is empty when
 * `principalTypeEnum` is neither of its two values.
 *
 * - `is_typed`: `isTyped`; always true where the list is read leniently
 * - `is_repeated`: the element has a field of a principal twice
 * - `json`: the element as it is written, unless these columns have all of it
 * @param elements a relation `(json)`
 * @param isLenient takes what has another type as text
 */
function principalsOf(elements: string, isLenient: boolean): string {
  // Those that `user/list` gives (B.9). Of what is carried through, only `visibility` has a column.
  const read = [...ownFields.user, "visibility"];
  const types = JSON.stringify({
    ...Object.fromEntries(read.map((field) => [field, "VARCHAR"])),
    groupNames: ["VARCHAR"],
    visibility: "JSON",
  });
  const found = read.map((field) => `(given.${field} IS NOT NULL)::INTEGER`).join(" + ");
  const knownKeys = `list_filter(keys, lambda key: key IN (${fields.map(literal).join(", ")}))`;
  const names = "principal.groupNames";
  return `
    SELECT
      CASE WHEN is_user THEN 'user' WHEN is_group THEN 'group' ELSE '' END AS kind,
      coalesce(principal.name, '') AS name,
      coalesce(principal.displayName, '') AS display_name,
      nullif(principal.description, '') AS description,
      CASE WHEN is_user THEN nullif(principal.mail, '') END AS mail,
      CASE WHEN ${isSet(names)} THEN ${names} ELSE list_sort(list_distinct(coalesce(${names}, []))) END AS group_names,
      CASE WHEN is_user THEN nullif(principal.password, '') END AS password,
      visibility,
      index,
      is_typed,
      is_repeated,
      CASE WHEN ${isLenient ? "has_all AND (is_user OR (is_group AND principal.mail IS NULL))" : "is_typed AND NOT is_repeated"}
        THEN NULL ELSE json END AS json
    FROM (
      SELECT *,
        coalesce(principal.principalTypeEnum = 'LOCAL_USER', false) AS is_user,
        coalesce(principal.principalTypeEnum = 'LOCAL_GROUP', false) AS is_group,
        CASE WHEN has_all THEN false
          ELSE coalesce(len(${knownKeys}) > len(list_distinct(${knownKeys})), false) END AS is_repeated
      FROM (
        SELECT index, json, keys, is_typed,
          given.visibility::VARCHAR AS visibility,
          -- A number goes back as it is written, so only its own text will do.
          len(keys) = ${found} AND coalesce(starts_with(given.visibility::VARCHAR, '"'), true) AS has_all,
          ${isLenient ? "given" : `CASE WHEN is_typed THEN {${fields.map((field) => `${field}: given.${field}`).join(", ")}} ELSE ${typedFields} END`} AS principal
        FROM (
          SELECT *, ${isLenient ? "true" : isTyped} AS is_typed
          FROM (
            SELECT row_number() OVER () - 1 AS index, json, json_keys(json) AS keys,
              from_json(json, '${types}') AS given${isLenient ? "" : `,${typesFound}`}
            FROM ${elements}))))`;
}

/** How a list is read. */
export interface ListReading {
  /** The table for what `principalsOf` makes of it. */
  readonly into: string;
  readonly isTemporary: boolean;
  /** What a service lists: takes a value of another type as text, and keeps what else an element has. */
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
  { into, isTemporary, isLenient }: ListReading,
): Promise<void> {
  await readArray(file, (reader) =>
    connection.run(
      `CREATE OR REPLACE ${isTemporary ? "TEMP " : ""}TABLE ${into} AS ${principalsOf(reader, isLenient)}`,
    ),
  );
  await useThreads(connection);
  // DuckDB takes the first of two fields with one name.
  const [twice] = await connection.rows<{ index: bigint; field: string }>(`
    SELECT index, field FROM (
      SELECT index, unnest([${fields.map(literal).join(", ")}]) AS field, json_keys(json) AS keys
      FROM ${into} WHERE is_repeated AND (kind <> '' OR NOT ${isLenient}))
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
    await readList(connection, file, { into: "read_principals", isTemporary: false, isLenient: true });
    [unknown] = await connection.rows<{ name: string }>(
      `SELECT name FROM read_principals WHERE name = '' OR (kind = '' AND NOT ${hasType}) LIMIT 1`,
    );
    if (table === "actual" || table === "arrived") await keepCarried(connection, table, "read_principals");
    const others = ["password", "visibility", "index", "is_typed", "is_repeated", "json"];
    await connection.run(`
      DELETE FROM read_principals WHERE kind = '';
      ${others.map((column) => `ALTER TABLE read_principals DROP COLUMN ${column};`).join("\n")}
      DROP TABLE IF EXISTS ${table};
      ALTER TABLE read_principals RENAME TO ${table};`);
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

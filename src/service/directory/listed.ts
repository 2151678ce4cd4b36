import { InputError, messageOf } from "#errors.ts";
import { literal } from "#plan/database.ts";
import type { Connection } from "#plan/database.ts";
import { principalTypes } from "#wire/principals.ts";
import type { ListTraits } from "./list-traits.ts";

/**
 * The table of what the list says: `principalColumns`, `password` and, as `rowid`, the index of the element. What is
 * absent, null or of another type is empty in a required field and NULL in an optional one; `kind` is empty when
 * `principalTypeEnum` is neither of its two values.
 */
export const listed = "listed";

/** What DuckDB sets aside for a line at least, in bytes: small, so that both threads have lines to read. */
const smallestLine = 1024 * 1024;

export interface ListSource {
  readonly principals: string;
  readonly traits: ListTraits;
  /** Whether the passwords of the list are of interest. */
  readonly passwords: boolean;
}

/**
 * Reads the list into `listed`.
 * @returns a query of what has the wrong type, `(index, problem)`; undefined when nothing has
 * @throws {InputError} when it is not JSON after all: bytes that are not UTF-8, half a surrogate pair
 */
export async function readList(connection: Connection, source: ListSource): Promise<string | undefined> {
  const { plain } = source.traits;
  try {
    await connection.run(plain ? readPlain(source) : readAny(source));
  } catch (cause) {
    const reason = /Malformed JSON in file .*: ([^.]*)\./.exec(messageOf(cause))?.[1];
    // The library's own message quotes the list.
    if (reason !== undefined) throw new InputError(`principals: not valid JSON: ${reason}`);
    if (messageOf(cause).includes("has duplicate key")) throw new InputError("principals: an element has a key twice");
    throw cause;
  }
  return plain ? undefined : wrongTypes;
}

/** Every field is a string or null, as the list went by: one pass reads it all. */
function readPlain({ principals, traits, passwords }: ListSource): string {
  const fields = ["name", "displayName", "description", "mail", "principalTypeEnum"].map(
    (name) => `${name}: 'VARCHAR'`,
  );
  const password = passwords ? ["password: 'VARCHAR'"] : [];
  const columns = `{${[...fields, ...password, "groupNames: 'VARCHAR[]'"].join(", ")}}`;
  const values: Values = {
    text: (field) => (field === "password" && !passwords ? "NULL::VARCHAR" : `"${field}"`),
    groupNames: "groupNames",
  };
  return `CREATE TEMP TABLE ${listed} AS ${select(values, traits)} FROM ${readJson(principals, traits, `columns = ${columns}`)}`;
}

/** Some element is not as it should be, or a group has what is ignored for groups: every type is looked at. */
function readAny({ principals, traits, passwords }: ListSource): string {
  const values: Values = {
    text: (field) =>
      field === "password" && !passwords
        ? "NULL::VARCHAR"
        : `CASE WHEN json_type(json, '$.${field}') = 'VARCHAR' THEN (json ->> '$.${field}') END`,
    groupNames: `CASE WHEN ${areGroupNames} THEN (json ->> '$.groupNames[*]') END`,
  };
  return `
    CREATE TEMP TABLE raw AS FROM ${readJson(principals, traits, "records = false, columns = {json: 'JSON'}")};
    CREATE TEMP TABLE ${listed} AS ${select(values, traits)} FROM raw`;
}

/** SQL expressions for what an element gives. */
interface Values {
  text(field: string): string;
  readonly groupNames: string;
}

function select({ text, groupNames }: Values, { ordered, plain }: ListTraits): string {
  const type = text("principalTypeEnum");
  const kind = `CASE ${type} WHEN '${principalTypes.user}' THEN 'user' WHEN '${principalTypes.group}' THEN 'group' ELSE '' END`;
  const forUsers = (field: string): string =>
    `CASE WHEN ${type} = '${principalTypes.user}' THEN nullif(${text(field)}, '') END`;
  return `
    SELECT
      ${kind} AS kind,
      coalesce(${text("name")}, '') AS name,
      coalesce(${text("displayName")}, '') AS display_name,
      nullif(${text("description")}, '') AS description,
      ${forUsers("mail")} AS mail,
      coalesce(${ordered && plain ? groupNames : `list_sort(list_distinct(${groupNames}))`}, []::VARCHAR[]) AS group_names,
      ${forUsers("password")} AS password`;
}

function readJson(file: string, { longestLine }: ListTraits, rest: string): string {
  const size = Math.max(longestLine + 2, smallestLine);
  return `read_json(${literal(file)}, format = 'newline_delimited', maximum_object_size = ${size}, ${rest})`;
}

const areGroupNames = `
  json_type(json, '$.groupNames') = 'ARRAY'
  AND list_filter(json_type(json, '$.groupNames[*]'), lambda type: type <> 'VARCHAR') = []`;

const isOptionalText = (field: string): string =>
  `coalesce(json_type(json, '$.${field}'), 'NULL') IN ('VARCHAR', 'NULL')`;
const isGroup = `json_type(json, '$.principalTypeEnum') = 'VARCHAR' AND (json ->> '$.principalTypeEnum') = '${principalTypes.group}'`;

/** What `listed` cannot tell: an element that is no object, and an optional field of another type. */
const wrongTypes = `
  SELECT rowid AS index, unnest([
    CASE WHEN coalesce(json_type(json), 'NULL') <> 'OBJECT' THEN ': must be an object' END,
    CASE WHEN NOT ${isOptionalText("description")} THEN '.description: must be a string' END,
    CASE WHEN NOT (${isOptionalText("mail")} OR coalesce(${isGroup}, false)) THEN '.mail: must be a string' END,
    CASE WHEN NOT (${isOptionalText("password")} OR coalesce(${isGroup}, false)) THEN '.password: must be a string' END,
    CASE WHEN coalesce(json_type(json, '$.groupNames'), 'NULL') <> 'NULL' AND NOT (${areGroupNames})
      THEN '.groupNames: must be an array of strings' END
  ]) AS problem
  FROM raw`;

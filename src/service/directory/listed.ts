import { literal, useThreads } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { InputError, messageOf } from "#errors.ts";
import { principalTypes } from "#wire/administration.ts";
import type { Loader } from "./intake.ts";
import type { Piece } from "./pieces.ts";

/**
 * The temporary view of what a list says: `index` (from 0), `principalColumns` and `password`. What is absent, null or
 * of another type is empty in a required field and NULL in an optional one; `kind` is empty when `principalTypeEnum`
 * is neither of its two values.
 */
export const listed = "listed";

/** The temporary view of what the list before has and this one has not, where it was compared with one: as `listed`. */
export const departed = "departed";

/** The temporary table of what has the wrong type and `listed` cannot tell: `(index, problem)`. */
export const wrongTypes = "wrong_types";

/** What DuckDB sets aside for a line at least, in bytes. */
const smallestLine = 1024 * 1024;

/**
 * Loads a list, or what differs from the list before, into `listed`, `departed` and `wrongTypes` of a connection. Each piece has
 * a table: appending would copy it once more.
 */
export function createLoader(connection: Connection): Loader {
  let tables: string[] = [];

  async function load(table: string, piece: Piece): Promise<void> {
    try {
      await useThreads(connection, piece.behind);
      await connection.run(piece.plain ? loadPlain(table, piece) : loadAny(table, piece));
    } catch (cause) {
      const message = messageOf(cause);
      // The library's own message quotes the list.
      const reason = /Malformed JSON in file .*: ([^.]*)\./.exec(message)?.[1];
      if (reason !== undefined) throw new InputError(`principals: not valid JSON: ${reason}`);
      throw cause;
    }
  }

  return {
    load: async (piece) => {
      const table = `${listed}_${tables.length}`;
      tables.push(table);
      await load(table, piece);
    },
    clear: async () => {
      await connection.run(tables.map((table) => `DROP TABLE IF EXISTS ${table};`).join("") + createWrongTypes);
      tables = [];
    },
    complete: () =>
      connection.run(
        `CREATE OR REPLACE TEMP VIEW ${listed} AS ${tables.map((table) => `FROM ${table}`).join(" UNION ALL ")}`,
      ),
    loadDifference: async (changed, gone) => {
      await load(`${listed}_changed`, changed);
      await load(`${listed}_departed`, gone);
      await connection.run(`
        CREATE TEMP VIEW ${listed} AS FROM ${listed}_changed;
        CREATE TEMP VIEW ${departed} AS FROM ${listed}_departed;`);
    },
  };
}

const createWrongTypes = `
  CREATE OR REPLACE TEMP TABLE ${wrongTypes} (index BIGINT NOT NULL, problem VARCHAR NOT NULL);`;

/** Every field is a string or null, as was seen when the list went by: one pass reads it all. */
function loadPlain(table: string, piece: Piece): string {
  const fields = ["name", "displayName", "description", "mail", "principalTypeEnum", "password"];
  const columns = [...fields.map((field) => `${field}: 'VARCHAR'`), "groupNames: 'VARCHAR[]'"].join(", ");
  const source = readJson(piece, `columns = {${columns}}`);
  return create(table, `(SELECT ${index(piece)}, * FROM ${source})`, piece.ordered, {
    text: (field) => `"${field}"`,
    groupNames: "groupNames",
  });
}

/** Some element is not as it should be, or a group has what is ignored for groups: every type is looked at. */
function loadAny(table: string, piece: Piece): string {
  const source = readJson(piece, "records = false, columns = {json: 'JSON'}");
  return `
    CREATE OR REPLACE TEMP TABLE elements AS SELECT ${index(piece)}, json FROM ${source};
    INSERT INTO ${wrongTypes} SELECT index, problem FROM (${problems}) WHERE problem IS NOT NULL;
    ${create(table, "elements", false, {
      text: (field) => `CASE WHEN json_type(json, '$.${field}') = 'VARCHAR' THEN json ->> '$.${field}' END`,
      groupNames: `CASE WHEN ${areGroupNames} THEN json ->> '$.groupNames[*]' END`,
    })};
    DROP TABLE elements`;
}

/**
 * The index of an element, as a column. Counting takes one thread, which is what is wanted: with several, DuckDB
 * works twice as long on tables as small as these.
 */
function index({ first }: Piece): string {
  return `${first} - 1 + row_number() OVER () AS index`;
}

function readJson({ file, longestLine }: Piece, rest: string): string {
  const size = Math.max(longestLine + 2, smallestLine);
  return `read_json(${literal(file)}, format = 'newline_delimited', maximum_object_size = ${size}, ${rest})`;
}

/** SQL expressions for what an element gives. */
interface Values {
  text(field: string): string;
  readonly groupNames: string;
}

function create(table: string, source: string, isOrdered: boolean, { text, groupNames }: Values): string {
  return `
    CREATE TEMP TABLE ${table} AS
    SELECT
      index,
      CASE type WHEN '${principalTypes.user}' THEN 'user' WHEN '${principalTypes.group}' THEN 'group' ELSE '' END AS kind,
      coalesce(${text("name")}, '') AS name,
      coalesce(${text("displayName")}, '') AS display_name,
      nullif(${text("description")}, '') AS description,
      CASE WHEN type = '${principalTypes.user}' THEN nullif(${text("mail")}, '') END AS mail,
      coalesce(${isOrdered ? groupNames : `list_sort(list_distinct(${groupNames}))`}, []) AS group_names,
      CASE WHEN type = '${principalTypes.user}' THEN nullif(${text("password")}, '') END AS password
    FROM (SELECT *, ${text("principalTypeEnum")} AS type FROM ${source})`;
}

const areGroupNames = `
  json_type(json, '$.groupNames') = 'ARRAY'
  AND list_filter(json_type(json, '$.groupNames[*]'), lambda type: type <> 'VARCHAR') = []`;

const isOptionalText = (field: string): string =>
  `coalesce(json_type(json, '$.${field}'), 'NULL') IN ('VARCHAR', 'NULL')`;
const isGroup = `coalesce(json_type(json, '$.principalTypeEnum') = 'VARCHAR'
  AND (json ->> '$.principalTypeEnum') = '${principalTypes.group}', false)`;

/** What `listed` cannot tell: an element that is no object, and an optional field of another type. */
const problems = `
  SELECT index, unnest([
    CASE WHEN coalesce(json_type(json), 'NULL') <> 'OBJECT' THEN ': must be an object' END,
    CASE WHEN NOT ${isOptionalText("description")} THEN '.description: must be a string' END,
    CASE WHEN NOT (${isOptionalText("mail")} OR ${isGroup}) THEN '.mail: must be a string' END,
    CASE WHEN NOT (${isOptionalText("password")} OR ${isGroup}) THEN '.password: must be a string' END,
    CASE WHEN coalesce(json_type(json, '$.groupNames'), 'NULL') <> 'NULL' AND NOT (${areGroupNames})
      THEN '.groupNames: must be an array of strings' END
  ]) AS problem
  FROM elements`;

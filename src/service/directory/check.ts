import { InputError } from "#errors.ts";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import type { ListPiece } from "#plan/list-pieces.ts";
import { principalFields } from "#plan/list-scan.ts";
import type { PrincipalField, WrongTypes } from "#plan/list-scan.ts";
import { readPiece, setOf } from "#plan/lists.ts";
import { principalTypes } from "#wire/administration.ts";
import type { ReceivedSync } from "./receive.ts";

/** The most problems that are reported (B.5). */
const most = 100;

/** The longest `name` and `displayName` in code points (B.5). */
const longestName = 255;

/** What `checkList` compares the list with. */
export interface Checks {
  /** What `createChanges` has compared, and the changes that it has made. */
  readonly actual: string;
  readonly desired: string;
  readonly changes: string;
  /** The names of the groups that there will be. */
  readonly desiredGroups: string;
  /** With a default password, no user needs one of its own. */
  readonly hasDefaultPassword: boolean;
  readonly wrong: readonly WrongTypes[];
}

/**
 * Reads the pieces of a list into the temporary table `listed` as they come: `index`, `Attributes.relation` and `password`.
 * @param received resolves after the last piece
 * @param load runs each statement
 * @throws what `received` throws first of all; {InputError} when a piece is no JSON
 */
export async function loadList(
  pieces: AsyncIterable<ListPiece>,
  received: Promise<unknown>,
  load: (sql: string) => Promise<void>,
): Promise<void> {
  let failure: unknown;
  for await (const piece of pieces) {
    if (piece.first === 0) failure = undefined;
    if (failure === undefined) await loadPiece(piece, load).catch((error: unknown) => (failure = error));
  }
  await received;
  if (failure !== undefined) throw failure as Error;
}

/** As names of fields with their types: for `read_json`, and for `from_json`. */
const types = {
  strict: `{${principalFields.map((field) => `${field}: '${field === "groupNames" ? "VARCHAR[]" : "VARCHAR"}'`).join(", ")}}`,
  lenient: JSON.stringify(
    Object.fromEntries(principalFields.map((field) => [field, field === "groupNames" ? ["VARCHAR"] : "VARCHAR"])),
  ),
};

/** `read_json` fails at a wrong type, and parses each element once; `from_json` takes it for text, or absent. */
function loadPiece(piece: ListPiece, load: (sql: string) => Promise<void>): Promise<void> {
  const isUser = `given.principalTypeEnum = '${principalTypes.user}'`;
  return readPiece(piece, (elements) =>
    load(`
      ${piece.first === 0 ? "CREATE OR REPLACE TEMP TABLE listed AS" : "INSERT INTO listed"}
      SELECT
        CASE WHEN ${isUser} THEN 'user' WHEN given.principalTypeEnum = '${principalTypes.group}' THEN 'group' ELSE '' END AS kind,
        coalesce(given.name, '') AS name,
        coalesce(given.displayName, '') AS display_name,
        nullif(given.description, '') AS description,
        CASE WHEN ${isUser} THEN nullif(given.mail, '') END AS mail,
        ${setOf("given.groupNames")} AS group_names,
        CASE WHEN ${isUser} THEN nullif(given.password, '') END AS password,
        index
      FROM ${
        piece.isTyped
          ? `${elements("read_json", `, records = 'true', columns = ${types.strict}`)} given`
          : `(SELECT index, from_json(json, '${types.lenient}') AS given FROM ${elements("read_json_objects")})`
      }`),
  );
}

/** The column of a field, and what it is where the field is absent. */
const columns: Readonly<Record<PrincipalField, string>> = {
  name: "name = ''",
  displayName: "display_name = ''",
  description: "description = NULL",
  mail: "mail = NULL",
  principalTypeEnum: "kind = ''",
  password: "password = NULL",
  groupNames: "group_names = []",
};

/** The problem of a field of a wrong type. Required ones are empty then, which is reported. */
const typeProblems: Readonly<Partial<Record<PrincipalField, string>>> = {
  description: ".description: must be a string",
  mail: ".mail: must be a string",
  password: ".password: must be a string",
  groupNames: ".groupNames: must be an array of strings",
};

/**
 * Makes a field of a wrong type absent in `listed`: DuckDB takes any value as text.
 * @throws {InputError} when an element gives a field twice
 */
export async function clearWrongTypes(
  connection: Connection,
  { wrong, repeated }: ReceivedSync["elements"],
): Promise<void> {
  if (repeated !== undefined) throw new InputError(`principals[${repeated.index}].${repeated.field}: is given twice`);
  for (const { index, fields = [] } of wrong) {
    if (fields.length === 0) continue;
    await connection.run(
      `UPDATE listed SET ${fields.map((field) => columns[field]).join(", ")} WHERE index = ${index}`,
    );
  }
}

/**
 * Checks `listed` (B.5). Principals that do not change are valid already, so only changed ones are checked. When a group is
 * deleted, members of groups are looked for in the whole list.
 * @throws {InputError} naming the first hundred problems by element
 */
export async function checkList(
  connection: Connection,
  { actual, desired, changes, desiredGroups, hasDefaultPassword, wrong }: Checks,
): Promise<void> {
  // A principal given twice and not changed is matched twice: more stay as they are than there were.
  const [found] = await connection.rows<{ deletes: boolean; repeats: boolean }>(`
    SELECT count(*) FILTER (action = 'delete' AND kind = 'group') > 0 AS deletes,
      (SELECT count(*) FROM ${desired}) - count(*) FILTER (action = 'create')
        <> (SELECT count(*) FROM ${actual}) - count(*) FILTER (action = 'delete') AS repeats
    FROM ${changes}`);
  const members = found?.deletes === false ? "changed" : "listed";
  const named = found?.repeats === false ? "changed" : "listed";
  // What an element that is no object lacks is not reported.
  const noObjects = wrong.flatMap(({ index, fields }) => (fields === undefined ? [index] : []));

  // A condition on the problems of all queries would have their texts made for every row.
  const queries = [
    `FROM (${valueProblems}) WHERE problem IS NOT NULL AND NOT list_contains([${noObjects.join(", ")}]::BIGINT[], index)`,
    `SELECT l.index, '.name: is there before as principals[' || r.first || ']: names of one kind must differ'
     FROM ${named} l JOIN repeated r USING (kind, name) WHERE l.index > r.first`,
    `SELECT index, '.groupNames: ' || to_json(left(group_name, ${longestName})) || ' is neither in the list nor stays in the service'
     FROM (SELECT index, unnest(group_names) AS group_name FROM ${members})
     WHERE group_name NOT IN (SELECT name FROM ${desiredGroups})`,
    ...(hasDefaultPassword
      ? []
      : [
          `SELECT index, '.password: is needed for a user that is created, unless defaultPassword is set'
           FROM changed SEMI JOIN (FROM ${changes} WHERE action = 'create' AND kind = 'user') USING (kind, name)
           WHERE password IS NULL`,
        ]),
    ...wrong.flatMap(({ index, fields }) => {
      const problems =
        fields === undefined ? [": must be an object"] : fields.flatMap((field) => typeProblems[field] ?? []);
      return problems.map((problem) => `SELECT ${index}, ${literal(problem)}`);
    }),
  ];
  const rows = await connection.rows<{ text: string }>(`
    WITH changed AS MATERIALIZED (FROM listed SEMI JOIN ${changes} USING (kind, name)),
    repeated AS (
      SELECT kind, name, min(index) AS first FROM ${named} WHERE kind <> '' AND name <> ''
      GROUP BY kind, name HAVING count(*) > 1)
    SELECT DISTINCT index, 'principals[' || index || ']' || problem AS text
    FROM (${queries.join("\nUNION ALL\n")})
    ORDER BY index, text LIMIT ${most}`);
  if (rows.length > 0) {
    throw new InputError("The list of principals is not valid; nothing has changed.", {
      problems: rows.map(({ text }) => text),
    });
  }
}

/** What must not be true of a changed principal. */
const rules = [
  ...(
    [
      ["name", "name"],
      ["displayName", "display_name"],
    ] as const
  ).flatMap(
    ([field, column]) =>
      [
        [`${column} = ''`, `.${field}: must be a string that is not empty`],
        [`length(${column}) > ${longestName}`, `.${field}: may have ${longestName} characters at the most`],
        [String.raw`regexp_matches(${column}, '\p{Cc}')`, `.${field}: must not have control characters`],
      ] as const,
  ),
  ["kind = ''", `.principalTypeEnum: must be "${principalTypes.user}" or "${principalTypes.group}"`],
] as const;

/** The problems with the values of changed principals, as a query. */
const valueProblems = `
  SELECT index, unnest([${rules.map(([condition, problem]) => `CASE WHEN ${condition} THEN ${literal(problem)} END`).join(",\n")}]) AS problem
  FROM changed WHERE ${rules.map(([condition]) => `(${condition})`).join(" OR ")}`;

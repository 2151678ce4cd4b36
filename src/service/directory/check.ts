import { InputError } from "#errors.ts";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { areGroupNames, readList } from "#plan/lists.ts";
import { principalTypes } from "#wire/administration.ts";

/** The most problems that are reported (B.5). */
const most = 100;

/** The longest `name` and `displayName` in code points (B.5). */
const longestName = 255;

/** The problem of an element that is no object. Its missing fields are not reported then. */
const noObject = literal(": must be an object");

/** What `checkList` compares the list with. */
export interface Checks {
  /** The changes, as `createChanges` makes them. */
  readonly changes: string;
  /** The names of the groups that there will be. */
  readonly desiredGroups: string;
  /** With a default password, no user needs one of its own. */
  readonly hasDefaultPassword: boolean;
}

/**
 * Reads the list in a file into the temporary table `listed`: `index`, `Attributes.relation` and `password`. A value of
 * the wrong type is empty or NULL there; `wrong_types (index, problem)` names those that would pass for absent.
 * @throws {InputError} when it is no JSON array (B.5)
 */
export async function loadList(connection: Connection, file: string): Promise<void> {
  await readList(connection, file, { into: "listed", isTemporary: true, isLenient: false });
  await connection.run(`
    CREATE TEMP TABLE wrong_types AS
      SELECT index, problem FROM (
        SELECT index, unnest([${typeProblems.join(",\n")}]) AS problem FROM listed WHERE NOT is_typed)
      WHERE problem IS NOT NULL;
    ALTER TABLE listed DROP COLUMN json;
    ALTER TABLE listed DROP COLUMN visibility;`);
}

const isOptionalText = (field: string): string =>
  `coalesce(json_type(json, '$.${field}'), 'NULL') IN ('VARCHAR', 'NULL')`;
const isGroup = `coalesce(json_type(json, '$.principalTypeEnum') = 'VARCHAR'
  AND (json ->> '$.principalTypeEnum') = '${principalTypes.group}', false)`;

/**
 * The problems with the types of an element. A required field of
 * the wrong type is empty in `listed`, and is reported from there.
 */
const typeProblems = [
  `CASE WHEN coalesce(json_type(json), 'NULL') <> 'OBJECT' THEN ${noObject} END`,
  `CASE WHEN NOT ${isOptionalText("description")} THEN '.description: must be a string' END`,
  `CASE WHEN NOT (${isOptionalText("mail")} OR ${isGroup}) THEN '.mail: must be a string' END`,
  `CASE WHEN NOT (${isOptionalText("password")} OR ${isGroup}) THEN '.password: must be a string' END`,
  `CASE WHEN coalesce(json_type(json, '$.groupNames'), 'NULL') <> 'NULL' AND NOT ${areGroupNames}
     THEN '.groupNames: must be an array of strings' END`,
];

/**
 * Checks `listed` (B.5). Principals that do not change are valid already, so only changed ones are checked. Two checks
 * need the whole list: names given twice, and, when a group is deleted, members of groups.
 * @throws {InputError} naming the first hundred problems by element
 */
export async function checkList(
  connection: Connection,
  { changes, desiredGroups, hasDefaultPassword }: Checks,
): Promise<void> {
  await connection.run(`
    CREATE TEMP TABLE repeated AS
      SELECT kind, name, min(index) AS first FROM listed WHERE kind <> '' AND name <> ''
      GROUP BY kind, name HAVING count(*) > 1;
    CREATE TEMP TABLE changed AS
      SELECT l.* EXCLUDE (description, mail), c.action FROM listed l JOIN ${changes} c USING (kind, name);`);
  const [deleted] = await connection.rows(`FROM ${changes} WHERE action = 'delete' AND kind = 'group' LIMIT 1`);
  const members = deleted === undefined ? "changed" : "listed";

  const queries = [
    valueProblems(hasDefaultPassword),
    `SELECT l.index, '.name: is there before as principals[' || r.first || ']: names of one kind must differ'
     FROM listed l JOIN repeated r USING (kind, name) WHERE l.index > r.first`,
    `SELECT index, '.groupNames: ' || to_json(left(group_name, ${longestName})) || ' is neither in the list nor stays in the service'
     FROM (SELECT index, unnest(group_names) AS group_name FROM ${members})
     WHERE group_name NOT IN (SELECT name FROM ${desiredGroups})`,
    "SELECT index, problem FROM wrong_types",
  ];
  const rows = await connection.rows<{ text: string }>(`
    SELECT DISTINCT index, 'principals[' || index || ']' || problem AS text
    FROM (${queries.join("\nUNION ALL\n")})
    WHERE problem IS NOT NULL AND (problem = ${noObject} OR index NOT IN (SELECT index FROM wrong_types WHERE problem = ${noObject}))
    ORDER BY index, text LIMIT ${most}`);
  if (rows.length > 0) {
    throw new InputError("The list of principals is not valid; nothing has changed.", {
      problems: rows.map(({ text }) => text),
    });
  }
}

/** The problems with the values of changed principals, as a query. */
function valueProblems(hasDefaultPassword: boolean): string {
  const names = (
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
  );
  const rules = [
    ...names,
    ["kind = ''", `.principalTypeEnum: must be "${principalTypes.user}" or "${principalTypes.group}"`],
    ...(hasDefaultPassword
      ? []
      : [
          [
            "action = 'create' AND kind = 'user' AND password IS NULL",
            ".password: is needed for a user that is created, unless defaultPassword is set",
          ] as const,
        ]),
  ] as const;
  const problems = rules.map(([condition, problem]) => `CASE WHEN ${condition} THEN ${literal(problem)} END`);
  return `
    SELECT index, unnest([${problems.join(",\n")}]) AS problem
    FROM changed WHERE ${rules.map(([condition]) => `(${condition})`).join(" OR ")}`;
}

import { InputError } from "#errors.ts";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { principalTypes } from "#wire/administration.ts";
import { listed, wrongTypes } from "./listed.ts";

/** How many problems are named (B.5). */
const most = 100;

/** The longest `name` and `displayName` in code points (B.5). */
const longestName = 255;

/** What is wrong with an element that is no object: then nothing is said of the fields that it does not have. */
const noObject = literal(": must be an object");

/** What is checked, and against what. The relations are those of a sync. */
export interface Checks {
  /** The changes, as `createChanges` makes them of what is and `desired`. */
  readonly changes: string;
  /** The names of the groups that there are to be. */
  readonly desiredGroups: string;
  /** Whether a default password is set: then no user needs one. */
  readonly hasDefaultPassword: boolean;
}

/**
 * Checks the list (B.5). What does not change is valid already, so that only what does is looked at; two questions
 * are asked of the whole list: whether a name comes twice, and whether anybody is in a group that goes.
 * @throws {InputError} naming the first hundred problems by element
 */
export async function checkList(connection: Connection, checks: Checks): Promise<void> {
  const { changes, desiredGroups, hasDefaultPassword } = checks;
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE repeated AS
      SELECT kind, name, min(index) AS first FROM ${listed} WHERE kind <> '' AND name <> ''
      GROUP BY kind, name HAVING count(*) > 1;
    CREATE OR REPLACE TEMP TABLE changed AS
      SELECT l.* EXCLUDE (description, mail), c.action FROM ${listed} l JOIN ${changes} c USING (kind, name);`);
  const [going] = await connection.rows(`FROM ${changes} WHERE action = 'delete' AND kind = 'group' LIMIT 1`);
  const members = going === undefined ? "changed" : listed;

  const queries = [
    ofValues(hasDefaultPassword),
    `SELECT l.index, '.name: is there before as principals[' || r.first || ']: names of one kind must differ'
     FROM ${listed} l JOIN repeated r USING (kind, name) WHERE l.index > r.first`,
    `SELECT index, '.groupNames: ' || to_json(left(group_name, ${longestName})) || ' is neither in the list nor stays in the service'
     FROM (SELECT index, unnest(group_names) AS group_name FROM ${members})
     WHERE group_name NOT IN (SELECT name FROM ${desiredGroups})`,
    `SELECT index, problem FROM ${wrongTypes}`,
  ];
  const rows = await connection.rows<{ text: string }>(`
    SELECT DISTINCT index, 'principals[' || index || ']' || problem AS text
    FROM (${queries.join("\nUNION ALL\n")})
    WHERE problem IS NOT NULL AND (problem = ${noObject} OR index NOT IN (SELECT index FROM ${wrongTypes} WHERE problem = ${noObject}))
    ORDER BY index, text LIMIT ${most}`);
  if (rows.length > 0) {
    throw new InputError("The list of principals is not valid; nothing has changed.", {
      problems: rows.map(({ text }) => text),
    });
  }
}

/** What is wrong with the values of what changes. */
function ofValues(hasDefaultPassword: boolean): string {
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

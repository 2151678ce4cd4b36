import { principalTypes } from "#wire/administration.ts";

/** One principal as JSON (B.9), as SQL. `description` is there when it is set; `mail` always, for users. */
function element(type: string, hasMail: boolean): string {
  const object = (hasDescription: boolean): string => `to_json({
    name: name,
    displayName: display_name,
    ${hasDescription ? "description: description," : ""}
    ${hasMail ? "mail: coalesce(mail, '')," : ""}
    principalTypeEnum: '${type}',
    groupNames: group_names,
    visibility: 'DEFAULT',
    created: created,
    modified: modified
  })::VARCHAR`;
  return `CASE WHEN description IS NULL THEN ${object(false)} ELSE ${object(true)} END`;
}

/**
 * The answer of `user/list` (B.9), as a query of lines: users first, then groups, each by name.
 * The first line is a user's: there is always one, the administrator (0.7).
 */
export const listing = `
  SELECT mark || line FROM (
    SELECT 1 AS part, name, ${element(principalTypes.user, true)} AS line,
      CASE WHEN name = (SELECT min(name) FROM directory.users) THEN '[' ELSE ',' END AS mark
    FROM directory.users
    UNION ALL
    SELECT 2, name, ${element(principalTypes.group, false)}, ',' FROM directory.groups
    UNION ALL
    SELECT 3, '', ']', ''
  ) ORDER BY part, name`;

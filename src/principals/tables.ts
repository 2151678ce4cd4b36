/**
 * A principal as a row: the one shape that every relation of principals has, in the workbench and in the service.
 * `kind` is `user` or `group`; unset `description` and `mail` are NULL, never empty; `group_names` is sorted by
 * code point and holds no name twice, never NULL.
 */
export const principalColumns = ["kind", "name", "display_name", "description", "mail", "group_names"] as const;

/** The columns of `principalColumns` as DDL, for `CREATE TABLE t (${principalDdl}, …)`. */
export const principalDdl = `
  kind VARCHAR NOT NULL,
  name VARCHAR NOT NULL,
  display_name VARCHAR NOT NULL,
  description VARCHAR,
  mail VARCHAR,
  group_names VARCHAR[] NOT NULL`;

/** A column that decides whether a principal differs: everything but its identity. */
export const comparedColumns = ["display_name", "description", "mail", "group_names"] as const;

/**
 * Where assembled principals come from, and what of them is kept as the target has it: a sum of `keepBits`. The target's
 * value takes the place of what is in the row, which is for a principal that is created.
 */
export const assembledDdl = `${principalDdl},
  source VARCHAR NOT NULL,
  source_id VARCHAR NOT NULL,
  origin VARCHAR NOT NULL,
  kept UTINYINT NOT NULL`;

export const keepBits = { displayName: 1, description: 2, mail: 4 } as const;

/** The source, in rows, of what the configuration itself says. No source has this name. */
export const ownSource = "(configuration)";

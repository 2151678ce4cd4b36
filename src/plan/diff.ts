import { comparedColumns } from "#principals/relation.ts";
import { identifier } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";

/** Which relations are compared, and the name of the table that is made. */
export interface Difference {
  /** A relation with `principalColumns`: what is. */
  readonly actual: string;
  /** A relation with `principalColumns`: what shall be. */
  readonly desired: string;
  /** The temporary table that is created: `(action, kind, name)`, one row for each principal that differs. */
  readonly into: string;
}

/** Compares two relations as sets of principals: the one diff of the daemon and of the service. */
export async function createChanges(connection: Connection, difference: Difference): Promise<void> {
  const differs = comparedColumns.map((column) => `a.${column} IS DISTINCT FROM d.${column}`).join(" OR ");
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE ${identifier(difference.into)} AS
    SELECT
      CASE WHEN a.name IS NULL THEN 'create' WHEN d.name IS NULL THEN 'delete' ELSE 'update' END AS action,
      coalesce(d.kind, a.kind) AS kind,
      coalesce(d.name, a.name) AS name
    FROM ${identifier(difference.actual)} a
    FULL JOIN ${identifier(difference.desired)} d ON a.kind = d.kind AND a.name = d.name
    WHERE a.name IS NULL OR d.name IS NULL OR ${differs}`);
}

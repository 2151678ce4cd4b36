import { InputError } from "#errors.ts";
import type { Kind } from "#principals/principal.ts";
import type { Action } from "./change.ts";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { restore, uncreate } from "./withhold.ts";

/** A principal, named. */
export interface Subject {
  readonly kind: Kind;
  readonly name: string;
}

/** A part of a plan: only these actions, and all but these principals. Absent: not narrowed by it. */
export interface Selection {
  readonly only?: readonly Action[];
  readonly except?: readonly Subject[];
}

/**
 * Takes what is not selected out of `desired`, so that the difference made again is a part of the plan in `changes`. A
 * group of which a member stays as it is stays too: without it, that member would have changed. Expects the tables of
 * `createPlan` and `combine`.
 * @throws {InputError} when a principal is named that the plan does not change
 */
export async function narrow(connection: Connection, { only, except = [] }: Selection): Promise<void> {
  if (only === undefined && except.length === 0) return;
  const named = except.map(({ kind, name }) => `(${literal(kind)}, ${literal(name)})`);
  if (named.length > 0) await refuseUnplanned(connection, named);
  const excluded = [
    ...(only === undefined ? [] : [`action NOT IN (${["''", ...only.map(literal)].join(", ")})`]),
    ...(named.length === 0 ? [] : [`(kind, name) IN (${named.join(", ")})`]),
  ];
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE excluded AS
    WITH RECURSIVE deleted AS (SELECT name FROM changes WHERE kind = 'group' AND action = 'delete'),
    closure(kind, name) AS (
      SELECT kind, name FROM changes WHERE ${excluded.join(" OR ")}
      UNION
      SELECT 'group', g FROM (
        SELECT unnest(a.group_names) AS g FROM closure c JOIN actual a ON a.kind = c.kind AND a.name = c.name) m
      SEMI JOIN deleted d ON d.name = m.g)
    FROM closure`);
  const isExcluded = "(kind, name) IN (SELECT (kind, name) FROM excluded)";
  await connection.run(`
    ${uncreate(isExcluded)};
    ${restore(isExcluded)};
    UPDATE desired SET display_name = a.display_name, description = a.description, mail = a.mail, group_names = a.group_names
    FROM actual a SEMI JOIN excluded USING (kind, name) WHERE a.kind = desired.kind AND a.name = desired.name`);
}

async function refuseUnplanned(connection: Connection, named: readonly string[]): Promise<void> {
  const [missing] = await connection.rows<{ kind: string; name: string }>(`
    SELECT kind, name FROM (VALUES ${named.join(", ")}) n(kind, name) ANTI JOIN changes USING (kind, name) LIMIT 1`);
  if (missing !== undefined)
    throw new InputError(`the plan does not change the ${missing.kind} ${missing.name}: it cannot be left out of it`);
}

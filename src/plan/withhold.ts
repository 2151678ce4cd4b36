import type { Connection } from "#duckdb/database.ts";
import { measures } from "./limits.ts";
import type { LimitCheck, Measure } from "./limits.ts";

/**
 * What waits because of limits. A source that has shrunk, or has too little, may be one that was not read as it should
 * be: what would be taken away then is what waits.
 */
export function waitingFor(checks: readonly LimitCheck[]): ReadonlySet<Measure> {
  const waiting = new Set<Measure>();
  for (const { limit, tripped, overridden } of checks) {
    if (!tripped || overridden) continue;
    const isMeasure = (measures as readonly string[]).includes(limit);
    for (const each of isMeasure ? [limit as Measure] : (["deletes", "membershipsLost"] as const)) waiting.add(each);
  }
  return waiting;
}

/**
 * Copies what waits from `actual` back into `desired`, before the difference is made again: then the plan shown, the
 * list sent and the service's preview are still one thing. Nothing else becomes more by it. What keeps its groups keeps
 * them whole: while updates or lost memberships wait, no group is deleted, since that would take memberships away.
 * What is not created is not `managed` either.
 */
export async function withhold(connection: Connection, waiting: ReadonlySet<Measure>): Promise<void> {
  const steps: Record<Measure, string> = {
    creates: uncreate("true"),
    deletes: restore("true"),
    updates: `
      ${restore("kind = 'group'")};
      UPDATE desired SET display_name = a.display_name, description = a.description, mail = a.mail, group_names = a.group_names
      FROM actual a WHERE a.kind = desired.kind AND a.name = desired.name`,
    membershipsLost: `
      ${restore("kind = 'group'")};
      UPDATE desired SET group_names = list_sort(list_distinct(desired.group_names || a.group_names))
      FROM actual a WHERE a.kind = desired.kind AND a.name = desired.name AND NOT list_has_all(desired.group_names, a.group_names)`,
    blanked: `
      UPDATE desired SET description = coalesce(desired.description, a.description), mail = coalesce(desired.mail, a.mail)
      FROM actual a WHERE a.kind = desired.kind AND a.name = desired.name`,
  };
  for (const measure of ["creates", "deletes", "updates", "membershipsLost", "blanked"] as const)
    if (waiting.has(measure)) await connection.run(steps[measure]);
}

/**
 * SQL that leaves out principals that are to be created, and the memberships of others in the groups among them.
 * @param which an SQL condition on a row of `desired`
 */
export function uncreate(which: string): string {
  return `
    CREATE OR REPLACE TEMP TABLE uncreated AS
    SELECT kind, name FROM (SELECT * FROM desired WHERE ${which}) ANTI JOIN actual USING (kind, name);
    DELETE FROM desired WHERE (kind, name) IN (FROM uncreated);
    DELETE FROM managed WHERE (kind, name) IN (FROM uncreated);
    UPDATE desired SET group_names = list_filter(desired.group_names, lambda g: NOT list_contains(u.names, g))
    FROM (SELECT list(name) AS names FROM uncreated WHERE kind = 'group') u
    WHERE list_has_any(desired.group_names, u.names)`;
}

/**
 * SQL that brings principals back that are to be deleted; those that stay keep their memberships in the groups among them.
 * @param which an SQL condition on a row of `actual`
 */
export function restore(which: string): string {
  return `
    CREATE OR REPLACE TEMP TABLE restored AS
    SELECT * FROM (SELECT * FROM actual WHERE ${which}) ANTI JOIN desired USING (kind, name);
    INSERT INTO desired SELECT kind, name, display_name, description, mail, group_names FROM restored;
    UPDATE desired SET group_names = list_sort(list_distinct(desired.group_names || k.kept))
    FROM (
      SELECT a.kind, a.name, list(a.g) AS kept FROM (SELECT kind, name, unnest(group_names) AS g FROM actual) a
      SEMI JOIN restored r ON r.kind = 'group' AND r.name = a.g GROUP BY a.kind, a.name) k
    WHERE k.kind = desired.kind AND k.name = desired.name`;
}

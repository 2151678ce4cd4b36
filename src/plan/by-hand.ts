import type { Connection } from "#duckdb/database.ts";
import type { Kind } from "#principals/principal.ts";
import { matches } from "./patterns.ts";
import { findSome } from "./found.ts";
import type { Found } from "./found.ts";

/** A membership that somebody added in the target. */
export interface ByHand {
  readonly kind: Kind;
  readonly name: string;
  readonly group: string;
}

/** What is known of memberships that the sync did not give. */
export interface ByHandFound {
  /** Manual memberships that stay. */
  readonly kept: Found<ByHand>;
  /** How many are taken back, because it is not known what the last applied run gave. */
  readonly undecided: number;
}

/**
 * Fills `added_by_hand` with the memberships in `actual` that neither the sources say nor this sync has given. What it has
 * given is what the last applied run left in the target (`baseline_target`), of principals and groups that it owned, without
 * what it knew to be by hand (`by_hand`): so a membership that the sources withdraw is taken away. Without a baseline only
 * what was known then is by hand, and whatever else is in principals and groups that it owned counts as given. Runs before
 * `depart`.
 * @param groups names of the groups in which they stay; `*` stands for any characters
 * @returns how many memberships count as given because there is no baseline
 */
export async function findByHand(
  connection: Connection,
  groups: readonly string[],
  hasBaseline: boolean,
  ignoresCase = false,
): Promise<number> {
  if (groups.length === 0) return 0;
  const left = hasBaseline
    ? `SELECT kind, name, unnest(group_names) AS grp FROM baseline_target SEMI JOIN extra_membership USING (kind, name)`
    : "SELECT kind, name, grp FROM extra_membership";
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE extra_membership AS
    WITH ours AS (SELECT kind, name FROM assembled UNION SELECT kind, name FROM ledger),
    extra AS (
      SELECT a.kind, a.name, unnest(list_filter(a.group_names, lambda g: NOT list_contains(coalesce(s.group_names, []), g))) AS grp
      FROM actual a SEMI JOIN ours USING (kind, name) LEFT JOIN assembled s ON s.kind = a.kind AND s.name = a.name
      WHERE NOT list_has_all(coalesce(s.group_names, []), a.group_names))
    SELECT kind, name, grp FROM extra
    SEMI JOIN (SELECT name FROM ours WHERE kind = 'group') o ON o.name = extra.grp WHERE ${matches("grp", groups, ignoresCase)};
    INSERT INTO added_by_hand
    WITH given AS (
      SELECT l.kind, l.name, l.grp FROM (${left}) l SEMI JOIN ledger USING (kind, name)
      SEMI JOIN (SELECT name FROM ledger WHERE kind = 'group') g ON g.name = l.grp
      ANTI JOIN by_hand USING (kind, name, grp))
    FROM extra_membership ANTI JOIN given USING (kind, name, grp)`);
  if (hasBaseline) return 0;
  const [row] = await connection.rows<{ given: bigint }>(`
    SELECT count(*) AS given FROM extra_membership ANTI JOIN added_by_hand USING (kind, name, grp)
    SEMI JOIN assembled USING (kind, name) SEMI JOIN (SELECT name FROM assembled WHERE kind = 'group') s ON s.name = grp`);
  return Number(row?.given ?? 0);
}

/**
 * SQL that makes `kept_by_hand` of `added_by_hand`: the memberships that somebody added by hand, by the names that principals and
 * groups will have. Part of `combine`.
 * @param wanted a relation `(kind, name, group_names)`: what the sources want
 */
export function keptByHandOf(wanted: string): string {
  return `
    CREATE OR REPLACE TEMP TABLE kept_by_hand AS
    WITH placed AS (
      SELECT a.kind, coalesce(p.becomes, a.name) AS name, coalesce(g.becomes, a.grp) AS grp FROM added_by_hand a
      LEFT JOIN renamed p ON p.kind = a.kind AND p.was = a.name LEFT JOIN renamed g ON g.kind = 'group' AND g.was = a.grp)
    SELECT DISTINCT placed.kind, placed.name, placed.grp FROM placed
    LEFT JOIN ${wanted} m ON m.kind = placed.kind AND m.name = placed.name
    WHERE grp IN (SELECT name FROM remaining_group) AND NOT is_protected('group', grp) AND NOT list_contains(coalesce(m.group_names, []), grp)
      AND (m.name IS NOT NULL OR (placed.kind, placed.name) IN (SELECT (kind, name) FROM frozen))`;
}

/** The memberships that stay. Runs after `combine`. */
export function keptByHand(connection: Connection): Promise<Found<ByHand>> {
  return findSome(connection, `SELECT kind, name, grp AS "group" FROM kept_by_hand`, `"group", kind DESC, name`);
}

import type { Connection } from "#duckdb/database.ts";
import { literal } from "#duckdb/database.ts";
import { columnOf } from "#principals/attributes.ts";
import type { Attribute, Attributes } from "#principals/attributes.ts";
import { driftPattern } from "./limit-options.ts";
import type { DriftRules } from "./limits.ts";
import { matches } from "./patterns.ts";
import { restore, uncreate } from "./selection.ts";

/** How many principals keep what somebody changed, by why. */
export interface DriftLeft {
  readonly left: number;
  readonly ignored: number;
}

/**
 * Takes drift that stays out of `desired`: makes `drift_left` of `drift_item`, and `drift_wanted`, the principals as the
 * sources want them. Runs after `findCauses`; plan again afterwards.
 * @param ignoresCase the target takes names that differ in case alone for the same
 */
export async function leaveDrift(
  connection: Connection,
  attributes: Attributes,
  { policy, ignore }: DriftRules,
  ignoresCase = false,
): Promise<DriftLeft> {
  const ignored = ignore.map((each) => matching(each, driftPattern(attributes), ignoresCase));
  const isIgnored = ignored.length === 0 ? "false" : `(${ignored.join(" OR ")})`;
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE drift_left AS
    SELECT *, ${isIgnored} AS is_ignored FROM drift_item WHERE ${policy === "leave" ? "true" : isIgnored};
    CREATE OR REPLACE TEMP TABLE drift_wanted AS
    FROM desired SEMI JOIN drift_left USING (kind, name);
    ${uncreate("(kind, name) IN (SELECT (kind, name) FROM drift_left WHERE action = 'create')")};
    ${restore("(kind, name) IN (SELECT (kind, name) FROM drift_left WHERE action = 'delete')")};
    ${attributes.all.map((each) => `${leave(each)};`).join("")}
    UPDATE desired SET group_names = list_filter(desired.group_names, lambda g: NOT list_contains(l.names, g))
    FROM (SELECT kind, name, list(grp) AS names FROM drift_left WHERE aspect = 'joined' GROUP BY kind, name) l
    WHERE l.kind = desired.kind AND l.name = desired.name;
    UPDATE desired SET group_names = list_sort(list_distinct(desired.group_names || l.names))
    FROM (
      SELECT d.kind, d.name, list(d.grp) AS names FROM drift_left d
      SEMI JOIN (SELECT name FROM desired WHERE kind = 'group') g ON g.name = d.grp
      WHERE d.aspect = 'left' GROUP BY d.kind, d.name) l
    WHERE l.kind = desired.kind AND l.name = desired.name`);
  const [row] = await connection.rows<{ remaining: bigint; ignored: bigint }>(`
    SELECT count(DISTINCT (kind, name)) FILTER (NOT is_ignored) AS remaining, count(DISTINCT (kind, name)) FILTER (is_ignored) AS ignored
    FROM drift_left`);
  return { left: Number(row?.remaining ?? 0), ignored: Number(row?.ignored ?? 0) };
}

/** SQL: the attribute becomes what the target has, where somebody changed it. */
function leave(attribute: Attribute): string {
  const column = columnOf(attribute);
  return `
    UPDATE desired SET ${column} = a.${column} FROM actual a SEMI JOIN (FROM drift_left WHERE aspect = ${literal(attribute.name)}) USING (kind, name)
    WHERE a.kind = desired.kind AND a.name = desired.name`;
}

/** SQL: the row of `drift_item` matches the pattern. */
function matching(pattern: string, form: RegExp, ignoresCase: boolean): string {
  const [, kinds = "", name = "", what = ""] = form.exec(pattern) ?? [];
  const aspects = { memberships: "aspect IN ('joined', 'left')", "*": "true" }[what] ?? `aspect = ${literal(what)}`;
  return `(kind = ${literal(kinds.slice(0, -1))} AND ${matches("name", [name], ignoresCase)} AND ${aspects})`;
}

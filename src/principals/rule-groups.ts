import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import type { CompiledRules } from "./compile.ts";
import { assembledTables, ownSource } from "./tables.ts";
import { Yielder } from "./yield.ts";

/** How many groups are described at a time. */
const batch = 1000;

/**
 * Makes `rule_group`: the groups that rules put somebody into and no source has. Those that the rules cannot describe are
 * added to `held_group` and `held_rule_group`. Runs in `assemble`, once it is known which entries count.
 */
export async function createRuleGroups(
  connection: Connection,
  { groupOfRule }: CompiledRules,
  signal: AbortSignal,
): Promise<void> {
  const yielder = new Yielder(signal);
  await connection.run(`
    CREATE OR REPLACE TABLE rule_group (${assembledTables.rule_group});
    CREATE OR REPLACE TEMP TABLE held_rule_group (name VARCHAR, origin VARCHAR, reason VARCHAR)`);
  if (groupOfRule === undefined) return;
  await connection.run(`
    INSERT INTO rule_group
    WITH named AS (
      SELECT n.name, min_by({'kind': e.kind, 'name': e.name, 'origin': e.origin}, e.seq) AS first, count(*) AS times
      FROM staged_group_name n JOIN staged_entry e ON e.seq = n.member JOIN staged_source s USING (source)
      WHERE s.name <> ${literal(ownSource)} AND e.seq NOT IN (SELECT seq FROM held)
      GROUP BY n.name)
    SELECT name, name, NULL,
      'the rule ' || first.kind || 's.groups of ' || first.name || ', ' || first.origin
        || CASE WHEN times > 1 THEN ', and of ' || (times - 1) || ' more' ELSE '' END
    FROM named ANTI JOIN (SELECT name FROM staged_entry WHERE kind = 'group' AND name IS NOT NULL) g USING (name)`);
  for (let from = 0; ; from += batch) {
    const some = await connection.rows<{ name: string }>(
      `SELECT name FROM rule_group ORDER BY name LIMIT ${batch} OFFSET ${from}`,
    );
    const described = [];
    for (const { name } of some) {
      described.push({ name, ...groupOfRule(name) });
      if (yielder.isDue()) await yielder.yield();
    }
    const values = described.flatMap((each) =>
      "reason" in each || (each.displayName === each.name && each.description === undefined)
        ? []
        : `(${[each.name, each.displayName, each.description].map(orNull).join(", ")})`,
    );
    if (values.length > 0)
      await connection.run(`
        UPDATE rule_group SET display_name = v.display_name, description = v.description
        FROM (VALUES ${values.join(", ")}) v(name, display_name, description) WHERE v.name = rule_group.name`);
    const held = described.flatMap((each) =>
      "reason" in each ? `(${[each.name, each.reason].map(orNull).join(", ")})` : [],
    );
    if (held.length > 0)
      await connection.run(`
        INSERT INTO held_rule_group
        SELECT name, origin, v.reason FROM (VALUES ${held.join(", ")}) v(name, reason) JOIN rule_group USING (name)`);
    if (some.length < batch) break;
  }
  await connection.run(`
    DELETE FROM rule_group WHERE name IN (SELECT name FROM held_rule_group);
    INSERT INTO held_group SELECT name FROM held_rule_group`);
}

function orNull(text: string | undefined): string {
  return text === undefined ? "NULL" : literal(text);
}

import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { ruleSource } from "#principals/tables.ts";
import { findSome } from "./found.ts";
import type { Found } from "./found.ts";
import { wanted } from "./protect.ts";

/** An SQL condition: rules make the group. */
export const isRuleGroup = `source = ${literal(ruleSource)}`;

/**
 * Adds the groups that rules make (`rule_group`) to `assembled`, owned like any other. One that the target has already and
 * this sync does not own is not taken over: it gets members, and stays as it is otherwise. Runs before `freeze`.
 * @param keepAttributes whether causes will be looked for
 * @returns the groups that are not taken over
 */
export async function addRuleGroups(
  connection: Connection,
  { manage }: { readonly manage: "owned" | "everything" },
  keepAttributes: boolean,
): Promise<Found<string>> {
  const notOwned = `
    SELECT r.name FROM rule_group r
    SEMI JOIN (SELECT name FROM actual WHERE kind = 'group') a ON a.name = r.name
    ANTI JOIN (SELECT name FROM ledger WHERE kind = 'group') l ON l.name = r.name
    WHERE ${manage === "owned"}`;
  // What was stored of an earlier read has them as they were then.
  await connection.run(`
    DELETE FROM assembled WHERE ${isRuleGroup};
    DELETE FROM record WHERE ${isRuleGroup};
    INSERT INTO assembled BY NAME
    SELECT 'group' AS kind, *, [] AS group_names, ${literal(ruleSource)} AS source, name AS source_id, 0 AS kept
    FROM rule_group WHERE name NOT IN (${notOwned});
    INSERT INTO record (kind, name, source, source_id, scope, attributes)
    SELECT kind, name, source, source_id, 'in', '{}' FROM assembled WHERE ${isRuleGroup} AND ${keepAttributes}`);
  const { count, examples } = await findSome<{ name: string }>(connection, notOwned, "name");
  return { count, examples: examples.map(({ name }) => name) };
}

/**
 * Keeps the groups that rules have made and make no more, while somebody is in them whose memberships stay: who is
 * quarantined, leaving or not managed by the sync, or was added by hand. They are no longer `doomed` or `gone` then. Runs in
 * `depart`.
 */
export async function keepOccupied(connection: Connection): Promise<void> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE occupied AS
    WITH RECURSIVE candidate AS (
      SELECT list(name) AS names FROM doomed
      WHERE kind = 'group' AND name IN (SELECT name FROM ledger WHERE kind = 'group' AND ${isRuleGroup})),
    member AS (
      SELECT a.kind, a.name, unnest(list_intersect(a.group_names, c.names)) AS g FROM actual a, candidate c
      WHERE list_has_any(a.group_names, c.names)),
    reached(name) AS (
      SELECT g FROM member SEMI JOIN frozen USING (kind, name)
      UNION SELECT m.g FROM member m SEMI JOIN added_by_hand b ON b.kind = m.kind AND b.name = m.name AND b.grp = m.g
        SEMI JOIN assembled s ON s.kind = m.kind AND s.name = m.name
      UNION SELECT m.g FROM member m JOIN reached r ON m.kind = 'group' AND m.name = r.name)
    SELECT a.* FROM actual a SEMI JOIN reached USING (name) WHERE a.kind = 'group';
    INSERT INTO assembled SELECT *, ${literal(ruleSource)}, name, 'somebody is still in it', 0 FROM occupied;
    DELETE FROM doomed WHERE kind = 'group' AND name IN (SELECT name FROM occupied);
    DELETE FROM gone WHERE kind = 'group' AND name IN (SELECT name FROM occupied)`);
}

/**
 * Does not create the groups that rules would make and nobody would be in. An undo creates them: they were there. Runs between
 * `depart` and `combine`.
 */
export async function leaveEmptyOut(connection: Connection): Promise<void> {
  await connection.run(`
    INSERT INTO held_back
    WITH wanted AS (${wanted})
    SELECT kind, name FROM assembled
    WHERE ${isRuleGroup} AND kind = 'group' AND name NOT IN (SELECT name FROM actual WHERE kind = 'group')
      AND name NOT IN (SELECT unnest(group_names) FROM wanted)`);
}

import type { Connection } from "#duckdb/database.ts";
import { entryKeys } from "./tables.ts";

/** How many of the other entries a reason names. */
const named = 3;

/**
 * Makes `held` with the entries that a rule failed for, and those that share an id or a name: there is no reason to prefer
 * one of them.
 */
export async function createHeld(connection: Connection): Promise<void> {
  const columns = "seq, source, kind, source_id, origin";
  const records = `SELECT ${columns} FROM staged_entry UNION ALL SELECT ${columns} FROM joined_record`;
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE held AS SELECT seq, reason FROM staged_entry WHERE reason IS NOT NULL`);
  await holdSharers(
    connection,
    `SELECT seq, origin, (source, kind, source_id) AS shared, 'the id ' || ${inMessage("source_id")} || ' is also that of' AS said
    FROM (${records}) SEMI JOIN (
      SELECT source, kind, source_id FROM (${records}) GROUP BY ALL HAVING count(*) > 1) USING (source, kind, source_id)`,
  );
  await holdSharers(
    connection,
    `SELECT seq, origin, (kind, name) AS shared, 'the name ' || ${inMessage("name")} || ' is also that of' AS said
    FROM staged_entry SEMI JOIN (
      SELECT kind, name FROM staged_entry GROUP BY ALL HAVING count(*) > 1) USING (kind, name)`,
  );
}

/** Adds entries to `held` that could be joined with several records of one source. */
export async function holdAmbiguousJoins(connection: Connection): Promise<void> {
  await holdSharers(
    connection,
    `SELECT p.seq, p.origin, (p.kind, p.join_key) AS shared, 'the join key ' || ${inMessage("p.join_key")} || ' is also that of' AS said
    FROM person p SEMI JOIN ambiguous_key USING (kind, join_key) SEMI JOIN staged_entry e ON e.seq = p.seq`,
  );
}

/**
 * Adds entries to `held` that share a key which a reference uses: which of them it means is unknown.
 * @param asksGroups references to groups that the rules leave out count, too: they may decide who is in scope
 */
export async function holdAmbiguous(connection: Connection, asksGroups: boolean): Promise<void> {
  const asked = `

    UNION SELECT source, kind, key FROM key_holder h SEMI JOIN (FROM stated WHERE member_kind = 'user') s
      ON s.source = h.source AND s.member_key = h.key WHERE h.is_shared AND h.kind = 'user'`;
  await holdSharers(
    connection,
    `SELECT k.seq, e.origin, (k.source, k.kind, k.key) AS shared,
      'a reference to the ' || k.kind || ' ' || ${inMessage("k.key")} || ' may also mean' AS said
    FROM ${entryKeys} k JOIN staged_entry e USING (seq)
    SEMI JOIN (SELECT source, lost_kind, lost_key FROM link WHERE lost_state = 'several' ${asksGroups ? asked : ""}) l
      ON l.source = k.source AND l.lost_kind = k.kind AND l.lost_key = k.key`,
  );
}

/** Adds the rows of `relation (seq, origin, shared, said)` to `held`, each naming the origins of others that share with it. */
async function holdSharers(connection: Connection, relation: string): Promise<void> {
  await connection.run(`
    INSERT INTO held
    WITH sharer AS (
      SELECT *, row_number() OVER (PARTITION BY shared ORDER BY seq) AS place, count(*) OVER (PARTITION BY shared) AS size
      FROM (${relation}))
    SELECT a.seq, any_value(a.said) || ' ' || string_agg(b.origin, ', ' ORDER BY b.seq)
      || CASE WHEN any_value(a.size) - 1 > count(*) THEN ' and ' || (any_value(a.size) - 1 - count(*)) || ' more' ELSE '' END
    FROM sharer a JOIN sharer b ON a.shared = b.shared AND a.seq <> b.seq
      AND b.place <= ${named} + (a.place <= ${named})::INTEGER
    GROUP BY a.seq, a.shared`);
}

/** SQL that quotes a text for a message. */
export function inMessage(column: string): string {
  return `to_json(left(${column}, 80))::VARCHAR`;
}

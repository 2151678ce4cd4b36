import type { Connection } from "#duckdb/database.ts";
import { quote, visible, withoutUnseen } from "#text.ts";
import { sameName } from "./principal.ts";
import { assemblyTables, entryKeys } from "./tables.ts";

/** How many of the other entries a reason names. */
const named = 3;

/**
 * Makes `held` with the entries that a rule failed for, and those that share an id or a name: there is no reason to prefer
 * one of them.
 * @param ignoresCase names that differ in case alone are the same
 */
export async function createHeld(connection: Connection, ignoresCase = false): Promise<void> {
  const shared = sameName(ignoresCase)("name");
  const columns = "seq, source, kind, source_id, origin";
  const records = `SELECT ${columns} FROM staged_entry UNION ALL SELECT ${columns} FROM joined_record`;
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE held AS SELECT seq, reason FROM staged_entry WHERE reason IS NOT NULL`);
  await holdSharers(
    connection,
    `SELECT seq, origin, (source, kind, source_id) AS shared, 'the id ' || ${inMessage("source_id")} || ' is also used by' AS said
    FROM (${records}) SEMI JOIN (
      SELECT source, kind, source_id FROM (${records}) GROUP BY ALL HAVING count(*) > 1) USING (source, kind, source_id)`,
  );
  await holdSharers(
    connection,
    `SELECT seq, origin, (kind, same) AS shared, 'the name ' || ${inMessage("name")} || ' is also used by' AS said
    FROM (SELECT *, ${shared} AS same FROM staged_entry) SEMI JOIN (
      SELECT kind, ${shared} AS same FROM staged_entry GROUP BY ALL HAVING count(*) > 1) USING (kind, same)`,
  );
}

/** Adds groups to `held` whose name the rules write in other letters, where that is the same name. */
export async function holdRuleGroupNames(connection: Connection): Promise<void> {
  await connection.run(`
    INSERT INTO held
    SELECT e.seq, 'the name ' || ${inMessage("e.name")} || ' differs from the group ' || ${inMessage("min(r.name)")} || ' of the rules in case alone'
    FROM staged_entry e JOIN (SELECT DISTINCT name FROM staged_group_name WHERE member NOT IN (SELECT seq FROM held)) r
      ON lower(r.name) = lower(e.name) AND r.name <> e.name
    WHERE e.kind = 'group' GROUP BY e.seq, e.name`);
}

/** Adds entries to `held` that could be joined with several records of one source. */
export async function holdAmbiguousJoins(connection: Connection): Promise<void> {
  await holdSharers(
    connection,
    `SELECT p.seq, p.origin, (p.kind, p.join_key) AS shared, 'the join key ' || ${inMessage("p.join_key")} || ' is also used by' AS said
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
    SEMI JOIN (SELECT source, kind, key FROM lost_link WHERE state = 'several' ${asksGroups ? asked : ""}) l
      ON l.source = k.source AND l.kind = k.kind AND l.key = k.key`,
  );
}

/** What may have to be compared without invisible characters, for RE2: `withoutUnseen` says exactly. */
const hidden = String.raw`[\p{Cc}\p{Cf}\x{a0}\x{34f}\x{115f}\x{1160}\x{1680}\x{17b4}\x{17b5}\x{180b}-\x{180f}\x{2000}-\x{200f}\x{2028}-\x{202f}\x{205f}-\x{206f}\x{2800}\x{3164}\x{fe00}-\x{fe0f}\x{ffa0}\x{fff0}-\x{fffc}\x{e0000}-\x{e0fff}]`;
const mayHide = String.raw`'^\s|\s$|${hidden}'`;

/** SQL of an id without what may hide in it. */
export function withoutHidden(column: string): string {
  return `trim(regexp_replace(${column}, '${hidden}', '', 'g'))`;
}

/**
 * Adds entries to `held` whose references lead nowhere, but would lead somewhere without invisible characters: whether they
 * are members is in doubt, so what the target has of them stays.
 */
export async function holdHiddenReferences(connection: Connection): Promise<void> {
  await connection.run(`CREATE OR REPLACE TEMP TABLE hidden_key (${assemblyTables.hidden_key})`);
  const lost = "lost_link WHERE state IS NULL";
  const found = await connection.rows<{ source: number; key: string }>(`
    SELECT DISTINCT source, key FROM (SELECT source, key FROM ${lost} UNION ALL SELECT source, key FROM ${entryKeys})
    WHERE regexp_matches(key, ${mayHide})`);
  for (const { source, key } of found) {
    const meant = withoutUnseen(key);
    if (meant !== key)
      await connection.run("INSERT INTO hidden_key VALUES (?, ?, ?, ?)", [source, key, meant, visible(quote(key))]);
  }
  const [hides] = await connection.rows("SELECT true FROM hidden_key LIMIT 1");
  if (hides === undefined) return;
  await connection.run(`
    INSERT INTO held
    WITH lost AS (
      SELECT l.source, coalesce(l.member, l.grp) AS seq, l.kind, l.key, coalesce(h.meant, l.key) AS meant, h.shown
      FROM (FROM ${lost}) l LEFT JOIN hidden_key h ON h.source = l.source AND h.key = l.key
      WHERE coalesce(l.member, l.grp) IS NOT NULL),
    known AS (
      SELECT k.source, k.kind, k.key, coalesce(h.meant, k.key) AS meant, h.shown
      FROM ${entryKeys} k LEFT JOIN hidden_key h ON h.source = k.source AND h.key = k.key)
    SELECT DISTINCT l.seq, 'the reference ' || coalesce(l.shown, ${inMessage("l.key")}) || ' may mean the ' || k.kind || ' '
      || coalesce(k.shown, ${inMessage("k.key")}) || ': they differ in white space or invisible characters'
    FROM lost l JOIN known k ON k.source = l.source AND k.meant = l.meant AND k.key <> l.key
      AND (l.kind IS NULL OR l.kind = k.kind)
    WHERE l.shown IS NOT NULL OR k.shown IS NOT NULL`);
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

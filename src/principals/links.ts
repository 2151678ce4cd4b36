import type { Kind } from "./principal.ts";
import { inMessage } from "./quarantine.ts";
import type { Statements } from "./quarantine.ts";

/**
 * Makes `link`, one row for each reference: `member` and `grp` are the entries that it connects. Where one of them is
 * not to be had, `lost_key` is what was looked for, and `lost_state` is null (nobody has it), `excluded` or `several`.
 * `told_by` is who said it: `member`, `group` or `pair`, whose `origin` is there too.
 * Without `keepLinks`, of what does connect there is no `origin`: nobody asks for it.
 * Whether the source tells of a membership with the member, with the group or apart makes no difference.
 */
export async function createLinks(connection: Statements, keepLinks: boolean): Promise<void> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE key_owner AS
    SELECT source, key, ${owner("user")}, ${owner("group")} FROM staged_key GROUP BY source, key;
    CREATE OR REPLACE TEMP TABLE link AS
    WITH listed AS (
      SELECT source, member, unnest(from_json(group_keys, '["VARCHAR"]')) AS group_key FROM staged_member_of),
    listing AS (
      SELECT source, grp, unnest(from_json(members, '[{"kind": "VARCHAR", "key": "VARCHAR"}]')) AS reference
      FROM staged_members),
    reference AS (
      SELECT source, member, NULL AS given_kind, NULL AS member_key, NULL AS grp, group_key, NULL AS origin,
        'member' AS told_by FROM listed
      UNION ALL SELECT source, NULL, reference.kind, reference.key, grp, NULL, NULL, 'group' FROM listing
      UNION ALL SELECT source, NULL, member_kind, member_key, NULL, group_key, origin, 'pair' FROM staged_pair),
    meant AS (
      SELECT r.told_by, r.source, r.origin, r.member, r.member_key, r.grp, r.group_key, g.group_state, g.group_seq,
        coalesce(r.given_kind, CASE WHEN m.user_state IS NOT NULL THEN 'user'
          WHEN m.group_state IS NOT NULL THEN 'group' END) AS member_kind,
        CASE member_kind WHEN 'user' THEN m.user_state ELSE m.group_state END AS member_state,
        CASE member_kind WHEN 'user' THEN m.user_seq ELSE m.group_seq END AS member_seq
      FROM reference r
      LEFT JOIN key_owner g ON g.source = r.source AND g.key = r.group_key
      LEFT JOIN key_owner m ON m.source = r.source AND m.key = r.member_key),
    judged AS (
      SELECT *,
        group_key IS NOT NULL AND group_state IS DISTINCT FROM 'one' AS group_lost,
        member_key IS NOT NULL AND member_state IS DISTINCT FROM 'one' AS member_lost
      FROM meant)
    SELECT source, ${keepLinks ? "origin" : "CASE WHEN group_lost OR member_lost THEN origin END AS origin"}, told_by,
      CASE WHEN member_key IS NULL THEN member WHEN NOT member_lost THEN member_seq END AS member,
      CASE WHEN group_key IS NULL THEN grp WHEN NOT group_lost THEN group_seq END AS grp,
      CASE WHEN group_lost THEN group_key WHEN member_lost THEN member_key END AS lost_key,
      CASE WHEN group_lost THEN 'group' WHEN member_lost THEN member_kind END AS lost_kind,
      CASE WHEN group_lost THEN group_state WHEN member_lost THEN member_state END AS lost_state
    FROM judged`);
  // What is not needed any more makes room for what follows.
  await connection.run(
    "DROP TABLE key_owner; DROP TABLE staged_member_of; DROP TABLE staged_members; DROP TABLE staged_pair",
  );
}

/** Who of one kind has a key: nobody (null), only excluded entries, one entry, or several. */
function owner(kind: Kind): string {
  return `
    CASE WHEN count(*) FILTER (kind = '${kind}') = 0 THEN NULL
      WHEN count(seq) FILTER (kind = '${kind}') = 0 THEN 'excluded'
      WHEN count(seq) FILTER (kind = '${kind}') = 1 THEN 'one'
      ELSE 'several' END AS ${kind}_state,
    min(seq) FILTER (kind = '${kind}') AS ${kind}_seq`;
}

/** The references that connect nothing: how many, and a line for each of the first `limit`. */
export async function unresolvedLinks(
  connection: Statements,
  limit: number,
): Promise<{ count: number; examples: string[] }> {
  const [total] = await connection.rows<{ count: bigint }>(
    "SELECT count(*) AS count FROM link WHERE lost_key IS NOT NULL",
  );
  const lines = await connection.rows<{ line: string }>(`
    SELECT coalesce(l.origin, e.origin) || ': the ' || coalesce(l.lost_kind, 'user or group') || ' '
      || ${inMessage("l.lost_key")} || CASE l.lost_state
        WHEN 'excluded' THEN ' is excluded by the rules'
        WHEN 'several' THEN ' may be one of several'
        ELSE ' does not exist in the source' END AS line
    FROM (SELECT * FROM link WHERE lost_key IS NOT NULL ORDER BY coalesce(member, grp), lost_key LIMIT ${limit}) l
    LEFT JOIN staged_entry e ON e.seq = coalesce(l.member, l.grp)
    ORDER BY coalesce(l.member, l.grp), l.lost_key`);
  return { count: Number(total?.count ?? 0), examples: lines.map(({ line }) => line) };
}

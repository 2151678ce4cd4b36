import type { Kind } from "./principal.ts";
import { inMessage } from "./quarantine.ts";
import { entryKeys } from "./tables.ts";
import type { Connection } from "#duckdb/database.ts";

/** The tables that references are staged in. */
export const referenceTables = ["staged_member_of", "staged_members", "staged_pair", "staged_line"] as const;

/** SQL of `reference`, for a WITH: what members, groups and records of their own say about memberships, a row each. */
export const statedReferences = `
    listed AS (
      SELECT source, member, unnest(from_json(group_keys, '["VARCHAR"]')) AS group_key FROM staged_member_of),
    listing AS (
      SELECT source, grp, unnest(from_json(members, '[{"kind": "VARCHAR", "key": "VARCHAR"}]')) AS reference
      FROM staged_members),
    reference AS (
      SELECT source, member, NULL AS given_kind, NULL AS member_key, NULL AS grp, group_key, NULL AS origin, NULL AS file,
        NULL AS line, 'member' AS told_by FROM listed
      UNION ALL SELECT source, NULL, reference.kind, reference.key, grp, NULL, NULL, NULL, NULL, 'group' FROM listing
      UNION ALL SELECT source, NULL, member_kind, member_key, NULL, group_key, origin, NULL, NULL, 'pair' FROM staged_pair
      UNION ALL SELECT source, NULL, member_kind, member_key, NULL, group_key, NULL, file, line, 'pair'
      FROM staged_line JOIN staged_file USING (file))`;

/**
 * Makes `link` from what members, groups and records of their own say about memberships.
 * @param keepLinks false: leave out the origin of references that do connect, which only an observer needs
 */
export async function createLinks(connection: Connection, keepLinks: boolean): Promise<void> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE key_owner AS
    SELECT source, key, ${owner("user")}, ${owner("group")} FROM ${entryKeys} GROUP BY source, key;
    CREATE OR REPLACE TEMP TABLE link AS
    WITH ${statedReferences},
    meant AS (
      SELECT r.told_by, r.source, r.origin, r.file, r.line, r.member, r.member_key, r.grp, r.group_key, g.group_state, g.group_seq,
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
    SELECT source, CASE WHEN ${keepLinks ? "true" : "group_lost OR member_lost"}
        THEN coalesce(origin, (SELECT list(name ORDER BY file) FROM staged_file)[file] || ':' || line) END AS origin, told_by,
      CASE WHEN member_key IS NULL THEN member WHEN NOT member_lost THEN member_seq END AS member,
      CASE WHEN group_key IS NULL THEN grp WHEN NOT group_lost THEN group_seq END AS grp,
      CASE WHEN group_lost THEN group_key WHEN member_lost THEN member_key END AS lost_key,
      CASE WHEN group_lost THEN 'group' WHEN member_lost THEN member_kind END AS lost_kind,
      CASE WHEN group_lost THEN group_state WHEN member_lost THEN member_state END AS lost_state
    FROM judged`);
  // Make room for what follows.
  await connection.run(`DROP TABLE key_owner; ${referenceTables.map((table) => `DROP TABLE ${table}`).join("; ")}`);
  await connection.returnMemory();
}

/** What has a key, of one kind: nothing (NULL), only excluded entries, one entry, or several. */
function owner(kind: Kind): string {
  return `
    CASE WHEN count(*) FILTER (kind = '${kind}') = 0 THEN NULL
      WHEN count(seq) FILTER (kind = '${kind}') = 0 THEN 'excluded'
      WHEN count(seq) FILTER (kind = '${kind}') = 1 THEN 'one'
      ELSE 'several' END AS ${kind}_state,
    min(seq) FILTER (kind = '${kind}') AS ${kind}_seq`;
}

/** References that lead nowhere for one reason. */
export interface LostReferences {
  /** `the group "Gemini" does not exist` */
  readonly reason: string;
  readonly count: number;
  /** Where the first of them is. */
  readonly origin: string;
}

/** The references that make no membership. */
export interface Unresolved {
  readonly count: number;
  /** How many of them lead to entries that the rules exclude, as they should. */
  readonly excluded: number;
  /** Why the others lead nowhere, the most frequent reasons first. */
  readonly reasons: readonly LostReferences[];
  /** How many references have one of the reasons beyond these. */
  readonly more: number;
  /** All lead to entries that do not exist: the reasons differ in whom they name alone. */
  readonly alike: boolean;
}

/** The references that lead nowhere, with the first `limit` reasons. */
export async function unresolvedLinks(connection: Connection, limit: number): Promise<Unresolved> {
  const [total] = await connection.rows<{ count: bigint; excluded: bigint; states: bigint }>(`
    SELECT count(*) AS count, count(*) FILTER (lost_state = 'excluded') AS excluded,
      count(DISTINCT coalesce(lost_state, 'nothing')) FILTER (lost_state IS DISTINCT FROM 'excluded') AS states FROM link WHERE lost_key IS NOT NULL`);
  const [count, excluded] = [Number(total?.count ?? 0), Number(total?.excluded ?? 0)];
  // Of two origins in one file, the shorter one has the smaller line.
  const rows = await connection.rows<{ reason: string; count: bigint; origin: string }>(`
    SELECT 'the ' || coalesce(lost_kind, 'user or group') || ' ' || ${inMessage("lost_key")}
        || CASE lost_state WHEN 'several' THEN ' may be one of several' ELSE ' does not exist' END AS reason,
      count(*) AS count, min({'length': length(origin), 'text': origin}).text AS origin
    FROM (
      SELECT l.source, l.lost_kind, l.lost_key, l.lost_state, coalesce(l.origin, e.origin) AS origin
      FROM link l LEFT JOIN staged_entry e ON e.seq = coalesce(l.member, l.grp)
      WHERE l.lost_key IS NOT NULL AND l.lost_state IS DISTINCT FROM 'excluded')
    GROUP BY source, lost_kind, lost_key, lost_state
    ORDER BY count DESC, min({'length': length(origin), 'text': origin}), reason LIMIT ${limit}`);
  const reasons = rows.map(({ reason, count, origin }) => ({ reason, count: Number(count), origin }));
  const more = reasons.reduce((left, each) => left - each.count, count - excluded);
  return { count, excluded, reasons, more, alike: total?.states === 1n };
}

/** The largest groups of a source, where all of them have as many members as a server that cuts lists would leave. */
export interface CutLists {
  readonly source: string;
  /** How many members each of them has; none has more. */
  readonly size: number;
  readonly groups: number;
  /** The first few. */
  readonly names: readonly string[];
}

/** Limits of servers are round numbers or powers of two; of small groups many have one size. */
const isLimit = "size >= 50 AND (size % 50 = 0 OR (size & (size - 1)) = 0)";

/** The largest groups of each source that may have been cut. Servers do so and say success. */
export async function findCutLists(connection: Connection): Promise<CutLists[]> {
  const rows = await connection.rows<{ source: string; size: bigint; groups: bigint; names: readonly string[] }>(`
    WITH list AS (
      SELECT source, grp, count(*) AS size FROM link WHERE told_by <> 'member' AND grp IS NOT NULL GROUP BY source, grp
      QUALIFY size = max(size) OVER (PARTITION BY source))
    SELECT s.name AS source, size, count(*) AS groups, list(e.name ORDER BY e.name)[:3] AS names
    FROM list l JOIN staged_source s USING (source) JOIN staged_entry e ON e.seq = l.grp
    WHERE ${isLimit} AND e.name IS NOT NULL GROUP BY s.name, size ORDER BY s.name`);
  return rows.map(({ source, size, groups, names }) => ({
    source,
    size: Number(size),
    groups: Number(groups),
    names,
  }));
}

/** A group that an entry is directly in, or would be, and who says so. */
export interface DirectMembership {
  /** The group's name, or its key where the name is unknown. */
  readonly group: string;
  /** Who says so: the entry itself, the group, a record of its own, a rule, or `defaultGroups`. */
  readonly by: "member" | "group" | "pair" | "rule" | "default";
  /** Where a person finds the record that says so: the group's, or the one of its own. */
  readonly origin?: string | undefined;
  /** Why it does not count, if it does not. */
  readonly lost?: string | undefined;
}

/** The memberships of a staged entry, for an observer. */
export async function membershipsOf(connection: Connection, seq: number): Promise<DirectMembership[]> {
  const rows = await connection.rows<{
    group_name: string;
    told_by: DirectMembership["by"];
    origin: string | null;
    lost: string | null;
  }>(`
    WITH held_entry AS (SELECT seq, string_agg(DISTINCT reason, '; ' ORDER BY reason) AS reason FROM held GROUP BY seq)
    SELECT coalesce(g.name, l.lost_key) AS group_name, l.told_by,
      CASE l.told_by WHEN 'pair' THEN l.origin WHEN 'group' THEN g.origin END AS origin,
      CASE WHEN l.lost_key IS NOT NULL THEN CASE l.lost_state
          WHEN 'excluded' THEN 'the group is excluded by the rules'
          WHEN 'several' THEN 'the key may mean one of several groups'
          ELSE 'the source has no such group' END
        WHEN h.seq IS NOT NULL THEN 'the group is quarantined (' || h.reason || ')' END AS lost
    FROM link l LEFT JOIN staged_entry g ON g.seq = l.grp LEFT JOIN held_entry h ON h.seq = l.grp
    WHERE l.member = ${seq}
    UNION
    SELECT name, 'rule', NULL, CASE WHEN name IN (FROM held_group) THEN 'the group is quarantined' END
    FROM staged_group_name WHERE member = ${seq}
    UNION
    SELECT d.name, 'default', NULL, NULL FROM default_group d, staged_entry e WHERE e.seq = ${seq} AND e.kind = 'user'
    ORDER BY ALL`);
  return rows.map(({ group_name: group, told_by: by, origin, lost }) =>
    Object.assign({ group, by }, origin === null ? {} : { origin }, lost === null ? {} : { lost }),
  );
}

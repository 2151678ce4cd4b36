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
      SELECT source, grp, member_kind, unnest(from_json(member_keys, '["VARCHAR"]')) AS member_key FROM staged_members),
    reference AS (
      SELECT source, member, NULL AS given_kind, NULL AS member_key, NULL AS grp, group_key, NULL AS origin, NULL AS file,
        NULL AS line, 'member' AS told_by FROM listed
      UNION ALL SELECT source, NULL, member_kind, member_key, grp, NULL, NULL, NULL, NULL, 'group' FROM listing
      UNION ALL SELECT source, NULL, member_kind, member_key, NULL, group_key, origin, NULL, NULL, 'pair' FROM staged_pair
      UNION ALL SELECT source, NULL, member_kind, member_key, NULL, group_key, NULL, file, line, 'pair'
      FROM staged_line JOIN staged_file USING (file))`;

/** SQL of `meant`, for a WITH: each reference, and what it connects as numbers like those of `key_owner`. */
const meant = `${statedReferences},
    meant AS (
      SELECT r.*,
        coalesce(r.given_kind, CASE WHEN m.user_seq IS NOT NULL THEN 'user' WHEN m.group_seq IS NOT NULL THEN 'group' END)
          AS member_kind,
        CASE WHEN r.member_key IS NULL THEN r.member WHEN r.given_kind = 'user' THEN m.user_seq
          WHEN r.given_kind = 'group' THEN m.group_seq ELSE coalesce(m.user_seq, m.group_seq) END AS member_seq,
        CASE WHEN r.group_key IS NULL THEN r.grp ELSE g.group_seq END AS group_seq
      FROM reference r
      LEFT JOIN (FROM key_owner WHERE group_seq IS NOT NULL) g ON g.source = r.source AND g.key = r.group_key
      LEFT JOIN key_owner m ON m.source = r.source AND m.key = r.member_key)`;

/** SQL: the number is no entry's. */
function isNone(column: string): string {
  return `coalesce(${column}, 0) < 1`;
}

/** SQL: why a number is no entry's. */
function stateOf(column: string): string {
  return `CASE ${column} WHEN 0 THEN 'excluded' WHEN -1 THEN 'several' END`;
}

/**
 * Makes `link` and `lost_link` from what members, groups and records of their own say about memberships.
 * @param keepReferences false: `membershipsOf` will not be called, and what was said makes room for what follows
 * @returns whether any reference is lost
 */
export async function createLinks(connection: Connection, keepReferences: boolean): Promise<boolean> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE key_owner AS
    SELECT source, key, ${owner("user")}, ${owner("group")} FROM ${entryKeys} GROUP BY source, key;
    CREATE OR REPLACE TEMP TABLE link AS
    WITH ${meant}
    SELECT source, member_seq AS member, group_seq AS grp, told_by <> 'member' AS is_listed FROM meant`);
  const [lost] = await connection.rows(`SELECT true FROM link WHERE ${isNone("member")} OR ${isNone("grp")} LIMIT 1`);
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE lost_link AS
    WITH ${meant}
    SELECT r.source, coalesce(origin, f.name || ':' || line) AS origin,
      CASE WHEN member_seq > 0 THEN member_seq END AS member, CASE WHEN group_seq > 0 THEN group_seq END AS grp,
      if(${isNone("group_seq")}, group_key, member_key) AS key,
      if(${isNone("group_seq")}, 'group', r.member_kind) AS kind,
      ${stateOf(`if(${isNone("group_seq")}, group_seq, member_seq)`)} AS state
    FROM meant r LEFT JOIN staged_file f USING (file)
    WHERE ${lost === undefined ? "false" : `${isNone("member_seq")} OR ${isNone("group_seq")}`}`);
  // Make room for what follows.
  if (!keepReferences)
    await connection.run(`DROP TABLE key_owner; ${referenceTables.map((table) => `DROP TABLE ${table}`).join("; ")}`);
  await connection.returnMemory();
  return lost !== undefined;
}

/** What has a key, of one kind: see `key_owner`. */
function owner(kind: Kind): string {
  const isKind = `FILTER (kind = '${kind}')`;
  return `
    CASE WHEN count(*) ${isKind} = 0 THEN NULL WHEN count(seq) ${isKind} = 0 THEN 0 WHEN count(seq) ${isKind} > 1 THEN -1
      ELSE min(seq) ${isKind} END AS ${kind}_seq`;
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

export const noUnresolved: Unresolved = { count: 0, excluded: 0, reasons: [], more: 0, alike: false };

/** The references that lead nowhere, with the first `limit` reasons. */
export async function unresolvedLinks(connection: Connection, limit: number): Promise<Unresolved> {
  const [total] = await connection.rows<{ count: bigint; excluded: bigint; states: bigint }>(`
    SELECT count(*) AS count, count(*) FILTER (state = 'excluded') AS excluded,
      count(DISTINCT coalesce(state, 'nothing')) FILTER (state IS DISTINCT FROM 'excluded') AS states FROM lost_link`);
  const [count, excluded] = [Number(total?.count ?? 0), Number(total?.excluded ?? 0)];
  // Of two origins in one file, the shorter one has the smaller line.
  const rows = await connection.rows<{ reason: string; count: bigint; origin: string }>(`
    WITH lost AS MATERIALIZED (
      SELECT source, kind, key, state, count(*) AS count, min({'length': length(origin), 'text': origin}) AS origin
      FROM (
        SELECT l.source, l.kind, l.key, l.state, coalesce(l.origin, e.origin) AS origin
        FROM lost_link l LEFT JOIN staged_entry e ON e.seq = coalesce(l.member, l.grp)
        WHERE l.state IS DISTINCT FROM 'excluded')
      GROUP BY source, kind, key, state ORDER BY count DESC, origin, kind, key LIMIT ${limit}),
    spelled AS (
      SELECT l.source, l.kind, l.key, min(k.key) AS other
      FROM (FROM lost WHERE state IS NULL) l JOIN ${entryKeys} k
        ON k.source = l.source AND lower(k.key) = lower(l.key) AND k.kind = coalesce(l.kind, k.kind) AND k.key <> l.key
      GROUP BY ALL)
    SELECT 'the ' || coalesce(l.kind, 'user or group') || ' ' || ${inMessage("l.key")}
        || CASE WHEN state = 'several' THEN ' may be one of several'
          WHEN other IS NOT NULL THEN ' does not exist, but ' || ${inMessage("other")} || ' does: upper and lower case must match' ELSE ' does not exist' END AS reason,
      count, origin.text AS origin
    FROM lost l LEFT JOIN spelled s ON s.source = l.source AND s.kind IS NOT DISTINCT FROM l.kind AND s.key = l.key
    ORDER BY count DESC, l.origin, reason`);
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
      SELECT source, grp, count(*) AS size FROM link WHERE is_listed AND grp > 0 GROUP BY source, grp
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
    WITH ${meant},
    held_entry AS (SELECT seq, string_agg(DISTINCT reason, '; ' ORDER BY reason) AS reason FROM held GROUP BY seq)
    SELECT coalesce(g.name, r.group_key) AS group_name, r.told_by,
      CASE r.told_by WHEN 'pair' THEN coalesce(r.origin, f.name || ':' || r.line) WHEN 'group' THEN g.origin END AS origin,
      CASE WHEN ${isNone("r.group_seq")} THEN CASE ${stateOf("r.group_seq")}
          WHEN 'excluded' THEN 'the group is excluded by the rules'
          WHEN 'several' THEN 'the key may mean one of several groups'
          ELSE 'the source has no such group' END
        WHEN h.seq IS NOT NULL THEN 'the group is quarantined (' || h.reason || ')' END AS lost
    FROM meant r LEFT JOIN staged_file f USING (file)
    LEFT JOIN staged_entry g ON g.seq = r.group_seq LEFT JOIN held_entry h ON h.seq = r.group_seq
    WHERE r.member_seq = ${seq}
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

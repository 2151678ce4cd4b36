import type { Statements } from "./quarantine.ts";

/** A group that an entry is directly in, or would be, and how that is known. */
export interface DirectMembership {
  /** The group's name; its key where the name is not known. */
  readonly group: string;
  /** Who says so: the entry itself, the group, a record that stands apart, a rule, or `defaultGroups`. */
  readonly by: "member" | "group" | "pair" | "rule" | "default";
  /** Where a person finds who says so: the group's record or the one that stands apart. */
  readonly origin?: string;
  /** Why it does not count; absent: it does. */
  readonly lost?: string;
}

/** The memberships of a staged entry, as an observer finds them. */
export async function membershipsOf(connection: Statements, seq: number): Promise<DirectMembership[]> {
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

import type { MemberId, ObjectChange } from "#connector.ts";
import type { Connection } from "#duckdb/database.ts";
import { principalOf } from "#plan/diff.ts";
import type { PrincipalRow } from "#plan/diff.ts";
import type { Attributes } from "#principals/attributes.ts";
import type { Kind, PrincipalValue, PrincipalValues } from "#principals/principal.ts";

/** A change of the plan as it is written, with how the object was when the plan was made. */
export interface PlannedWrite {
  readonly change: ObjectChange;
  /** For messages: who it is about. */
  readonly kind: Kind;
  readonly name: string;
  /** Of `update` and `delete`: its name and, as `attributesText` gives them, its attributes when it was read. */
  readonly was?: { readonly name: string; readonly attributes: string } | undefined;
}

interface PhaseOptions {
  readonly declared: Attributes;
  readonly membersPerChange: number;
}

interface Row {
  readonly kind: Kind;
  readonly name: string;
  readonly id: string | null;
  readonly remote_name: string | null;
  readonly attributes: string | null;
  readonly before: PrincipalRow | null;
  readonly after: PrincipalRow | null;
}

interface MemberRow {
  readonly grp: string;
  readonly name: string;
  readonly kinds: readonly Kind[];
  readonly ids: readonly string[];
}

/** A part of the plan that is written before the next one begins. */
export interface Phase {
  /** SQL of the rows that are written, in this order. What earlier phases have created is in `remote_name`. */
  readonly rows: string;
  readonly writeOf: (row: never) => PlannedWrite;
}

/**
 * The phases of a plan: nobody loses access before others have theirs, and what is deleted goes last. Reads `change_sides`,
 * `actual`, `desired` and the tables of the target's objects.
 */
export function phasesOf({ declared, membersPerChange }: PhaseOptions): readonly Phase[] {
  const objects = (which: string): Phase => ({
    rows: `
      SELECT c.kind, c.name, n.id, o.name AS remote_name, o.attributes, c.before, c.after
      FROM change_sides c
      LEFT JOIN remote_name n ON n.kind = c.kind AND n.name = c.name AND n.is_meant
      LEFT JOIN remote_object o ON o.kind = n.kind AND o.id = n.id
      WHERE ${which} ORDER BY c.kind DESC, c.name`,
    writeOf: (row: Row) => objectWrite(row, declared),
  });
  const members = (relation: string, part: "add" | "remove"): Phase => ({
    rows: `
      SELECT grp, any_value(name) AS name, list(kind ORDER BY row) AS kinds, list(id ORDER BY row) AS ids
      FROM (
        SELECT g.id AS grp, g.name, m.kind, m.id, row_number() OVER (PARTITION BY g.id ORDER BY m.kind, m.id) - 1 AS row
        FROM (${relation}) r
        JOIN remote_name g ON g.kind = 'group' AND g.name = r.g AND g.is_meant
        JOIN remote_name m ON m.kind = r.kind AND m.name = r.name AND m.is_meant)
      GROUP BY grp, row // ${membersPerChange} ORDER BY name, grp, min(row)`,
    writeOf: (row: MemberRow) => membersWrite(row, part),
  });
  const differ = declared.columns.map((column) => `before.${column} IS DISTINCT FROM after.${column}`).join(" OR ");
  const updates = `action IN ('update', 'reactivate') AND (${differ})`;
  return [
    objects("action = 'create' AND c.kind = 'user'"),
    objects("action = 'create' AND c.kind = 'group'"),
    objects(updates),
    members(membershipsOf("after", "before"), "add"),
    members(
      `SELECT * FROM (${membershipsOf("before", "after")}) WHERE g IN (SELECT name FROM desired WHERE kind = 'group')`,
      "remove",
    ),
    objects("action = 'delete' AND c.kind = 'group'"),
    objects("action = 'suspend'"),
    objects("action = 'delete' AND c.kind = 'user'"),
  ];
}

/** SQL of the memberships that one side of a change has and the other has not. A deleted principal loses its memberships by being deleted. */
function membershipsOf(side: "before" | "after", other: "before" | "after"): string {
  return `
    SELECT kind, name, unnest(list_filter(${side}.group_names, lambda g: NOT list_contains(coalesce(${other}.group_names, []), g))) AS g
    FROM change_sides WHERE action <> 'delete' AND ${side} IS NOT NULL`;
}

function objectWrite(row: Row, declared: Attributes): PlannedWrite {
  const { kind, name, id, remote_name: remoteName, attributes: read } = row;
  const before: PrincipalValues = row.before === null ? {} : principalOf(kind, row.before);
  const after: PrincipalValues = row.after === null ? {} : principalOf(kind, row.after);
  const about = { kind, name };
  if (row.before === null)
    return { ...about, change: { action: "create", ...about, attributes: own(after, kind, declared) } };
  if (id === null || remoteName === null || read === null)
    throw new Error(`the ${kind} ${name} of the plan is not among the objects of the target`);
  const was = { name: remoteName, attributes: read };
  if (row.after === null) return { ...about, was, change: { action: "delete", kind, id, name: remoteName } };
  const whole = own(after, kind, declared);
  const changed = declared
    .having(kind)
    .filter((each) => JSON.stringify(before[each.name]) !== JSON.stringify(after[each.name]))
    .map((each): [string, PrincipalValue | null] => [each.name, after[each.name] ?? null]);
  const attributes = Object.fromEntries(changed);
  return { ...about, was, change: { action: "update", kind, id, name: remoteName, attributes, whole } };
}

/** The attributes that a kind has and that are set. */
function own(principal: PrincipalValues, kind: Kind, declared: Attributes): Record<string, PrincipalValue> {
  const set = declared.having(kind).flatMap(({ name }): [string, PrincipalValue][] => {
    const value = principal[name];
    return value === undefined ? [] : [[name, value]];
  });
  return Object.fromEntries(set);
}

function membersWrite({ grp, name, kinds, ids }: MemberRow, part: "add" | "remove"): PlannedWrite {
  const members = ids.map((id, index): MemberId => ({ id, kind: kinds[index] }));
  const none: readonly MemberId[] = [];
  const change = { action: "members", group: grp, name, add: none, remove: none, [part]: members } as const;
  return { kind: "group", name, change };
}

/** How many rows are read at a time. */
const page = 500;

/** The writes of a phase, a page at a time: between pages others may use the connection. */
export async function* pagesOf(
  connection: Connection,
  { rows, writeOf }: Phase,
): AsyncGenerator<readonly PlannedWrite[]> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE to_write AS SELECT *, row_number() OVER () AS place FROM (${rows})`);
  for (let from = 0; ; from += page) {
    const found = await connection.rows(
      `SELECT * EXCLUDE (place) FROM to_write WHERE place > ${from} AND place <= ${from + page} ORDER BY place`,
    );
    if (found.length === 0) return;
    yield found.map((row) => writeOf(row as never));
  }
}

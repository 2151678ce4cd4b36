import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Kind, Principal, PrincipalValue } from "#principals/principal.ts";
import { attributeOfColumn, columnOf } from "#principals/attributes.ts";
import type { Attributes } from "#principals/attributes.ts";
import { actions, changeOf } from "./change.ts";
import { tables } from "./tables.ts";
import type { ChangeTable, PrincipalTable } from "./tables.ts";
import type { Action, Change, Counts, KindCounts, Part, Plan } from "./change.ts";

/** A principal as the database returns it, by column. */
export interface PrincipalRow {
  readonly name: string;
  readonly group_names: readonly string[];
  readonly [column: string]: PrincipalValue | null;
}

/** A row of `change_sides`: an absent side is null. */
export interface ChangeRow {
  readonly action: Action;
  readonly kind: Kind;
  readonly before: PrincipalRow | null;
  readonly after: PrincipalRow | null;
  /** The ids of its causes; null when none were looked for. */
  readonly causes: readonly string[] | null;
}

/**
 * Plans the difference between `actual` and `desired`: makes `changes` and `change_sides`. The plan reads the workbench for
 * as long as it is used.
 */
export async function createPlan(connection: Connection, attributes: Attributes): Promise<Plan> {
  const side = (alias: string): string =>
    `struct_pack(${['"name"', ...attributes.compared].map((column) => `${column} := ${alias}.${column}`).join(", ")})`;
  const [found] = await connection.rows<Memberships & { digest: string; counts: readonly CountRow[] }>(`
    CREATE OR REPLACE TEMP TABLE change_pair AS
    SELECT ${changeColumns(attributes)}, CASE WHEN a.name IS NOT NULL THEN ${side("a")} END AS before, CASE WHEN d.name IS NOT NULL THEN ${side("d")} END AS after
    FROM ${differing("actual", "desired", attributes)};
    CREATE OR REPLACE TEMP TABLE changes AS SELECT action, kind, name FROM change_pair;
    CREATE TEMP TABLE IF NOT EXISTS change_cause (${tables.change_cause});
    CREATE TEMP TABLE IF NOT EXISTS adoptable (${tables.adoptable});
    CREATE OR REPLACE TEMP VIEW change_sides AS
    SELECT p.action, p.kind, p.name, p.before, p.after, w.causes
    FROM change_pair p LEFT JOIN change_cause w ON w.kind = p.kind AND w.name = p.name;
    SELECT * FROM (${digest}), (${memberships("change_pair")}), (${counts})`);
  if (found === undefined) throw new Error("an aggregate returned no row");
  const of = (kind: Kind): KindCounts => {
    const count = (what: CountRow["what"]): number =>
      found.counts.find((row) => row.kind === kind && row.what === what)?.size ?? 0;
    return {
      before: count("before"),
      after: count("after"),
      create: count("create"),
      update: count("update"),
      delete: count("delete"),
      ...(attributes.state === undefined || kind === "group"
        ? {}
        : { suspend: count("suspend"), reactivate: count("reactivate") }),
    };
  };
  return {
    digest: found.digest,
    counts: { users: of("user"), groups: of("group"), ...membershipsOf(found) },
    changes: (only, most) => readChanges(connection, { only, most }),
  };
}

/** SHA-256 over the sorted SHA-256 of each change and of each name that can be adopted, so that their order does not matter. */
const digest = `
    SELECT sha256(coalesce(string_agg(line, '' ORDER BY line), '')) AS digest
    FROM (
      SELECT sha256(to_json(struct_pack(action, kind, before, after))::VARCHAR) AS line FROM change_pair
      UNION ALL SELECT sha256(to_json(struct_pack(kind, name, source, was_id, is_id))::VARCHAR) FROM adoptable)`;

/** How many principals of a kind there are before and after, or of how many something becomes. */
interface CountRow {
  readonly kind: Kind;
  readonly what: "before" | "after" | Action;
  readonly size: number;
}

const counts = `
    SELECT coalesce(list({'kind': kind, 'what': what, 'size': size}), []) AS counts FROM (
      SELECT kind, 'before' AS what, count(*)::DOUBLE AS size FROM actual GROUP BY kind
      UNION ALL SELECT kind, 'after', count(*) FROM desired GROUP BY kind
      UNION ALL SELECT kind, action, count(*) FROM changes GROUP BY kind, action)`;

/**
 * The changes in `change_sides`, the first `most` of a part.
 * @param options.which an SQL condition
 */
export async function* readChanges(
  connection: Connection,
  {
    only,
    most = Infinity,
    which = "true",
  }: { readonly only?: Part | undefined; readonly most?: number | undefined; readonly which?: string },
): AsyncIterable<Change> {
  const part = only === undefined ? "" : `AND action = '${only.action}' AND kind = '${only.kind}'`;
  const batches = connection.batches<ChangeRow>(`
    SELECT action, kind, before, after, causes FROM change_sides WHERE ${which} ${part}
    ORDER BY kind = 'user', list_position([${actions.map(literal).join(", ")}], action), name ${most === Infinity ? "" : `LIMIT ${most}`}`);
  for await (const rows of batches) {
    for (const row of rows) yield changeOfRow(row);
  }
}

/** The change that a row of `change_sides` stands for. */
export function changeOfRow({ action, kind, before, after, causes }: ChangeRow): Change {
  const change = changeOf(
    action,
    before === null ? undefined : principalOf(kind, before),
    after === null ? undefined : principalOf(kind, after),
  );
  return causes === null ? change : { ...change, causes };
}

/** The principal of a row. Its attributes come in the order of the columns, unset ones as undefined. */
export function principalOf(kind: Kind, { name, group_names: groupNames, ...columns }: PrincipalRow): Principal {
  const attributes: Record<string, PrincipalValue | undefined> = {};
  for (const [column, value] of Object.entries(columns)) attributes[attributeOfColumn(column)] = value ?? undefined;
  return { kind, name, ...attributes, groupNames };
}

interface Memberships {
  readonly added: bigint | null;
  readonly removed: bigint | null;
}

/** SQL of how many memberships change. @param changed a relation with `before` and `after` */
function memberships(changed: string): string {
  return `
    SELECT sum(len(coalesce(after.group_names, [])) - common)::BIGINT AS added,
      sum(len(coalesce(before.group_names, [])) - common)::BIGINT AS removed
    FROM (
      SELECT before, after, coalesce(len(list_intersect(before.group_names, after.group_names)), 0) AS common
      FROM ${changed})`;
}

function membershipsOf({ added, removed }: Memberships): Pick<Counts, "membershipsAdded" | "membershipsRemoved"> {
  return { membershipsAdded: Number(added ?? 0), membershipsRemoved: Number(removed ?? 0) };
}

/**
 * Counts the memberships that change in `change_sides`.
 * @param which an SQL condition
 */
export async function countMemberships(
  connection: Connection,
  which: string,
): Promise<Pick<Counts, "membershipsAdded" | "membershipsRemoved">> {
  const [row] = await connection.rows<Memberships>(memberships(`change_sides WHERE ${which}`));
  return membershipsOf(row ?? { added: null, removed: null });
}

/** Compares two relations as sets of principals: the one diff of the daemon and of the service. */
export async function createChanges(
  connection: Connection,
  attributes: Attributes,
  {
    actual,
    desired,
    into,
  }: { readonly actual: PrincipalTable; readonly desired: PrincipalTable; readonly into: ChangeTable },
): Promise<void> {
  await connection.run(
    `CREATE OR REPLACE TEMP TABLE ${into} AS SELECT ${changeColumns(attributes)} FROM ${differing(actual, desired, attributes)}`,
  );
}

/** SQL of what a row of `differing` is: `action`, `kind` and `name`. */
function changeColumns({ state }: Attributes): string {
  const isActive = (side: string): string =>
    state === undefined ? "true" : `coalesce(${side}.${columnOf(state)}, true)`;
  const ofState =
    state === undefined
      ? ""
      : `WHEN ${isActive("a")} AND NOT ${isActive("d")} THEN 'suspend' WHEN ${isActive("d")} AND NOT ${isActive("a")} THEN 'reactivate'`;
  return `
  CASE WHEN a.name IS NULL THEN 'create' WHEN d.name IS NULL THEN 'delete' ${ofState} ELSE 'update' END AS action,
  coalesce(d.kind, a.kind) AS kind, coalesce(d.name, a.name) AS name`;
}

/** SQL of the principals that differ between two relations: `a` is how they are in the one, `d` in the other; NULL where there is none. */
function differing(actual: PrincipalTable, desired: PrincipalTable, { compared }: Attributes): string {
  const differs = compared.map((column) => `a.${column} IS DISTINCT FROM d.${column}`).join(" OR ");
  return `${actual} a FULL JOIN ${desired} d ON a.kind = d.kind AND a.name = d.name
    WHERE a.name IS NULL OR d.name IS NULL OR ${differs}`;
}

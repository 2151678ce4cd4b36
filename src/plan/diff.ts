import type { Connection } from "#duckdb/database.ts";
import type { Kind, Principal } from "#principals/principal.ts";
import { comparedColumns } from "#principals/tables.ts";
import { changeOf } from "./change.ts";
import { tables } from "./tables.ts";
import type { ChangeTable, PrincipalTable } from "./tables.ts";
import type { Action, Change, Counts, KindCounts, Part, Plan } from "./change.ts";

/** A principal as the database returns it: `principalColumns` without the kind. */
export interface PrincipalRow {
  readonly name: string;
  readonly display_name: string;
  readonly description: string | null;
  readonly mail: string | null;
  readonly group_names: readonly string[];
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
export async function createPlan(connection: Connection): Promise<Plan> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE change_pair AS
    SELECT ${changeColumns}, CASE WHEN a.name IS NOT NULL THEN ${sideOf("a")} END AS before, CASE WHEN d.name IS NOT NULL THEN ${sideOf("d")} END AS after
    FROM ${differing("actual", "desired")};
    CREATE OR REPLACE TEMP TABLE changes AS SELECT action, kind, name FROM change_pair;
    CREATE TEMP TABLE IF NOT EXISTS change_cause (${tables.change_cause});
    CREATE TEMP TABLE IF NOT EXISTS adoptable (${tables.adoptable});
    CREATE OR REPLACE TEMP VIEW change_sides AS
    SELECT p.action, p.kind, p.name, p.before, p.after, w.causes
    FROM change_pair p LEFT JOIN change_cause w ON w.kind = p.kind AND w.name = p.name`);
  const [counts, digest] = [await countChanges(connection), await digestOf(connection)];
  return { digest, counts, changes: (only) => readChanges(connection, only) };
}

/**
 * The changes in `change_sides`.
 * @param which an SQL condition
 */
export async function* readChanges(connection: Connection, only?: Part, which = "true"): AsyncIterable<Change> {
  const part = only === undefined ? "" : `AND action = '${only.action}' AND kind = '${only.kind}'`;
  const batches = connection.batches<ChangeRow>(`
    SELECT action, kind, before, after, causes FROM change_sides WHERE ${which} ${part}
    ORDER BY kind = 'user', CASE action WHEN 'create' THEN 0 WHEN 'update' THEN 1 ELSE 2 END, name`);
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

/** The principal of a row. */
export function principalOf(kind: Kind, row: PrincipalRow): Principal {
  return {
    kind,
    name: row.name,
    displayName: row.display_name,
    description: row.description ?? undefined,
    mail: row.mail ?? undefined,
    groupNames: row.group_names,
  };
}

/** SHA-256 over the sorted SHA-256 of each change and of each name that can be adopted, so that their order does not matter. */
async function digestOf(connection: Connection): Promise<string> {
  const [row] = await connection.rows<{ digest: string }>(`
    SELECT sha256(coalesce(string_agg(line, '' ORDER BY line), '')) AS digest
    FROM (
      SELECT sha256(to_json(struct_pack(action, kind, before, after))::VARCHAR) AS line FROM change_sides
      UNION ALL SELECT sha256(to_json(struct_pack(kind, name, source, was_id, is_id))::VARCHAR) FROM adoptable)`);
  if (row === undefined) throw new Error("an aggregate returned no row");
  return row.digest;
}

async function countChanges(connection: Connection): Promise<Counts> {
  const kinds = await connection.rows<Record<"before" | "after" | Action, bigint> & { kind: Kind }>(`
    SELECT k.kind,
      (SELECT count(*) FROM actual a WHERE a.kind = k.kind) AS before,
      (SELECT count(*) FROM desired d WHERE d.kind = k.kind) AS after,
      (SELECT count(*) FROM changes c WHERE c.kind = k.kind AND c.action = 'create') AS create,
      (SELECT count(*) FROM changes c WHERE c.kind = k.kind AND c.action = 'update') AS update,
      (SELECT count(*) FROM changes c WHERE c.kind = k.kind AND c.action = 'delete') AS delete
    FROM (VALUES ('user'), ('group')) k(kind)`);
  const memberships = await countMemberships(connection);
  const of = (kind: Kind): KindCounts => {
    const row = kinds.find((each) => each.kind === kind);
    const count = (column: "before" | "after" | Action): number => Number(row?.[column] ?? 0);
    return {
      before: count("before"),
      after: count("after"),
      create: count("create"),
      update: count("update"),
      delete: count("delete"),
    };
  };
  return {
    users: of("user"),
    groups: of("group"),
    ...memberships,
  };
}

/**
 * Counts the memberships that change in `change_sides`.
 * @param which an SQL condition
 */
export async function countMemberships(
  connection: Connection,
  which = "true",
): Promise<Pick<Counts, "membershipsAdded" | "membershipsRemoved">> {
  const [row] = await connection.rows<{ added: bigint | null; removed: bigint | null }>(`
    SELECT sum(len(coalesce(after.group_names, [])) - common)::BIGINT AS added,
      sum(len(coalesce(before.group_names, [])) - common)::BIGINT AS removed
    FROM (
      SELECT before, after, coalesce(len(list_intersect(before.group_names, after.group_names)), 0) AS common
      FROM change_sides WHERE ${which})`);
  return { membershipsAdded: Number(row?.added ?? 0), membershipsRemoved: Number(row?.removed ?? 0) };
}

/** Compares two relations as sets of principals: the one diff of the daemon and of the service. */
export async function createChanges(
  connection: Connection,
  {
    actual,
    desired,
    into,
  }: { readonly actual: PrincipalTable; readonly desired: PrincipalTable; readonly into: ChangeTable },
): Promise<void> {
  await connection.run(
    `CREATE OR REPLACE TEMP TABLE ${into} AS SELECT ${changeColumns} FROM ${differing(actual, desired)}`,
  );
}

/** SQL of what a row of `differing` is: `action`, `kind` and `name`. */
const changeColumns = `
  CASE WHEN a.name IS NULL THEN 'create' WHEN d.name IS NULL THEN 'delete' ELSE 'update' END AS action,
  coalesce(d.kind, a.kind) AS kind, coalesce(d.name, a.name) AS name`;

/** SQL of a principal as one side of a change. */
function sideOf(alias: string): string {
  return `struct_pack(${["name", ...comparedColumns].map((column) => `${column} := ${alias}.${column}`).join(", ")})`;
}

/** SQL of the principals that differ between two relations: `a` is how they are in the one, `d` in the other; NULL where there is none. */
function differing(actual: PrincipalTable, desired: PrincipalTable): string {
  const differs = comparedColumns.map((column) => `a.${column} IS DISTINCT FROM d.${column}`).join(" OR ");
  return `${actual} a FULL JOIN ${desired} d ON a.kind = d.kind AND a.name = d.name
    WHERE a.name IS NULL OR d.name IS NULL OR ${differs}`;
}

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
  await createChanges(connection, { actual: "actual", desired: "desired", into: "changes" });
  // Most runs change nothing: then no reader has to search all principals for changes.
  const [any] = await connection.rows("SELECT true FROM changes LIMIT 1");
  const all = (table: string): string => (any === undefined ? `(FROM ${table} LIMIT 0)` : table);
  await connection.run(`
    CREATE TEMP TABLE IF NOT EXISTS change_cause (${tables.change_cause});
    CREATE OR REPLACE TEMP VIEW change_sides AS
    SELECT c.action, c.kind, c.name,
      CASE WHEN c.action <> 'create' THEN struct_pack(
        name := a.name, display_name := a.display_name, description := a.description, mail := a.mail, group_names := a.group_names) END AS before,
      CASE WHEN c.action <> 'delete' THEN struct_pack(
        name := d.name, display_name := d.display_name, description := d.description, mail := d.mail, group_names := d.group_names) END AS after,
      w.causes
    FROM changes c LEFT JOIN change_cause w ON w.kind = c.kind AND w.name = c.name
    LEFT JOIN ${all("actual")} a ON a.kind = c.kind AND a.name = c.name
    LEFT JOIN ${all("desired")} d ON d.kind = c.kind AND d.name = c.name`);
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

/** SHA-256 over the sorted SHA-256 of each change, so that their order does not matter. */
async function digestOf(connection: Connection): Promise<string> {
  const [row] = await connection.rows<{ digest: string }>(`
    SELECT sha256(coalesce(string_agg(line, '' ORDER BY line), '')) AS digest
    FROM (SELECT sha256(to_json(struct_pack(action, kind, before, after))::VARCHAR) AS line FROM change_sides)`);
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
  const differs = comparedColumns.map((column) => `a.${column} IS DISTINCT FROM d.${column}`).join(" OR ");
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE ${into} AS
    SELECT
      CASE WHEN a.name IS NULL THEN 'create' WHEN d.name IS NULL THEN 'delete' ELSE 'update' END AS action,
      coalesce(d.kind, a.kind) AS kind,
      coalesce(d.name, a.name) AS name
    FROM ${actual} a
    FULL JOIN ${desired} d ON a.kind = d.kind AND a.name = d.name
    WHERE a.name IS NULL OR d.name IS NULL OR ${differs}`);
}

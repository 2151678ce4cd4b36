import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Attributes } from "#principals/attributes.ts";
import { anySpelling } from "#principals/principal.ts";
import { findSome, nothing } from "./found.ts";
import type { Found } from "./found.ts";
import { protects } from "./protect.ts";
import type { Protection } from "./protect.ts";
import { rekey } from "./remote.ts";
import type { Rename } from "./renames.ts";
import { tables } from "./tables.ts";

interface RenamingOptions {
  readonly attributes: Attributes;
  readonly protection: Pick<Protection, "users" | "groups" | "ignoresCase">;
  /** Names of the sources that could not be read. */
  readonly unread: readonly string[];
  /** The tables of the baseline are there. */
  readonly hasBaseline: boolean;
}

/**
 * Gives principals whose records have another name now that name, in `actual` and in all that is known of them: for a target
 * that knows its objects by ids. The new name is then a change of the attribute that is the name. Makes `renamed_in_place`.
 * Names that depend on others are left to `depart`: swapped, merged or split ones, and those that somebody has. Runs between
 * reading the target and `freeze`.
 */
export async function renameInPlace(connection: Connection, options: RenamingOptions): Promise<Found<Rename>> {
  const kinds = options.attributes.all.flatMap(({ isName }) => (isName === undefined ? [] : [isName]));
  const [found] = await connection.rows<{ any: boolean }>(`
    CREATE OR REPLACE TEMP TABLE renamed_in_place AS
    SELECT kind, was, becomes, source, source_id FROM (${renamesOf(options)})
    WHERE kind IN (${["''", ...kinds.map(literal)].join(", ")});
    SELECT EXISTS (FROM renamed_in_place) AS any`);
  if (found?.any !== true) return nothing;
  await applyRenames(connection, options.hasBaseline);
  return findSome(
    connection,
    `SELECT kind, was AS from, becomes AS to, source, source_id AS "sourceId", false AS held FROM renamed_in_place`,
    `kind DESC, "from"`,
  );
}

/** The same, for a target that was read again: of the names in `renamed_in_place`, those that have not been given yet. */
export async function renameAgain(connection: Connection): Promise<void> {
  await connection.run(`
    CREATE TEMP TABLE IF NOT EXISTS renamed_in_place (${tables.renamed_in_place});
    DELETE FROM renamed_in_place r WHERE (r.kind, r.was) NOT IN (SELECT (kind, name) FROM actual)
      OR (r.kind, r.becomes) IN (SELECT (kind, name) FROM actual)`);
  const [any] = await connection.rows("FROM renamed_in_place LIMIT 1");
  if (any !== undefined) await applyRenames(connection, false);
}

async function applyRenames(connection: Connection, hasBaseline: boolean): Promise<void> {
  await rekey(connection, "actual", "renamed_in_place");
  const groups = "FROM renamed_in_place r WHERE r.kind = 'group' AND r.was = t";
  const of = (table: string, column: string): string =>
    `UPDATE ${table} t SET ${column} = r.becomes ${groups}.${column};`;
  await connection.run(`
    ${of("by_hand", "grp")}
    ${of("lost_recently", "name")}
    ${hasBaseline ? baselineNames : ""}`);
}

/** SQL: the last run has left them under their new names. These tables are views of what is stored. */
const baselineNames = `
    CREATE OR REPLACE TEMP TABLE stored_target AS FROM baseline_target; CREATE OR REPLACE TEMP TABLE stored_membership AS FROM baseline_membership;
    DROP VIEW temp.baseline_target; DROP VIEW temp.baseline_membership;
    ALTER TABLE stored_target RENAME TO baseline_target; ALTER TABLE stored_membership RENAME TO baseline_membership;
    UPDATE baseline_membership t SET grp = r.becomes FROM renamed_in_place r WHERE r.kind = 'group' AND r.was = t.grp;
    UPDATE baseline_membership t SET name = r.becomes FROM renamed_in_place r WHERE r.kind = t.kind AND r.was = t.name;
    UPDATE baseline_target t SET name = r.becomes FROM renamed_in_place r WHERE r.kind = t.kind AND r.was = t.name;
    UPDATE baseline_target SET group_names = list_sort(list_transform(baseline_target.group_names, lambda g: coalesce(m.names[g], g)))
    FROM (SELECT map(list(was), list(becomes)) AS names, list(was) AS olds FROM renamed_in_place WHERE kind = 'group') m
    WHERE list_has_any(baseline_target.group_names, m.olds);`;

/** SQL of `(kind, was, becomes, source, source_id)`: the new names that depend on no other. */
function renamesOf({ protection, unread }: RenamingOptions): string {
  const isProtected = (column: string): string => protects(protection, "kind", column);
  return `
    WITH origin AS (
      SELECT kind, name, source, source_id FROM assembled UNION ALL SELECT kind, name, source, source_id FROM contributor),
    pair AS (
      SELECT l.kind, l.name AS was, o.name AS becomes, min(l.source) AS source, min(l.source_id) AS source_id
      FROM ledger l JOIN origin o USING (kind, source, source_id) GROUP BY ALL),
    alone AS (
      FROM pair
      QUALIFY count(*) OVER (PARTITION BY kind, was) = 1 AND count(*) OVER (PARTITION BY kind, ${anySpelling("becomes")}) = 1),
    present AS (
      SELECT kind, name FROM actual
      UNION ALL SELECT unnest(CASE WHEN kind IS NULL THEN ['user', 'group'] ELSE [kind] END), name FROM actual_foreign),
    taken AS (SELECT DISTINCT kind, ${anySpelling("name")} AS folded FROM present)
    FROM alone
    WHERE was <> becomes
      AND (kind, was) IN (SELECT (kind, name) FROM actual) AND (kind, was) NOT IN (SELECT (kind, name) FROM assembled)
      AND (kind, ${anySpelling("becomes")}) NOT IN (FROM taken) AND (kind, becomes) NOT IN (SELECT (kind, name) FROM ledger)
      AND (kind, was) NOT IN (SELECT (kind, name) FROM ledger WHERE source IN (${["''", ...unread.map(literal)].join(", ")}))
      AND NOT ${isProtected("was")} AND NOT ${isProtected("becomes")}`;
}

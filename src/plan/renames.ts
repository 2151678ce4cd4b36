import type { Kind } from "#principals/principal.ts";
import type { Connection } from "#duckdb/database.ts";
import { tables } from "./tables.ts";
import type { Table } from "./tables.ts";

/** What happens when names change. */
export interface NamePolicies {
  /** A principal's record has another name now. */
  readonly renames: "hold" | "apply";
  /** A principal's name now belongs to another record. */
  readonly reusedNames: "hold" | "apply";
}

/** How many were found, and the first few. */
export interface Found<Item> {
  readonly count: number;
  readonly examples: readonly Item[];
}

/** A principal whose record has another name now. The interface has no renames: one is deleted, another is created. */
export interface Rename {
  readonly kind: Kind;
  readonly from: string;
  readonly to: string;
  readonly source: string;
  /** The record's immutable id. */
  readonly sourceId: string;
  /** It keeps its old name for now. */
  readonly held: boolean;
}

/** A principal of the target whose name now belongs to another record of the same source: somebody else. */
export interface ReusedName {
  readonly kind: Kind;
  readonly name: string;
  readonly source: string;
  /** The immutable ids of the record that it was made of, and of the one that has the name now. */
  readonly was: string;
  readonly is: string;
  /** The name that the earlier record has now, where it is still there. */
  readonly becomes?: string | undefined;
  /** It stays as it is for now. */
  readonly held: boolean;
}

/** How many principals of a kind keep their state because their names are held. */
export interface HeldNames {
  readonly of: "users" | "groups";
  readonly held: number;
  /** How many the sync manages in the target. */
  readonly base: number;
}

/**
 * Finds changed names by the immutable ids in the ledger: makes `move` and `reused`. A principal is still itself while
 * any of its records has the name. One whose record is now part of another existing principal is gone, not renamed.
 */
export async function findRenames(connection: Connection): Promise<void> {
  await connection.run(`
    CREATE OR REPLACE TEMP VIEW assembled_origin AS
    SELECT kind, name, source, source_id FROM assembled UNION ALL SELECT kind, name, source, source_id FROM contributor;
    CREATE OR REPLACE TEMP TABLE unmatched AS
    SELECT * FROM ledger SEMI JOIN actual USING (kind, name) ANTI JOIN assembled_origin USING (kind, name, source, source_id);
    CREATE OR REPLACE TEMP TABLE move (${tables.move});
    CREATE OR REPLACE TEMP TABLE reused (${tables.reused});
    CREATE OR REPLACE TEMP TABLE adoptable (${tables.adoptable})`);
  // In most runs no name has changed; then there is nothing to look for in the ledger.
  if ((await countOf(connection, "unmatched")) === 0) return;
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE strayed AS
    SELECT u.* FROM unmatched u
    ANTI JOIN (SELECT l.kind, l.name FROM ledger l SEMI JOIN assembled_origin USING (kind, name, source, source_id)) same USING (kind, name)
    ANTI JOIN (SELECT kind, name FROM frozen WHERE reason <> 'protected') f USING (kind, name);
    INSERT INTO move
    SELECT s.kind, s.name AS was, o.name AS becomes, min(s.source) AS source, min(s.source_id) AS source_id
    FROM strayed s JOIN assembled_origin o USING (kind, source, source_id)
    GROUP BY ALL;
    DELETE FROM move USING (
      SELECT l.kind, l.name FROM ledger l SEMI JOIN assembled_origin USING (kind, name, source, source_id)
      SEMI JOIN actual USING (kind, name)
    ) same WHERE same.kind = move.kind AND same.name = move.becomes;
    INSERT INTO reused
    SELECT s.kind, s.name, s.source, min(s.source_id) AS was_id, min(o.source_id) AS is_id
    FROM strayed s JOIN assembled_origin o USING (kind, name, source)
    ANTI JOIN frozen f ON f.kind = s.kind AND f.name = s.name
    GROUP BY ALL`);
}

/**
 * Freezes held renames: by policy, because the principal must not be deleted, or because the target has the new name as another type. With them everyone whose name depends on
 * theirs is held, since of two who have swapped names neither can change alone. Fills `renamed` with all others.
 */
export async function holdRenames(
  connection: Connection,
  rules: NamePolicies,
  examples: number,
): Promise<{ renames: Found<Rename>; reused: Found<ReusedName>; adoptable: number }> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE rename AS
    SELECT * FROM move ANTI JOIN assembled s ON s.kind = move.kind AND s.name = move.was;
    CREATE OR REPLACE TEMP TABLE hold_seed AS
    SELECT r.kind, r.was AS name, 'renamed' AS reason FROM rename r
    WHERE ${rules.renames === "hold"} OR (r.kind, r.was) IN (SELECT (kind, name) FROM frozen)
      OR (r.kind, r.becomes) IN (SELECT (kind, name) FROM held_back)
    UNION SELECT kind, name, 'reused' FROM reused WHERE ${rules.reusedNames === "hold"};
    CREATE OR REPLACE TEMP TABLE held_name AS
    WITH RECURSIVE edge AS (SELECT kind, was AS a, becomes AS b FROM move UNION ALL SELECT kind, becomes, was FROM move),
    reached(kind, name) AS (
      SELECT kind, name FROM hold_seed UNION SELECT e.kind, e.b FROM reached r JOIN edge e ON e.kind = r.kind AND e.a = r.name)
    SELECT r.kind, r.name, coalesce(min(h.reason), 'renamed') AS reason
    FROM reached r LEFT JOIN hold_seed h ON h.kind = r.kind AND h.name = r.name GROUP BY r.kind, r.name;
    INSERT INTO frozen
    SELECT h.kind, h.name, h.reason FROM held_name h SEMI JOIN actual USING (kind, name) ANTI JOIN frozen f USING (kind, name);
    INSERT INTO held_back SELECT kind, name FROM held_name h SEMI JOIN assembled USING (kind, name);
    INSERT INTO renamed
    SELECT r.kind, r.was, r.becomes FROM rename r ANTI JOIN held_name h ON h.kind = r.kind AND h.name = r.was`);
  await findAdoptable(connection);
  const held = "IN (SELECT (kind, name) FROM held_name) AS held";
  const renames = await connection.rows<Rename>(`
    SELECT kind, was AS from, becomes AS to, source, source_id AS "sourceId", (kind, was) ${held}
    FROM rename ORDER BY held DESC, kind DESC, was, becomes LIMIT ${examples}`);
  const reused = await connection.rows<Omit<ReusedName, "becomes"> & { becomes: string | null }>(`
    SELECT kind, name, source, was_id AS was, is_id AS is, (kind, name) ${held},
      (SELECT min(becomes) FROM move m WHERE m.kind = reused.kind AND m.was = reused.name) AS becomes
    FROM reused ORDER BY held DESC, kind DESC, name LIMIT ${examples}`);
  return {
    adoptable: await countOf(connection, "adoptable"),
    renames: { count: await countOf(connection, "rename"), examples: renames },
    reused: {
      count: await countOf(connection, "reused"),
      examples: reused.map(({ becomes, ...rest }) => Object.assign(rest, becomes === null ? {} : { becomes })),
    },
  };
}

/**
 * Makes `adoptable`: held names whose earlier records are nowhere in the sources, while the records that have them now were
 * never anybody else's. After a directory was rebuilt, that is everybody; of two people who share a name, it is nobody.
 */
async function findAdoptable(connection: Connection): Promise<void> {
  if ((await countOf(connection, "reused")) === 0) return;
  await connection.run(`
    CREATE TABLE IF NOT EXISTS record (${tables.record});
    INSERT INTO adoptable
    WITH held AS (SELECT r.* FROM reused r JOIN frozen f ON f.kind = r.kind AND f.name = r.name AND f.reason = 'reused'),
    was AS (SELECT l.kind, l.name, l.source, l.source_id FROM ledger l SEMI JOIN held USING (kind, name)),
    present AS (
      SELECT kind, source, source_id FROM assembled_origin UNION ALL SELECT kind, source, source_id FROM record
      UNION ALL SELECT kind, source, source_id FROM quarantined),
    still AS (SELECT kind, name FROM was SEMI JOIN present USING (kind, source, source_id)),
    own AS (SELECT o.kind, o.name, o.source, o.source_id FROM assembled_origin o SEMI JOIN held USING (kind, name)),
    others AS (SELECT o.kind, o.name FROM own o SEMI JOIN ledger USING (kind, source, source_id))
    SELECT kind, name, source, min(was_id), min(is_id) FROM held ANTI JOIN still USING (kind, name) ANTI JOIN others USING (kind, name)
    GROUP BY kind, name, source`);
}

/**
 * Has the ledger own the names in `adoptable` by the ids that their records have now. Nothing else of them changes in this run.
 * @returns how many principals that are
 */
export async function adoptNames(connection: Connection): Promise<number> {
  const adopted = await connection.rows(`
    INSERT INTO managed SELECT DISTINCT kind, name FROM adoptable ANTI JOIN managed USING (kind, name) RETURNING name`);
  return adopted.length;
}

/** How many names of the target are held, of how many. Runs after `depart`, or with the `frozen` of a stored plan. */
export async function countHeldNames(connection: Connection): Promise<HeldNames[]> {
  const rows = await connection.rows<{ kind: Kind; held: bigint; base: bigint }>(`
    SELECT a.kind, count(*) FILTER (f.reason IN ('renamed', 'reused')) AS held,
      count(*) FILTER (f.reason IS NULL OR f.reason NOT IN ('protected', 'unmanaged')) AS base
    FROM actual a LEFT JOIN frozen f USING (kind, name) GROUP BY a.kind ORDER BY a.kind DESC`);
  return rows.map(({ kind, held, base }) => ({ of: `${kind}s` as const, held: Number(held), base: Number(base) }));
}

async function countOf(connection: Connection, table: Table): Promise<number> {
  const [row] = await connection.rows<{ n: bigint }>(`SELECT count(*) AS n FROM ${table}`);
  return Number(row?.n ?? 0);
}

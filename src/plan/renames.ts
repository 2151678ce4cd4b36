import type { Kind } from "#principals/principal.ts";
import type { Connection } from "#duckdb/database.ts";
import { findSome, nothing } from "./found.ts";
import type { Found } from "./found.ts";

/** What happens when names change. */
export interface NamePolicies {
  /** A principal's record has another name now. `inPlace`: it is renamed, and what cannot be is held. */
  readonly renames: "hold" | "apply" | "inPlace";
  /** A principal's name now belongs to another record. */
  readonly reusedNames: "hold" | "apply";
}

/** A principal whose record has another name now. Where a target cannot rename, one is deleted, another is created. */
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

/** What changed names amount to. */
interface Renames {
  readonly renames: Found<Rename>;
  readonly reused: Found<ReusedName>;
  /** For how many reused names only the id of the record has changed. */
  readonly adoptable: number;
}

export const unchangedNames: Renames = { renames: nothing, reused: nothing, adoptable: 0 };

/**
 * Finds changed names by the immutable ids in the ledger: makes `move` and `reused` of `unmatched`. A principal is still itself
 * while any of its records has the name. One whose record is now part of another existing principal is gone, not renamed.
 * @returns whether any name has changed
 */
export async function findRenames(connection: Connection): Promise<boolean> {
  const [found] = await connection.rows<{ any: boolean }>(`
    CREATE OR REPLACE TEMP TABLE strayed AS
    SELECT u.* FROM unmatched u
    ANTI JOIN (${matchedAmong("FROM unmatched")}) same USING (kind, name)
    ANTI JOIN (SELECT kind, name FROM frozen WHERE reason <> 'protected') f USING (kind, name);
    CREATE OR REPLACE TEMP TABLE move AS
    WITH moved AS (
      SELECT s.kind, s.name AS was, o.name AS becomes, min(s.source) AS source, min(s.source_id) AS source_id
      FROM strayed s JOIN assembled_origin o USING (kind, source, source_id)
      GROUP BY ALL)
    FROM moved ANTI JOIN (${matchedAmong("SELECT kind, becomes AS name FROM moved")}) same
      ON same.kind = moved.kind AND same.name = moved.becomes;
    CREATE OR REPLACE TEMP TABLE reused AS
    SELECT s.kind, s.name, s.source, min(s.source_id) AS was_id, min(o.source_id) AS is_id
    FROM strayed s JOIN assembled_origin o USING (kind, name, source)
    ANTI JOIN frozen f ON f.kind = s.kind AND f.name = s.name
    GROUP BY ALL;
    SELECT EXISTS (FROM move) OR EXISTS (FROM reused) AS any`);
  return found?.any === true;
}

/** SQL of those names that are in the target and that one of the records which the ledger has of them still makes. */
function matchedAmong(names: string): string {
  return `
      SELECT kind, name FROM ledger SEMI JOIN (${names}) n USING (kind, name)
      SEMI JOIN actual USING (kind, name) ANTI JOIN unmatched USING (kind, name, source, source_id)`;
}

/**
 * Freezes held renames: by policy, because the principal must not be deleted, or because the target has the new name as another
 * type. With them everyone whose name depends on theirs is held, since of two who have swapped names neither can change alone.
 * Fills `renamed` with all others, and `adoptable`.
 */
export async function holdRenames(connection: Connection, rules: NamePolicies): Promise<Renames> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE rename AS
    SELECT * FROM move ANTI JOIN assembled s ON s.kind = move.kind AND s.name = move.was;
    CREATE OR REPLACE TEMP TABLE held_name AS
    WITH RECURSIVE seed AS (
      SELECT r.kind, r.was AS name, 'renamed' AS reason FROM rename r
      WHERE ${rules.renames !== "apply"} OR (r.kind, r.was) IN (SELECT (kind, name) FROM frozen)
        OR (r.kind, r.becomes) IN (SELECT (kind, name) FROM held_back)
      UNION SELECT kind, name, 'reused' FROM reused WHERE ${rules.reusedNames === "hold"}),
    edge AS (SELECT kind, was AS a, becomes AS b FROM move UNION ALL SELECT kind, becomes, was FROM move),
    reached(kind, name) AS (
      SELECT kind, name FROM seed UNION SELECT e.kind, e.b FROM reached r JOIN edge e ON e.kind = r.kind AND e.a = r.name)
    SELECT r.kind, r.name, coalesce(min(h.reason), 'renamed') AS reason
    FROM reached r LEFT JOIN seed h ON h.kind = r.kind AND h.name = r.name GROUP BY r.kind, r.name;
    INSERT INTO frozen
    SELECT h.kind, h.name, h.reason FROM held_name h SEMI JOIN actual USING (kind, name) ANTI JOIN frozen f USING (kind, name);
    INSERT INTO held_back SELECT kind, name FROM held_name h SEMI JOIN assembled USING (kind, name);
    INSERT INTO renamed
    SELECT r.kind, r.was, r.becomes FROM rename r ANTI JOIN held_name h ON h.kind = r.kind AND h.name = r.was`);
  const held = "IN (SELECT (kind, name) FROM held_name) AS held";
  const renames = await findSome<Rename>(
    connection,
    `SELECT kind, was AS from, becomes AS to, source, source_id AS "sourceId", (kind, was) ${held} FROM rename`,
    `held DESC, kind DESC, "from", "to"`,
  );
  const reused = await findSome<Omit<ReusedName, "becomes"> & { becomes: string | null }>(
    connection,
    `SELECT kind, name, source, was_id AS was, is_id AS is, (kind, name) ${held},
      (SELECT min(becomes) FROM move m WHERE m.kind = reused.kind AND m.was = reused.name) AS becomes FROM reused`,
    "held DESC, kind DESC, name",
  );
  return {
    renames,
    reused: {
      count: reused.count,
      examples: reused.examples.map(({ becomes, ...rest }) =>
        becomes === null ? rest : Object.assign(rest, { becomes }),
      ),
    },
    adoptable: reused.count === 0 ? 0 : await findAdoptable(connection),
  };
}

/** What is to be overridden so that the held names of each kind change. Empty: nothing releases them. */
export interface Releases {
  readonly renames: readonly (keyof NamePolicies)[];
  readonly reusedNames: readonly (keyof NamePolicies)[];
}

/**
 * Whoever takes the name of another waits for both policies. Runs after `holdRenames`.
 * @param policies as they are configured
 */
export async function releasesOf(connection: Connection, policies: NamePolicies): Promise<Releases> {
  const [found] = await connection.rows<{ areChained: boolean }>(
    'SELECT EXISTS (FROM rename r JOIN reused u ON u.kind = r.kind AND u.name = r.becomes) AS "areChained"',
  );
  const both = found?.areChained === true;
  const renames = policies.renames === "apply" ? [] : (["renames"] as const);
  const reusedNames = policies.reusedNames === "apply" ? [] : (["reusedNames"] as const);
  return {
    renames: [...renames, ...(both ? reusedNames : [])],
    reusedNames: [...(both ? renames : []), ...reusedNames],
  };
}

/**
 * Makes `adoptable`: held names whose earlier records are nowhere in the sources, while the records that have them now were
 * never anybody else's. After a directory was rebuilt, that is everybody; of two people who share a name, it is nobody.
 */
async function findAdoptable(connection: Connection): Promise<number> {
  const found = await connection.rows(`
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
    GROUP BY kind, name, source
    RETURNING name`);
  return found.length;
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

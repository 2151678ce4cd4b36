import { literal } from "#duckdb/database.ts";
import { knownTables } from "#plan/remote.ts";
import type { Kind } from "#principals/principal.ts";

/*
 * What the ledger knows of the objects of a target that is written change by change: SQL over the ledger, attached as `owned`.
 */

/** What is written down as soon as a target has taken a change. */
export interface Remembered {
  /** Which of its objects a principal is that it was asked to create. What else it is to get may be missing yet. */
  readonly created?: { readonly kind: Kind; readonly id: string; readonly name: string } | undefined;
  /** It was deleted. Whoever else has its name, or gets it, is nobody of the sync. */
  readonly gone?: { readonly kind: Kind; readonly id: string; readonly name: string } | undefined;
  /** Who was added to a group, and removed from it, by ids. `isPending`: is about to be. */
  readonly members?:
    | {
        readonly group: string;
        readonly add: readonly Member[];
        readonly remove: readonly Member[];
        readonly isPending: boolean;
      }
    | undefined;
}

interface Member {
  readonly id: string;
  readonly kind?: Kind | undefined;
}

/** Makes the tables of the workbench without anything in them. They are no temporary ones: the target is read beside. */
export const emptyRemote = Object.entries(knownTables)
  .map(([table, ddl]) => `CREATE OR REPLACE TABLE ${table} (${ddl})`)
  .join("; ");

/** Creates missing tables of the ledger. */
export const createRemote = `
  CREATE TABLE IF NOT EXISTS owned.remote (sync VARCHAR NOT NULL, ${knownTables.remote_known});
  CREATE TABLE IF NOT EXISTS owned.remote_member (sync VARCHAR NOT NULL, ${knownTables.remote_member_known})`;

/** Fills the tables of the workbench. @param sync its name as a literal, here and below */
export function readRemote(sync: string): string {
  return `
    INSERT INTO remote_known SELECT * EXCLUDE (sync) FROM owned.remote WHERE sync = ${sync};
    INSERT INTO remote_member_known SELECT * EXCLUDE (sync) FROM owned.remote_member WHERE sync = ${sync}`;
}

/**
 * Writes which objects the principals of the sync are now, and forgets members that are gone from the target. What was created and
 * is not listed yet is kept.
 */
export function replaceRemote(sync: string): string {
  const written = `SELECT * EXCLUDE (sync) FROM owned.remote WHERE sync = ${sync}`;
  const isOwn = "(kind, name) IN (SELECT (kind, name) FROM managed UNION SELECT (kind, name) FROM ledger)";
  // Rows that stay are not written again: most runs change little or nothing.
  return `
    CREATE OR REPLACE TEMP TABLE remote_now AS
    FROM (
      SELECT n.kind, n.id, n.name, k.sent, k.stored, coalesce(k.is_new, false) AS is_new FROM remote_name n
      LEFT JOIN remote_known k ON k.kind = n.kind AND k.id = n.id WHERE n.is_meant
      UNION ALL FROM remote_late)
    WHERE ${isOwn};
    DELETE FROM owned.remote WHERE sync = ${sync} AND (kind, id) IN (SELECT (kind, id) FROM (${written} EXCEPT FROM remote_now));
    INSERT INTO owned.remote SELECT ${sync}, * FROM (FROM remote_now EXCEPT ${written});
    DELETE FROM owned.remote_member WHERE sync = ${sync} AND (
      grp NOT IN (SELECT id FROM remote_name WHERE kind = 'group') OR (kind, member) NOT IN (SELECT (kind, id) FROM remote_name))`;
}

export function sqlOf(sync: string, { created, gone, members }: Remembered): string {
  const ofSync = `sync = ${sync}`;
  const statements = ["SELECT 1"];
  const object = created ?? gone;
  if (object !== undefined)
    statements.push(
      `DELETE FROM owned.remote WHERE ${ofSync} AND kind = ${literal(object.kind)} AND id = ${literal(object.id)}`,
    );
  if (gone !== undefined)
    statements.push(
      `DELETE FROM owned.principal WHERE ${ofSync} AND kind = ${literal(gone.kind)} AND name = ${literal(gone.name)}`,
    );
  if (created !== undefined) {
    const values = [created.kind, created.id, created.name].map(literal).join(", ");
    statements.push(`INSERT INTO owned.remote VALUES (${sync}, ${values}, NULL, NULL, true)`);
  }
  if (members === undefined) return statements.join("; ");
  const { group, add, isPending } = members;
  // Who is about to be removed is still there.
  const remove = isPending ? [] : members.remove;
  const all = [...add, ...remove].map(({ id }) => literal(id));
  if (all.length > 0)
    statements.push(
      `DELETE FROM owned.remote_member WHERE ${ofSync} AND grp = ${literal(group)} AND member IN (${all.join(", ")})`,
    );
  const added = add.map(
    ({ id, kind = "user" }) => `(${[sync, literal(group), literal(kind), literal(id), String(isPending)].join(", ")})`,
  );
  if (added.length > 0) statements.push(`INSERT INTO owned.remote_member VALUES ${added.join(", ")}`);
  return statements.join("; ");
}

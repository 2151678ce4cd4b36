import type { Postgres, Transaction } from "#postgres/database.ts";

/*
 * How often the tables have been changed through Rollcall, for processes that did not change them themselves: a row for each table
 * that loads write to, one for definitions, and one for an administrator's statements. Whoever changes something raises its row
 * in the same transaction. A load is the only one of its table anyway, and the others do it last: nobody waits for
 * anybody they would not wait for without it.
 */

/** The statements of a migration. */
export const revisionsTable =
  "CREATE TABLE IF NOT EXISTS rollcall.revisions (part text PRIMARY KEY, revision bigint NOT NULL)";

/** Changes with every transaction that changed something and is committed. */
export async function readRevision(postgres: Pick<Postgres, "rows">): Promise<string> {
  const [sum] = await postgres.rows<{ revision: string }>(
    "SELECT coalesce(sum(revision), 0)::text AS revision FROM rollcall.revisions",
  );
  return sum?.revision ?? "0";
}

export async function raiseRevision(transaction: Transaction, part: string): Promise<void> {
  await transaction.rows(
    `INSERT INTO rollcall.revisions AS r VALUES ($1, 1) ON CONFLICT (part) DO UPDATE SET revision = r.revision + 1`,
    [part],
  );
}

/** Raises it if anything was written: a transaction that only reads has no number. */
export async function raiseRevisionOfWriter(transaction: Transaction, part: string): Promise<void> {
  const [found] = await transaction.rows<{ writer: boolean }>(
    "SELECT pg_current_xact_id_if_assigned() IS NOT NULL AS writer",
  );
  if (found?.writer === true) await raiseRevision(transaction, part);
}

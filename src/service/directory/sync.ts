import type { Readable } from "node:stream";
import { InputError } from "#errors.ts";
import { createChanges } from "#plan/diff.ts";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { principalColumns } from "#principals/tables.ts";
import type { Answers } from "./answers.ts";
import { applyChanges } from "./apply.ts";
import { checkList } from "./checks.ts";
import type { DirectorySync } from "./directory.ts";
import { departed, listed } from "./listed.ts";
import { everything, lastingGroups, readRevision, unlisted } from "./schema.ts";
import { syncAnswer } from "./sync-answer.ts";

export interface SyncWork extends DirectorySync {
  /** The name of the bootstrap administrator. */
  readonly administrator: string;
  readonly answers: Answers;
  readonly signal: AbortSignal;
}

const columns = principalColumns.join(", ");

/**
 * Makes users and groups what the list says (specification 4.2), or says what that would change. The connection has
 * the list, and is for this call alone: it leaves temporary tables behind.
 * @throws {InputError} B.5
 */
export async function sync(connection: Connection, work: SyncWork): Promise<Readable> {
  const { defaultPassword, apply, base, signal } = work;
  if (base === undefined || !(await comparePart(connection, work, base))) {
    await work.loadAll();
    await connection.run(`CREATE TEMP VIEW actual AS ${everything}`);
    await compare(connection, work, "actual");
  }
  signal.throwIfAborted();
  // The answer comes first: what is applied is always answered.
  const answer = await work.answers.compute(connection, syncAnswer("changes"));
  try {
    if (apply) {
      const relations = { changes: "changes", desired: "desired", kept: "kept" };
      await work.keep(await applyChanges(connection, { ...relations, defaultPassword, signal }));
    }
    return answer;
  } catch (error) {
    answer.destroy();
    throw error;
  }
}

/**
 * Compares a list of which only that is there which differs from the list before. That list and the `unlisted` are the
 * directory: so only those need to be looked at whom either list has alone, as it has them, and the `unlisted`.
 * @returns false when that does not do: the directory is another, or something is wrong with the list
 */
async function comparePart(connection: Connection, work: SyncWork, base: string): Promise<boolean> {
  if ((await readRevision(connection)) !== base) return false;
  await connection.run(`
    CREATE TEMP TABLE actual_part AS
      SELECT ${columns} FROM ${departed}
      UNION ALL
      SELECT ${columns} FROM (${everything}) SEMI JOIN ${unlisted} USING (kind, name);
    CREATE TEMP TABLE fresh AS SELECT kind, name FROM ${listed} ANTI JOIN actual_part USING (kind, name);`);
  // Somebody who is in the part of the list that is the same, too: given twice.
  const [double] = await connection.rows(
    `SELECT true FROM (SELECT kind, name FROM (${everything})) SEMI JOIN fresh USING (kind, name) LIMIT 1`,
  );
  if (double !== undefined) return false;
  try {
    await compare(connection, work, "actual_part");
  } catch (error) {
    if (error instanceof InputError) return false;
    throw error;
  }
  return !(await isLeftInGroupThatGoes(connection));
}

/** Whether anybody who was not looked at is in a group that is deleted. */
async function isLeftInGroupThatGoes(connection: Connection): Promise<boolean> {
  const going = "FROM changes WHERE action = 'delete' AND kind = 'group'";
  const [any] = await connection.rows(`${going} LIMIT 1`);
  if (any === undefined) return false;
  const [member] = await connection.rows(`
    SELECT true FROM (SELECT kind, name, unnest(group_names) AS group_name FROM (${everything}))
    ANTI JOIN (SELECT kind, name FROM ${listed} UNION ALL SELECT kind, name FROM actual_part) USING (kind, name)
    WHERE group_name IN (SELECT name ${going}) LIMIT 1`);
  return member !== undefined;
}

/**
 * Compares the list with `actual`, and checks it.
 * @param actual everybody and every group, or all whom the list may change
 * @throws {InputError} B.5
 */
async function compare(connection: Connection, work: SyncWork, actual: string): Promise<void> {
  await createDesired(connection, work, actual);
  await createChanges(connection, { actual, desired: "desired", into: "changes" });
  await checkList(connection, {
    changes: "changes",
    desiredGroups: "desired_groups",
    hasDefaultPassword: work.defaultPassword !== undefined,
  });
}

/**
 * `desired` is the list and what is not in it but stays: everything when nothing is to be removed (B.4), otherwise
 * the administrator, the lasting groups and the caller, without their memberships in groups that go (0.7).
 */
async function createDesired(connection: Connection, work: SyncWork, actual: string): Promise<void> {
  const { removeDeleted, administrator, caller } = work;
  const users = [administrator, caller].map(literal).join(", ");
  const groups = lastingGroups.map(literal).join(", ");
  const stays = (alias: string): string =>
    removeDeleted
      ? `((${alias}.kind = 'user' AND ${alias}.name IN (${users})) OR (${alias}.kind = 'group' AND ${alias}.name IN (${groups})))`
      : "true";
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE kept AS
      SELECT ${columns} FROM ${actual} a WHERE ${stays("a")} AND NOT EXISTS (
        FROM ${listed} l WHERE ${stays("l")} AND l.kind = a.kind AND l.name = a.name);
    CREATE OR REPLACE TEMP VIEW desired AS SELECT ${columns} FROM ${listed} UNION ALL SELECT ${columns} FROM kept;
    CREATE OR REPLACE TEMP VIEW desired_groups AS
      SELECT name FROM desired WHERE kind = 'group'
      UNION ALL
      SELECT name FROM directory.groups ANTI JOIN ${actual} a USING (kind, name);`);
  if (!removeDeleted) return;
  await connection.run(`
    UPDATE kept SET group_names = list_sort(list_intersect(group_names, (SELECT list(name) FROM desired_groups)))`);
}

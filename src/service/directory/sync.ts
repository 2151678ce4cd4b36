import type { Readable } from "node:stream";
import { createChanges } from "#plan/diff.ts";
import { literal } from "#plan/database.ts";
import type { Connection } from "#plan/database.ts";
import { principalColumns } from "#principals/relation.ts";
import type { Answers } from "./answers.ts";
import { applyChanges } from "./apply.ts";
import { checkList } from "./checks.ts";
import type { DirectorySync } from "./directory.ts";
import { listed } from "./listed.ts";
import { everything, lastingGroups } from "./schema.ts";
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
  const { defaultPassword, apply, signal } = work;
  const hasDefaultPassword = defaultPassword !== undefined;
  await createDesired(connection, work);
  await createChanges(connection, { actual: "actual", desired: "desired", into: "changes" });
  await checkList(connection, { changes: "changes", desired: "desired", hasDefaultPassword });
  signal.throwIfAborted();
  // The answer comes first: what is applied is always answered.
  const answer = await work.answers.compute(connection, syncAnswer("changes"));
  try {
    if (apply) await applyChanges(connection, { changes: "changes", desired: "desired", defaultPassword, signal });
    return answer;
  } catch (error) {
    answer.destroy();
    throw error;
  }
}

/**
 * `desired` is the list and what is not in it but stays: everything when nothing is to be removed (B.4), otherwise
 * the administrator, the lasting groups and the caller, without their memberships in groups that go (0.7).
 */
async function createDesired(connection: Connection, work: SyncWork): Promise<void> {
  const { removeDeleted, administrator, caller } = work;
  const users = [administrator, caller].map(literal).join(", ");
  const groups = lastingGroups.map(literal).join(", ");
  const stays = (alias: string): string =>
    removeDeleted
      ? `((${alias}.kind = 'user' AND ${alias}.name IN (${users})) OR (${alias}.kind = 'group' AND ${alias}.name IN (${groups})))`
      : "true";
  await connection.run(`
    CREATE TEMP VIEW actual AS ${everything};
    CREATE TEMP TABLE kept AS
      SELECT ${columns} FROM actual a WHERE ${stays("a")} AND NOT EXISTS (
        FROM ${listed} l WHERE ${stays("l")} AND l.kind = a.kind AND l.name = a.name);
    CREATE TEMP VIEW desired AS SELECT ${columns} FROM ${listed} UNION ALL SELECT ${columns} FROM kept;`);
  if (!removeDeleted) return;
  await connection.run(`
    UPDATE kept SET group_names = list_sort(list_intersect(group_names, (
      SELECT list(name) FROM desired WHERE kind = 'group')))`);
}

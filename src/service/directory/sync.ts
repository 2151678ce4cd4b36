import type { Readable } from "node:stream";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { createChanges } from "#plan/diff.ts";
import { serviceAttributes } from "#principals/attributes.ts";
import { formatDuration, formatNumber, pluralize } from "#text.ts";
import { checkList, clearWrongTypes } from "./check.ts";
import { computeAnswer, syncAnswer } from "./list.ts";
import { hashPassword } from "#passwords.ts";
import { Hashing } from "./passwords.ts";
import type { ReceivedSync } from "./receive.ts";
import { lastingGroups } from "./store.ts";
import type { DirectoryStore } from "./store.ts";

/** A call of `user/sync`, and what it may touch. */
export interface SyncRequest extends ReceivedSync {
  /** The name of the calling user, who is never deleted (0.7). */
  readonly caller: string;
}

export interface SyncContext {
  readonly store: DirectoryStore;
  /** The name of the bootstrap administrator. */
  readonly administrator: string;
  /** The folder of answers on their way out. */
  readonly answers: string;
  readonly signal: AbortSignal;
  /** Called with how far a long call is, for the log. */
  readonly say?: ((message: string) => void) | undefined;
}

const columns = serviceAttributes.relation.join(", ");

/**
 * Makes the users and groups match the list in `listed` (specification 4.2), or computes what that would change. Leaves
 * temporary tables behind: the connection must be used for this call only.
 * @returns the JSON answer of specification 2.8
 * @throws {InputError} B.5; {DirectoryChangedError} when it can be repeated on another connection
 */
export async function sync(connection: Connection, request: SyncRequest, context: SyncContext): Promise<Readable> {
  const { store, answers, signal, say = () => undefined } = context;
  const { apply, defaultPassword } = request;
  await clearWrongTypes(connection, request.elements);
  signal.throwIfAborted();
  const snapshot = await store.read(connection);
  await connection.run(`
    CREATE TEMP VIEW actual AS SELECT ${columns} FROM actual_users UNION ALL SELECT ${columns} FROM actual_groups`);
  await createDesired(connection, request, context);
  await createChanges(connection, serviceAttributes, { actual: "actual", desired: "desired", into: "changes" });
  await checkList(connection, {
    actual: "actual",
    desired: "desired",
    changes: "changes",
    desiredGroups: "desired_groups",
    hasDefaultPassword: defaultPassword !== undefined,
    wrong: request.elements.wrong,
  });
  signal.throwIfAborted();
  // Computed before anything is applied: once applied, nothing can keep the answer from being sent.
  const answer = await computeAnswer(answers, connection, syncAnswer("changes"));
  try {
    if (apply) {
      await hashPasswords(connection, { defaultPassword, signal, say });
      await snapshot.write(signal);
    }
    return answer;
  } catch (error) {
    answer.destroy();
    throw error;
  }
}

/**
 * Creates `desired`: the list, and the unlisted principals that stay. Those are all of them when nothing is removed
 * (B.4); otherwise the administrator, the lasting groups and the caller, without memberships in deleted groups (0.7).
 */
async function createDesired(
  connection: Connection,
  { removeDeleted, caller }: SyncRequest,
  { administrator }: SyncContext,
): Promise<void> {
  const users = [administrator, caller].map(literal).join(", ");
  const groups = lastingGroups.map(literal).join(", ");
  const stays = (alias: string): string =>
    removeDeleted
      ? `((${alias}.kind = 'user' AND ${alias}.name IN (${users})) OR (${alias}.kind = 'group' AND ${alias}.name IN (${groups})))`
      : "true";
  await connection.run(`
    CREATE TEMP TABLE unlisted AS
      SELECT ${columns} FROM actual a WHERE ${stays("a")} AND NOT EXISTS (
        FROM listed l WHERE ${stays("l")} AND l.kind = a.kind AND l.name = a.name);
    CREATE TEMP VIEW desired AS SELECT ${columns} FROM listed UNION ALL SELECT ${columns} FROM unlisted;
    CREATE TEMP VIEW desired_groups AS SELECT name FROM desired WHERE kind = 'group';`);
  if (!removeDeleted) return;
  await connection.run(`
    UPDATE unlisted SET group_names = list_sort(list_intersect(group_names, (SELECT list(name) FROM desired_groups)))`);
}

/**
 * Makes `hashes`, before the changes are written: the default password is hashed once for all created users, own ones each
 * (B.7).
 */
async function hashPasswords(
  connection: Connection,
  {
    defaultPassword,
    signal,
    say,
  }: Pick<SyncRequest, "defaultPassword"> & Required<Pick<SyncContext, "signal" | "say">>,
): Promise<void> {
  await connection.run("CREATE TEMP TABLE hashes (name VARCHAR NOT NULL, hash VARCHAR NOT NULL)");
  if (defaultPassword === undefined) await hashOwnPasswords(connection, signal, say);
  else await hashOnce(connection, defaultPassword, signal);
}

async function hashOnce(connection: Connection, password: string, signal: AbortSignal): Promise<void> {
  const created = "FROM changes WHERE action = 'create' AND kind = 'user'";
  const [any] = await connection.rows(`${created} LIMIT 1`);
  if (any === undefined) return;
  const hash = await hashPassword(password, signal);
  await connection.run(`INSERT INTO hashes SELECT name, $1 ${created}`, [hash]);
}

/** How many users' own passwords are hashed before their hashes are written. */
const batch = 256;

/** How often the log says how far it is, in milliseconds. */
const sayEvery = 10_000;

async function hashOwnPasswords(
  connection: Connection,
  signal: AbortSignal,
  say: (message: string) => void,
): Promise<void> {
  // Numbered once, so that a batch is found without looking at all of them.
  await connection.run(`
    CREATE TEMP TABLE unhashed AS
      SELECT row_number() OVER (ORDER BY l.index)::INTEGER AS number, l.name, l.password
      FROM listed l JOIN changes c USING (kind, name) WHERE c.action = 'create' AND c.kind = 'user' ORDER BY number`);
  const [found] = await connection.rows<{ count: number }>("SELECT count(*)::INTEGER AS count FROM unhashed");
  const count = found?.count ?? 0;
  await using hashing = new Hashing(count);
  const started = performance.now();
  let said = started;
  for (let done = 0; done < count; done += batch) {
    const users = await connection.rows<{ name: string; password: string }>(
      "SELECT name, password FROM unhashed WHERE number > $1 AND number <= $2 ORDER BY number",
      [done, done + batch],
    );
    const hashes = await hashing.hash(
      users.map(({ password }) => password),
      signal,
    );
    const rows = users.map((_, index) => `($${2 * index + 1}, $${2 * index + 2})`).join(", ");
    await connection.run(
      `INSERT INTO hashes VALUES ${rows}`,
      users.flatMap(({ name }, index) => [name, hashes[index] ?? ""]),
    );
    const now = performance.now();
    if (now - said < sayEvery) continue;
    said = now;
    const hashed = done + users.length;
    const left = formatDuration(((now - started) / hashed) * (count - hashed));
    say(`user/sync: ${formatNumber(hashed)} of ${pluralize(count, "password")} hashed, about ${left} left`);
  }
  await connection.run("DROP TABLE unhashed");
}

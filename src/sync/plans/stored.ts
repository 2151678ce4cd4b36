import type { Target } from "#connector.ts";
import { useThreads } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { HeldError, InputError } from "#errors.ts";
import { foreignGroups } from "#plan/carried.ts";
import { changes, usualWords } from "#plan/change.ts";
import type { Action } from "#plan/change.ts";
import { matchCase } from "#plan/remote.ts";
import { renameAgain } from "#plan/renames-in-place.ts";
import { createPlan } from "#plan/diff.ts";
import type { LimitCheck } from "#plan/limits.ts";
import { isPart, narrow } from "#plan/selection.ts";
import type { Selection } from "#plan/selection.ts";
import type { Plans, StoredPlan } from "#state/plans.ts";
import type { Attributes } from "#principals/attributes.ts";
import { planAgain } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import { readTarget } from "#sync/planning/target.ts";
import { findLeftOut, planWithinLimits, withExpectations } from "#sync/planning/limits.ts";
import { withAdopted } from "#sync/planning/notes.ts";
import type { Planner } from "#sync/planning/planning.ts";
import { formatName, visible } from "#text.ts";

/**
 * Makes `desired` of the target as it is (`actual`) and the changes of a stored plan (`shown`): what others have changed
 * since stays. Made between listing the target and `createPlan`.
 */
export async function carryOver(connection: Connection, { takes }: Pick<Target, "takes">): Promise<void> {
  if (takes === "changes") {
    await renameAgain(connection);
    await matchCase(connection, "actual", "shown");
  }
  await connection.run(`
    CREATE OR REPLACE TABLE desired AS
    FROM actual ANTI JOIN shown USING (kind, name)
    UNION ALL BY NAME
    SELECT kind, unnest(after) FROM shown WHERE after IS NOT NULL;
    INSERT INTO actual_extra SELECT kind, name, fields FROM shown WHERE action = 'create' AND fields IS NOT NULL`);
}

const listActual: Planner["read"] = async (sync, workbench, { signal, warn, progress }) => {
  progress?.("list");
  await readTarget(sync.target, workbench, "actual", { declared: sync.rules.declared, signal, warn });
};

/**
 * Plans the stored plan of a run again: the target is listed again, and the changes must still be those that were shown.
 * Then only the selected part of them is left.
 */
export function planFromStore(plans: Plans, run: RunRecord, selection: Selection = {}): Planner {
  const plan: Planner["plan"] = async (sync, { connection }, { signal, progress, history, overrides = [] }) => {
    await useThreads(connection);
    progress?.("plan");
    const { scope, checks } = await load(plans, run, connection, sync.rules.declared);
    if (run.seal === undefined) await ownOnlyShown(connection);
    await carryOver(connection, sync.target);
    const whole = await createPlan(connection, sync.rules.declared);
    if (whole.digest !== run.digest) throw noLongerShown(run, await differences(connection));
    const severed = [...(await severedMemberships(connection)), ...(await takenMeanwhile(connection))];
    if (severed.length > 0) throw noLongerShown(run, severed);
    await narrow(connection, selection);
    await connection.run("CREATE OR REPLACE TEMP TABLE never_planned AS FROM left_out");
    const stored = await checksOfSources(connection, checks, selection);
    const limited = await planWithinLimits(connection, sync, { scope, history, overrides, stored });
    if (changes(limited.plan.counts) === 0 && !limited.adopted && changes(whole.counts) > 0)
      throw new InputError(`the selection leaves nothing of the plan of run ${run.id}`);
    await findLeftOut(connection, "shown");
    await connection.run("INSERT INTO left_out FROM never_planned");
    return {
      ...(await withExpectations(connection, sync, limited, {
        knowsSources: run.undoes === undefined,
        overrides,
        signal,
      })),
      causes: run.causes,
      waiting: [...new Set([...run.waiting, ...limited.waiting])],
      notes: withAdopted(run.notes, limited.adopted),
    };
  };
  return { read: listActual, plan };
}

/**
 * The limits that only the sources can tell about, as they were when the plan was made. Of a part, only its own drift counts.
 * Runs after `narrow`.
 */
async function checksOfSources(
  connection: Connection,
  checks: readonly LimitCheck[],
  selection: Selection,
): Promise<LimitCheck[]> {
  const pushed = checks.filter(({ limit }) => limit === "pushed");
  const drift = checks.find(({ limit }) => limit === "drift");
  if (drift === undefined) return pushed;
  if (!isPart(selection)) return [drift, ...pushed];
  const [row] = await connection.rows<{ all: number; left: number }>(`
    SELECT count(DISTINCT (kind, name))::INTEGER AS all,
      count(DISTINCT (kind, name)) FILTER ((kind, name) NOT IN (SELECT (kind, name) FROM excluded))::INTEGER AS left
    FROM drift_item ANTI JOIN drift_left USING (action, kind, name, aspect)`);
  const { all = 0, left = 0 } = row ?? {};
  // Older versions stored plans without their drift: then any part may have some.
  return [all === 0 ? drift : { ...drift, value: left, tripped: left > 0 }, ...pushed];
}

/** @throws {InputError} when the plan is not as it was stored */
async function load(plans: Plans, run: RunRecord, connection: Connection, declared: Attributes): Promise<StoredPlan> {
  try {
    await plans.verify(run.id, run.seal);
    return await plans.load(run.id, connection, declared);
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    throw new InputError(`${error.message}. Plan again: \`${planAgain(run)}\``, { cause: error });
  }
}

/**
 * Versions before 0.3 stored plans without a seal: of those, nobody is owned but who was shown or is owned already. The next
 * run adopts the rest.
 */
async function ownOnlyShown(connection: Connection): Promise<void> {
  await connection.run(
    "DELETE FROM managed WHERE (kind, name) NOT IN (SELECT (kind, name) FROM shown UNION SELECT (kind, name) FROM ledger)",
  );
}

function noLongerShown(run: RunRecord, differences: readonly string[]): HeldError {
  return new HeldError(
    `the plan of run ${run.id} is out of date: the target has changed since; nothing was applied. Plan again: \`${planAgain(run)}\``,
    differences,
    "digest",
  );
}

/** The most differences that are named. */
const most = 20;

/** How the changes now (`change_sides`) differ from those that were shown (`shown`). */
async function differences(connection: Connection): Promise<string[]> {
  const rows = await connection.rows<{ kind: string; name: string; was: Action | null; is: Action | null }>(`
    WITH present AS (SELECT action, kind, name, before, after FROM change_sides)
    SELECT coalesce(s.kind, p.kind) AS kind, coalesce(s.name, p.name) AS name, s.action AS was, p.action AS is
    FROM shown s FULL JOIN present p ON p.kind = s.kind AND p.name = s.name
    WHERE s.name IS NULL OR p.name IS NULL OR s.action <> p.action
      OR to_json(s.before)::VARCHAR IS DISTINCT FROM to_json(p.before)::VARCHAR
      OR to_json(s.after)::VARCHAR IS DISTINCT FROM to_json(p.after)::VARCHAR
    ORDER BY 1, 2 LIMIT ${most + 1}`);
  const lines = rows.slice(0, most).map(({ kind, name, was, is }) => {
    const who = `${kind} ${formatName(name)}`;
    if (was === null) return `${who}: it would now be ${past(is)}, which the plan did not show`;
    if (is === null) return `${who}: it was to be ${past(was)}, which is no longer needed`;
    if (was !== is) return `${who}: it was to be ${past(was)}, and would be ${past(is)} now`;
    return `${who}: it was to be ${past(was)}, and has changed in the target since`;
  });
  return rows.length > most ? [...lines, "and more"] : lines;
}

/**
 * Memberships in groups that there will not be: somebody joined a group that the plan deletes, or deleted one that it fills.
 * Principals of other types can only join.
 */
async function severedMemberships(connection: Connection): Promise<string[]> {
  const rows = await connection.rows<{ kind: string; name: string; g: string; goes: boolean }>(`
    SELECT m.kind, m.name, m.g, s.name IS NOT NULL AS goes
    FROM (
      SELECT kind, name, unnest(group_names) AS g FROM desired
      UNION ALL
      SELECT * FROM (SELECT type, name, unnest(group_names) AS g FROM actual_foreign)
      WHERE g IN (SELECT name FROM shown WHERE kind = 'group' AND action = 'delete')) m
    ANTI JOIN (SELECT name FROM desired WHERE kind = 'group' UNION ${foreignGroups}) d ON d.name = m.g
    LEFT JOIN shown s ON s.kind = 'group' AND s.name = m.g
    ORDER BY 1, 2, 3 LIMIT ${most + 1}`);
  const lines = rows.slice(0, most).map(({ kind, name, g, goes }) => {
    const [who, group] = [`${visible(kind)} ${formatName(name)}`, formatName(g)];
    return goes
      ? `${who}: it has joined the group ${group}, which was to be deleted`
      : `${who}: its group ${group} has been deleted`;
  });
  return rows.length > most ? [...lines, "and more"] : lines;
}

/** Principals that the plan creates, and that somebody has made as another type meanwhile. */
async function takenMeanwhile(connection: Connection): Promise<string[]> {
  const rows = await connection.rows<{ kind: string; name: string; type: string }>(`
    SELECT s.kind, s.name, f.type FROM shown s JOIN actual_foreign f ON f.name = s.name AND coalesce(f.kind, s.kind) = s.kind
    WHERE s.action = 'create' ORDER BY ALL LIMIT ${most}`);
  return rows.map(
    ({ kind, name, type }) =>
      `${kind} ${formatName(name)}: it was to be created, but the target has that name as ${visible(type)} now`,
  );
}

function past(action: Action | null): string {
  return action === null ? "left alone" : usualWords[action];
}

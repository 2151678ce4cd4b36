import { planAgain } from "#state/record.ts";
import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { literal, textList } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { HeldError, messageOf } from "#errors.ts";
import { naming } from "#files/disk.ts";
import { createChanges } from "#plan/diff.ts";
import { tables } from "#plan/tables.ts";
import { columnOf } from "#principals/attributes.ts";
import type { Attributes } from "#principals/attributes.ts";
import { readSyncAnswer, writePrincipals } from "#plan/lists.ts";
import { formatDuration, formatName, formatNumber, pluralize, visible } from "#text.ts";
import type { Run, Verdict } from "./context.ts";
import { forgetBaseline, renewSettings, storeBaseline } from "#sync/planning/baseline.ts";
import type { Baseline } from "#sync/planning/baseline.ts";
import { readObjects, readTarget } from "#sync/planning/target.ts";
import { findHeld, finishCreated, makeFromRemote, matchCase } from "#plan/remote.ts";
import { writeChanges } from "#sync/writing/write.ts";
import type { Written } from "#sync/writing/write.ts";
import type { ListTarget, ObjectTarget } from "#connector.ts";
import type { Planned } from "#sync/planning/limits.ts";
import { passwordOf } from "./sync.ts";
import type { Sync } from "./sync.ts";

/**
 * Writes the list, and has the service preview it.
 * @param meanwhile what the workbench does beside that, or instead of it
 * @returns how its answer differs from the plan, one line each
 */
export async function preview(
  run: Run,
  planned: Planned,
  { changed }: Verdict,
  meanwhile: () => Promise<void>,
): Promise<readonly string[]> {
  const { sync, options, workbench, unchanged } = run;
  const { target } = sync;
  // The other opinion is what each object is right before it is written. Without changes, the list that is sent is the one that
  // the target has: of that the service has spoken already.
  if (target.takes === "changes" || (!changed && unchanged.isAgreed)) {
    await meanwhile();
    return [];
  }
  options.progress?.("preview");
  await writePrincipals(workbench.connection, workbench.file("desired.json"));
  const disagreements = await send(run, target, planned, false, meanwhile);
  // Where the target says that its list has not changed, and it has, the next run must not believe it again.
  if (disagreements.length > 0 && options.apply) await unchanged.forgetList();
  return disagreements;
}

/** What became of a plan that was applied. */
export interface Applied {
  /** The entity tag of the target's list; undefined where the target gives none. */
  readonly arrived?: string | undefined;
  /** Present: a part of the plan was applied, and what was not is left to the next run. */
  readonly partly?: HeldError | undefined;
}

/**
 * Sends the list that was previewed, or writes the changes one by one; then reads the target again.
 * @throws {HeldError} when the target does not match the plan, and it is not known why
 */
export async function apply(run: Run, planned: Planned): Promise<Applied> {
  const { target } = run.sync;
  // The run owns what it is about to create, whatever becomes of it.
  await run.ledger.claim();
  await run.options.applying?.();
  run.options.progress?.("apply");
  if (target.takes === "changes") return verifyWritten(run, target, await write(run, target));
  return { arrived: await verify(run, target, await send(run, target, planned, true)) };
}

function write({ sync, options, connection, ledger, watching }: Run, target: ObjectTarget): Promise<Written> {
  const { progress, sending, interruption } = options;
  return writeChanges({
    target,
    declared: sync.rules.declared,
    connection,
    ledger,
    signal: watching.signal(),
    stop: interruption.stop,
    sending,
    progress: (written) => progress?.("apply", written),
  });
}

/**
 * Reads the target again. What is not as planned is taken out of the plan: the target has what `desired` says then.
 * @throws what reading throws
 */
async function verifyWritten(
  { sync, options, workbench, watching, warn }: Run,
  target: ObjectTarget,
  { written, problems, left, untold, notCreated, stopped }: Written,
): Promise<Applied> {
  const { connection } = workbench;
  const { declared } = sync.rules;
  options.progress?.("verify");
  const refused = (["user", "group"] as const).map((kind) => {
    const names = notCreated.filter((each) => each.kind === kind).map(({ name }) => name);
    return `SELECT 'create', ${literal(kind)}, unnest(${textList(names)})`;
  });
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE unwritten (${tables.unwritten});
    INSERT INTO unwritten ${refused.join(" UNION ALL ")}`);
  // Perhaps the target cannot be read.
  if (notCreated.length > 0) await options.storeUnwritten?.(workbench);
  for (const pause of [...(options.lags ?? usualLags), undefined]) {
    await readObjects(target, workbench, { declared, signal: watching.signal(), warn });
    if (pause === undefined || !(await isLate(connection))) break;
    warn(
      `target ${target.name}: its lists do not show everything yet that it has taken; reading them again in ${formatDuration(pause)}`,
    );
    await delay(pause, undefined, { signal: watching.signal() });
  }
  await findHeld(connection, declared, "sent_value");
  await connection.run(`
    INSERT INTO remote_late FROM remote_known ANTI JOIN remote_object USING (kind, id)
    WHERE (kind, id) IN (SELECT (kind, id) FROM sent_value WHERE before IS NULL)`);
  await makeFromRemote(connection, declared, "arrived");
  await matchCase(connection, "arrived", "desired");
  await createChanges(connection, declared, { actual: "arrived", desired: "desired", into: "missing" });
  const missing = await missingIn(connection, declared);
  const more = Number(missing[0]?.total ?? 0) - missing.length;
  if (missing.length === 0 && left === 0 && stopped === undefined) return {};
  await connection.run("INSERT INTO unwritten SELECT action, kind, name FROM missing WHERE action <> 'update'");
  await options.storeUnwritten?.(workbench);
  await connection.run(`
    INSERT INTO left_out SELECT kind, name FROM missing;
    DELETE FROM desired WHERE (kind, name) IN (SELECT (kind, name) FROM missing);
    INSERT INTO desired BY NAME FROM arrived SEMI JOIN missing USING (kind, name)`);
  const told = [
    ...(stopped === undefined ? [] : [`the rest was not written: ${stopped}`]),
    ...problems,
    ...(untold > 0 ? [`and ${formatNumber(untold)} more`] : []),
    ...missing.map(stillTo),
    ...(more > 0 ? [`and ${formatNumber(more)} more`] : []),
  ];
  const message = `target ${target.name}: ${pluralize(written, "change")} written, but not all of the plan; the next run plans what is left`;
  return { partly: new HeldError(message, told, "verification") };
}

/** How long lists may be behind what was written, in milliseconds: they are read again after each. */
const usualLags = [1_000, 5_000, 15_000];

/** Whether an object that was created is not in the list, or one that was changed is there as it was. */
async function isLate(connection: Connection): Promise<boolean> {
  const [late] = await connection.rows(`
    SELECT true FROM sent_value s LEFT JOIN remote_object o USING (kind, id)
    WHERE CASE WHEN s.before IS NULL THEN o.id IS NULL
      ELSE o.attributes = s.before AND s.before <> s.sent AND s.answered = s.sent END LIMIT 1`);
  return late !== undefined;
}

/** How many principals are named that are not as planned. */
const mostMissing = 20;

/** A principal that is not as planned. */
interface Missing {
  readonly action: string;
  readonly kind: string;
  readonly name: string;
  /** The attributes in which it differs, if it is there: `title`, `groups`. */
  readonly attributes: readonly string[];
  /** How many there are altogether. */
  readonly total: bigint;
}

/** The first rows of `missing`, with how `arrived` differs from `desired` there. */
function missingIn(connection: Connection, { all }: Attributes): Promise<readonly Missing[]> {
  const compared = [...all.map((each) => [each.name, columnOf(each)]), ["groups", "group_names"]] as const;
  const differing = compared.map(
    ([name, column]) => `CASE WHEN a.${column} IS DISTINCT FROM d.${column} THEN ${literal(name)} END`,
  );
  return connection.rows<Missing>(`
    SELECT DISTINCT action, kind, name, total, list_filter([${differing.join(", ")}], lambda each: each IS NOT NULL) AS attributes
    FROM (SELECT *, count(*) OVER () AS total FROM missing ORDER BY kind, name LIMIT ${mostMissing})
    LEFT JOIN arrived a USING (kind, name) LEFT JOIN desired d USING (kind, name) ORDER BY kind, name`);
}

function stillTo({ action, kind, name, attributes }: Missing): string {
  const isThere = action !== "create" && action !== "delete";
  return `still to ${action}: ${kind} ${formatName(name)}${isThere ? ` (${attributes.join(", ")})` : ""}`;
}

async function send(
  { sync, options, workbench, watching }: Run,
  target: ListTarget,
  { plan: { counts } }: Planned,
  applyChanges: boolean,
  meanwhile = async (): Promise<void> => {},
): Promise<string[]> {
  const answer = workbench.file(applyChanges ? "applied.json" : "preview.json");
  const request = {
    principals: workbench.file("desired.json"),
    applyChanges,
    // If the plan deletes nothing, the apply may not delete either: what somebody else has created since the list stays.
    deleteOthers: !applyChanges || counts.users.delete + counts.groups.delete > 0,
    defaultPassword: passwordOf(sync),
    sending: applyChanges ? options.sending : undefined,
  };
  // The target is often a service in this process.
  await workbench.makeRoom();
  const both = [target.sync(request, answer, watching.signal()), meanwhile()];
  // One that fails must not leave the other behind.
  await Promise.allSettled(both);
  await Promise.all(both);
  return compareOpinions(workbench.connection, answer, applyChanges ? "did" : "would");
}

/**
 * Compares the plan with the service's answer to the same list (the object of 2.8). The two are computed independently and
 * must name the same principals.
 * @returns the first twenty differences, one line each; empty when they agree
 */
async function compareOpinions(connection: Connection, answer: string, said: "would" | "did"): Promise<string[]> {
  await readSyncAnswer(connection, answer, "opinion");
  const rows = await connection.rows<{ who: "plan" | "service"; action: string; kind: string; name: string }>(`
    SELECT DISTINCT CASE WHEN o.name IS NULL THEN 'plan' ELSE 'service' END AS who, action, kind, name
    FROM changes c FULL JOIN opinion o USING (action, kind, name) WHERE c.name IS NULL OR o.name IS NULL
    ORDER BY kind, name, who LIMIT 20`);
  const [does, doesNot] = said === "would" ? ["would", "would not"] : ["did", "did not"];
  return rows.map(({ who, action, kind, name }) =>
    who === "plan"
      ? `the plan is to ${action} the ${kind} ${name}; the service ${doesNot}`
      : `the service ${does} ${action} the ${kind} ${name}; that is not planned`,
  );
}

/**
 * Lists the target again: it must be what was desired.
 * @param differences between the plan and what the service says it did
 * @returns the entity tag of that list; undefined where the target gives none
 * @throws {HeldError} when it is not
 */
async function verify(
  { sync, options, workbench, watching, warn }: Run,
  target: ListTarget,
  differences: readonly string[],
): Promise<string | undefined> {
  options.progress?.("verify");
  const { connection } = workbench;
  await workbench.makeRoom();
  const { declared } = sync.rules;
  const tag = await readTarget(target, workbench, "arrived", { declared, signal: watching.signal(), warn });
  await createChanges(connection, sync.rules.declared, { actual: "arrived", desired: "desired", into: "missing" });
  const missing = await missingIn(connection, declared);
  const lost = await connection.rows<{ type: string; name: string }>(`
    SELECT type, name FROM actual_foreign ANTI JOIN arrived_foreign USING (type, name) ORDER BY type, name LIMIT 20`);
  const problems = [
    ...differences,
    ...missing.map(stillTo),
    ...lost.map(({ type, name }) => `gone, although it was in the list: ${visible(type)} ${formatName(name)}`),
  ];
  if (problems.length === 0) return tag;
  throw new HeldError(
    `target ${target.name}: the list was applied, but the target does not match the plan. Something else may be changing it; see what is left: \`${planAgain({ ...options, sync: sync.name })}\``,
    problems,
    "verification",
  );
}

/**
 * Writes down what the run leaves: what the sync owns, what the next plan finds its causes with, and what it need not read again.
 * @param found.changed whether the target was changed
 */
export async function settle(
  run: Run,
  planned: Planned,
  found: { readonly changed: boolean; readonly applied: Applied | undefined; readonly baseline: Baseline | undefined },
): Promise<void> {
  const { changed, applied, baseline } = found;
  const { sync, connection, ledger, unchanged, options, now, warnings } = run;
  const isNew = !changed && sync.causes && options.for === undefined && (await hasMovedOn(connection, sync));
  const isKnown = !sync.causes || isDeepStrictEqual(baseline?.settings, sync.settings);
  const keep = !changed && !isNew && isKnown ? unchanged.fingerprint(planned, warnings) : undefined;
  if (sync.target.takes === "changes") {
    await finishCreated(connection, "left_out");
    await ledger.settleRemote();
  }
  const { declared } = sync.rules;
  await ledger.settle({
    now,
    later: options.later,
    declared,
    ...planned,
    run: applied?.partly === undefined ? options.id : undefined,
    keep,
  });
  await keepBaseline(run, baseline, { changed: changed || isNew, isOlder: planned.quarantined === undefined });
  try {
    await unchanged.storeList(connection, changed, applied?.arrived);
  } catch (error) {
    // The run has succeeded whether that can be written or not.
    run.warn(`the next run lists the target again: ${messageOf(naming(`the folder ${options.files.folder}`, error))}`);
  }
}

/**
 * Stores what the next plan finds its causes with. The run has succeeded whether that can be written or not.
 * @param found.changed the target, or what the sync gives of what is in it
 * @param found.isOlder the plan was stored, or is an undo: no sources were read
 */
async function keepBaseline(
  { sync, options, connection, now, warn }: Run,
  known: Baseline | undefined,
  { changed, isOlder }: { readonly changed: boolean; readonly isOlder: boolean },
): Promise<void> {
  const { id, undoes, files } = options;
  // A run for some leaves the rest to the next run, with what has changed since the last one for all.
  const isPart = options.for !== undefined;
  if (!sync.causes || (isPart && (!changed || known === undefined))) return;
  const settings = isPart ? (known?.settings ?? {}) : sync.settings;
  const baseline = { run: id, at: new Date(now).toISOString(), place: sync.place, settings };
  try {
    if (changed || known === undefined)
      await storeBaseline(connection, files, sync.name, baseline, {
        undone: undoes !== undefined,
        isOlder: isOlder && known !== undefined && sync.keepManual.length > 0,
      });
    else await renewSettings(files, sync.name, known, sync);
  } catch (error) {
    warn(`the next plan cannot name its causes: ${messageOf(naming(`the folder ${files.folder}`, error))}`);
    // By an older one, what this run has given would pass for added by hand.
    if (sync.keepManual.length === 0) return;
    await forgetBaseline(files, sync.name).catch(() => undefined);
  }
}

/**
 * Whether a plan without changes leaves something else than the baseline says: the sources have become what the target had
 * already. By the older baseline, what was given would pass for added by hand, and what was changed by hand for unchanged in the sources.
 */
async function hasMovedOn(connection: Connection, { keepManual, drift, rules }: Sync): Promise<boolean> {
  if (keepManual.length === 0 && drift.policy === "revert" && drift.ignore.length === 0) return false;
  const columns = ["kind", "name", "group_names", ...rules.declared.all.map(columnOf)].join(", ");
  const rows = await connection.rows(`
    WITH wanted AS (FROM desired ANTI JOIN drift_left USING (kind, name) UNION ALL BY NAME FROM drift_wanted)
    SELECT true FROM (
      (SELECT ${columns} FROM wanted SEMI JOIN managed USING (kind, name) EXCEPT SELECT ${columns} FROM baseline_target)
      UNION ALL SELECT ${columns} FROM baseline_target ANTI JOIN wanted USING (kind, name)) LIMIT 1`);
  return rows.length > 0;
}

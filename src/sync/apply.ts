import { isDeepStrictEqual } from "node:util";
import type { Connection } from "#duckdb/database.ts";
import { HeldError, messageOf } from "#errors.ts";
import { naming } from "#files/disk.ts";
import { createChanges } from "#plan/diff.ts";
import { readSyncAnswer, writePrincipals } from "#plan/lists.ts";
import { formatName, visible } from "#text.ts";
import type { Run, Verdict } from "./context.ts";
import { forgetBaseline, renewSettings, storeBaseline } from "#sync/planning/baseline.ts";
import type { Baseline } from "#sync/planning/baseline.ts";
import { listTarget } from "#sync/planning/desired.ts";
import type { Planned } from "#sync/planning/limits.ts";
import { passwordOf } from "./sync.ts";
import type { Sync } from "./sync.ts";

/**
 * Writes the list, and has the service preview it.
 * @returns how its answer differs from the plan, one line each
 */
export async function preview(run: Run, planned: Planned, { changed }: Verdict): Promise<readonly string[]> {
  const { options, workbench, unchanged } = run;
  // Without changes, the list that is sent is the one that the target has: of that the service has spoken already.
  if (!changed && unchanged.isAgreed) return [];
  options.progress?.("preview");
  await writePrincipals(workbench.connection, workbench.file("desired.json"));
  const disagreements = await send(run, planned, false);
  // Where the target says that its list has not changed, and it has, the next run must not believe it again.
  if (disagreements.length > 0 && options.apply) await unchanged.forgetList();
  return disagreements;
}

/** Sends the list that was previewed, to be applied. @returns as `preview` does */
export async function apply(run: Run, planned: Planned): Promise<readonly string[]> {
  await run.options.applying?.();
  run.options.progress?.("apply");
  return send(run, planned, true);
}

async function send(
  { sync, options, workbench, watching }: Run,
  { plan: { counts } }: Planned,
  applyChanges: boolean,
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
  await sync.target.sync(request, answer, watching.signal());
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
    SELECT 'plan' AS who, * FROM (SELECT action, kind, name FROM changes EXCEPT SELECT action, kind, name FROM opinion)
    UNION ALL
    SELECT 'service' AS who, * FROM (SELECT action, kind, name FROM opinion EXCEPT SELECT action, kind, name FROM changes)
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
export async function verify(
  { sync, options, workbench, watching }: Run,
  differences: readonly string[],
): Promise<string | undefined> {
  options.progress?.("verify");
  const { target } = sync;
  const { connection } = workbench;
  await workbench.makeRoom();
  const tag = await listTarget(target, workbench, "arrived", watching.signal());
  await createChanges(connection, sync.rules.declared, { actual: "arrived", desired: "desired", into: "missing" });
  const missing = await connection.rows<{ action: string; kind: string; name: string }>(
    "SELECT action, kind, name FROM missing ORDER BY kind, name LIMIT 20",
  );
  const lost = await connection.rows<{ type: string; name: string }>(`
    SELECT type, name FROM actual_foreign ANTI JOIN arrived_foreign USING (type, name) ORDER BY type, name LIMIT 20`);
  const problems = [
    ...differences,
    ...missing.map(({ action, kind, name }) => `still to ${action}: ${kind} ${name}`),
    ...lost.map(({ type, name }) => `gone, although it was in the list: ${visible(type)} ${formatName(name)}`),
  ];
  if (problems.length === 0) return tag;
  throw new HeldError(
    `target ${target.name}: the list was applied, but the target does not match the plan. Something else may be changing it; plan again to see what is left`,
    problems,
    "verification",
  );
}

/**
 * Writes down what the run leaves: what the sync owns, what the next plan finds its causes with, and what it need not read again.
 * @param found.changed whether the target was changed; `arrived`: the entity tag of its list after that
 */
export async function settle(
  run: Run,
  planned: Planned,
  found: { readonly changed: boolean; readonly arrived: string | undefined; readonly baseline: Baseline | undefined },
): Promise<void> {
  const { changed, arrived, baseline } = found;
  const { sync, connection, ledger, unchanged, options, now, warnings } = run;
  const gains = !changed && sync.causes && options.for === undefined && (await givesMore(connection, sync));
  const isKnown = !sync.causes || isDeepStrictEqual(baseline?.settings, sync.settings);
  const keep = !changed && !gains && isKnown ? unchanged.fingerprint(planned, warnings) : undefined;
  await ledger.settle({ now, declared: sync.rules.declared, ...planned, run: options.id, keep });
  await keepBaseline(run, baseline, { changed: changed || gains, isOlder: planned.quarantined === undefined });
  try {
    await unchanged.storeList(connection, changed, arrived);
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
  const { id, undoes = false, files } = options;
  // A run for some leaves the rest to the next run, with what has changed since the last one for all.
  const isPart = options.for !== undefined;
  if (!sync.causes || (isPart && (!changed || known === undefined))) return;
  const settings = isPart ? (known?.settings ?? {}) : sync.settings;
  const baseline = { run: id, at: new Date(now).toISOString(), settings };
  try {
    if (changed || known === undefined)
      await storeBaseline(connection, files, sync.name, baseline, {
        undone: undoes,
        isOlder: isOlder && known !== undefined && sync.keepManual.length > 0,
      });
    else await renewSettings(files, sync.name, known, sync.settings);
  } catch (error) {
    warn(`the next plan cannot name its causes: ${messageOf(naming(`the folder ${files.folder}`, error))}`);
    // By an older one, what this run has given would pass for added by hand.
    if (sync.keepManual.length === 0) return;
    await forgetBaseline(files, sync.name).catch(() => undefined);
  }
}

/** Whether the sync gives, or keeps, memberships that the baseline does not have: in a target that had them already. */
async function givesMore(connection: Connection, { keepManual }: Sync): Promise<boolean> {
  if (keepManual.length === 0) return false;
  const rows = await connection.rows(`
    SELECT true FROM (FROM desired SEMI JOIN managed USING (kind, name)) m
    LEFT JOIN baseline_target b ON b.kind = m.kind AND b.name = m.name
    WHERE b.name IS NULL OR NOT list_has_all(b.group_names, m.group_names) LIMIT 1`);
  return rows.length > 0;
}

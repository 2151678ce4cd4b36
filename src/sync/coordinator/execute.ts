import { messageOf } from "#errors.ts";
import { leavingCounts } from "#plan/departures.ts";
import type { Note } from "#plan/note.ts";
import type { AuditEntry } from "#state/audit/entry.ts";
import { hasReadAll, hasSucceeded, isOpen, withPart } from "#state/record.ts";
import type { RunRecord, Stage, StageRecord, SyncState } from "#state/record.ts";
import { run as runSync } from "#sync/run.ts";
import type { RunOptions } from "#sync/context.ts";
import { SlotTakenError } from "#state/postgres/journal.ts";
import type { Sync } from "#sync/sync.ts";
import { interruptionOf, push, timestamp, writeAudit } from "./context.ts";
import type { Context } from "./context.ts";
import type { Begun, Watcher } from "./coordinator.ts";
import { endedByError, endedWith, endNotWritten, finish } from "./finish.ts";
import { findOutcome, recoverSync } from "./recover.ts";

/** How many warnings of sources go into a record. */
const mostWarnings = 50;

export interface ExecuteOptions extends Pick<RunOptions, "approval" | "digest" | "overrides" | "planner"> {
  /** The name to store the plan under; absent: it is stored already. */
  readonly storeAs?: string | undefined;
  /** How long the plan can be approved, in milliseconds. */
  readonly approvalExpires: number;
  /** Notes for the record, besides those of the plan, one line each. */
  readonly notes?: readonly Note[];
}

/**
 * Starts a run, once the audit log and the journal say so: first who asked for what, then that it runs.
 * @throws when one of them cannot be written. Nothing has begun then
 */
export async function start(
  context: Context,
  run: RunRecord,
  options: ExecuteOptions,
  entries: readonly AuditEntry[],
  watcher?: Watcher,
): Promise<Begun> {
  const { journal, emit, targets, underWay, settingsOf } = context;
  const before = journal.find(run.id);
  try {
    for (const entry of entries) await writeAudit(context, entry);
    const { slot } = run;
    const isNew = before === undefined && slot !== undefined;
    // With the run: a slot is done when its run has begun.
    const change = (state: SyncState): SyncState => ({ ...state, lastSlotAt: slot });
    await journal.put(run, isNew ? { sync: run.sync, change } : undefined);
  } catch (error) {
    if (error instanceof SlotTakenError) {
      await journal.remove(run.id).catch(() => undefined);
      throw error;
    }
    const isScheduled = before === undefined && run.cause !== "demand" && run.cause !== "undo";
    const failed = isScheduled ? endedByError(run, error, timestamp(context), timestamp(context)) : before;
    await (failed === undefined ? journal.remove(run.id) : journal.put(failed)).catch(() => undefined);
    // Nobody waits for the answer to a scheduled run: the subscribers hear of the failure.
    if (isScheduled && failed !== undefined) emit({ type: "run", run: failed });
    throw error;
  }
  emit({ type: "run", run });
  underWay.set(run.id, run.sync);
  const ended = targets(settingsOf(run.sync).place, () => recoverAndExecute(context, run, options, watcher))
    // Its turn has never come: where several processes have turns, the lease was lost, or the database did not answer.
    .catch((error: unknown) => endedWithoutRecord(context, run, error))
    .finally(() => underWay.delete(run.id));
  return { run, ended };
}

/** A run whose end the journal does not know: it is found out later. */
function endedWithoutRecord(context: Context, run: RunRecord, error: unknown): RunRecord {
  const failed = endedByError(run, error, timestamp(context), timestamp(context));
  context.emit({ type: "run", run: failed });
  return failed;
}

/** Never rejects: a failure is in the record. */
async function recoverAndExecute(
  context: Context,
  run: RunRecord,
  options: ExecuteOptions,
  watcher?: Watcher,
): Promise<RunRecord> {
  const { report } = context;
  try {
    await recoverSync(context, run.sync);
    return await execute(context, run, options, watcher ?? { report: report && ((found) => report(found, run)) });
  } catch (error) {
    // The outcome of an earlier run could not be written down.
    return endedWithoutRecord(context, run, error);
  }
}

/** Runs a sync and writes down how it ended. Never rejects: a failure is in the record. */
async function execute(
  context: Context,
  began: RunRecord,
  { storeAs, approvalExpires, notes: remarks = [], ...options }: ExecuteOptions,
  watcher: Watcher,
): Promise<RunRecord> {
  const { now, emit, journal, store, folder, memory, shared } = context;
  const interruption = interruptionOf(context);
  let run = began;
  const stages = recordStages(now, began.stages);
  const warnings: Note[] = [];
  const update = (change: Partial<RunRecord>): void => {
    run = { ...run, ...change, stages: stages.stages() };
  };
  const end = (): { readonly at: string; readonly expiresAt: string } => {
    stages.end();
    update({ notes: [...run.notes, ...warnings] });
    const at = now();
    return { at: new Date(at).toISOString(), expiresAt: new Date(at + approvalExpires).toISOString() };
  };
  let sync: Sync | undefined;
  try {
    interruption.stop.throwIfAborted();
    sync = await context.open(run.sync);
    const result = await runSync(sync, {
      ...options,
      id: run.id,
      undoes: run.undoes !== undefined,
      for: run.for,
      apply: true,
      folder,
      memory,
      interruption,
      now: now(),
      progress: (stage, records) => {
        stages.progress(stage, records);
        update({});
        if (records === undefined) journal.note(run);
        emit({ type: "stage", id: run.id, sync: run.sync, stage, records });
        watcher.progress?.(stage, records);
      },
      warn: (message) => {
        if (warnings.length < mostWarnings) warnings.push({ text: message });
        watcher.warn?.(message);
      },
      report: async (report) => {
        const { plan, limits, waiting, departures, quarantined, causes, expectations, sources } = report;
        const leaving = departures === undefined ? run.leaving : leavingCounts(departures);
        const notes = [...report.notes, ...remarks];
        update({
          digest: plan.digest,
          counts: plan.counts,
          limits,
          waiting,
          notes,
          leaving,
          causes,
          expectations,
          quarantined: quarantined ?? run.quarantined,
          sources: sources ?? run.sources,
        });
        await watcher.report?.({ ...report, notes });
      },
      store:
        storeAs === undefined
          ? undefined
          : async ({ connection }, planned) => {
              const seal = await store.save(storeAs, connection, planned);
              update({ kept: true, ...(storeAs === run.id ? { seal } : { partSeal: seal }) });
            },
      storeQuarantined: async ({ connection }) => {
        if (!hasReadAll(run)) return;
        // Without them the notes still have the most frequent causes.
        await store.saveQuarantined(run.id, connection).catch((error: unknown) => {
          warnings.push({ text: `the quarantined records cannot be stored: ${messageOf(error)}` });
        });
      },
      saved: shared && ((what) => push(context, run.sync, [what])),
      applying: async () => {
        await context.applying?.(run.sync);
        await push(context, run.sync, ["exports"]);
        update({ sentAt: timestamp(context) });
        await journal.put(run);
      },
      sending: shared?.node.check,
    });
    const { at, expiresAt } = end();
    run = endedWith(run, result, at, expiresAt);
  } catch (error) {
    const { at, expiresAt } = end();
    run = endedByError(run, error, at, expiresAt);
    // A pending run keeps the whole plan, even after a partial approval failed.
    if (isOpen(run) && began.expiresAt !== undefined) run = { ...run, ...planOf(began) };
    if (run.sentAt !== undefined && run.state === "failed") run = await findOutcome(context, run, storeAs ?? run.id);
  } finally {
    await sync?.target.close();
  }
  if (run.state === "applied" && storeAs !== undefined && storeAs !== run.id) {
    await store.replaceByPart(run.id);
    run = withPart(run);
  }
  if (hasSucceeded(run)) {
    const exported = await context.after?.(run.sync, run.state);
    if (exported !== undefined) run = { ...run, export: exported };
    // Without this record, the next run exports again.
    await push(context, run.sync, ["exports"]).catch(() => undefined);
  }
  return finish(context, run).catch((error: unknown) => {
    const lost = endNotWritten(run, error, timestamp(context));
    emit({ type: "run", run: lost });
    return lost;
  });
}

function planOf({ digest, counts, limits, expectations, waiting, notes, kept }: RunRecord): Partial<RunRecord> {
  return { digest, counts, limits, expectations, waiting, notes, kept };
}

/** Records when the stages of a run begin and end. */
interface StageRecorder {
  /** A stage begins; or, with `records`, that many have been read in it so far. */
  progress(stage: Stage, records?: number): void;
  /** The stages so far; the last one may not have ended. */
  stages(): readonly StageRecord[];
  /** Ends the current stage. */
  end(): void;
}

/**
 * @param now the time, in epoch milliseconds
 * @param before the stages of an earlier attempt
 */
export function recordStages(now: () => number, before: readonly StageRecord[] = []): StageRecorder {
  const done: StageRecord[] = [...before];
  let current: { readonly stage: Stage; readonly began: number; records?: number } | undefined;
  const record = (milliseconds?: number): StageRecord[] => {
    if (current === undefined) return [];
    const { stage, began, records } = current;
    return [{ stage, startedAt: new Date(began).toISOString(), milliseconds, records }];
  };
  const end = (): void => {
    if (current !== undefined) done.push(...record(now() - current.began));
    current = undefined;
  };
  return {
    progress: (stage, records) => {
      if (current?.stage !== stage) {
        end();
        current = { stage, began: now() };
      }
      if (records !== undefined) current.records = records;
    },
    stages: () => [...done, ...record()],
    end,
  };
}

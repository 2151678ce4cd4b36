import type { Workbench } from "#duckdb/workbench.ts";
import { messageOf } from "#errors.ts";
import { leavingCounts } from "#plan/departures.ts";
import type { Note } from "#plan/note.ts";
import type { AuditEntry } from "#state/audit/entry.ts";
import { hasReadAll, hasSucceeded, isOpen, without, withPart } from "#state/record.ts";
import type { RunRecord, Stage, StageRecord, SyncState } from "#state/record.ts";
import { run as runSync } from "#sync/run.ts";
import type { Report, RunOptions } from "#sync/context.ts";
import { seenPushes } from "#sync/planning/pushes.ts";
import type { Planned } from "#sync/planning/limits.ts";
import { laterTimes } from "#state/runs.ts";
import { SlotTakenError } from "#state/store.ts";
import type { Sync } from "#sync/sync.ts";
import { approversOf } from "./approvals.ts";
import { interruptionOf, timestamp } from "./context.ts";
import type { Context, SyncSettings } from "./context.ts";
import type { Begun, Watcher } from "./coordinator.ts";
import { endedByError, endedWith, endNotWritten, finish } from "./finish.ts";
import { findOutcome, recoverSync } from "./recover.ts";
import { hasApplied } from "./refusals.ts";

/** How many warnings of sources go into a record. */
const mostWarnings = 50;

export interface ExecuteOptions extends Pick<
  RunOptions,
  "approval" | "approvers" | "digest" | "overrides" | "planner"
> {
  /** The name to store the plan under; absent: it is stored already. */
  readonly storeAs?: string | undefined;
  /** How long the plan can be approved, in milliseconds, and by how many. */
  readonly settings: Pick<SyncSettings, "approvalExpires" | "approvers">;
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
  const { emit, targets, underWay, settingsOf } = context;
  const { journal, audit } = context.store;
  const before = journal.find(run.id);
  try {
    for (const entry of entries) await audit.append(entry);
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
  watcher: Watcher = {},
): Promise<RunRecord> {
  try {
    await recoverSync(context, run.sync);
    return await execute(context, run, options, watcher);
  } catch (error) {
    // The outcome of an earlier run could not be written down.
    return endedWithoutRecord(context, run, error);
  }
}

/** Runs a sync and writes down how it ended. Never rejects: a failure is in the record. */
async function execute(
  context: Context,
  began: RunRecord,
  options: ExecuteOptions,
  watcher: Watcher,
): Promise<RunRecord> {
  const interruption = interruptionOf(context);
  const recording = new Recording(context, began, options, watcher);
  let sync: Sync | undefined;
  let ended: RunRecord;
  try {
    interruption.stop.throwIfAborted();
    sync = await context.open(began.sync);
    const result = await runSync(sync, { ...recording.runOptions(), interruption });
    ended = recording.end((run, at, expiresAt) => endedWith(run, result, at, expiresAt));
  } catch (error) {
    ended = recording.end((run, at, expiresAt) => endedByError(run, error, at, expiresAt));
    // A pending run keeps the whole plan, even after a partial approval failed.
    if (isOpen(ended) && began.expiresAt !== undefined) ended = { ...ended, ...planOf(began) };
    if (ended.state === "failed" && ended.sentAt === undefined && context.interruption.stop.aborted)
      ended = { ...ended, cancelled: true };
    if (ended.sentAt !== undefined && ended.state === "failed")
      ended = await findOutcome(context, ended, options.storeAs ?? ended.id);
  } finally {
    await sync?.target.close();
  }
  const run = await followUp(context, withApprovers(ended, options.settings.approvers), options.storeAs);
  return finish(context, run).catch((error: unknown) => {
    const lost = endNotWritten(run, error, timestamp(context));
    context.emit({ type: "run", run: lost });
    return lost;
  });
}

/**
 * Who must approve a plan that waits is written with it; who has, by naming it. Once it was applied, that is the decision.
 */
function withApprovers(run: RunRecord, rules: SyncSettings["approvers"]): RunRecord {
  const { approvals = [], decisions, digest } = run;
  if (run.state === "pending") {
    // A beginning of the digest is enough to name a plan.
    const whole = approvals.map((each) => ({ ...each, digest: digest ?? each.digest }));
    return {
      ...run,
      approvers: approversOf(run, rules),
      approvals: whole.length === 0 ? undefined : whole,
    };
  }
  const rest = without(run, ["approvals", "approvers"]);
  if (run.state === "held") return { ...rest, approvers: approversOf(run, rules) };
  return hasSucceeded(run) ? { ...rest, decisions: [...decisions, ...approvals] } : rest;
}

/** What a run that was applied, or begun to be, leads to: only the part that was approved stays stored, and the export. */
async function followUp(context: Context, ended: RunRecord, storeAs: string | undefined): Promise<RunRecord> {
  let run = ended;
  if (hasApplied(run) && run.endUnknown !== true && storeAs !== undefined && storeAs !== run.id) {
    await context.plans.replaceByPart(run.id);
    run = withPart(run);
  }
  if (hasSucceeded(run)) {
    const exported = await context.after?.(run.sync, run.state);
    if (exported !== undefined) run = { ...run, export: exported };
  }
  return run;
}

function planOf({ digest, counts, limits, expectations, waiting, notes, kept }: RunRecord): Partial<RunRecord> {
  return { digest, counts, limits, expectations, waiting, notes, kept };
}

/** The record of a run that is under way: of what the run tells, and tells the watcher, too. */
class Recording {
  readonly #context: Context;
  readonly #options: ExecuteOptions;
  readonly #watcher: Watcher;
  readonly #stages: StageRecorder;
  readonly #warnings: Note[] = [];
  #run: RunRecord;
  /** What to write down of the stored plan. */
  #stored: Partial<RunRecord> = {};

  constructor(context: Context, began: RunRecord, options: ExecuteOptions, watcher: Watcher) {
    this.#context = context;
    this.#options = options;
    this.#watcher = watcher;
    this.#stages = new StageRecorder(context.now, began.stages);
    this.#run = began;
  }

  /** What the run is to do, and whom it tells. */
  runOptions(): Omit<RunOptions, "interruption"> {
    const { store, memory } = this.#context;
    const now = this.#context.now();
    const { approval, approvers, digest, overrides, planner, storeAs } = this.#options;
    const { id, undoes, for: people, decisions } = this.#run;
    return {
      id,
      selection: decisions.at(-1)?.selection,
      undoes,
      for: people,
      apply: true,
      approval,
      approvers,
      digest,
      overrides,
      planner,
      files: store.files,
      memory,
      now,
      later: laterTimes(store.journal.runs, now),
      progress: (stage, records) => this.#progress(stage, records),
      warn: (message) => this.#warn(message),
      seenPushes: seenPushes(store.journal.runs, this.#run.sync),
      waiting: (message) => this.#watcher.warn?.(message),
      report: (report) => this.#report(report),
      store: storeAs === undefined ? undefined : (workbench, planned) => this.#store(storeAs, workbench, planned),
      storeQuarantined: (workbench) => this.#storeQuarantined(workbench),
      storeUnwritten: (workbench) => this.#storeUnwritten(storeAs ?? id, workbench),
      applying: () => this.#applying(),
      sending: () => store.lease.check(),
    };
  }

  /** The record with its end. @param by makes it, of the moment and of when an approval expires, ISO 8601 */
  end(by: (run: RunRecord, at: string, expiresAt: string) => RunRecord): RunRecord {
    this.#stages.end();
    this.#update({ notes: [...this.#run.notes, ...this.#warnings] });
    const at = this.#context.now();
    const expiresAt = new Date(at + this.#options.settings.approvalExpires).toISOString();
    return by(this.#run, new Date(at).toISOString(), expiresAt);
  }

  #update(change: Partial<RunRecord>): void {
    this.#run = { ...this.#run, ...change, stages: this.#stages.stages() };
  }

  #progress(stage: Stage, records?: number): void {
    this.#stages.progress(stage, records);
    this.#update({});
    const { id, sync } = this.#run;
    if (records === undefined) this.#context.store.journal.note(this.#run);
    this.#context.emit({ type: "stage", id, sync, stage, records });
    this.#watcher.progress?.(stage, records);
  }

  #warn(message: string): void {
    if (this.#warnings.length < mostWarnings) this.#warnings.push({ text: message });
    this.#watcher.warn?.(message);
  }

  async #report(report: Report): Promise<void> {
    const { plan, limits, waiting, departures, quarantined, causes, expectations, sources } = report;
    const notes = [...report.notes, ...(this.#options.notes ?? [])];
    this.#update({
      digest: plan.digest,
      counts: plan.counts,
      limits,
      waiting,
      notes,
      leaving: departures === undefined ? this.#run.leaving : leavingCounts(departures),
      causes,
      expectations,
      quarantined: quarantined ?? this.#run.quarantined,
      sources: sources ?? this.#run.sources,
    });
    await this.#watcher.report?.({ ...report, notes });
    // A plan that nobody could be shown is not kept.
    this.#update(this.#stored);
  }

  async #store(name: string, { connection }: Workbench, planned: Planned): Promise<void> {
    const seal = await this.#context.plans.save(name, connection, planned);
    this.#stored = { kept: true, ...(name === this.#run.id ? { seal } : { partSeal: seal }) };
  }

  async #storeQuarantined({ connection }: Workbench): Promise<void> {
    if (!hasReadAll(this.#run)) return;
    // Without them the notes still have the most frequent causes.
    await this.#context.plans.saveQuarantined(this.#run.id, connection).catch((error: unknown) => {
      this.#warnings.push({ text: `the quarantined records cannot be stored: ${messageOf(error)}` });
    });
  }

  async #storeUnwritten(name: string, { connection }: Workbench): Promise<void> {
    await this.#context.plans.saveUnwritten(name, connection).catch((error: unknown) => {
      this.#warnings.push({ text: `which changes were not made cannot be stored: ${messageOf(error)}` });
    });
  }

  async #applying(): Promise<void> {
    await this.#context.applying?.(this.#run.sync);
    this.#update({ sentAt: timestamp(this.#context) });
    await this.#context.store.journal.put(this.#run);
  }
}

/** Records when the stages of a run begin and end. */
export class StageRecorder {
  readonly #now: () => number;
  readonly #done: StageRecord[];
  #current: { readonly stage: Stage; readonly began: number; records?: number } | undefined;

  /**
   * @param now the time, in epoch milliseconds
   * @param before the stages of an earlier attempt
   */
  constructor(now: () => number, before: readonly StageRecord[] = []) {
    this.#now = now;
    this.#done = [...before];
  }

  /** A stage begins; or, with `records`, that many have been read in it so far. */
  progress(stage: Stage, records?: number): void {
    if (this.#current?.stage !== stage) {
      this.end();
      this.#current = { stage, began: this.#now() };
    }
    if (records !== undefined) this.#current.records = records;
  }

  /** The stages so far; the last one may not have ended. */
  stages(): readonly StageRecord[] {
    return [...this.#done, ...this.#record()];
  }

  /** Ends the current stage. */
  end(): void {
    if (this.#current !== undefined) this.#done.push(...this.#record(this.#now() - this.#current.began));
    this.#current = undefined;
  }

  #record(milliseconds?: number): StageRecord[] {
    if (this.#current === undefined) return [];
    const { stage, began, records } = this.#current;
    return [{ stage, startedAt: new Date(began).toISOString(), milliseconds, records }];
  }
}

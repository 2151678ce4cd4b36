import type { Watcher } from "./coordinator.ts";
import { conclude } from "./conclusions.ts";
import type { Books } from "./conclusions.ts";
import { endedByError, endedWith, hasSucceeded, isOpen, notWrittenDown } from "./ending.ts";
import type { Interruption } from "#sync/interruption.ts";
import { createRecorder } from "#sync/journal/recorder.ts";
import type { RunRecord } from "#sync/record.ts";
import { run as runSync } from "#sync/run.ts";
import type { RunOptions } from "#sync/run.ts";
import type { Sync } from "#sync/sync.ts";

/** How many lines of what sources say go into a record. */
const mostWarnings = 50;

export interface Means extends Books {
  /** The daemon's folder. */
  readonly folder: string;
  /** DuckDB's memory limit of a run, in bytes. */
  readonly memory: number;
  readonly interruption: Interruption;
  /** Opens a sync; its target is closed after use. */
  readonly open: (name: string) => Promise<Sync>;
  /** What comes after a run that has succeeded: what to write down of it. Never rejects. */
  readonly after?: (sync: string, outcome: "no change" | "applied") => Promise<RunRecord["export"]>;
  /** Finds out how a run has ended whose list was sent, without an answer. Never rejects. */
  readonly findEnd: (run: RunRecord, storedAs: string) => Promise<RunRecord>;
}

export interface Wanted extends Pick<RunOptions, "approval" | "digest" | "overrides" | "planner"> {
  /** How its plan is kept. Absent: it is, already. */
  readonly storedAs?: string;
  /** How long it can be approved, in milliseconds. */
  readonly approvalExpires: number;
  /** What a person should know beside what the plan says, one line each. */
  readonly notes?: readonly string[];
}

/** Carries a run out to its end, and writes it down. Never rejects: a failure is in the record. */
export async function carryOut(
  began: RunRecord,
  { storedAs, approvalExpires, notes: remarks = [], ...wanted }: Wanted,
  means: Means,
  watcher: Watcher = {},
): Promise<RunRecord> {
  const { now, emit, journal, store, interruption, folder, memory } = means;
  let run = began;
  const recorder = createRecorder(now, began.stages);
  const warnings: string[] = [];
  const update = (change: Partial<RunRecord>): void => {
    run = { ...run, ...change, stages: recorder.stages() };
  };
  const end = (): { readonly at: string; readonly expiresAt: string } => {
    recorder.end();
    update({ notes: [...run.notes, ...warnings] });
    const at = now();
    return { at: new Date(at).toISOString(), expiresAt: new Date(at + approvalExpires).toISOString() };
  };
  let sync: Sync | undefined;
  try {
    interruption.stop.throwIfAborted();
    sync = await means.open(run.sync);
    const result = await runSync(sync, {
      ...wanted,
      id: run.id,
      apply: true,
      folder,
      memory,
      interruption,
      now: now(),
      progress: (stage, records) => {
        recorder.progress(stage, records);
        update({});
        if (records === undefined) journal.put(run).catch(() => undefined);
        emit({ type: "stage", id: run.id, sync: run.sync, stage, ...(records === undefined ? {} : { records }) });
        watcher.progress?.(stage, records);
      },
      warn: (message) => {
        if (warnings.length < mostWarnings) warnings.push(message);
        watcher.warn?.(message);
      },
      report: async (report) => {
        const { plan, limits, waiting, subjects } = report;
        const notes = [...report.notes, ...remarks];
        const said = { notes, ...(subjects === undefined ? {} : { subjects }) };
        update({ digest: plan.digest, counts: plan.counts, limits, waiting, ...said });
        await watcher.report?.({ ...report, notes });
      },
      ...(storedAs === undefined
        ? {}
        : {
            keep: async ({ connection }, planned) => {
              await store.keep(storedAs, connection, planned);
              update({ kept: true });
            },
          }),
      applying: async () => {
        update({ sentAt: new Date(now()).toISOString() });
        await journal.put(run);
      },
    });
    const { at, expiresAt } = end();
    run = endedWith(run, result, at, expiresAt);
  } catch (error) {
    const { at, expiresAt } = end();
    run = endedByError(run, error, at, expiresAt);
    // What waits is what was shown, not the part of it that was tried.
    if (isOpen(run) && began.expiresAt !== undefined) run = { ...run, ...plannedBy(began) };
    if (run.sentAt !== undefined && run.state === "failed") run = await means.findEnd(run, storedAs ?? run.id);
  } finally {
    await sync?.target.close();
  }
  if (run.state === "applied" && storedAs !== undefined && storedAs !== run.id) await store.replaceByPart(run.id);
  if (hasSucceeded(run)) {
    const exported = await means.after?.(run.sync, run.state);
    if (exported !== undefined) run = { ...run, export: exported };
  }
  return conclude(run, means).catch((error: unknown) => {
    const lost = notWrittenDown(run, error, new Date(now()).toISOString());
    emit({ type: "run", run: lost });
    return lost;
  });
}

function plannedBy({ digest, counts, limits, waiting, notes, kept }: RunRecord): Partial<RunRecord> {
  return {
    ...(digest === undefined ? {} : { digest }),
    ...(counts === undefined ? {} : { counts }),
    limits,
    waiting,
    notes,
    kept,
  };
}

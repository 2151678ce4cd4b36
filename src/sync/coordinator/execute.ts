import type { Interruption } from "#sync/interruption.ts";
import type { RunRecord, StageRecord } from "#sync/record.ts";
import { run as runSync } from "#sync/run.ts";
import type { RunOptions } from "#sync/run.ts";
import type { Stage, Sync } from "#sync/sync.ts";
import type { Watcher } from "./coordinator.ts";
import { conclude, endedByError, endedWith, hasSucceeded, isOpen, notWrittenDown } from "./finish.ts";
import type { Books } from "./finish.ts";

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

/** Notes down when the stages of a run begin and end. */
export interface Recorder {
  /** A stage begins; or, with `records`, so many have been read in it. */
  progress(stage: Stage, records?: number): void;
  /** The stages so far; the last one may be under way. */
  stages(): readonly StageRecord[];
  /** The stage that is under way has ended. */
  end(): void;
}

/** @param now the time, in epoch milliseconds */
export function createRecorder(now: () => number, before: readonly StageRecord[] = []): Recorder {
  const done: StageRecord[] = [...before];
  let current: { readonly stage: Stage; readonly began: number; records?: number } | undefined;
  const record = (milliseconds?: number): StageRecord[] => {
    if (current === undefined) return [];
    const { stage, began, records } = current;
    return [
      {
        stage,
        startedAt: new Date(began).toISOString(),
        ...(milliseconds === undefined ? {} : { milliseconds }),
        ...(records === undefined ? {} : { records }),
      },
    ];
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

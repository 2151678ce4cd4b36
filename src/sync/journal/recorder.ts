import type { StageRecord } from "#sync/record.ts";
import type { Stage } from "#sync/sync.ts";

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

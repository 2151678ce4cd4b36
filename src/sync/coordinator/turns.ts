import { createKeyedQueue } from "#queue.ts";
import type { RunRecord } from "#sync/record.ts";

/**
 * The work on runs, one after the other at each place: a list that was made while another one changes the target would
 * undo that.
 */
export interface Turns {
  /** Works on a run when everything is over that was to be done there before. `work` must not reject. */
  take(run: Pick<RunRecord, "id" | "sync">, place: string, work: () => Promise<RunRecord>): Promise<RunRecord>;
  /** Does something else there, before the runs that come later. What becomes of it is its own matter. */
  precede(place: string, work: () => Promise<void>): void;
  isUnderWay(id: string): boolean;
  /** The run of a sync that is under way, or awaits its turn. */
  runOf(sync: string): string | undefined;
  /** Resolves when nothing is left to be done. */
  over(): Promise<void>;
}

export function createTurns(): Turns {
  const places = createKeyedQueue();
  const underWay = new Map<string, string>();
  return {
    take: ({ id, sync }, place, work) => {
      underWay.set(id, sync);
      return places(place, () => work().finally(() => underWay.delete(id)));
    },
    precede: (place, work) => {
      void places(place, () => work().catch(() => undefined));
    },
    isUnderWay: (id) => underWay.has(id),
    runOf: (sync) => [...underWay].find(([, each]) => each === sync)?.[0],
    over: places.idle,
  };
}

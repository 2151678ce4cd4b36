import type { Begun } from "#sync/coordinator/coordinator.ts";
import type { RunRecord } from "#sync/record.ts";

/** How the runs ended that were begun over the API. In the journal a run may stand as ended before all of it has. */
export interface Ends {
  /** Resolves when it has ended. */
  expect(begun: Begun): Promise<void>;
  /** How the run ended that began with this id; undefined where it is not known any more. */
  of(id: string): RunRecord | "under way" | undefined;
}

/** So many are remembered for who asks. */
const capacity = 200;

/** @param tell is told of every end */
export function createEnds(tell: (id: string, run: RunRecord) => void): Ends {
  const ends = new Map<string, RunRecord | "under way">();
  return {
    expect: async ({ run: { id }, ended }) => {
      ends.delete(id);
      ends.set(id, "under way");
      const [oldest] = ends.keys();
      if (ends.size > capacity && oldest !== undefined) ends.delete(oldest);
      const run = await ended;
      if (ends.has(id)) ends.set(id, run);
      tell(id, run);
    },
    of: (id) => ends.get(id),
  };
}

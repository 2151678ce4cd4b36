/** What the service is working on, so that readiness knows of work that does not move any more. */
export interface Progress {
  /**
   * Runs `work`, which calls `moved` after every step.
   * @param what it is, for a person: `a call of user/sync`
   * @param patience how long a step may take, in milliseconds
   */
  watch<Result>(what: string, patience: number, work: (moved: () => void) => Promise<Result>): Promise<Result>;
  /** What does not move, for a person; undefined while everything does. */
  stalled(): string | undefined;
}

/** @param now a monotonic clock, in milliseconds */
export function createProgress(now: () => number = () => performance.now()): Progress {
  const underWay = new Set<{ readonly what: string; readonly patience: number; moved: number }>();
  return {
    watch: async (what, patience, work) => {
      const entry = { what, patience, moved: now() };
      underWay.add(entry);
      try {
        return await work(() => {
          entry.moved = now();
        });
      } finally {
        underWay.delete(entry);
      }
    },
    stalled: () => {
      const time = now();
      const [longest] = [...underWay]
        .filter(({ moved, patience }) => time - moved > patience)
        .sort((a, b) => a.moved - b.moved);
      if (longest === undefined) return undefined;
      const minutes = Math.floor((time - longest.moved) / 60_000);
      return `${longest.what} has not moved for ${minutes === 0 ? "a while" : `${minutes} min`}: see the log, and restart the service if it stays so`;
    },
  };
}

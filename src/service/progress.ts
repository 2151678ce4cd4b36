interface Entry {
  readonly what: string;
  readonly patience: number;
  moved: number;
}

/** What the service is working on, so that readiness knows of work that does not move any more. */
export class Progress {
  readonly #now: () => number;
  readonly #underWay = new Set<Entry>();

  /** @param now a monotonic clock, in milliseconds */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Runs `work`, which calls `moved` after every step.
   * @param what it is, for a person: `a call of user/sync`
   * @param patience how long a step may take, in milliseconds
   */
  async watch<Result>(what: string, patience: number, work: (moved: () => void) => Promise<Result>): Promise<Result> {
    const entry = { what, patience, moved: this.#now() };
    this.#underWay.add(entry);
    try {
      return await work(() => {
        entry.moved = this.#now();
      });
    } finally {
      this.#underWay.delete(entry);
    }
  }

  /** What does not move, for a person; undefined while everything does. */
  stalled(): string | undefined {
    const time = this.#now();
    const [longest] = [...this.#underWay]
      .filter(({ moved, patience }) => time - moved > patience)
      .sort((a, b) => a.moved - b.moved);
    if (longest === undefined) return undefined;
    const minutes = Math.floor((time - longest.moved) / 60_000);
    return `${longest.what} has not moved for ${minutes === 0 ? "a while" : `${minutes} min`}: see the log, and restart the service if this persists`;
  }
}

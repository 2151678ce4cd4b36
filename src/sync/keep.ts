import cron from "node-cron";

/** When a sync runs by itself. */
export interface Schedule {
  readonly name: string;
  /** A cron expression of five or six fields. */
  readonly expression: string;
  /** An IANA time zone; absent: the system's. */
  readonly timezone?: string;
}

/** A schedule that is being kept. */
export interface Keeper {
  /** Starts a run now, unless one is under way. */
  trigger(): void;
  /** Starts no more runs, and waits for the one that is under way. */
  stop(): Promise<void>;
}

/**
 * Calls `work` at every slot of the schedule. Runs never overlap: a slot that comes while one is under way is skipped,
 * and `skipped` is told. `work` must not reject.
 */
export function keep(schedule: Schedule, work: () => Promise<void>, skipped: () => void): Keeper {
  let running: Promise<void> | undefined;
  const trigger = (): void => {
    if (running !== undefined) {
      skipped();
      return;
    }
    running = work().finally(() => {
      running = undefined;
    });
  };
  const task = cron.schedule(schedule.expression, trigger, {
    name: schedule.name,
    ...(schedule.timezone === undefined ? {} : { timezone: schedule.timezone }),
  });
  return {
    trigger,
    stop: async () => {
      await task.destroy();
      await running;
    },
  };
}

/** Runs `work` when it is its turn. A call that is given up while it waits never runs. */
export type Queue = <Result>(work: () => Promise<Result>, signal?: AbortSignal) => Promise<Result>;

/**
 * A queue in which at most `width` calls run at once, in the order in which they came.
 * A call rejects with the signal's reason when it is given up before its turn; once it runs, the signal is its own matter.
 */
export function createQueue(width: number): Queue {
  const waiting = new Set<() => void>();
  let running = 0;

  function turn(signal: AbortSignal | undefined): Promise<void> {
    if (running < width) {
      running++;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const start = (): void => {
        signal?.removeEventListener("abort", giveUp);
        resolve();
      };
      const giveUp = (): void => {
        waiting.delete(start);
        reject(signal?.reason as Error);
      };
      waiting.add(start);
      signal?.addEventListener("abort", giveUp, { once: true });
    });
  }

  function end(): void {
    const [next] = waiting;
    if (next === undefined) {
      running--;
    } else {
      waiting.delete(next);
      next();
    }
  }

  return async (work, signal) => {
    signal?.throwIfAborted();
    await turn(signal);
    try {
      return await work();
    } finally {
      end();
    }
  };
}

/** Runs calls when their turn comes; `idle` resolves when nothing runs or waits any more. */
export type Queue = ReturnType<typeof createQueue>;

/**
 * Runs at most `width` calls at a time, in the order in which they were made. A call that fails does not stop the next.
 * @returns a function that takes the work, and a signal that gives up waiting: the work never runs then, and the call rejects
 *   with the signal's reason. Once the work runs, the signal is its own business
 */
export function createQueue(width = 1) {
  const waiting = new Set<() => void>();
  const unfinished = new Set<Promise<unknown>>();
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

  async function run<Result>(work: () => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    signal?.throwIfAborted();
    await turn(signal);
    try {
      return await work();
    } finally {
      end();
    }
  }

  const queue = <Result>(work: () => Promise<Result>, signal?: AbortSignal): Promise<Result> => {
    const result = run(work, signal);
    const settled = result.then(ignore, ignore).finally(() => unfinished.delete(settled));
    unfinished.add(settled);
    return result;
  };
  const idle = async (): Promise<void> => {
    while (unfinished.size > 0) await Promise.all(unfinished);
  };
  return Object.assign(queue, { idle });
}

export type KeyedQueue = ReturnType<typeof createKeyedQueue>;

/** A queue for each key: of calls with the same key, `width` run at a time, others at the same time. */
export function createKeyedQueue(width = 1) {
  const byKey = new Map<string, { readonly queue: Queue; calls: number }>();
  const run = async <Result>(key: string, work: () => Promise<Result>, signal?: AbortSignal): Promise<Result> => {
    const entry = byKey.get(key) ?? { queue: createQueue(width), calls: 0 };
    byKey.set(key, entry);
    entry.calls++;
    try {
      return await entry.queue(work, signal);
    } finally {
      entry.calls--;
      if (entry.calls === 0) byKey.delete(key);
    }
  };
  const idle = async (): Promise<void> => {
    while (byKey.size > 0) await Promise.all([...byKey.values()].map(({ queue }) => queue.idle()));
  };
  return Object.assign(run, { idle });
}

/**
 * Shares runs of some work between its callers: who calls while it runs gets the next run, which begins when this one has ended.
 */
export function createShared(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> = Promise.resolve();
  let next: Promise<void> | undefined;
  return () =>
    (next ??= running.then(ignore, ignore).then(() => {
      next = undefined;
      running = work();
      return running;
    }));
}

function ignore(): void {}

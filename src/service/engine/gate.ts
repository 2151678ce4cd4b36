/** Lets so many pieces of work run at once; the others wait in order. */
export function openGate(width: number): <Result>(signal: AbortSignal, work: () => Promise<Result>) => Promise<Result> {
  let running = 0;
  const waiting = new Set<() => void>();

  const enter = async (signal: AbortSignal): Promise<void> => {
    signal.throwIfAborted();
    if (running < width) {
      running += 1;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const go = (): void => {
        signal.removeEventListener("abort", stop);
        resolve();
      };
      const stop = (): void => {
        waiting.delete(go);
        // The reason is the caller's own.
        // oxlint-disable-next-line prefer-promise-reject-errors
        reject(signal.reason);
      };
      waiting.add(go);
      signal.addEventListener("abort", stop, { once: true });
    });
  };

  const leave = (): void => {
    const [next] = waiting;
    if (next === undefined) {
      running -= 1;
      return;
    }
    waiting.delete(next);
    next();
  };

  return async (signal, work) => {
    await enter(signal);
    try {
      return await work();
    } finally {
      leave();
    }
  };
}

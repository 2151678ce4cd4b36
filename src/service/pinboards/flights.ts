/** Work that several wait for at once: who asks for what is already under way shares it. */
export interface Flights<Result> {
  /**
   * The result of the work under way that has this key; when there is none, it is begun. Who leaves, by their signal,
   * leaves alone: the work is stopped when nobody waits for it any more.
   * @throws the signal's reason, or what the work throws
   */
  join(key: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<Result>): Promise<Result>;
  /** Resolves when nothing is under way, also nothing that was told to stop. */
  settled(): Promise<void>;
}

interface Flight<Result> {
  readonly result: Promise<Result>;
  readonly stop: AbortController;
  waiting: number;
}

export function createFlights<Result>(): Flights<Result> {
  const byKey = new Map<string, Flight<Result>>();
  const underWay = new Set<Promise<unknown>>();

  const begin = (key: string, work: (signal: AbortSignal) => Promise<Result>): Flight<Result> => {
    const stop = new AbortController();
    const flight: Flight<Result> = { result: work(stop.signal), stop, waiting: 0 };
    byKey.set(key, flight);
    const landed = Promise.allSettled([flight.result]).finally(() => {
      underWay.delete(landed);
      remove(key, flight);
    });
    underWay.add(landed);
    return flight;
  };

  /** Nobody can join it from now on. */
  const remove = (key: string, flight: Flight<Result>): void => {
    if (byKey.get(key) === flight) byKey.delete(key);
  };

  return {
    join: async (key, signal, work) => {
      signal.throwIfAborted();
      const flight = byKey.get(key) ?? begin(key, work);
      flight.waiting += 1;
      const leaving = Promise.withResolvers<never>();
      const leave = (): void => {
        leaving.reject(signal.reason);
      };
      signal.addEventListener("abort", leave, { once: true });
      try {
        return await Promise.race([flight.result, leaving.promise]);
      } finally {
        signal.removeEventListener("abort", leave);
        flight.waiting -= 1;
        if (flight.waiting === 0) {
          remove(key, flight);
          flight.stop.abort(signal.reason);
        }
      }
    },
    settled: async () => {
      await Promise.all(underWay);
    },
  };
}

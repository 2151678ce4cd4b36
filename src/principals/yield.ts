import { setImmediate } from "node:timers/promises";

/** How long one piece of work may hold the event loop, in milliseconds. */
const slice = 4;

/** Lets a long loop give way to timers, requests and other runs: `if (yielder.isDue()) await yielder.yield()`. */
export interface Yielder {
  /** Cheap enough to call for every record. */
  isDue(): boolean;
  /** @throws the signal's reason */
  yield(): Promise<void>;
}

export function createYielder(signal?: AbortSignal): Yielder {
  let until = performance.now() + slice;
  return {
    isDue: () => performance.now() >= until,
    yield: async () => {
      await setImmediate();
      signal?.throwIfAborted();
      until = performance.now() + slice;
    },
  };
}

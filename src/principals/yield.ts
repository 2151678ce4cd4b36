import { setImmediate } from "node:timers/promises";

/** How long one piece of work may hold the event loop, in milliseconds. */
const slice = 4;

/** Lets a long loop give way to timers, requests and other runs: `if (yielder.isDue()) await yielder.yield()`. */
export class Yielder {
  readonly #signal: AbortSignal | undefined;
  #until = performance.now() + slice;

  constructor(signal?: AbortSignal) {
    this.#signal = signal;
  }

  /** Cheap enough to call for every record. */
  isDue(): boolean {
    return performance.now() >= this.#until;
  }

  /** @throws the signal's reason */
  async yield(): Promise<void> {
    await setImmediate();
    this.#signal?.throwIfAborted();
    this.#until = performance.now() + slice;
  }
}

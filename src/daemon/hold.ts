/** How long no run begins after the last request for it, in milliseconds. */
const holdTime = 20_000;

type InTurn = (place: string, work: () => Promise<void>, signal: AbortSignal) => Promise<void>;

/**
 * Keeps runs from beginning while the daemon's files and those of its targets are copied: takes the turn of every target, which a
 * run under way has until it ends.
 */
export class Hold {
  readonly #places: () => readonly string[];
  readonly #inTurn: InTurn;
  #stop: AbortController | undefined;
  #isHeld = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(places: () => readonly string[], inTurn: InTurn) {
    this.#places = places;
    this.#inTurn = inTurn;
  }

  /** Holds for 20 seconds from now. @returns whether nothing is under way any more */
  renew(): boolean {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.release(), holdTime).unref();
    if (this.#stop === undefined) {
      const stop = new AbortController();
      this.#stop = stop;
      // Given up while it waits.
      this.#takeTurns([...new Set(this.#places())], stop.signal).catch(() => undefined);
    }
    return this.#isHeld;
  }

  release(): void {
    clearTimeout(this.#timer);
    this.#stop?.abort();
    this.#stop = undefined;
    this.#isHeld = false;
  }

  async #takeTurns([place, ...rest]: readonly string[], signal: AbortSignal): Promise<void> {
    if (place !== undefined) return this.#inTurn(place, () => this.#takeTurns(rest, signal), signal);
    this.#isHeld = !signal.aborted;
    const { promise, resolve } = Promise.withResolvers<void>();
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
    await promise;
  }
}

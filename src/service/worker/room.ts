import { UnavailableError } from "#errors.ts";

/** Bounds what all answers hold together: those that are being sent, and those that are being computed. */
export class AnswerRoom {
  /** In bytes. */
  readonly limit: number;
  held = 0;
  /** Of `held`, what is being sent. */
  leaving = 0;
  #changed = Promise.withResolvers<void>();

  constructor(limit: number) {
    this.limit = limit;
  }

  open(): Share {
    return new Share(this);
  }

  /** Tells those that wait for room. */
  change(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }

  /** Resolves with the next change, or when the signal is aborted. */
  async changeOr(signal: AbortSignal): Promise<void> {
    const aborted = Promise.withResolvers<void>();
    const abort = (): void => {
      aborted.resolve();
    };
    signal.addEventListener("abort", abort, { once: true });
    await Promise.race([this.#changed.promise, aborted.promise]);
    signal.removeEventListener("abort", abort);
  }
}

/** What one answer holds. */
class Share {
  readonly #room: AnswerRoom;
  #own = 0;
  #isLeaving = false;

  constructor(room: AnswerRoom) {
    this.#room = room;
  }

  /**
   * Resolves when the answer may grow by so many bytes. It waits while answers that are being sent may end.
   * @throws {UnavailableError} when it can never be so large; the signal's reason
   */
  async grow(bytes: number, signal: AbortSignal): Promise<void> {
    const room = this.#room;
    while (room.held + bytes > room.limit) {
      signal.throwIfAborted();
      if (room.leaving === 0) {
        throw new UnavailableError(
          `the result is too large: all results together may have ${Math.floor(room.limit / 2 ** 20)} MiB. ` +
            "Ask for fewer rows at a time, or for fewer columns",
        );
      }
      await room.changeOr(signal);
    }
    room.held += bytes;
    this.#own += bytes;
  }

  /** It has its size, and is being sent. */
  finish(bytes: number): void {
    this.#room.held += bytes - this.#own;
    this.#own = bytes;
    this.#isLeaving = true;
    this.#room.leaving += bytes;
    this.#room.change();
  }

  release(): void {
    this.#room.held -= this.#own;
    if (this.#isLeaving) this.#room.leaving -= this.#own;
    this.#own = 0;
    this.#room.change();
  }
}

import { UnavailableError } from "#errors.ts";

/** Bounds what all answers hold together: those that are being sent, and those that are being computed. */
export interface AnswerRoom {
  open(): Share;
}

/** What one answer holds. */
export interface Share {
  /**
   * Resolves when the answer may grow by so many bytes. It waits while answers that are being sent may end.
   * @throws {UnavailableError} when it can never be so large; the signal's reason
   */
  grow(bytes: number, signal: AbortSignal): Promise<void>;
  /** It has its size, and is being sent. */
  finish(bytes: number): void;
  release(): void;
}

/** @param limit in bytes */
export function createAnswerRoom(limit: number): AnswerRoom {
  let held = 0;
  /** Of `held`, what is being sent. */
  let leaving = 0;
  let changed = Promise.withResolvers<void>();
  const change = (): void => {
    changed.resolve();
    changed = Promise.withResolvers<void>();
  };
  const fits = (bytes: number): boolean => held + bytes <= limit;
  const changeOr = async (signal: AbortSignal): Promise<void> => {
    const aborted = Promise.withResolvers<void>();
    signal.addEventListener(
      "abort",
      () => {
        aborted.resolve();
      },
      { once: true },
    );
    await Promise.race([changed.promise, aborted.promise]);
  };
  return {
    open: () => {
      let own = 0;
      let isLeaving = false;
      return {
        grow: async (bytes, signal) => {
          while (!fits(bytes)) {
            signal.throwIfAborted();
            if (leaving === 0) {
              throw new UnavailableError(
                `the result is too large: all results together may have ${Math.floor(limit / 2 ** 20)} MiB. ` +
                  "Ask for fewer rows at a time, or for fewer columns",
              );
            }
            await changeOr(signal);
          }
          held += bytes;
          own += bytes;
        },
        finish: (bytes) => {
          held += bytes - own;
          own = bytes;
          isLeaving = true;
          leaving += bytes;
          change();
        },
        release: () => {
          held -= own;
          if (isLeaving) leaving -= own;
          own = 0;
          change();
        },
      };
    },
  };
}

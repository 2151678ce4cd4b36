import { setImmediate as nextTurn } from "node:timers/promises";

/** How long records are worked on before others have their turn, in milliseconds. */
const turn = 4;

/** Gives others their turn on the event loop now and then. */
export interface Turns {
  isOver(): boolean;
  /** @throws the signal's reason */
  next(): Promise<void>;
}

export function takeTurns(signal: AbortSignal): Turns {
  let ends = performance.now() + turn;
  return {
    isOver: () => performance.now() >= ends,
    next: async () => {
      await nextTurn();
      signal.throwIfAborted();
      ends = performance.now() + turn;
    },
  };
}

import { setImmediate as nextTurn } from "node:timers/promises";

/** How long entries are worked on before others have their turn, in milliseconds. */
const turn = 4;

/** Lets others have their turn when it is time: the function that is returned is awaited between pieces of work. */
export function turns(): () => Promise<void> {
  let end = performance.now() + turn;
  return async () => {
    if (performance.now() < end) return;
    await nextTurn();
    end = performance.now() + turn;
  };
}

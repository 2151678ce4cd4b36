import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { warmUp } from "#service/directory/warm-up.ts";

test("warming up lets others have their turn, and ends when the service stops", async () => {
  const stop = new AbortController();
  let turns = 0;
  const warming = warmUp(stop.signal).then(() => turns);
  while (turns < 5) {
    await nextTurn();
    turns++;
  }
  stop.abort();
  expect(await warming).toBeLessThanOrEqual(7);
});

test("warming up comes to its end", async () => {
  await expect(warmUp(new AbortController().signal)).resolves.toBeUndefined();
});

import { expect, test } from "vitest";
import { Progress } from "#service/progress.ts";

test("work is stalled when none of its steps ended within its patience, the longest one first", async () => {
  let time = 0;
  const progress = new Progress(() => time);
  const ends = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
  let moved = (): void => undefined;
  const works = [
    progress.watch("a call of user/sync", 600_000, (step) => {
      moved = step;
      return ends[0].promise;
    }),
    progress.watch("load 1", 900_000, () => ends[1].promise),
  ];
  expect(progress.stalled()).toBeUndefined();
  time = 500_000;
  moved();
  time = 950_000;
  expect(progress.stalled()).toMatch(/^load 1 has not moved for 15 min: /);
  ends[1].resolve();
  await works[1];
  expect(progress.stalled()).toBeUndefined();
  time = 1_150_000;
  expect(progress.stalled()).toBe(
    "a call of user/sync has not moved for 10 min: see the log, and restart the service if this persists",
  );
  ends[0].reject(new Error("it failed"));
  await expect(works[0]).rejects.toThrow("it failed");
  expect(progress.stalled()).toBeUndefined();
});

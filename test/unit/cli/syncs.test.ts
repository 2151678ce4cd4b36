import { expect, test } from "vitest";
import { eachSync } from "#cli/syncs.ts";

test("a command that is cancelled while several syncs are asked says so once", async () => {
  const stop = new AbortController();
  const interruption = { stop: stop.signal, abandon: stop.signal };
  const told: string[] = [];
  const failed = async (sync: string): Promise<void> => {
    await Promise.resolve();
    told.push(sync);
  };
  const work = async (): Promise<never> => {
    await new Promise((resolve) => stop.signal.addEventListener("abort", resolve));
    throw stop.signal.reason;
  };
  const ended = eachSync({ interruption }, ["one", "two"], failed, work, (_, ask) => ask());
  stop.abort(new Error("cancelled"));
  await ended;
  expect(told).toEqual(["one"]);
});

import { expect, test } from "vitest";
import { UnavailableError } from "#errors.ts";
import { defaultRetries, repeat, retryAfter } from "#http/retries.ts";
import type { Outcome } from "#http/retries.ts";

/** An attempt that comes to nothing. */
function failing(after?: number): () => Promise<Outcome<never>> {
  return async () => ({ problem: "no", ...(after === undefined ? {} : { after }) });
}

const now = Date.UTC(2026, 0, 1);

test.each([
  ["0", 0],
  [" 12 ", 12_000],
  ["Thu, 01 Jan 2026 00:00:30 GMT", 30_000],
  ["Wed, 31 Dec 2025 23:00:00 GMT", 0],
  ["-1", undefined],
  ["1.5", undefined],
  ["soon", undefined],
  ["", undefined],
])("Retry-After %j is a pause of %j ms", (header, pause) => {
  expect(retryAfter(header, now)).toBe(pause);
});

test("the pauses grow, with jitter, up to the longest", async () => {
  const messages: string[] = [];
  const retries = { ...defaultRetries, attempts: 7, pause: 2, longest: 8 };
  const context = { retries, log: (message: string) => messages.push(message) };
  await expect(repeat(failing(), context, new AbortController().signal)).rejects.toThrow(
    new UnavailableError("no (tried 7 times)"),
  );
  expect(messages).toHaveLength(6);
  const pauses = messages.map((message) => Number(/in (\d+) ms$/.exec(message)?.[1]));
  for (const [index, pause] of pauses.entries()) {
    const most = Math.min(8, 2 * 2 ** index);
    expect(pause).toBeGreaterThanOrEqual(Math.floor(most / 2));
    expect(pause).toBeLessThanOrEqual(most);
  }
});

test("a service that has had enough is left alone for longer, within the patience", async () => {
  const messages: string[] = [];
  const retries = { attempts: 3, pause: 1, longest: 2, patience: 5 };
  const context = { retries, log: (message: string) => messages.push(message) };
  const crowded = async (): Promise<Outcome<never>> => ({ problem: "no", isCrowded: true });
  await expect(repeat(crowded, context, new AbortController().signal)).rejects.toThrow("no (tried 3 times)");
  expect(messages.map((message) => /in (.*)$/.exec(message)?.[1])).toEqual(["5 ms", "5 ms"]);
});

test("a pause longer than the remaining time is not made", async () => {
  const context = { retries: { ...defaultRetries, patience: 1000 }, log: () => undefined };
  await expect(repeat(failing(300_000), context, new AbortController().signal)).rejects.toThrow(
    "no. It asks not to be called again for 5 min",
  );
});

test("an abort ends a pause at once, with the signal's reason", async () => {
  const controller = new AbortController();
  const context = {
    retries: defaultRetries,
    log: () => {
      controller.abort(new Error("stopped by a person"));
    },
  };
  await expect(repeat(failing(60_000), context, controller.signal)).rejects.toThrow("stopped by a person");
});

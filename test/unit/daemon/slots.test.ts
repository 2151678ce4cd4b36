import * as fc from "fast-check";
import { expect, test } from "vitest";
import { lastSlot, nextSlot } from "#daemon/cron.ts";
import type { Slots } from "#daemon/cron.ts";
import { retryDelay, slotDelay } from "#daemon/scheduler.ts";
import { cases } from "../../support/random.ts";

/** So many slots after a time, each from the one before, as a scheduler finds them. */
function slotsAfter(slots: Slots, after: string, count: number): string[] {
  let slot = Date.parse(after);
  return Array.from({ length: count }, () => {
    slot = nextSlot(slots, slot);
    return new Date(slot).toISOString().replace(":00.000Z", "Z");
  });
}

const amsterdam = (expression: string): Slots => ({ expression, timezone: "Europe/Amsterdam" });

test("a slot in an hour that the clock skips comes right after it", () => {
  expect(slotsAfter(amsterdam("30 2 * * *"), "2026-03-27T12:00Z", 3)).toEqual([
    "2026-03-28T01:30Z",
    "2026-03-29T01:00Z",
    "2026-03-30T00:30Z",
  ]);
  expect(slotsAfter(amsterdam("*/30 2 * * *"), "2026-03-28T12:00Z", 2)).toEqual([
    "2026-03-29T01:00Z",
    "2026-03-30T00:00Z",
  ]);
  expect(slotsAfter({ expression: "@daily", timezone: "Africa/Cairo" }, "2026-04-23T12:00Z", 2)).toEqual([
    "2026-04-23T22:00Z",
    "2026-04-24T21:00Z",
  ]);
});

test("the last slot is found behind a midnight that the clock skips", () => {
  const last = (expression: string, timezone: string, now: string) =>
    new Date(lastSlot({ expression, timezone }, Date.parse(now))).toISOString();
  expect(last("@daily", "Africa/Cairo", "2026-04-24T12:00Z")).toBe("2026-04-23T22:00:00.000Z");
  expect(last("@weekly", "America/Santiago", "2026-09-12T12:00Z")).toBe("2026-09-06T04:00:00.000Z");
  expect(last("@weekly", "Asia/Beirut", "2026-04-03T12:00Z")).toBe("2026-03-28T22:00:00.000Z");
  expect(last("0 0 29 2 *", "Atlantic/Azores", "2026-03-30T12:00Z")).toBe("2024-02-29T01:00:00.000Z");
});

test("a slot at a fixed hour that occurs twice comes once, the first time", () => {
  expect(slotsAfter(amsterdam("30 2 * * *"), "2026-10-24T12:00Z", 2)).toEqual([
    "2026-10-25T00:30Z",
    "2026-10-26T01:30Z",
  ]);
  expect(slotsAfter({ expression: "30 1 * * *", timezone: "America/New_York" }, "2026-10-31T12:00Z", 2)).toEqual([
    "2026-11-01T05:30Z",
    "2026-11-02T06:30Z",
  ]);
});

test("slots at every so many minutes go on through both changes of the clock", () => {
  for (const start of ["2026-03-28T23:45Z", "2026-10-24T23:15Z"]) {
    const slots = slotsAfter(amsterdam("*/30 * * * *"), start, 8).map((slot) => Date.parse(slot));
    expect(slots.slice(1).map((slot, index) => slot - slots[index]!)).toEqual(Array(7).fill(1_800_000));
  }
});

test("a day of the month and a weekday: either will do, as for every cron", () => {
  expect(slotsAfter({ expression: "0 0 13 * 5", timezone: "UTC" }, "2026-01-08T12:00Z", 3)).toEqual([
    "2026-01-09T00:00Z",
    "2026-01-13T00:00Z",
    "2026-01-16T00:00Z",
  ]);
});

const expression = fc.constantFrom(
  "* * * * *",
  "*/15 * * * *",
  "30 2 * * *",
  "0 */6 * * *",
  "15 1-3 * * 1-5",
  "0 3 1 * *",
  "*/20 * * * * *",
);
const timezone = fc.constantFrom("UTC", "Europe/Amsterdam", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata");
/** Often near a change of the clock. */
const time = fc.oneof(
  fc.integer({ min: Date.parse("2026-01-01"), max: Date.parse("2027-01-01") }),
  ...["2026-03-29", "2026-10-25", "2026-11-01", "2026-04-05", "2026-10-04", "2026-03-08"].map((day) =>
    fc.integer({ min: Date.parse(day) - 86_400_000, max: Date.parse(day) + 2 * 86_400_000 }),
  ),
);

test("the last slot before a time is the one from which the next comes after it", () => {
  fc.assert(
    fc.property(expression, timezone, time, (expression, timezone, now) => {
      const slots = { expression, timezone };
      const last = lastSlot(slots, now);
      expect(last).toBeLessThanOrEqual(now);
      expect(nextSlot(slots, last)).toBeGreaterThan(now);
    }),
    { numRuns: cases(100) },
  );
});

test("a slot is its own last slot, so that none is kept twice", () => {
  fc.assert(
    fc.property(expression, timezone, time, (expression, timezone, now) => {
      const slots = { expression, timezone };
      const slot = nextSlot(slots, lastSlot(slots, now));
      expect(lastSlot(slots, slot)).toBe(slot);
      expect(lastSlot(slots, slot - 1)).toBeLessThan(slot);
    }),
    { numRuns: cases(100) },
  );
});

/** What cron-parser made of them, the parser of earlier versions: they are still accepted, and mean the same. */
const translated: readonly [expression: string, same: string][] = [
  ["@minutely", "* * * * *"],
  ["@hourly", "0 * * * *"],
  ["@weekdays", "0 0 * * 1-5"],
  ["@weekends", "0 0 * * 0,6"],
  ["@monthly", "0 0 1 * *"],
  ["@annually", "0 0 1 1 *"],
  ["5/15 * * * *", "5,20,35,50 * * * *"],
  ["*/90 */30 * * *", "0 0 * * *"],
  ["0 0 */40 JAN/3 ?", "0 0 1 1,4,7,10 *"],
  ["0 0 * * FRI/1", "0 0 * * 0,5,6"],
  ["0 0 * * 5-7/2", "0 0 * * 5,7"],
  ["0 0 * * *#2", "0 0 * * 0#2,1#2,2#2,3#2,4#2,5#2,6#2"],
  ["0 0 *,L * 5", "0 0 * * *"],
  ["0 0 * * 0-sun", "0 0 * * 0"],
  ["0 0 * * mon-FRI", "0 0 * * 1-5"],
];

test("expressions of earlier versions mean what they did", () => {
  for (const [expression, same] of translated)
    expect
      .soft(slotsAfter({ expression, timezone: "UTC" }, "2026-01-01T00:00Z", 8), expression)
      .toEqual(slotsAfter({ expression: same, timezone: "UTC" }, "2026-01-01T00:00Z", 8));
  expect(slotsAfter({ expression: "15 0 0 L * 5L", timezone: "UTC" }, "2026-01-01T00:00Z", 3)).toEqual([
    "2026-01-30T00:00:15.000Z",
    "2026-01-31T00:00:15.000Z",
    "2026-02-27T00:00:15.000Z",
  ]);
});

test("jitter is the same for a slot, another for another daemon, and never more than is configured", () => {
  const slot = Date.parse("2026-11-21T12:00Z");
  expect(slotDelay(slot, { jitter: 30_000, seed: "a" })).toBe(slotDelay(slot, { jitter: 30_000, seed: "a" }));
  const delays = Array.from({ length: 1000 }, (_, seed) => slotDelay(slot, { jitter: 30_000, seed: String(seed) }));
  expect(Math.min(...delays)).toBeLessThan(1_000);
  expect(Math.max(...delays)).toBeGreaterThan(29_000);
  expect(Math.max(...delays)).toBeLessThan(30_000);
  expect(slotDelay(slot, { jitter: 0, seed: "a" })).toBe(0);
});

test("every further retry waits twice as long, up to the longest wait and a quarter", () => {
  const retries = { attempts: 9, first: 60_000, most: 900_000 };
  const minutes = (random: number) => [0, 1, 2, 3, 4, 5, 50].map((made) => retryDelay(retries, made, random) / 60_000);
  expect(minutes(0)).toEqual([1, 2, 4, 8, 15, 15, 15]);
  expect(minutes(1)).toEqual([1.25, 2.5, 5, 10, 18.75, 18.75, 18.75]);
});

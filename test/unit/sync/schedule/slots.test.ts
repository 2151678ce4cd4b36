import * as fc from "fast-check";
import { expect, test } from "vitest";
import { retryDelay } from "#sync/schedule/scheduler.ts";
import { lastSlot, nextSlot, slotDelay } from "#sync/schedule/slots.ts";
import type { Slots } from "#sync/schedule/slots.ts";
import { cases } from "../../../support/random.ts";

/** So many slots after a time, each from the one before, as a scheduler finds them. */
function slotsAfter(slots: Slots, after: string, count: number): string[] {
  let slot = Date.parse(after);
  return Array.from({ length: count }, () => {
    slot = nextSlot(slots, slot);
    return new Date(slot).toISOString().replace(":00.000Z", "Z");
  });
}

const amsterdam = (expression: string): Slots => ({ expression, timezone: "Europe/Amsterdam" });

test("a slot in the hour skipped by daylight saving time comes an hour later", () => {
  expect(slotsAfter(amsterdam("30 2 * * *"), "2026-03-27T12:00Z", 3)).toEqual([
    "2026-03-28T01:30Z",
    "2026-03-29T01:30Z",
    "2026-03-30T00:30Z",
  ]);
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

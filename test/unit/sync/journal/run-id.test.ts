import { expect, test } from "vitest";
import { idAfter } from "#sync/journal/run-id.ts";

const now = Date.parse("2026-11-21T10:12:35.999Z");

test("an id tells the time in UTC, and sorts behind those before it: of the same moment, and when the clock was set back", () => {
  expect(idAfter(undefined, now)).toMatch(/^20261121-101235-3e7[0-9a-f]{3}$/);
  let newest = idAfter(undefined, now);
  for (const clock of [now, now, now, now + 1, now - 3_600_000, now - 7_200_000, now + 2]) {
    const next = idAfter(newest, clock);
    expect(next > newest, `${next} after ${newest}`).toBe(true);
    newest = next;
  }
  expect(idAfter("20261121-101235-ffffff", now) > "20261121-101235-ffffff").toBe(true);
  expect(idAfter("20261121-101235-000000", now + 60_000)).toMatch(/^20261121-101335-/);
});

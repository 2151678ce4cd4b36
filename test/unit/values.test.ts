import { expect, test } from "vitest";
import { duration, patience, text } from "#values.ts";

test.each([
  ["90s", 90_000],
  ["15m", 900_000],
  ["3h", 10_800_000],
  ["7d", 604_800_000],
])("%s is a duration of %d ms", (value, milliseconds) => {
  expect(duration.parse(value)).toBe(milliseconds);
});

test.each([["0s"], ["1.5h"], ["60"], ["5 m"], [""], [60], [undefined]])("%j is no duration", (value) => {
  const { issues = [] } = duration.safeParse(value).error ?? {};
  expect(issues.map(({ message }) => message)).toEqual(["expected a duration like 90s, 15m, 3h, 7d"]);
});

test("a wait is never longer than a timer allows", () => {
  expect(patience.parse("24d")).toBeLessThan(2 ** 31);
  expect(patience.safeParse("25d").error?.issues[0]?.message).toBe("expected a duration of at most 24d");
});

test("an empty text is refused with the expected form, once", () => {
  const { issues = [] } = text("a name").regex(/^\w+$/).safeParse("").error ?? {};
  expect(issues.map(({ message }) => message)).toEqual(["expected a name"]);
});

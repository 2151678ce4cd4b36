import { expect, test } from "vitest";
import { andMore } from "#sync/planning/notes.ts";

test("a shortened list says so, a complete one does not", () => {
  expect(andMore({ count: 1_203, examples: ["a", "b", "c"] })).toEqual(["  … and 1,200 more"]);
  expect(andMore({ count: 3, examples: ["a", "b", "c"] })).toEqual([]);
});

import { expect, test } from "vitest";
import { unnamed } from "#sync/planning/notes.ts";

test("a list that is cut says so, one that is whole does not", () => {
  expect(unnamed({ count: 1_203, examples: ["a", "b", "c"] })).toEqual(["  … and 1,200 more"]);
  expect(unnamed({ count: 3, examples: ["a", "b", "c"] })).toEqual([]);
});

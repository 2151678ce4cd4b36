import { expect, test } from "vitest";
import { mistyped } from "#sync/drill/incidents.ts";

test.each([
  ['entry.status == "active"', ['entry.status == "activx"']],
  ["entry.type in ['staff', 'max']", ["entry.type in ['staff', 'may']", "entry.type in ['stafx', 'max']"]],
  ['entry["E-Mail"].endsWith("@example.com")', ['entry["E-Mail"].endsWith("@example.cox")']],
  ['entry.site == "R2" && entry.code == "12"', ['entry.site == "x2" && entry.code == "12"']],
  [
    String.raw`entry.a == "a\"b" && entry.b == 'it"s'`,
    [String.raw`entry.a == "a\"b" && entry.b == 'it"x'`, String.raw`entry.a == "a\"x" && entry.b == 'it"s'`],
  ],
  ["entry.active", []],
  [undefined, []],
])("a letter of a text in %s can be wrong", (expression, wrong) => {
  expect(Array.from(mistyped(expression), (each) => each.expression)).toEqual(wrong);
});

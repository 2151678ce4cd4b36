import { expect, test } from "vitest";
import { describeCause } from "#plan/causes.ts";

test.for([
  [{ from: "Sales", to: "Revenue" }, 'department changed from "Sales" to "Revenue" (corp)'],
  [{ to: "Revenue" }, 'department changed to "Revenue" (corp)'],
  [{ from: "Sales" }, 'department changed from "Sales" to nothing (corp)'],
  [{ from: "", to: " (ext.)", partial: true }, 'department changed: "… (ext.)…" was added (corp)'],
  [{ from: " (ext.)", to: "", partial: true }, 'department changed: "… (ext.)…" was removed (corp)'],
] as const)("a changed attribute in words: %j", ([values, text]) => {
  const cause = { id: "c1", kind: "attribute", source: "corp", attribute: "department", users: 2, groups: 0 } as const;
  expect(describeCause({ ...cause, ...values })).toBe(text);
});

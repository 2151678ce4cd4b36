import { expect, test } from "vitest";
import { createSeen } from "#connectors/scim/seen.ts";

test("tells what it has seen from what is new, also when it grows", () => {
  const seen = createSeen();
  const ids = Array.from({ length: 50_000 }, (_, index) => `id ${index}`);
  expect(ids.filter((id) => !seen.add(id))).toEqual([]);
  expect(seen.size).toBe(ids.length);
  expect(ids.filter((id) => seen.add(id))).toEqual([]);
  expect(seen.size).toBe(ids.length);
  expect(seen.add("another")).toBe(true);
});

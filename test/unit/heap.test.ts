import { getHeapStatistics } from "node:v8";
import { expect, it } from "vitest";
import { shrinkHeap } from "#heap.ts";

const mebibyte = 2 ** 20;

it("returns what JavaScript's heap no longer uses, of the young generation, too", async () => {
  // What has survived, and is garbage then, keeps its part of the heap until V8 collects all of it.
  let rows: object[] | undefined = Array.from({ length: 1_000_000 }, (_, n) => ({ n, name: `user ${n}` }));
  expect(rows.length).toBe(1_000_000);
  rows = undefined;
  const before = getHeapStatistics().total_heap_size;
  await shrinkHeap();
  const { total_heap_size: after, used_heap_size: used } = getHeapStatistics();
  expect(before - after).toBeGreaterThan(32 * mebibyte);
  expect(after - used).toBeLessThan(12 * mebibyte);
});

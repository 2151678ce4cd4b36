import { expect, test } from "vitest";
import { IdDigest, Seen } from "#http/directory/seen.ts";

test("tells known ids from new ones, even as the set grows", () => {
  const seen = new Seen();
  const ids = Array.from({ length: 50_000 }, (_, index) => `id ${index}`);
  expect(ids.filter((id) => !seen.add(id))).toEqual([]);
  expect(seen.size).toBe(ids.length);
  expect(ids.filter((id) => seen.add(id))).toEqual([]);
  expect(seen.size).toBe(ids.length);
  expect(seen.add("another")).toBe(true);
});

test("two digests are equal for the same ids in any order, and differ for any other", () => {
  const digestOf = (...ids: readonly string[]): IdDigest => {
    const digest = new IdDigest();
    for (const id of ids) digest.add(id);
    return digest;
  };
  expect(digestOf("a", "b", "c").equals(digestOf("c", "a", "b"))).toBe(true);
  for (const other of [
    digestOf("a", "b"),
    digestOf("a", "b", "d"),
    digestOf("a", "b", "c", "c"),
    digestOf("a", "b", "b"),
  ])
    expect(other.equals(digestOf("a", "b", "c"))).toBe(false);
});

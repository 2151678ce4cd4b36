import { expect, test } from "vitest";
import { chunkOf, fileNameOf, inOrder, longestId } from "#service/loads/chunks.ts";
import type { Chunk } from "#service/loads/chunks.ts";

function chunk(arrival: number, id?: string): Chunk {
  const made = chunkOf(fileNameOf(arrival, id), 1, 0);
  if (made === undefined) throw new Error(`no chunk: ${fileNameOf(arrival, id)}`);
  return made;
}

function order(...ids: readonly (string | undefined)[]): readonly (string | number)[] {
  return inOrder(ids.map((id, index) => chunk(index, id))).map(({ id, arrival }) => id ?? arrival);
}

test("A.8 integer ids are ordered by value, the others follow in order of arrival", () => {
  expect(order("10", "9", undefined, "-1", "b", undefined, "a", "1")).toEqual(["-1", "1", "9", "10", 2, "b", 5, "a"]);
  expect(order("18446744073709551616", "18446744073709551615", "3")).toEqual([
    "3",
    "18446744073709551615",
    "18446744073709551616",
  ]);
  expect(order("007", "7", "6")).toEqual(["6", "007", "7"]);
});

test.each(["1", "..", "a/b", "x-1", "\u00ff\u0000", "i".repeat(longestId)])("a file's name says its id: %j", (id) => {
  const name = fileNameOf(12, id);
  expect(name).toMatch(/^[0-9a-f-]+$/);
  expect(name.length).toBeLessThan(256);
  expect(chunkOf(name, 3, 4)).toEqual({ file: name, arrival: 12, id, size: 3, complete: 4 });
});

test("a file that is still being received is no chunk", () => {
  expect(chunkOf("0f8fad5b-d9cb-469f-a165-70867728950e.part", 1, 0)).toBeUndefined();
});

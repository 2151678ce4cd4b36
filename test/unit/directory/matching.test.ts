import fc from "fast-check";
import { expect, test } from "vitest";
import type { KeptList } from "#service/directory/kept-list.ts";
import { blockSize, createMatching } from "#service/directory/matching.ts";

/** A list before, that is read in pieces of any size. */
function listOf(text: string, size: number): KeptList {
  const bytes = Buffer.from(text);
  let at = 0;
  return {
    revision: "r",
    elements: 0,
    ordered: true,
    read: async (buffer, offset) => {
      const copied = bytes.subarray(at, at + size).copy(buffer, offset);
      at += copied;
      return copied;
    },
    readAgain: async () => 0,
    forget: async () => undefined,
    close: () => undefined,
  };
}

/** What comes of looking for elements, one block each so many elements, in a list before. */
async function match(before: string, elements: readonly string[], perBlock = 1000, readSize = 1_000_000) {
  const departed: string[] = [];
  const changed: string[] = [];
  const matching = createMatching(listOf(before, readSize), (lines) => departed.push(lines.toString()));
  for (let index = 0; index < elements.length; index += perBlock) {
    await matching.fill();
    const block = elements.slice(index, index + perBlock);
    const bytes = Buffer.from(block.join(",\n"));
    let from = 0;
    for (const element of block) {
      const length = Buffer.byteLength(element);
      const end = matching.find(bytes, from);
      if (end < 0) changed.push(element);
      else expect(end).toBe(from + length);
      from += length + 2;
    }
  }
  await matching.end();
  const lines = departed
    .join("")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  return { changed, departed: lines, found: matching.found, counted: matching.departed };
}

const element = (name: string): string => JSON.stringify({ name, displayName: "x" });
const lines = (elements: readonly string[]): string => elements.map((each) => ` ${each}\n`).join("");

test("an element is found once, and what is not found has departed, whatever the order and the spaces", async () => {
  const names = fc.constantFrom("a", "b", "c", "ab", "é", '"', "\\", "{}", '{"name":"a","displayName":"x"}');
  const elements = fc.array(
    names.map((name) => element(name)),
    { maxLength: 40 },
  );
  const space = fc.constantFrom("", " ", "  ", "\n", " \n  \n");
  await fc.assert(
    fc.asyncProperty(
      elements,
      elements,
      fc.array(space, { minLength: 1 }),
      fc.integer({ min: 1, max: 9 }),
      async (before, after, spaces, perBlock) => {
        const text = before.map((each, index) => `${spaces[index % spaces.length]}${each}  \n`).join("");
        const { changed, departed, found, counted } = await match(`${text}\n`, after, perBlock);
        expect(found + changed.length).toBe(after.length);
        expect(found + departed.length).toBe(before.length);
        expect(counted).toBe(departed.length);
        // What is found is taken out of both.
        const rest = [...before, ...changed].toSorted();
        expect(rest).toEqual([...departed, ...after].toSorted());
      },
    ),
    { numRuns: 500 },
  );
});

test("the same list is found as a whole, and what is changed, new or missing in it alone is not", async () => {
  const before = Array.from({ length: 60_000 }, (_, index) => element(`user ${index}`));
  expect(await match(lines(before), before)).toMatchObject({ changed: [], departed: [], found: 60_000 });
  const fresh = Array.from({ length: 1000 }, (_, index) => element(`new ${index}`));
  const after = [...before.slice(0, 500), ...before.slice(501, 20_000), ...fresh, ...before.slice(20_000)];
  after[30_000] = element("changed");
  const { changed, departed } = await match(lines(before), after, 1000, 77_777);
  expect(changed).toEqual([...fresh, element("changed")]);
  expect(departed).toEqual([element("user 500"), before[30_000 - 999]]);
});

test("many elements that are missing in a row are passed over", async () => {
  const before = Array.from({ length: 20_000 }, (_, index) => element(`user ${index}`));
  const after = [...before.slice(0, 3000), ...before.slice(8000)];
  const { changed, departed } = await match(lines(before), after);
  expect(changed).toEqual(before.slice(8000, 8031));
  expect(departed).toHaveLength(5031);
});

test("a line that is longer than what is at hand, or has no end, is no element", async () => {
  const long = element("x".repeat(9 * blockSize));
  await expect(match(` ${long}\n`, [element("a")])).rejects.toThrow("its last line has no end");
  await expect(match(element("a"), [element("a")])).rejects.toThrow("its last line has no end");
});

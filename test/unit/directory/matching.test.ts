import fc from "fast-check";
import { expect, test } from "vitest";
import type { KeptList } from "#service/directory/kept-list.ts";
import { createMatching, longestElement } from "#service/directory/matching.ts";
import { cases } from "../../support/random.ts";

/** A list before, that is read in pieces of any size. */
function listOf(elements: readonly string[], separators: readonly string[], size: number): KeptList {
  const bytes = elements.map((each, index) => Buffer.from(each + (separators[index % separators.length] ?? "")));
  const text = Buffer.concat([Buffer.from("["), ...bytes]);
  let at = 0;
  return {
    revision: "r",
    encoding: "plain",
    ordered: true,
    start: 1,
    lengths: Uint32Array.from(bytes, ({ length }) => length),
    read: async (buffer) => {
      const copied = text.subarray(at, at + size).copy(buffer);
      at += copied;
      return copied;
    },
    readAgain: async (from, to) => text.subarray(from, to),
    forget: async () => undefined,
    close: () => undefined,
  };
}

/** What comes of looking for elements, so many in each piece that arrives, in a list before. */
async function match(
  before: readonly string[],
  after: readonly string[],
  { perPiece = 1000, separators = [",\n"], readSize = 1_000_000 } = {},
) {
  const departed: string[] = [];
  const found: string[] = [];
  const changed: string[] = [];
  const matching = createMatching(listOf(before, separators, readSize), {
    found: ({ first, behind }) => found.push(...before.slice(first, behind)),
    departed: ({ first, behind, from, to }, bytes) => {
      departed.push(...before.slice(first, behind));
      expect(bytes).toHaveLength(to - from);
      expect(bytes.toString()).toContain(before[first]);
    },
  });
  /** Where the elements begin in the list. */
  const starts = new Map<number, string>();
  let end = 0;
  for (let index = 0; index < after.length; index += perPiece) {
    await matching.fill();
    const piece = after.slice(index, index + perPiece);
    let bytes = Buffer.from(piece.map((each) => `${each},\n`).join(""));
    let base = end;
    for (const each of piece) {
      starts.set(end, each);
      end += Buffer.byteLength(each) + 2;
    }
    let at = matching.isOn ? matching.goOn(bytes, 0) : 0;
    if (at < 0) {
      bytes = Buffer.concat([matching.begun(-at), bytes]);
      base += at;
      at = 0;
    }
    while (at < bytes.length) {
      const element = starts.get(base + at);
      if (element === undefined) {
        expect(bytes[at]).toBe(0x0a);
        at++;
      } else if (matching.begin(bytes, at)) {
        at = matching.goOn(bytes, at);
      } else {
        changed.push(element);
        at += Buffer.byteLength(element) + 2;
      }
    }
  }
  // The last element of the list before is never found, and what has begun may be it.
  const begun = matching.isOn ? matching.begun().toString() : "";
  if (begun !== "") changed.push(begun.slice(0, -2));
  await matching.end();
  expect(matching).toMatchObject({ found: found.length, departed: departed.length });
  return { changed, departed, found };
}

const element = (name: string): string => JSON.stringify({ name, displayName: "x" });

test("an element is found once, and what is not found has departed, whatever the order and what stands between", async () => {
  const names = fc.constantFrom("a", "b", "c", "ab", "é", '"', "\\", "{}", '{"name":"a","displayName":"x"}');
  const elements = fc.array(
    names.map((name) => element(name)),
    { minLength: 1, maxLength: 40 },
  );
  const separator = fc.oneof({ weight: 8, arbitrary: fc.constant(",\n") }, fc.constantFrom(",", " ,\n", ",\n\n"));
  await fc.assert(
    fc.asyncProperty(
      elements,
      elements,
      fc.array(separator, { minLength: 1 }),
      fc.integer({ min: 1, max: 9 }),
      async (before, after, separators, perPiece) => {
        const { changed, departed, found } = await match(before, after, { separators, perPiece });
        expect(found.length + changed.length).toBe(after.length);
        expect(found.length + departed.length).toBe(before.length);
        // What is found is taken out of both.
        expect([...found, ...changed].toSorted()).toEqual(after.toSorted());
        expect([...found, ...departed].toSorted()).toEqual(before.toSorted());
      },
    ),
    { numRuns: cases(500) },
  );
});

test("the same list is found as a whole but for its last element, and what is changed, new or missing is not", async () => {
  const before = Array.from({ length: 60_000 }, (_, index) => element(`user ${index}`));
  const last = before.at(-1);
  const same = await match(before, before);
  expect(same).toMatchObject({ changed: [last], departed: [last], found: { length: 59_999 } });
  const fresh = Array.from({ length: 1000 }, (_, index) => element(`new ${index}`));
  const after = [...before.slice(0, 500), ...before.slice(501, 20_000), ...fresh, ...before.slice(20_000)];
  after[30_000] = element("changed");
  const { changed, departed } = await match(before, after, { readSize: 77_777 });
  expect(changed).toEqual([...fresh, element("changed"), last]);
  expect(departed).toEqual([element("user 500"), before[30_000 - 999], last]);
});

test("many elements that are missing in a row are passed over", async () => {
  const before = Array.from({ length: 20_000 }, (_, index) => element(`user ${index}`));
  const after = [...before.slice(0, 3000), ...before.slice(8000)];
  const { changed, departed } = await match(before, after);
  expect(changed).toEqual([...before.slice(8000, 8031), before.at(-1)]);
  expect(departed).toHaveLength(5032);
});

test("an element as long as may be kept is found, and lengths that are not those of the list are damage", async () => {
  const long = element("x".repeat(longestElement - element("").length - 2));
  const lists = [element("a"), long, element("b"), long, element("c")];
  expect(await match(lists, lists, { perPiece: 1 })).toMatchObject({ found: { length: 4 } });
  const list = listOf([element("a"), element("b")], [",\n"], 100);
  for (const lengths of [[30], [5, 500_000_000], [1, 2]]) {
    const others = { found: () => undefined, departed: () => undefined };
    const matching = createMatching({ ...list, lengths: Uint32Array.from(lengths) }, others);
    await expect(matching.end()).rejects.toThrow("its elements are not as long as it is");
  }
});

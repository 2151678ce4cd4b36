import fc from "fast-check";
import { expect, test } from "vitest";
import { createArrayScanner } from "#service/directory/json-array.ts";
import { createListObserver } from "#service/directory/list-traits.ts";
import type { ListObserver } from "#service/directory/list-traits.ts";
import { cases } from "../../support/random.ts";

function observe(text: string, length = Infinity): ListObserver {
  const observer = createListObserver();
  const scanner = createArrayScanner(observer);
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += length) scanner.scan(Buffer.from(bytes.subarray(at, at + length)));
  scanner.end();
  expect(scanner.problem).toBeUndefined();
  return observer;
}

const texts = ["name", "displayName", "description", "mail", "principalTypeEnum", "password"];
const names = fc.constantFrom("a", "b", "ab", "é", "z\u{1F600}", "\uFFFD", "Z", "", '"', "\n", "x".repeat(2000));
const anything = fc.oneof(names, fc.integer(), fc.boolean(), fc.constant(null), fc.constant({}), fc.constant([names]));
const element = fc.oneof(
  {
    weight: 20,
    arbitrary: fc.dictionary(
      fc.constantFrom(...texts, "extra", "x"),
      fc.oneof({ weight: 30, arbitrary: names }, anything),
    ),
  },
  { weight: 1, arbitrary: anything },
);
const groups = fc.oneof(
  { weight: 30, arbitrary: fc.array(names) },
  {
    weight: 20,
    arbitrary: fc
      .uniqueArray(names)
      .map((list) => list.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))),
  },
  fc.array(anything),
  anything,
);
const list = fc.array(
  fc
    .tuple(element, fc.option(groups, { nil: undefined }))
    .map(([value, groupNames]) =>
      groupNames === undefined || typeof value !== "object" || value === null || Array.isArray(value)
        ? value
        : { ...(value as object), groupNames },
    ),
  { maxLength: 4 },
);

function isPlain(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const fields = value as Record<string, unknown>;
  const groupNames = fields["groupNames"] ?? [];
  return (
    texts.every((field) => typeof (fields[field] ?? "") === "string") &&
    Array.isArray(groupNames) &&
    groupNames.every((name) => typeof name === "string")
  );
}

test("a list is plain exactly when every field has its type, wherever it is cut", () => {
  fc.assert(
    fc.property(list, fc.integer({ min: 1, max: 30 }), (value, length) => {
      const text = JSON.stringify(value);
      expect(observe(text).traits().plain).toBe(value.every(isPlain));
      expect(observe(text, length).traits().plain).toBe(value.every(isPlain));
    }),
    { numRuns: cases(1000) },
  );
}, 60_000);

test("a list that is ordered has every group once, by code point", () => {
  fc.assert(
    fc.property(list, fc.integer({ min: 1, max: 30 }), (value, length) => {
      const { plain, ordered } = observe(JSON.stringify(value), length).traits();
      if (!plain || !ordered) return;
      for (const { groupNames } of value as { groupNames?: string[] | null }[]) {
        const sorted = [...new Set(groupNames)].toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
        expect(groupNames ?? []).toEqual(sorted);
      }
    }),
    { numRuns: cases(1000) },
  );
}, 60_000);

test("ordered groups are seen to be, across pieces", () => {
  const text = JSON.stringify([
    {
      groupNames: ["a", "ab", "b", "é", "\uFFFD", "z\u{1F600}"].toSorted((a, b) =>
        Buffer.compare(Buffer.from(a), Buffer.from(b)),
      ),
    },
  ]);
  for (let length = 1; length < text.length; length++) expect(observe(text, length).traits().ordered).toBe(true);
});

test("a key with escapes is the field it stands for", () => {
  const name = String.raw`"n\u0061me"`;
  for (let length = 1; length < 20; length++) {
    expect(observe(`[{${name}:"a"}]`, length).traits().plain).toBe(true);
    expect(observe(`[{${name}:5}]`, length).traits().plain).toBe(false);
    expect(observe(`[{"name":"a",${name}:"b"}]`, length).duplicate).toBe("principals[0].name");
  }
});

test("a field that is given twice is named", () => {
  const text = '[{"name":"a","x":1,"x":2},{"mail":"m","a":{"mail":1},"mail":"n"}]';
  for (let length = 1; length < text.length; length++)
    expect(observe(text, length).duplicate).toBe("principals[1].mail");
  expect(observe('[{"name":"a"},{"name":"b","y":{"name":"c"}}]').duplicate).toBeUndefined();
});

const ordinary = fc.array(
  fc.record(
    Object.fromEntries([
      ...texts.map((field) => [field, fc.oneof({ weight: 20, arbitrary: fc.constantFrom("a", "", "é b") }, names)]),
      ["groupNames", fc.array(fc.constantFrom("a", "b", "ab", "é", '"'), { maxLength: 3 })],
    ]),
    { requiredKeys: [] },
  ),
  { maxLength: 5 },
);
const scraps = ["{", "}", "[", "]", ",", ":", '"', "\\", " ", "\n", "\t", "\0", "a", "n", "1"];
const damages = fc.array(
  fc.record({ at: fc.nat(), cut: fc.integer({ min: 0, max: 2 }), insert: fc.constantFrom(...scraps) }),
  { maxLength: 2 },
);

test("B.5 an element that is read at once is judged as one that is read byte by byte, whatever is wrong with it", () => {
  fc.assert(
    fc.property(ordinary, damages, fc.integer({ min: 1, max: 300 }), fc.boolean(), (value, edits, length, spaced) => {
      let text = spaced ? JSON.stringify(value).replaceAll(/[,:[{]/g, "$& ") : JSON.stringify(value);
      for (const { at, cut, insert } of edits) {
        const place = at % (text.length + 1);
        text = text.slice(0, place) + insert + text.slice(place + cut);
      }
      const [quick, slow] = [true, false].map((atOnce) => {
        const observer = createListObserver();
        const scanner = createArrayScanner(atOnce ? observer : { ...observer, element: () => -1 });
        const bytes = Buffer.from(text);
        for (let from = 0; from < bytes.length; from += length) scanner.scan(bytes.subarray(from, from + length));
        scanner.end();
        const { problem, elements, line, longestLine } = scanner;
        // What comes behind a problem is left alone in both, but not by the same byte.
        const lines = problem === undefined ? bytes.toString() : undefined;
        return {
          problem,
          elements,
          line,
          longestLine,
          lines,
          traits: observer.traits(),
          duplicate: observer.duplicate,
        };
      });
      expect(quick).toEqual(slow);
    }),
    { numRuns: cases(3000) },
  );
});

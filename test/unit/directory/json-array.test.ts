import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createArrayScanner } from "#service/directory/json-array.ts";
import { cases } from "../../support/random.ts";

const silent = { element: () => -1, value: () => undefined, string: () => undefined };

/** Scans a text that arrives in pieces of the given length. */
function scan(text: string, length = Infinity): { problem: string | undefined; lines: string; longestLine: number } {
  const bytes = Buffer.from(text);
  const scanner = createArrayScanner(silent);
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += length) pieces.push(Buffer.from(bytes.subarray(at, at + length)));
  for (const piece of pieces) scanner.scan(piece);
  scanner.end();
  return { problem: scanner.problem, lines: Buffer.concat(pieces).toString(), longestLine: scanner.longestLine };
}

/** What `JSON.parse` makes of the text, if it is an array. */
function parse(text: string): unknown[] | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const arrays = fc.array(fc.jsonValue({ maxDepth: 4 }));
const written = fc
  .tuple(arrays, fc.constantFrom("", 1, 3, "\t"))
  .map(([value, indent]) => JSON.stringify(value, null, indent));
const scraps = [
  "[",
  "]",
  "{",
  "}",
  ",",
  ":",
  '"',
  "\\",
  "NaN",
  "-Infinity",
  "Infinity",
  "nan",
  "0",
  "01",
  "1.",
  ".5",
  "-",
  "+1",
]
  .concat([
    "1e",
    "1e+5",
    "1E-05",
    "true",
    "tru",
    "null",
    "nul",
    "\\u12",
    "\\ud800",
    "\\x",
    "\u0001",
    "\u007F",
    " ",
    "\n",
    "\r",
  ])
  .concat(["\t", "\u00A0", "\uFEFF", "//", "/**/", "'a'", '"a":1', "[1]", "{}", "[]", "", '""', "é", "\u2028"]);
/** A text in which a few places were replaced by something that is often wrong there. */
const damaged = fc
  .tuple(written, fc.array(fc.tuple(fc.nat(), fc.nat({ max: 2 }), fc.constantFrom(...scraps)), { maxLength: 3 }))
  .map(([text, wounds]) =>
    wounds.reduce((current, [place, length, scrap]) => {
      const at = place % (current.length + 1);
      return current.slice(0, at) + scrap + current.slice(at + length);
    }, text),
  );
const assembled = fc.array(fc.constantFrom(...scraps), { maxLength: 8 }).map((parts) => `[${parts.join("")}]`);

describe("B.5 valid JSON", () => {
  test("a text is refused exactly when JSON.parse refuses it or it is no array, wherever it is cut", () => {
    fc.assert(
      fc.property(fc.oneof(written, damaged, assembled), fc.integer({ min: 1, max: 40 }), (text, length) => {
        const isValid = parse(text) !== undefined;
        expect(scan(text).problem === undefined).toBe(isValid);
        expect(scan(text, length).problem === undefined).toBe(isValid);
      }),
      { numRuns: cases(3000) },
    );
  }, 60_000);

  test("each element ends up in a line of its own", () => {
    fc.assert(
      fc.property(written, fc.integer({ min: 1, max: 40 }), (text, length) => {
        const { lines, longestLine } = scan(text, length);
        const elements = lines.split("\n").filter((line) => line.trim() !== "");
        expect(elements.map((line): unknown => JSON.parse(line))).toEqual(parse(text));
        for (const element of elements) expect(longestLine).toBeGreaterThanOrEqual(Buffer.byteLength(element.trim()));
      }),
    );
  });

  test.each([
    ["an empty text", "", /at byte 0: expected an array/],
    ["an object", "{}", /expected an array/],
    ["a trailing comma", "[1,]", /at byte 3: expected a value/],
    ["a trailing comma in an object", '[{"a":1,}]', /at byte 8: expected a key/],
    ["NaN", "[NaN]", /expected true, false, null or a number/],
    ["an infinity", "[-Infinity]", /expected true, false, null or a number/],
    ["something behind", "[1] x", /at byte 4: expected nothing/],
    ["a truncated list", "[1", /at byte 2/],
    ["a control character", '["\u0001"]', /at byte 2: expected .*control characters only as escapes/],
    [
      "a control character behind an escape",
      '["\\ud800\t"]',
      /at byte 8: expected .*control characters only as escapes/,
    ],
    ["a wrong escape", String.raw`["a\"\ ","\"b"]`, /at byte 6: expected one of/],
    ["too many arrays in one another", "[".repeat(1001), /no more than 1000/],
    ["too many, of which the last is an object", `${"[".repeat(1000)}{`, /no more than 1000/],
    ["something else in the last array that may be", `${"[".repeat(1000)},`, /expected a value or \]/],
    ["a word in it", `${"[".repeat(1000)}nil]`, /expected true, false, null or a number/],
  ])("%s is refused", (_, text, message) => {
    expect(scan(text).problem).toMatch(message);
    for (let length = 1; length < Math.min(text.length, 20); length++) {
      expect(scan(text, length).problem).toMatch(message);
    }
  });

  test("a thousand arrays in one another are allowed", () => {
    expect(scan("[".repeat(1000) + "]".repeat(1000)).problem).toBeUndefined();
  });
});

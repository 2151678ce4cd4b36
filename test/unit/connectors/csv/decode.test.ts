import fc from "fast-check";
import { expect, test } from "vitest";
import { InputError } from "#errors.ts";
import { decoded } from "#connectors/csv/decode.ts";
import type { Encoding } from "#connectors/csv/options.ts";

const place = { file: "people.csv", line: 7 };

async function decode(bytes: Buffer, encoding: Encoding, size = 64): Promise<string> {
  async function* chunks() {
    for (let start = 0; start < bytes.length; start += size) yield bytes.subarray(start, start + size);
  }
  let text = "";
  for await (const piece of decoded(chunks(), encoding, place)) text += piece;
  return text;
}

const encoders: Readonly<Record<"utf-8" | "utf-16le" | "utf-16be", (text: string) => Buffer>> = {
  "utf-8": (text) => Buffer.from(text),
  "utf-16le": (text) => Buffer.from(text, "utf16le"),
  "utf-16be": (text) => Buffer.from(text, "utf16le").swap16(),
};

/** Of one to four bytes, at the edges of each length and of the surrogates, and the marks themselves. */
const characters = Array.from(
  "\0a\n\x7F\x80ü\u{7FF}\u{800}李\u{D7FF}\u{E000}\u{FEFF}\u{FFFD}\u{FFFE}\u{FFFF}\u{10000}🦉\u{10FFFF}",
);

test("decodes any text from any chunks, with and without a byte order mark", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.string({ unit: fc.constantFrom(...characters) }).filter((text) => !/^[\u{FEFF}\u{FFFE}]/u.test(text)),
      fc.constantFrom("utf-8", "utf-16le", "utf-16be"),
      fc.constantFrom("", "\u{FEFF}"),
      fc.integer({ min: 1, max: 9 }),
      async (text, encoding, mark, size) => {
        const encoded = encoders[encoding](mark + text);
        expect(await decode(encoded, encoding, size)).toBe(text);
        const isMarked = mark !== "" && encoding !== "utf-8";
        expect(await decode(encoded, isMarked ? "utf-16" : encoding, size)).toBe(text);
      },
    ),
  );
});

test("keeps U+FEFF and U+FFFD within the text", async () => {
  const text = "a\u{FEFF}b\u{FFFD}c";
  for (const size of [1, 2, 3, 4, 5]) expect(await decode(Buffer.from(text), "utf-8", size)).toBe(text);
});

test("reads latin1 as everybody writes it", async () => {
  expect(await decode(Buffer.from([0x4a, 0xf6, 0x72, 0x67, 0x20, 0x80]), "latin1", 1)).toBe("Jörg €");
});

test.each<[Encoding, readonly number[], string]>([
  // As `iconv` writes them.
  ["windows-1250", [0xa3, 0x75, 0x6b, 0x61, 0x73, 0x7a, 0x20, 0xaf, 0xf3, 0xb3, 0xe6], "Łukasz Żółć"],
  ["iso-8859-2", [0xa3, 0x75, 0x6b, 0x61, 0x73, 0x7a, 0x20, 0xaf, 0xf3, 0xb3, 0xe6], "Łukasz Żółć"],
  ["windows-1251", [0xc8, 0xe2, 0xe0, 0xed], "Иван"],
  ["shift_jis", [0x8e, 0x52, 0x93, 0x63, 0x2c, 0x91, 0xbe, 0x98, 0x59], "山田,太郎"],
  ["gbk", [0xc0, 0xee, 0x0a, 0xcd, 0xf5], "李\n王"],
  ["gb18030", [0x81, 0x30, 0x81, 0x30, 0x2c, 0xc0, 0xee], "\u{80},李"],
  ["big5", [0xa7, 0xf5, 0x2c, 0xa4, 0x41], "李,乙"],
  ["euc-kr", [0xb1, 0xe8, 0x0d, 0x0a, 0xc0, 0xcc], "김\r\n이"],
])("reads %s from any chunks", async (encoding, bytes, text) => {
  for (const size of [1, 2, 3, 100]) expect(await decode(Buffer.from(bytes), encoding, size)).toBe(text);
});

test("reads a field that is longer than a chunk and has no space or comma", async () => {
  const count = 1024 * 1024;
  const bytes = Buffer.alloc(2 * count, Buffer.from([0x8e, 0x52]));
  expect((await decode(bytes, "shift_jis", 64 * 1024)) === "山".repeat(count)).toBe(true);
});

test.each<[string, Encoding, readonly number[], string]>([
  ["a byte that the code page does not have", "windows-1253", [0x61, 0x0a, 0xd2, 0x62], "a\n"],
  ["half a character", "shift_jis", [0x61, 0x0a, 0x8e], "a\n"],
  ["a byte that UTF-8 never has", "utf-8", [0x61, 0x0a, 0xff, 0x62], "a\n"],
  ["a character cut off by the end", "utf-8", [0x61, 0x62, 0x63, 0xf0, 0x9f], "abc"],
  ["a surrogate in UTF-8", "utf-8", [0x61, 0xed, 0xa0, 0x80], "a"],
  ["a fault after a genuine U+FFFD", "utf-8", [0xef, 0xbf, 0xbd, 0x61, 0xc3, 0x28], "\u{FFFD}a"],
  ["a lone surrogate", "utf-16le", [0x61, 0, 0x00, 0xd8, 0x62, 0], "a"],
  ["half a unit", "utf-16be", [0, 0x61, 0, 0x62, 0], "ab"],
])("refuses %s, after the text before it", async (_, encoding, bytes, text) => {
  for (const size of [1, 2, 3, 100]) {
    const seen: string[] = [];
    const failure: unknown = await (async () => {
      async function* chunks() {
        for (let start = 0; start < bytes.length; start += size) yield Buffer.from(bytes.slice(start, start + size));
      }
      for await (const piece of decoded(chunks(), encoding, place)) seen.push(piece);
    })().catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(InputError);
    expect(failure).toMatchObject({
      message: expect.stringMatching(/^people\.csv:7: .* bytes that are not [-\w]+; set encoding to/),
    });
    expect(seen.join("")).toBe(`${text}\u{FFFD}`);
  }
});

test.each<[Encoding, readonly number[], string]>([
  ["utf-16", [0x61, 0, 0x62, 0], "has no byte order mark, so its byte order is unknown"],
  ["utf-8", [0xff, 0xfe, 0x61, 0], "starts with the byte order mark of utf-16le; set encoding to utf-16le"],
  ["utf-16le", [0xfe, 0xff, 0, 0x61], "starts with the byte order mark of utf-16be"],
  ["latin1", [0xef, 0xbb, 0xbf, 0x61], "starts with the byte order mark of utf-8"],
  ["utf-16", [0xef, 0xbb, 0xbf, 0x61], "starts with the byte order mark of utf-8"],
])("refuses a byte order mark that is not that of %s", async (encoding, bytes, message) => {
  await expect(decode(Buffer.from(bytes), encoding)).rejects.toThrow(`people.csv:7: ${message}`);
});

test("makes nothing of nothing", async () => {
  expect(await decode(Buffer.alloc(0), "utf-8")).toBe("");
  expect(await decode(Buffer.from("\u{FEFF}"), "utf-8", 1)).toBe("");
});

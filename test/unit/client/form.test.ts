import * as fc from "fast-check";
import { expect, test } from "vitest";
import { percentEncode, percentEncodedLength } from "#client/form.ts";

const texts = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.constantFrom("", "a", "%", "+", "&=", "a b", "\"'", "\r\n", "\uFEFF[]", "Jürgen", "😀", "*-._~", "\0"),
);

test("the platform decodes what was encoded to the same text", () => {
  fc.assert(
    fc.property(texts, (text) => {
      const encoded = percentEncode(Buffer.from(text));
      expect(encoded.toString("latin1")).toMatch(/^(?:[A-Za-z0-9*._-]|%[0-9A-F]{2})*$/);
      expect(new URLSearchParams(`a=${encoded.toString("latin1")}`).get("a")).toBe(
        text.replace(/[\uD800-\uDFFF]/gu, "\uFFFD"),
      );
    }),
  );
});

test("arbitrary bytes arrive unchanged, and their length is known in advance", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      const encoded = percentEncode(bytes);
      expect(percentEncodedLength(bytes)).toBe(encoded.length);
      expect(Buffer.from(unescape(encoded.toString("latin1")), "latin1").equals(Buffer.from(bytes))).toBe(true);
    }),
  );
});

test("a byte is encoded as the platform encodes it, but for the space", () => {
  const bytes = Array.from({ length: 128 }, (_, byte) => byte).filter((byte) => byte !== 32);
  const platform = bytes.map((byte) => new URLSearchParams({ a: String.fromCharCode(byte) }).toString().slice(2));
  expect(bytes.map((byte) => percentEncode(Uint8Array.of(byte)).toString())).toEqual(platform);
  expect(percentEncode(Uint8Array.of(32)).toString()).toBe("%20");
});

test("every byte is encoded beside any other as it is alone", () => {
  const alone = Array.from({ length: 256 }, (_, byte) => percentEncode(Uint8Array.of(byte)).toString());
  for (let byte = 0; byte < 256; byte += 1) {
    const pairs = alone.map((_, other) => percentEncode(Uint8Array.of(byte, other)).toString());
    expect(pairs).toEqual(alone.map((other) => alone[byte] + other));
  }
});

test("a text may be cut at every byte", () => {
  const bytes = Buffer.from('[{"name":"jürgen \uFEFF 😀 100%+\\n"}]');
  const whole = percentEncode(bytes).toString();
  for (let cut = 0; cut <= bytes.length; cut += 1) {
    const parts = [bytes.subarray(0, cut), bytes.subarray(cut)];
    expect(parts.map((part) => percentEncode(part).toString()).join("")).toBe(whole);
    expect(parts.reduce((length, part) => length + percentEncodedLength(part), 0)).toBe(whole.length);
  }
});

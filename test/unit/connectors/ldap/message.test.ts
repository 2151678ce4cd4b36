import fc from "fast-check";
import { expect, test } from "vitest";
import { MalformedError, messagesOf, readInteger, readText, windowOn } from "#connectors/ldap/message.ts";
import type { Cursor } from "#connectors/ldap/message.ts";

function message(length: number, fill: number): Buffer {
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x84, 0, 0, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([0x30, ...size]), Buffer.alloc(length, fill)]);
}

test("cuts messages however they arrive", () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 0, max: 700 }), { maxLength: 8 }),
      fc.infiniteStream(fc.integer({ min: 1, max: 300 })),
      (lengths, sizes) => {
        const sent = lengths.map(message);
        const received: Buffer[] = [];
        const take = messagesOf((one) => received.push(Buffer.from(one)));
        let rest = Buffer.concat(sent);
        while (rest.length > 0) {
          const size = sizes.next().value!;
          take(rest.subarray(0, size));
          rest = rest.subarray(size);
        }
        expect(received).toEqual(sent);
      },
    ),
  );
});

test.each([
  ["HTTP", Buffer.from("HTTP/1.1 400 Bad Request")],
  ["no length", Buffer.from([0x30, 0x80, 0, 0])],
  ["a length of nine bytes", Buffer.from([0x30, 0x89, 1, 1, 1, 1, 1, 1, 1, 1, 1])],
  ["two gigabytes", Buffer.from([0x30, 0x84, 0x80, 0, 0, 0])],
])("takes %s for no message", (_, bytes) => {
  expect(() => messagesOf(() => {})(bytes)).toThrow(MalformedError);
});

test("never reads past the end", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 12 }), (content) => {
      for (const read of [readText, readInteger]) {
        const cursor: Cursor = { bytes: Buffer.from(content), at: 0 };
        try {
          read(cursor);
          expect(cursor.at).toBeLessThanOrEqual(content.length);
        } catch (error) {
          expect(error).toBeInstanceOf(MalformedError);
        }
      }
    }),
  );
});

test("reads what Node reads, in any order and of any length", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "binary", maxLength: 200 }),
      fc.array(fc.tuple(fc.nat(60_000), fc.nat(20_000)), { maxLength: 30 }),
      (text, places) => {
        const bytes = Buffer.from(`${text}${"plain ".repeat(8_000)}${text}`);
        const textAt = windowOn(bytes);
        for (const [start, length] of places) {
          const from = Math.min(start, bytes.length);
          const to = Math.min(from + length, bytes.length);
          expect(textAt(from, to)).toBe(bytes.toString("utf8", from, to));
        }
      },
    ),
  );
});

import fc from "fast-check";
import { expect, test } from "vitest";
import { windowOn } from "#connectors/ldap/window.ts";

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

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { printable, printableJson } from "#text.ts";

const hostile = "a\u001B[2Jb\u009Bc\u202Ed\u0007e\rf\u200Bg\u{E0001}h\u001B]0;title\u0007";

describe("what is printed", () => {
  test("has no character that moves the cursor, reorders the line or cannot be seen", () => {
    expect(printable(hostile)).toBe(
      "a\\u{001b}[2Jb\\u{009b}c\\u{202e}d\\u{0007}e\\u{000d}f\\u{200b}g\\u{e0001}h\\u{001b}]0;title\\u{0007}",
    );
  });

  test("keeps lines, tabs, other scripts and the colours of our own output", () => {
    const own = "\u001B[1mbold\u001B[22m \u001B[31mred\u001B[39m\n\tZoë 東京　→ “x” …\n";
    expect(printable(own)).toBe(own);
    expect(printable("a\r\nb")).toBe("a\nb");
    expect(printable("\u001B[8mhidden\u001B[5m")).toBe("\\u{001b}[8mhidden\\u{001b}[5m");
  });

  test("JSON means the same", () => {
    expect(JSON.parse(printableJson(JSON.stringify({ hostile })))).toEqual({ hostile });
    fc.assert(
      fc.property(fc.json(), (json) => {
        expect(JSON.parse(printableJson(json))).toEqual(JSON.parse(json));
        expect(printableJson(json)).not.toMatch(/[\p{Cc}\p{Cf}]/u);
      }),
    );
    expect(printableJson('{\n  "a": 1\n}\n')).toBe('{\n  "a": 1\n}\n');
  });
});

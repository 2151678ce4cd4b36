import { expect, test } from "vitest";
import { leakFinder } from "../../support/leaks.ts";

const secret = 'Gr0ße "Wörter"\\&+%/ <x>';
const find = leakFinder({ secret });

test.each([
  ["as it is", secret],
  ["in JSON", JSON.stringify({ a: secret })],
  ["in JSON in JSON", JSON.stringify({ a: JSON.stringify({ b: secret }) })],
  ["in a URL", `https://example.com/${encodeURIComponent(secret)}`],
  ["in a form", new URLSearchParams({ password: secret }).toString()],
  ["in hexadecimal", Buffer.from(secret).toString("hex")],
])("a secret is found %s", (form, text) => {
  expect(find("a place", `before ${text} after`)).toContainEqual({ secret: "secret", place: "a place", form });
});

test("a secret is found in base64, whatever stands before it and after it", () => {
  for (const before of ["", "a", "ab", "abc", "user:"])
    for (const after of ["", "x", "xy", "xyz"]) {
      const bytes = Buffer.from(before + secret + after);
      expect(find("", bytes.toString("base64")).length, before + after).toBeGreaterThan(0);
      expect(find("", bytes.toString("base64url")).length, before + after).toBeGreaterThan(0);
    }
});

test("a single line of a key is found", () => {
  const line = "MHcCAQEEIBkg3k5nJ0s3n8m1mQ0yq8h1d8yq8h1d8yq8h1d8yq8h";
  const inKey = leakFinder({ key: `-----BEGIN EC PRIVATE KEY-----\n${line}\n-----END EC PRIVATE KEY-----\n` });
  expect(inKey("", `x${line}y`)).toHaveLength(1);
});

test("nothing is found in other text", () => {
  expect(find("", "Große Wörter")).toEqual([]);
});

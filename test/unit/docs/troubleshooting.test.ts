import { readFileSync, readdirSync } from "node:fs";
import { expect, test } from "vitest";

const root = new URL("../../../", import.meta.url);
const page = readFileSync(new URL("docs/guide/troubleshooting.md", root), "utf8");
const messages = [...page.matchAll(/```text\n(?<message>[^`]+)\n```/g)].map(({ groups }) => groups?.["message"] ?? "");

/** All of the program's text, as if no message were put together from several lines. */
const code = ["bin", "src", "connectors"]
  .flatMap((folder) =>
    readdirSync(new URL(folder, root), { recursive: true, encoding: "utf8" })
      .filter((path) => /\.[tj]s$/.test(path))
      .map((path) => readFileSync(new URL(`${folder}/${path}`, root), "utf8")),
  )
  .join("\n")
  .replaceAll(/["`]\s*\+\s*["`]/g, "")
  .replaceAll('\\"', '"');

test.each(messages)("%s", (message) => {
  // What the program puts between them is different each time, or another module's word.
  const parts = message.split(/…|: |[;()"\n]/).map((text) => text.trim());
  expect(parts.filter((part) => !code.includes(part))).toEqual([]);
});

test("there are at least twenty messages", () => {
  expect(messages.length).toBeGreaterThanOrEqual(20);
});

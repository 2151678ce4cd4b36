import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { pageIn } from "#connectors/http/content.ts";
import { referencesOf } from "#connectors/http/entries.ts";
import { parsePath } from "#connectors/http/path.ts";

const title = "source hr: GET https://hr.example.com/pairs";
const pageOf = (text: string | Buffer, ...ids: string[]) => {
  const content = { format: "csv" as const, delimiter: ",", ids: ids.map((id) => parsePath(id)!) };
  return pageIn({ body: Readable.from([Buffer.from(text)]) }, content, title);
};

test.each([
  ["an error", "Error: quota exceeded\n"],
  ["a sign-in page", "<!doctype html><html><body>Sign in</body></html>"],
  ["another delimiter", "team;who\n"],
  ["a column less", "team,whom\n"],
])("a CSV without rows is an empty list only with its header: %s", async (_, text) => {
  await expect(pageOf(text, "team", "who")).rejects.toThrow(
    /^source hr: GET https:\/\/hr\.example\.com\/pairs: the answer is no CSV with a column (?:team|who); look at it/,
  );
});

test.each([
  ["an id that a spreadsheet has shortened", "who\n1.23457E+11\n", "who is a number that Excel has shortened"],
  ["an id that a spreadsheet could not find", "who\n#N/A\n", "who is an error of Excel"],
  ["the end of a file that is not written yet", `who\n1\n${"\0".repeat(8)}`, "zero bytes"],
  ["UTF-16", Buffer.from("who\n1\n", "utf16le"), "zero bytes"],
  ["another encoding", Buffer.from("who\nJ\xf6rg\n", "latin1"), "the answer is not UTF-8"],
])("a CSV with %s fails", async (_, text, message) => {
  await expect(pageOf(text, "who")).rejects.toThrow(message);
});

test("a CSV with its header has its rows, if any", async () => {
  expect((await pageOf("who, team\n", "team", "who")).items).toEqual([]);
  expect((await pageOf("who, team\n1,a\n", "team", "who")).items).toEqual([{ who: "1", team: "a" }]);
  // The page after the last one, where pages end so.
  expect((await pageOf("", "team", "who")).items).toEqual([]);
});

test.each(["#N/A", "1.23457E+11"])("a CSV whose keys or references a spreadsheet has made %s fails", async (value) => {
  const options = {
    id: parsePath("who")!,
    keys: [parsePath("login")!],
    memberOf: { path: parsePath("team")! },
    members: { path: parsePath("staff")! },
  };
  const references = referencesOf(options as Parameters<typeof referencesOf>[0]);
  for (const column of ["login", "team", "staff"]) {
    const row = ["login", "team", "staff"].map((each) => (each === column ? value : "x")).join(",");
    const body = Readable.from([Buffer.from(`who,login,team,staff\n1,${row}\n`)]);
    const content = { format: "csv" as const, delimiter: ",", ids: [options.id], references };
    await expect(pageIn({ body }, content, title)).rejects.toThrow(`a value of ${column} is `);
  }
});

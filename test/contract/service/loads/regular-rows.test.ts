import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { InputError } from "#errors.ts";
import { isPlain, readingTyped, regularRows } from "#service/loads/direct/direct.ts";
import { rewritten } from "#service/loads/parse.ts";
import { findSections } from "#service/loads/sections.ts";
import type { LoadFormat } from "#service/loads/load-format.ts";
import { cases } from "../../../support/random.ts";
import { defaults, useParsing } from "./parsing.ts";

const { connection, folder } = useParsing();
const names = ["x", "y"];
const { signal } = new AbortController();

/** The rows of a chunk by DuckDB's own reader, undefined where it is not trusted with it, and by the splitter. */
async function both(chunk: Uint8Array, options: Partial<LoadFormat>): Promise<[regular: unknown, exact: unknown[]]> {
  const format = { ...defaults, ...options };
  const path = join(folder(), "regular");
  await writeFile(path, chunk);
  const [section] = await findSections([path], format, names.length, signal);
  if (section === undefined) throw new Error("no section");
  const exact: unknown[] = [];
  for await (const from of rewritten(section, format, names, [`${path}.rows`], signal)) {
    exact.push(...(await connection().rows(`FROM ${from}`)));
  }
  await rm(`${path}.rows`);
  const rows =
    isPlain(format, names.length) && section.isPlain
      ? await regularRows([section], format, names.length, signal)
      : undefined;
  if (rows === undefined) return [undefined, exact];
  expect(rows.count).toBe(exact.length);
  const types = names.map(() => "VARCHAR");
  const query = `SELECT NULL::VARCHAR AS flaw, * FROM ${readingTyped([section], section.lines, format, types)}`;
  const regular = await connection()
    .rows(query)
    .catch((error: unknown) => {
      if (/CSV Error|not utf-8/i.test(String(error))) return undefined;
      throw error;
    });
  return [regular, exact];
}

const piece = fc.constantFrom(
  "a",
  "b",
  " ",
  "\t",
  ",",
  ";",
  '"',
  "'",
  "(null)",
  "é",
  "\uFEFF",
  "\\",
  "1",
  "\n",
  "\r\n",
  "\r",
  "\0",
);
const wild = fc.array(piece, { maxLength: 4 }).map((pieces) => pieces.join(""));
const tame = fc
  .array(fc.constantFrom("a", " ", "(null)", "é", "\uFEFF", "\\", "'"), { maxLength: 3 })
  .map((pieces) => pieces.join(""));
const quoted = fc
  .oneof(tame, fc.constantFrom(",", '"', ' "', '" ', '","', ",,"))
  .map((text) => `"${text.replaceAll('"', '""')}"`);
const field = fc.oneof(
  { weight: 30, arbitrary: tame },
  { weight: 30, arbitrary: quoted },
  { weight: 1, arbitrary: wild },
);
const line = fc.tuple(field, field).map((fields) => fields.join(","));
const chunk = fc
  .tuple(
    fc.constantFrom("", "\uFEFF"),
    fc.array(
      fc.oneof({ weight: 20, arbitrary: line }, { weight: 1, arbitrary: fc.constantFrom("", "a", "a,b,", "a,b,c") }),
      { maxLength: 6 },
    ),
    fc.constantFrom("\n", "\n", "\n", "\r\n"),
    fc.boolean(),
  )
  .map(([mark, lines, end, ends]) => mark + lines.join(end) + (ends ? end : ""));
const options = fc.record({
  hasHeaderRow: fc.boolean(),
  fieldSeparator: fc.constantFrom(",", ",", ",", ";", "\t"),
  enclosingCharacter: fc.constantFrom('"', '"', '"', "'", ""),
  nullValue: fc.constantFrom("(null)", "a", "\\", " "),
  type: fc.constantFrom("csv" as const, "csv" as const, "delimited" as const),
});

test("A.7 A.17 what DuckDB's reader is trusted with, it reads as the splitter does", async () => {
  expect((await both(Buffer.from("1,2\n"), {}))[0]).toEqual([{ flaw: null, f0: "1", f1: "2" }]);
  let trusted = 0;
  await fc.assert(
    fc.asyncProperty(chunk, options, async (text, format) => {
      const [regular, exact] = await both(Buffer.from(text), format).catch((error: unknown) => {
        // A header that would take all rows with it is refused before anything is read.
        if (error instanceof InputError && error.message.includes("would be dropped as the header")) return [];
        throw error;
      });
      if (regular === undefined) return;
      trusted++;
      expect(regular).toEqual(exact);
    }),
    { numRuns: cases(200) },
  );
  expect(trusted).toBeGreaterThan(20);
});

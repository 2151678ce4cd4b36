import { readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { isPlain, readingTyped, regularRows } from "#service/loads/direct/direct.ts";
import { parse, rewritten } from "#service/loads/parse.ts";
import { findSections } from "#service/loads/sections.ts";
import type { LoadFormat } from "#service/loads/start-request.ts";
import { cases } from "../../../support/random.ts";
import { columnsOf, defaults, useParsing } from "./parsing.ts";

const { load, connection, folder } = useParsing();
const names = ["x", "y"];
const { signal } = new AbortController();

/** The rows of a chunk by DuckDB's own reader, undefined where it is not trusted with it, and by the splitter. */
async function both(chunk: Uint8Array, options: Partial<LoadFormat>): Promise<[regular: unknown, exact: unknown[]]> {
  const format = { ...defaults, ...options };
  const path = join(folder(), "regular");
  await writeFile(path, chunk);
  const [section] = await findSections([path], format, names, signal);
  if (section === undefined) throw new Error("no section");
  const exact: unknown[] = [];
  for await (const from of rewritten(section, format, names, [`${path}.rows`], signal)) {
    exact.push(...(await connection().rows(`FROM ${from}`)));
  }
  await rm(`${path}.rows`);
  const rows =
    isPlain(format, names.length) && section.isPlain
      ? await regularRows(section, format, names.length, signal)
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
  let trusted = 0;
  await fc.assert(
    fc.asyncProperty(chunk, options, async (text, format) => {
      const [regular, exact] = await both(Buffer.from(text), format);
      if (regular === undefined) return;
      trusted++;
      expect(regular).toEqual(exact);
    }),
    { numRuns: cases(500) },
  );
  expect(trusted).toBeGreaterThan(50);
});

test("A.7 one odd row at the end of a large chunk changes nothing for the others", async () => {
  const columns = ["a INTEGER", "b VARCHAR"];
  // More than one of DuckDB's buffers, of 32 MiB, in few rows: to look at each of them is what takes time.
  const count = 40_000;
  const text = (i: number): string => `name "${i % 1000}"${", and more of the text".repeat(50)}`;
  const lines = Array.from({ length: count }, (_, i) => `${i},"${text(i).replaceAll('"', '""')}"\n`).join("");
  expect(lines.length).toBeGreaterThan(33 * 2 ** 20);
  expect((await both(Buffer.from("1,2\n"), {}))[0]).toEqual([{ flaw: null, f0: "1", f1: "2" }]);
  for (const [odd, rejected] of [
    ["", 0],
    ['"x"y,1\n', 1],
    ["1\n", 1],
    ["\xFF,1\n", 1],
  ] as const) {
    const { rows, numbers, ...rest } = await load(columns, {}, Buffer.from(lines + odd, "latin1"), "7,8\n");
    expect(rest).toMatchObject({ accepted: count + 1, rejected, bad: rejected === 0 ? undefined : odd });
    expect(numbers.at(-1)).toBe(count + 1 + rejected);
    expect(rows.every(([n], i) => n === String(i) || i === count)).toBe(true);
    expect(rows[12_345]).toEqual(["12345", text(345)]);
  }
});

test("A.7 values of several lines that look like rows", async () => {
  const value = (i: number) => "\n,a,b".repeat(4000 + (i % 3));
  const lines = Array.from({ length: 4000 }, (_, i) => `${i},"${value(i)}"\n`).join("");
  const { rows, rejected } = await load(["a INTEGER", "b VARCHAR"], {}, lines);
  expect(rejected).toBe(0);
  expect(rows.every(([n, text], i) => n === String(i) && text === value(i))).toBe(true);
});

test("A.9 a load that is stopped ends with the signal's reason, and leaves the connection usable", async () => {
  const path = join(folder(), "large");
  const badRecords = join(folder(), "bad");
  for (const [end, delay] of [
    ["", 5],
    ["", 60],
    ["", 200],
    ['"a"b,1\n', 60],
    ['"a"b,1\n', 400],
  ] as const) {
    await writeFile(path, `${"123,some text that is long enough\n".repeat(1_000_000)}${end}`);
    const controller = new AbortController();
    const reason = new Error("stopped");
    setTimeout(() => controller.abort(reason), delay);
    const columns = columnsOf("a INTEGER", "b VARCHAR");
    const input = { chunks: [path, path], format: defaults, columns, maxErrors: 100, badRecords };
    const stage = { connection: connection(), close: async () => undefined };
    await expect(parse(stage, input, controller.signal)).rejects.toBe(reason);
    expect((await load(["a INTEGER"], {}, "1\n")).rows).toEqual([["1"]]);
  }
  expect((await readdir(folder())).filter((name) => name.includes(".rows"))).toEqual([]);
});

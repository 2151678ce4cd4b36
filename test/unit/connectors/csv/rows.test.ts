import { parse } from "csv-parse/sync";
import fc from "fast-check";
import { expect, test } from "vitest";
import { InputError } from "#errors.ts";
import type { Dialect } from "#connectors/csv/options.ts";
import { type Row, rowsOf } from "#connectors/csv/rows.ts";

type Writing = Pick<Dialect, "delimiter" | "quote">;
const comma: Writing = { delimiter: ",", quote: '"' };

async function read(pieces: readonly string[], dialect: Writing = comma): Promise<readonly Row[]> {
  const rows: Row[] = [];
  async function* text() {
    yield* pieces;
  }
  for await (const some of rowsOf(text(), dialect, { file: "people.csv", line: 1 })) rows.push(...some);
  return rows;
}

/** `text` in pieces of at most `size` UTF-16 units, never within a character. */
function cut(text: string, size: number): readonly string[] {
  const pieces: string[] = [];
  let piece = "";
  for (const character of Array.from(text)) {
    piece += character;
    if (piece.length >= size) {
      pieces.push(piece);
      piece = "";
    }
  }
  return [...pieces, piece];
}

test("counts lines as an editor does, whatever ends them", async () => {
  const rows = await read(['a,b\r\n"1\r\n2","3\n4\r5"\n\n6,7\r8,9']);
  expect(rows).toEqual([
    { line: 1, fields: ["a", "b"] },
    { line: 2, fields: ["1\r\n2", "3\n4\r5"] },
    { line: 7, fields: ["6", "7"] },
    { line: 8, fields: ["8", "9"] },
  ]);
});

test("reads any rows in any dialect and any pieces, each from its line", async () => {
  const cell = fc.string({
    unit: fc.constantFrom("a", "ü", "🦉", ",", ";", '"', "'", " ", "\n", "\r", "§"),
    maxLength: 5,
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(cell, { minLength: 2, maxLength: 3 }), { maxLength: 8 }),
      fc.constantFrom(",", ";", "\t", "§"),
      fc.constantFrom('"', "'"),
      fc.constantFrom("\n", "\r\n"),
      fc.boolean(),
      fc.integer({ min: 1, max: 9 }),
      async (table, delimiter, quote, newline, lastNewline, size) => {
        const encoded = table.map((cells) =>
          cells.map((value) => quote + value.replaceAll(quote, quote + quote) + quote).join(delimiter),
        );
        let line = 1;
        const expected = table.map((fields, index) => {
          const row = { line, fields };
          line += (`${encoded[index]}\n`.match(/\r\n|\r|\n/g) ?? []).length;
          return row;
        });
        const text = encoded.join(newline) + (lastNewline ? newline : "");
        expect(await read(cut(text, size), { ...comma, delimiter, quote })).toEqual(expected);
      },
    ),
  );
});

test("reads any text as csv-parse does, wherever quotes begin", async () => {
  const character = fc.oneof(
    { weight: 20, arbitrary: fc.constantFrom("a", "ü", ",", " ", "\n", "\r\n") },
    fc.constantFrom('"', '"b"', "\r", "\u{2028}"),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.string({ unit: character, maxLength: 40 }),
      fc.integer({ min: 1, max: 9 }),
      async (text, size) => {
        const options = { record_delimiter: ["\r\n", "\n", "\r"], relax_column_count: true };
        let expected: readonly string[][] | undefined;
        try {
          expected = parse(text, options).filter((fields) => fields.length !== 1 || fields[0] !== "");
        } catch {
          expected = undefined;
        }
        const found = await read(cut(text, size)).catch(() => undefined);
        expect(found?.map(({ fields }) => fields)).toEqual(expected);
      },
    ),
    { numRuns: 1_000 },
  );
});

test("takes quotes as data where nothing is quoted", async () => {
  expect(await read(['a,"b\n"c,d'], { ...comma, quote: "" })).toEqual([
    { line: 1, fields: ["a", '"b'] },
    { line: 2, fields: ['"c', "d"] },
  ]);
});

test.each([
  [
    "an open quote",
    'a,b\n1,2\n3,"4\n5,6\n',
    "people.csv:3: the row that starts here has an opening quote that is never closed",
  ],
  ["an open quote at the very end", 'a,b\n1,2\n"', "people.csv:3: "],
  [
    "text after a closing quote",
    'a,b\n"1\r\n\r\n2",3\n4,"5"6\n',
    "people.csv:5: the row that starts here has a quote inside a quoted field",
  ],
  [
    "a quote in an unquoted field",
    'a,b\n1,2\n3,4"\n',
    "people.csv:3: the row that starts here has a quote inside a field",
  ],
])("names the line of %s, and shows nothing of it", async (_, text, message) => {
  for (const size of [1, 3, 1000]) {
    const failure: unknown = await read(cut(text, size)).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(InputError);
    expect(failure).toMatchObject({ message: expect.stringContaining(message), cause: undefined });
  }
});

test("does not collect a whole file behind a quote that is never closed", async () => {
  let given = 0;
  async function* text() {
    yield 'a,b\n1,"2\n';
    for (; given < 1_000; given++) yield "x".repeat(64 * 1024);
  }
  const rows = rowsOf(text(), comma, { file: "people.csv", line: 1 });
  await expect(Array.fromAsync(rows)).rejects.toThrow("people.csv:2: the row that starts here is longer than 16 MiB");
  expect(given).toBeLessThan(300);
});

test("lets the errors of the text through", async () => {
  async function* text() {
    yield "a,b\n";
    throw new Error("no more");
  }
  await expect(Array.fromAsync(rowsOf(text(), comma, { file: "people.csv", line: 1 }))).rejects.toThrow("no more");
});

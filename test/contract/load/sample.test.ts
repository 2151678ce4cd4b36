import fc from "fast-check";
import { expect, test } from "vitest";
import { readRows } from "#exports/format/sample.ts";
import { cases } from "../../support/random.ts";
import { defaults, useParsing } from "../service/loads/parsing.ts";

const { load } = useParsing();

/** What ends lines, and what looks like it. */
const unit = fc.constantFrom(
  ",",
  ";",
  '"',
  '""',
  "\n",
  "\r\n",
  "\r",
  "a",
  "b",
  "é",
  "\\",
  "\uFEFF",
  "(null)",
  "\t",
  " ",
);
const format = fc.record({
  type: fc.constantFrom("csv" as const, "delimited" as const),
  fieldSeparator: fc.constantFrom(",", ";", "\t", "é"),
  enclosingCharacter: fc.constantFrom('"', "", "'", "é"),
  escapeCharacter: fc.constantFrom("", "\\"),
  trailingFieldSeparator: fc.boolean(),
});

test("A.7 the rows that a guess looks at are the rows that are loaded, however lines end", async () => {
  let several = 0;
  await fc.assert(
    fc.asyncProperty(
      format,
      fc.string({ unit, maxLength: 60 }),
      fc.integer({ min: 1, max: 3 }),
      async (options, text, width) => {
        const { type } = options;
        const enclosingCharacter = type === "csv" ? options.enclosingCharacter : "";
        fc.pre(enclosingCharacter !== options.fieldSeparator);
        const escapeCharacter = type === "csv" ? "" : options.escapeCharacter;
        // A text that no field is: a guess finds out what stands for null.
        const given = {
          ...options,
          enclosingCharacter,
          escapeCharacter,
          nullValue: "no field is this",
          flexible: true,
        };
        const columns = Array.from({ length: width }, (_, i) => `c${i} VARCHAR`);
        const loaded = await load(columns, given, text);
        const seen = readRows(Buffer.from(text), { ...defaults, ...given }, width, true);
        const accepted = seen.filter(({ flaw }) => flaw === undefined);
        expect(accepted.map(({ fields }) => columns.map((_, i) => fields[i] ?? null))).toEqual(loaded.rows);
        expect(seen.length - accepted.length).toBe(loaded.rejected);
        if (accepted.length > 1) several++;
      },
    ),
    { numRuns: cases(150) },
  );
  expect(several).toBeGreaterThan(8);
});

test("rows that go on behind the sample are left out, and those of a whole file are not", () => {
  const text = Buffer.from('1,a\n2,"b\n');
  expect(readRows(text, defaults, 2, false).map(({ fields }) => fields)).toEqual([["1", "a"]]);
  expect(readRows(text, defaults, 2, true)[1]).toEqual({
    fields: [],
    flaw: 'no closing " before the end of the chunk',
    hasReturn: false,
  });
  expect(readRows(Buffer.from("1,a\n".repeat(5000)), defaults, 2, true)).toHaveLength(1000);
});

import fc from "fast-check";
import { expect, test } from "vitest";
import { RowEnds, RowRanges, rowSyntax } from "#row-scan.ts";
import type { RowSyntax } from "#row-scan.ts";
import { cases } from "../support/random.ts";

/** Few characters, so that the ones that matter meet often. */
const text = fc.string({ unit: fc.constantFrom(",", '"', "\n", "\r", "a", "\\", "§", "ä"), maxLength: 60 });
const syntax = fc
  .record({
    type: fc.constantFrom("csv" as const, "delimited" as const),
    separator: fc.constantFrom(",", "§", "a"),
    enclosing: fc.constantFrom('"', "", "\\"),
    escape: fc.constantFrom("\\", "", '"'),
  })
  .map(({ type, ...characters }) => rowSyntax(type, characters));

/** The rows of a chunk as the service has them. */
function rowsOf(bytes: Buffer, syntax: RowSyntax): string[] {
  const ranges = new RowRanges(syntax, true);
  ranges.scan(bytes);
  ranges.end();
  return ranges.rows.map(({ from, to }) => bytes.toString("latin1", from, to));
}

/** Every place where the client would cut, when the bytes come in blocks of these sizes and then the rest. */
function cutsOf(bytes: Buffer, syntax: RowSyntax, sizes: readonly number[]): number[] | undefined {
  const found = RowEnds.of(syntax);
  if (found === undefined) return undefined;
  const cuts: number[] = [];
  let begin = 0;
  for (const size of [...sizes, bytes.length]) {
    const block = Buffer.from(bytes.subarray(begin, begin + size));
    for (let at = 0; at !== -1;) {
      at = found.find(block, at, at + 1, () => true);
      if (at !== -1) cuts.push(begin + at);
    }
    begin += block.length;
  }
  return cuts;
}

test("A.7 A.23 the client may cut data behind any row, and only there, however it comes in blocks", () => {
  fc.assert(
    fc.property(syntax, text, fc.array(fc.nat(12), { maxLength: 8 }), (syntax, text, sizes) => {
      const bytes = Buffer.from(text);
      const cuts = cutsOf(bytes, syntax, sizes);
      if (cuts === undefined) return;
      const rows = rowsOf(bytes, syntax);
      for (const cut of cuts) {
        const both = [bytes.subarray(0, cut), bytes.subarray(cut)].flatMap((part) => rowsOf(part, syntax));
        expect(both).toEqual(rows);
      }
      const ends = new Set(cuts);
      let end = 0;
      for (const row of rows) {
        end = bytes.toString("latin1").indexOf(row, end) + row.length;
        if (row.endsWith("\n") && end < bytes.length) expect(ends).toContain(end);
      }
    }),
    { numRuns: cases(5000) },
  );
});

test("A.7 what does not matter is passed over: only a row end that is of use is returned", () => {
  fc.assert(
    fc.property(syntax, text, fc.nat(60), fc.array(fc.nat(12), { maxLength: 8 }), (syntax, text, from, sizes) => {
      const bytes = Buffer.from(text);
      const first = cutsOf(bytes, syntax, [])?.find((cut) => cut >= from);
      const found = RowEnds.of(syntax);
      let begin = 0;
      for (const size of [...sizes, bytes.length]) {
        const block = Buffer.from(bytes.subarray(begin, begin + size));
        const end = found?.find(block, 0, from - begin, () => true) ?? -1;
        if (end !== -1) {
          expect(begin + end).toBe(first);
          return;
        }
        begin += block.length;
      }
      expect(first).toBeUndefined();
    }),
    { numRuns: cases(5000) },
  );
});

import fc from "fast-check";
import { expect, test } from "vitest";
import { readStartRequest } from "#service/loads/start-request.ts";
import { RowRanges } from "#row-scan.ts";
import type { RowRange } from "#row-scan.ts";
import { formatOf, syntaxOf } from "#service/loads/load-format.ts";
import { Splitter } from "#service/loads/split.ts";
import { cases } from "../../../support/random.ts";

const mark = fc.constantFrom(",", ";", '"', "'", "\\", "é", "→", "😀");
const body = fc.record({
  type: fc.constantFrom("csv", "delimited"),
  field_separator: fc.constantFrom(",", "\t", "→"),
  trailing_field_separator: fc.boolean(),
  enclosing_character: fc.oneof(mark, fc.constant("")).filter((text) => text !== ","),
  escape_character: fc.oneof(mark, fc.constant("")),
  null_value: fc.constantFrom("(null)", "\\N", "", '"'),
  flexible: fc.boolean(),
});
const piece = fc.oneof(
  {
    weight: 9,
    arbitrary: fc.constantFrom("a", " ", "\n", "\r", "\r\n", '"', ",", "\\", "é", "→", "😀", "(null)", "\0"),
  },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 3 }) },
);
const chunk = fc.array(piece, { maxLength: 60 }).map((pieces) => Buffer.concat(pieces.map((one) => Buffer.from(one))));

interface Found {
  readonly rows: readonly RowRange[];
  readonly written: string;
  readonly unterminated: boolean;
}

test("A.7 a chunk has the same rows however it is cut in transit", () => {
  fc.assert(
    fc.property(body, fc.integer({ min: 1, max: 3 }), chunk, fc.array(fc.nat(200)), (format, width, bytes, cuts) => {
      const parameters = readStartRequest(JSON.stringify({ target: { database: "d", table: "t" }, format }));
      fc.pre(parameters !== undefined);
      const columnNames = Array.from({ length: width }, (_, i) => `c${String(i)}`);
      const split = (places: readonly number[]): Found => {
        const format = formatOf(parameters);
        const splitter = new Splitter(format, columnNames);
        const ranges = new RowRanges(syntaxOf(format), width > 1);
        const written: Buffer[] = [];
        let from = 0;
        for (const place of [...places, bytes.length]) {
          splitter.scan(bytes.subarray(from, place));
          ranges.scan(bytes.subarray(from, place));
          written.push(Buffer.from(splitter.take()));
          from = place;
        }
        splitter.end();
        ranges.end();
        written.push(Buffer.from(splitter.take()));
        const { rows, unterminated } = ranges;
        return { rows, written: Buffer.concat(written).toString("latin1"), unterminated };
      };
      const places = cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b);
      expect(split(places)).toEqual(split([]));
      // Byte by byte nothing can be copied in one go.
      expect(split(Array.from(bytes, (_, place) => place))).toEqual(split([]));
    }),
    { numRuns: cases(1000) },
  );
});

import fc from "fast-check";
import { expect, test } from "vitest";
import { createUrlencodedParser } from "#service/server/form.ts";
import { cases } from "../../../support/random.ts";

/** Reads a body that arrives in the given pieces, as [name, value] pairs. */
function read(pieces: readonly Buffer[]): [string, string][] {
  const fields: [string, Buffer[]][] = [];
  const parser = createUrlencodedParser((name) => {
    const values: Buffer[] = [];
    fields.push([name, values]);
    return { write: (bytes) => values.push(Buffer.from(bytes)) };
  });
  for (const piece of pieces) parser.write(Buffer.from(piece));
  parser.end();
  return fields.map(([name, values]) => [
    name,
    new TextDecoder("utf-8", { ignoreBOM: true }).decode(Buffer.concat(values)),
  ]);
}

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...ends].map((start, index) => bytes.subarray(start, ends[index] ?? bytes.length));
}

const encoded = fc
  .array(fc.tuple(fc.string({ unit: "binary" }), fc.string({ unit: "binary" })))
  .map((pairs) => new URLSearchParams(pairs).toString());
/** What may be wrong or odd in a form: bad and half escapes, bytes that are not UTF-8, empty names, separators anywhere. */
const odd = fc
  .array(fc.constantFrom("%", "%2", "%zz", "%41", "%e2%82%ac", "%ff", "+", "&", "=", "a", "G", "%0g", "%%", "%25"))
  .map((parts) => parts.join(""));

test("B.2 a form is read as URLSearchParams reads it, wherever it is cut", () => {
  fc.assert(
    fc.property(fc.oneof(encoded, odd), fc.array(fc.nat(), { maxLength: 5 }), (body, places) => {
      expect(read(cut(Buffer.from(body), places))).toEqual([...new URLSearchParams(body)]);
    }),
    { numRuns: cases(1000) },
  );
}, 60_000);

test("B.2 a form may be cut at every byte", () => {
  const body = "a=%E2%82%AC+%zz%&&=%4&principals=%5B%7B%22%%41%22%7D%5D&b&c=d=e%2";
  const bytes = Buffer.from(body);
  const expected = [...new URLSearchParams(body)];
  expect(read([...bytes].map((byte) => Buffer.from([byte])))).toEqual(expected);
  for (let place = 0; place <= bytes.length; place++) expect(read(cut(bytes, [place]))).toEqual(expected);
});

test("a long field name is no field that anybody asks for", () => {
  const [[name] = [""]] = read([Buffer.from(`${"x".repeat(100_000)}=1`)]);
  expect(name).toMatch(/^x{257,}$/);
});

test("bytes that should have been escapes stand for themselves", () => {
  expect(read([Buffer.from("a=é€&é=1")])).toEqual([
    ["a", "é€"],
    ["é", "1"],
  ]);
});

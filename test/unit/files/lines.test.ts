import { expect, test } from "vitest";
import { linesOf } from "#files/lines.ts";

const lines = ['{"name":"a\u2028b\u2029c\u0085d\re"}', "", "ä€😀", "last\r"];

async function textsOf(pieces: readonly Buffer[], longest?: number): Promise<string[]> {
  const found = await Array.fromAsync(linesOf(streamOf(pieces), longest));
  return found.map(({ bytes }) => bytes.toString());
}

test("a line ends at a newline alone, wherever the bytes are split", async () => {
  const bytes = Buffer.from(`${lines.join("\n")}\n`);
  for (const size of [1, 2, 3, 7, 1000]) {
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
      bytes.subarray(index * size, (index + 1) * size),
    );
    expect(await textsOf(pieces)).toEqual(lines);
    const found = await Array.fromAsync(linesOf(streamOf(pieces)));
    expect(found.map(({ number, whole }) => [number, whole])).toEqual(lines.map((_, index) => [index + 1, true]));
    expect(found.at(-1)?.end).toBe(bytes.length);
  }
  expect(await textsOf([Buffer.from("a\nb")])).toEqual(["a", "b"]);
  expect(await textsOf([])).toEqual([]);
});

test("a last line without a newline is told, and a line that is too long is not kept whole", async () => {
  const [whole, torn] = await Array.fromAsync(linesOf(streamOf([Buffer.from("a\nb")])));
  expect([whole?.whole, torn?.whole, torn?.end]).toEqual([true, false, 3]);
  const pieces = ["12", "34", "56", "78\n9\n"].map((text) => Buffer.from(text));
  expect(await textsOf(pieces, 3)).toEqual(["1234", "9"]);
});

async function* streamOf(pieces: readonly Buffer[]): AsyncGenerator<Buffer> {
  yield* pieces;
}

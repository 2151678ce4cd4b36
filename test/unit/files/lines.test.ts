import { expect, test } from "vitest";
import { linesOf } from "#files/lines.ts";

const lines = ['{"name":"a\u2028b\u2029c\u0085d\re"}', "", "ä€😀", "last\r"];

test("a line ends at a newline alone, wherever the bytes are split", async () => {
  const bytes = Buffer.from(`${lines.join("\n")}\n`);
  for (const size of [1, 2, 3, 7, 1000]) {
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
      bytes.subarray(index * size, (index + 1) * size),
    );
    expect(await Array.fromAsync(linesOf(streamOf(pieces)))).toEqual(lines);
  }
  expect(await Array.fromAsync(linesOf(streamOf([Buffer.from("a\nb")])))).toEqual(["a", "b"]);
  expect(await Array.fromAsync(linesOf(streamOf([])))).toEqual([]);
});

async function* streamOf(pieces: readonly Buffer[]): AsyncGenerator<Buffer> {
  yield* pieces;
}

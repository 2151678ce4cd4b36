import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { expect, test } from "vitest";
import { unpacked } from "#files/unpack.ts";

test("an abandoned stream ends even while it waits for bytes", async () => {
  const packed = new PassThrough();
  const bytes = unpacked("standard input", packed);
  packed.write("1,a\n");
  const reading = bytes[Symbol.asyncIterator]();
  await reading.next();
  const waiting = reading.next();
  bytes.destroy();
  await expect(waiting).rejects.toThrow("Premature close");
  expect(packed.destroyed).toBe(true);
});

test.each([
  ["standard input", Buffer.from("%PDF-1.7\n"), "standard input is a PDF document, not CSV or delimited text; ask for"],
  ["a.csv.gz", gzipSync("<!doctype html>"), "a.csv.gz is a web page (HTML), not CSV or delimited text; look at it"],
  ["a.gz", gzipSync(gzipSync("1,a\n")), "a.gz is packed with gzip, not CSV or delimited text; unpack it"],
])("what is no table of text is named: %s", async (name, bytes, message) => {
  await expect(buffer(unpacked(name, Readable.from([bytes])))).rejects.toThrow(message);
});

test("zstd has several frames, and nothing else behind them", async () => {
  const [one, two] = [zstdCompressSync("1,a\n"), zstdCompressSync("2,b\n")];
  const read = (...parts: Buffer[]) => buffer(unpacked("a.zst", Readable.from([Buffer.concat(parts)])));
  expect(String(await read(one, two))).toBe("1,a\n2,b\n");
  await expect(read(one, Buffer.from("2,b\n"))).rejects.toThrow(
    "a.zst is damaged: the data after the zstd frame is not zstd",
  );
});

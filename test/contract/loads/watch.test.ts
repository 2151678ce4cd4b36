import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createScan } from "#service/loads/scan.ts";
import type { Scanned } from "#service/loads/scan.ts";
import { watchChunk } from "#service/loads/watch.ts";
import { defaults } from "./parsing.ts";

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-watch-"));
});

afterAll(() => rm(folder, { recursive: true }));

function chunkOf(bytes: number): Buffer {
  const line = (i: number): string => `${i},"a ""name"", with more",2024-02-29\n`;
  const lines = Array.from({ length: Math.ceil(bytes / 30) }, (_, i) => line(i));
  return Buffer.from(`\uFEFF${lines.join("").slice(0, bytes)}`);
}

function seen(chunk: Buffer): Scanned {
  const scan = createScan(defaults, 3);
  scan.take(chunk);
  return scan.end();
}

/** Writes a chunk as an upload does: a piece is in the file some time after it was shown. */
async function watched(name: string, chunk: Buffer): Promise<Scanned | undefined> {
  const path = join(folder, name);
  const watch = watchChunk(path, defaults, 3);
  const file = await open(path, "w");
  for (let at = 0; at < chunk.length; at += 65_521) {
    const piece = chunk.subarray(at, at + 65_521);
    watch.take(piece);
    await file.write(piece);
  }
  await file.close();
  const found = await watch.end();
  watch.close();
  return found;
}

test.each([0, 100, 1_000_000, 1_048_573, 1_048_574, 20_000_000])("%i bytes", async (size) => {
  const chunk = chunkOf(size);
  expect(await watched("one", chunk)).toEqual(seen(chunk));
});

test("several side by side, and one that ends with something irregular", async () => {
  const chunks = [chunkOf(9_000_000), chunkOf(12_000_000), Buffer.concat([chunkOf(9_000_000), Buffer.from('x"\n1\n')])];
  const found = await Promise.all(chunks.map((chunk, i) => watched(`some${i}`, chunk)));
  expect(found).toEqual(chunks.map(seen));
  expect(found[2]?.rest).toBeUndefined();
});

test("nothing is known of a file that is not there, or is shorter; others are watched all the same", async () => {
  const piece = chunkOf(6_000_000);
  const absent = watchChunk(join(folder, "absent"), defaults, 3);
  const path = join(folder, "shorter");
  await writeFile(path, piece);
  const shorter = watchChunk(path, defaults, 3);
  for (const watch of [absent, shorter]) for (let i = 0; i < 3; i++) watch.take(piece);
  expect(await absent.end()).toBeUndefined();
  expect(await shorter.end()).toBeUndefined();
  expect(await watched("other", piece)).toEqual(seen(piece));
});

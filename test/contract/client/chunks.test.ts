import { createHash } from "node:crypto";
import { getEventListeners, once } from "node:events";
import { createReadStream } from "node:fs";
import { appendFile, mkdtemp, readFile, rename, rm, truncate, utimes, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { chunksOf } from "#client/chunks.ts";
import type { LoadSource } from "#client/chunks.ts";
import { HttpClient, textOf } from "#http/client.ts";
import { findSections } from "#service/loads/sections.ts";
import { RowRanges } from "#row-scan.ts";
import { formatOf, syntaxOf } from "#service/loads/load-format.ts";
import { loadParameters } from "#wire/loads.ts";
import type { LoadParameters } from "#wire/loads.ts";
import { cases } from "../../support/random.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-chunks-"));
});
afterAll(() => rm(folder, { recursive: true }));

const never = new AbortController().signal;
const columnNames = ["a", "b"];

/** The chunks of sources, as files in their order. */
async function chunk(sources: readonly LoadSource[], parameters: LoadParameters, size: number): Promise<string[]> {
  const paths: string[] = [];
  for await (const data of chunksOf(sources, { parameters, fileChunk: size, streamChunk: size, signal: never })) {
    const path = join(folder, `chunk${paths.length}`);
    const blocks: Buffer[] = [];
    // Blocks are used again.
    for await (const block of data.bytes()) blocks.push(Buffer.from(block));
    const bytes = Buffer.concat(blocks);
    if (data.length !== undefined) expect(bytes.length).toBe(data.length);
    await writeFile(path, bytes);
    paths.push(path);
  }
  return paths;
}

/** The rows of chunks as the service has them, without the header. */
async function rowsOf(paths: readonly string[], parameters: LoadParameters): Promise<string[]> {
  const rows: string[] = [];
  const format = formatOf(parameters);
  for (const section of await findSections(paths, format, columnNames.length, never)) {
    const bytes = (await readFile(section.path)).subarray(section.from);
    const ranges = new RowRanges(syntaxOf(format), columnNames.length > 1);
    ranges.scan(bytes);
    ranges.end();
    rows.push(...ranges.rows.map(({ from, to }) => bytes.toString("latin1", from, to)));
  }
  return rows;
}

const unit = fc.constantFrom(",", '"', "\n", "\n", "\r\n", "a", "b", "\\", "§", "\uFEFF", "h,i\n");
const format = fc.record({
  type: fc.constantFrom("csv", "delimited"),
  enclosing_character: fc.constantFrom('"', "", "§"),
  escape_character: fc.constantFrom("\\", "", "§"),
  has_header_row: fc.boolean(),
});

test("A.7 sources mean the same in chunks as they do whole: whatever the chunk begins with", async () => {
  await fc.assert(
    fc.asyncProperty(
      format,
      fc.array(fc.tuple(fc.string({ unit, maxLength: 40 }), fc.boolean()), { minLength: 1, maxLength: 3 }),
      fc.nat(12),
      fc.boolean(),
      async (format, contents, size, beginsAlike) => {
        const parameters = loadParameters.parse({ target: { database: "d", table: "t" }, format });
        const texts = contents.map(([text]) => (beginsAlike ? `h,i\n${text}` : text));
        const wholes = await Promise.all(
          texts.map(async (text, index) => {
            const path = join(folder, `whole${index}`);
            await writeFile(path, text);
            return path;
          }),
        );
        const sources = wholes.map((path, index) => {
          const [, isStream] = contents[index]!;
          return isStream
            ? { name: path, stream: () => Readable.from([Buffer.from(texts[index]!)]) }
            : { name: path, path };
        });
        const expected = await rowsOf(wholes, parameters);
        expect(await rowsOf(await chunk(sources, parameters, size), parameters)).toEqual(expected);
      },
    ),
    { numRuns: cases(200) },
  );
});

test.each([
  ["h", true],
  ["\uFEFF\n\nh", true],
  ["", false],
  ["\n", false],
  ['"h', true],
  ['"h\nh', true],
])("A.7 the header %j, which nothing ends, is not the one of the next source: %s", async (first, isHeader) => {
  const parameters = loadParameters.parse({ target: { database: "d", table: "t" }, format: { has_header_row: true } });
  const sources = [first, "i\n1\n2\n", "\nh\n3\ni\n4\n"].map((text) => ({
    name: "rows",
    stream: () => Readable.from([Buffer.from(text)]),
  }));
  const rows = (await rowsOf(await chunk(sources, parameters, 1), parameters)).map((row) => row.trim());
  expect(rows.slice(-4)).toEqual(["h", "3", "i", "4"]);
  expect(rows.includes("i") && rows.indexOf("i") < rows.indexOf("1")).toBe(isHeader);
});

const parametersOf = (format: object, empty = false): LoadParameters =>
  loadParameters.parse({ target: { database: "d", table: "t" }, format, load_options: { empty_target: empty } });

/** The chunks of texts: each once as a file, once as a stream. */
async function bothWays(texts: readonly (string | Buffer)[], parameters: LoadParameters): Promise<void> {
  const streams = texts.map((text) => ({ name: "rows.csv", stream: () => Readable.from([Buffer.from(text)]) }));
  const files = texts.map((_, index) => ({ name: "rows.csv", path: join(folder, `way${index}`) }));
  for (const [index, text] of texts.entries()) await writeFile(join(folder, `way${index}`), text);
  const results = await Promise.allSettled([chunk(streams, parameters, 10), chunk(files, parameters, 10)]);
  const reasons = results.map((result) => (result.status === "rejected" ? String(result.reason) : undefined));
  expect(reasons[0]).toBe(reasons[1]);
  const [first] = results;
  if (first.status === "rejected") throw first.reason;
}

const header = { has_header_row: true };
test.each<[string, object, string, boolean]>([
  ["rows", {}, "1,a\r2,b\r", true],
  ["rows without an end", {}, "\uFEFF1,a\r2,b", true],
  ["one row", {}, "1,a\r", true],
  ["quoted newlines", {}, '1,"a\nb"\r2,"c\n"\r', true],
  ["a header", header, "id,name\r1,a\r2,b\r", true],
  ["a header above rows that end in newlines", header, "id,name\r1,a\n2,b\n", true],
  ["more than a block", {}, "1,abcdefg\r".repeat(200_000), true],
  ["delimited", { type: "delimited" }, "1,a\r2,b\r", true],
  ["quoted returns", header, '\r\n"i\rd",name\n1,"a\rb"\n', false],
  ["an escaped return", { type: "delimited", escape_character: "\\" }, "1,a\\\rb", false],
  ["returns with newlines", header, "id,name\r\n1,a\n2,b\r\n", false],
  // It is data, and a row that it gives too many fields is rejected.
  ["a return in a row", header, "id,name\n1,a\rb\n", false],
])(
  "A.7 lines that end in a return alone are refused before anything is committed: %s",
  async (_, format, text, isBad) => {
    const result = bothWays([text], parametersOf(format));
    if (isBad) await expect(result).rejects.toThrow("rows.csv: lines end in a carriage return (\\r) without a newline");
    else await expect(result).resolves.toBeUndefined();
  },
);

test.each<[readonly string[], object, boolean]>([
  [["id,name\n"], header, true],
  [["\uFEFFid,name"], header, true],
  [["id,name\r\n\r\n", "", "id,name\n"], header, true],
  [["\n\n"], {}, true],
  [["id,name\n", "1,a"], header, false],
  [["id,name\n\n1,a\n"], header, false],
  [["", ""], header, false],
  [["1,a\n"], {}, false],
])("nothing but headers does not empty a table: %j", async (texts, format, isBad) => {
  await bothWays(texts, parametersOf(format));
  const emptying = bothWays(texts, parametersOf(format, true));
  if (isBad) await expect(emptying).rejects.toThrow("a header without rows would leave the table empty");
  else await expect(emptying).resolves.toBeUndefined();
});

test("a pipe without a byte empties no table: the program that writes it may have failed", async () => {
  const pipe = (text: string) => ({
    name: "standard input",
    stream: () => Readable.from([Buffer.from(text)]),
    isPipe: true,
  });
  const path = join(folder, "empty.csv");
  await writeFile(path, "");
  const file = { name: "empty.csv", path };
  for (const sources of [[pipe("")], [file, pipe("")]]) {
    await expect(chunk(sources, parametersOf({}, true), 10)).rejects.toThrow("standard input ended without any data");
    await chunk(sources, parametersOf({}), 10);
  }
  for (const sources of [[file], [pipe("1,a\n")], [pipe("1,a\n"), pipe("")]])
    await chunk(sources, parametersOf({}, true), 10);
});

test.each([
  ["", {}],
  ["\uFEFFid,text\r\n", header],
  ["\uFEFF", { enclosing_character: "“", null_value: "" }],
])(
  "a large file is cut into chunks of about the size that was asked for, a smaller one is not: %j",
  async (start, format) => {
    const path = join(folder, "large.csv");
    const { enclosing_character: mark = '"' } = format as { enclosing_character?: string };
    const row = Buffer.from(`1,${mark}${"some text with a\nnewline, ".repeat(20)}${mark}\n`);
    const first = Buffer.byteLength(start);
    const size = first + row.length * 20_000;
    await writeFile(path, Buffer.concat([Buffer.from(start), ...Array.from({ length: 20_000 }, () => row)]));
    const lengths = async (chunk: number, isStream: boolean): Promise<number[]> => {
      const found: number[] = [];
      const options = { parameters: parametersOf(format), fileChunk: chunk, streamChunk: chunk, signal: never };
      const source = isStream ? { name: "large", stream: createReadStream(path) } : { name: "large", path };
      for await (const { length } of chunksOf([source], options)) found.push(length ?? -1);
      return found;
    };
    expect(await lengths(size, false)).toEqual([size]);
    const cut = await lengths(2 ** 20, false);
    expect(cut.reduce((sum, length) => sum + length, 0)).toBe(size);
    expect(cut.length).toBe(Math.ceil(size / (2 ** 20 + row.length)));
    for (const [index, length] of cut.slice(0, -1).entries()) {
      expect((length - (index === 0 ? first : 0)) % row.length).toBe(0);
      expect(length).toBeGreaterThanOrEqual(2 ** 20);
      expect(length).toBeLessThan(2 ** 20 + 2 * row.length);
    }
    expect(await lengths(2 ** 20, true)).toEqual(cut);
  },
);

test("a stream whose row does not end is not held in memory, nor by the signal: it goes on as one chunk", async () => {
  const { signal } = new AbortController();
  const parameters = loadParameters.parse({ target: { database: "d", table: "t" } });
  let made = 0;
  const endless = Readable.from(
    (function* blocks() {
      yield Buffer.from('1,a\n2,"never closed\n');
      for (; made < 64; made += 1) yield Buffer.alloc(2 ** 20, "text,\n");
    })(),
  );
  const options = { parameters, fileChunk: 1, streamChunk: 2 ** 20, signal };
  const chunks = chunksOf([{ name: "endless", stream: endless }], options);
  const first = await chunks.next();
  expect(first.value).toMatchObject({ single: true });
  expect(made).toBeLessThan(16);
  let length = 0;
  const next = chunks.next();
  for await (const bytes of first.value!.bytes()) length += bytes.length;
  expect(length).toBe(64 * 2 ** 20 + 20);
  expect(await next).toMatchObject({ done: true });
  expect(getEventListeners(signal, "abort")).toEqual([]);
});

test("nor is it when its one chunk could not be sent", async () => {
  const { signal } = new AbortController();
  const parameters = loadParameters.parse({ target: { database: "d", table: "t" } });
  const stream = Readable.from([Buffer.alloc(2 ** 20, "text,")], { objectMode: false });
  const options = { parameters, fileChunk: 1, streamChunk: 2 ** 16, signal };
  const chunks = chunksOf([{ name: "endless", stream }], options);
  expect((await chunks.next()).value).toMatchObject({ single: true });
  await chunks.return(undefined);
  expect(getEventListeners(signal, "abort")).toEqual([]);
  expect(stream.destroyed).toBe(true);
});

test.each<[string, (path: string) => Promise<unknown>]>([
  ["grows", (path) => appendFile(path, "3,c\n")],
  ["becomes shorter", (path) => truncate(path, 5)],
  ["is written again", (path) => utimes(path, 1, 1)],
  [
    "is replaced by a larger one",
    async (path) => {
      await writeFile(`${path}.new`, "1,ada lovelace\n2,b\n3,c\n");
      await rename(`${path}.new`, path);
    },
  ],
])("a file that %s is not loaded up to where the earlier one ended", async (_, change) => {
  const parameters = loadParameters.parse({ target: { database: "d", table: "t" } });
  const path = join(folder, "changing.csv");
  await writeFile(path, "1,a\n2,b\n");
  const chunks = chunksOf([{ name: "changing.csv", path }], {
    parameters,
    fileChunk: 9,
    streamChunk: 9,
    signal: never,
  });
  const { value } = await chunks.next();
  await chunks.return(undefined);
  // A chunk is read again when it has to be sent again.
  expect(Buffer.concat(await Array.fromAsync(value!.bytes())).toString()).toBe("1,a\n2,b\n");
  await change(path);
  await expect(Array.fromAsync(value!.bytes())).rejects.toThrow("changing.csv changed while it was being loaded");
});

test("what is sent of a file is the file, however slowly it is read", async () => {
  const parameters = loadParameters.parse({ target: { database: "d", table: "t" } });
  const path = join(folder, "large");
  const content = Buffer.concat(Array.from({ length: 9 }, (_, i) => Buffer.alloc(2 ** 20 - 7, `${i} row\n`)));
  await writeFile(path, content);
  const server = createServer((request, response) => {
    void (async () => {
      const pieces: Buffer[] = [];
      for await (const piece of request) {
        pieces.push(piece as Buffer);
        if (pieces.length % 16 === 0) await delay(2);
      }
      response.end(createHash("sha256").update(Buffer.concat(pieces)).digest("hex"));
    })();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const http = new HttpClient({ owner: "target", proxy: false });
  try {
    const options = { parameters, fileChunk: 2 ** 30, streamChunk: 1, signal: never };
    for await (const { length, bytes } of chunksOf([{ name: "large", path }], options)) {
      const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
      const body = { length, chunks: bytes };
      const hash = await http.exchange({ url, method: "POST", body }, textOf, never);
      expect(hash).toBe(createHash("sha256").update(content).digest("hex"));
    }
  } finally {
    await http.close();
    server.close();
  }
});

test.each<[string, object, boolean]>([
  // EBCDIC: its lines end in no byte that ends a line here.
  ["\x89\x84\x6b\x95\x81\x94\x85\x25\xf1\x6b\x81\x25", header, true],
  ["a tape\0\0", header, true],
  ["Gr\xf6\xdfe,name\r\n", header, true],
  ["Gr\xf6\xdfe,name\r\n1,a\r\n", header, false],
  ["Gr\xc3\xb6\xc3\x9fe,name\r\n", header, false],
  ["a tape\0\0", {}, false],
])(
  "a header without rows that is no text is refused, because it may be all the rows: %j",
  async (bytes, format, isBad) => {
    const result = bothWays([Buffer.from(bytes, "latin1")], parametersOf(format));
    if (isBad)
      await expect(result).rejects.toThrow("rows.csv: its only line would be taken for the header, but is not text");
    else await expect(result).resolves.toBeUndefined();
  },
);

test.each([
  ["sep=;\r\nid;name\r\n", true],
  ['\uFEFF"SEP=,"\nid,name\n', true],
  ["sep=;;\nid;name\n", false],
  ["sep=\nid\n", false],
  ["id,name\nsep=,\n", false],
])("a first line for spreadsheets is not loaded as a row: %j", async (text, isBad) => {
  const result = bothWays([text], parametersOf({}));
  if (isBad)
    await expect(result).rejects.toThrow(/^rows.csv begins with a line for spreadsheets \("?sep=.*tail -n \+2$/i);
  else await expect(result).resolves.toBeUndefined();
});

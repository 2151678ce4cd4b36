import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createWriteStream } from "node:fs";
import { createGzip } from "node:zlib";
import { afterEach, beforeEach, expect, test } from "vitest";
import csv from "#connectors/csv/index.ts";
import scim from "#connectors/scim/index.ts";
import { contentOf, OpenFiles } from "#files/source-file.ts";
import { InputError, UnavailableError } from "#errors.ts";
import { paged, records, small } from "./scim-reading.ts";

// What arrives for ever, or grows for ever, has a limit in total.

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-bounded-"));
});

afterEach(() => rm(folder, { recursive: true }));

const newlines = Buffer.alloc(1024 * 1024, "\n");

async function readAll(connector: typeof csv | typeof scim, options: object): Promise<unknown> {
  const source = (connector as typeof csv).open(connector.options.parse(options) as never, { name: "corp", folder });
  const context = { signal: new AbortController().signal, warn: () => {} };
  return Array.fromAsync(source.read(context)).catch((error: unknown) => error);
}

async function pack(name: string, start: string): Promise<void> {
  const content = Readable.from([Buffer.from(start), ...Array.from({ length: 300 }, () => newlines)]);
  await pipeline(content, createGzip({ level: 9 }), createWriteStream(join(folder, name)));
}

test.each([
  ["CSV", csv, { users: { file: "users.gz", id: "id" } }, "id\n1\n", /^users\.gz:\d+: more than 100,000 blank lines/],
  ["SCIM", scim, { files: { users: "users.gz" } }, "", /^users\.gz:1: begins with more than 1 MiB of white space/],
  ["SCIM", scim, { files: { users: "users.gz" } }, '[{"id":"1"},', /^users\.gz:\d+: holds more than 1 MiB between two/],
])("300 MB of newlines in a gzip (%s) are not read to the end", async (_, connector, options, start, message) => {
  await pack("users.gz", start);
  const error = await readAll(connector, options);
  expect(error).toBeInstanceOf(InputError);
  expect((error as Error).message).toMatch(message);
});

test("a gzip that grows beyond measure is not read to the end", async () => {
  await pack("zeros.gz", "");
  const { signal } = new AbortController();
  await using opened = await OpenFiles.open(["zeros.gz"], { folder }, {}, signal);
  let size = 0;
  const reading = async (): Promise<void> => {
    for (const file of opened.files)
      for await (const chunk of contentOf(file, () => file.name, signal)) size += chunk.length;
  };
  await expect(reading()).rejects.toThrow(/^zeros\.gz: the compressed data grows to more than 200 times its size/);
  expect(size).toBeLessThan(20 * 1024 * 1024);
});

test("many blank lines in a file are not read to the end", async () => {
  await writeFile(join(folder, "users.csv"), Buffer.concat([Buffer.from("id\n1\n"), newlines]));
  const error = await readAll(csv, { users: { file: "users.csv", id: "id" } });
  expect(String(error)).toMatch(/users\.csv:\d+: more than 100,000 blank lines/);
});

test.each([
  ["request", /GET \S+\/Users\?\S+: the answer takes longer than 1 s \(timeouts: \{ request \}\)$/],
  ["read", /source corp: the whole read takes longer than 1 s \(timeouts: \{ read \}\)$/],
])("a server that drips is given up (%s)", async (setting, message) => {
  const server = await paged(small());
  server.intercept((request, response) => {
    if (request.url?.includes("/Users") !== true) return false;
    response.writeHead(200, { "content-type": "application/scim+json" });
    const drip = setInterval(() => response.write(" "), 20);
    response.on("close", () => clearInterval(drip));
    return true;
  });
  const reading = records({ url: server.url, timeouts: { [setting]: "1s" } });
  await expect(reading).rejects.toBeInstanceOf(UnavailableError);
  await expect(reading).rejects.toThrow(message);
  await expect.poll(() => server.open.size).toBe(0);
});

import { mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openDuckDbEngine } from "#service/engine/duckdb.ts";
import type { Engine } from "#service/engine/engine.ts";
import { Arriving } from "#service/loads/chunks.ts";
import { lookAtArriving, regularRows } from "#service/loads/direct/look.ts";
import type { Look } from "#service/loads/direct/look.ts";
import { formatOf } from "#service/loads/load-format.ts";
import { findSections } from "#service/loads/sections.ts";
import { readStartRequest } from "#service/loads/start-request.ts";
import type { LoadParameters } from "#wire/loads.ts";

let folder: string;
let engine: Engine;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-look-"));
  engine = await openDuckDbEngine({ folder: join(folder, "databases"), memory: 2 ** 28, files: [folder] });
  await engine.define(
    `CREATE DATABASE IF NOT EXISTS d; CREATE TABLE IF NOT EXISTS d.t (id BIGINT, name VARCHAR);
     CREATE TABLE IF NOT EXISTS d.keyed (id BIGINT PRIMARY KEY, name VARCHAR)`,
    "tables.sql",
  );
});
afterAll(async () => {
  await engine.close();
  await rm(folder, { recursive: true });
});

const { signal } = new AbortController();
const rows = Array.from({ length: 60_000 }, (_, i) => `${i},"${"x".repeat(120)}"\n`).join("");

function parametersOf(format: object = {}, table = "t"): LoadParameters {
  const read = readStartRequest(JSON.stringify({ target: { database: "d", table }, format }));
  if (read === undefined) throw new Error("the request is not valid");
  return read;
}

/** Receives a chunk in pieces. @returns where it is then, and what was found out about it meanwhile */
async function receive(text: string, parameters: LoadParameters): Promise<[path: string, look: Look | undefined]> {
  const begun = Promise.withResolvers<void>();
  const arriving = new Arriving(
    folder,
    parameters,
    async () => undefined,
    (job, until, reach) =>
      lookAtArriving(job, engine, until, (size) => {
        begun.resolve();
        return reach(size);
      }).finally(begun.resolve),
  );
  const pieces = text.match(/[^]{1,60000}/g) ?? [];
  const sent = async function* sent(): AsyncGenerator<Buffer> {
    for (const piece of pieces.slice(0, -1)) yield Buffer.from(piece);
    if (arriving.look !== undefined) await begun.promise;
    yield Buffer.from(pieces.at(-1) ?? "");
  };
  await arriving.write(Readable.from(sent()), signal);
  // As it is when the chunk becomes one of its cycle.
  const path = join(folder, "chunk");
  await rename(arriving.path, path);
  return [path, await arriving.look];
}

test.each([
  ["rows", {}, rows, 60_000],
  ["a header", { has_header_row: true }, `a,b\n${rows}`, 60_000],
  ["a byte order mark, and no newline at the end", {}, `\uFEFF${rows.trimEnd()}`, 60_000],
  ["a row that is none at the end", {}, `${rows}1,"x"y\n`, undefined],
])("what is seen of a chunk while it arrives is what is seen afterwards: %s", async (_, format, text, count) => {
  const parameters = parametersOf(format);
  const [path, look] = await receive(text, parameters);
  const read = formatOf(parameters);
  const sections = await findSections([path], read, 2, signal);
  const afterwards = await regularRows(sections, read, 2, signal);
  expect(afterwards?.count).toBe(count);
  expect(look).toEqual({ from: sections[0]?.from, format: read, width: 2, rows: afterwards });
  await rm(path);
  // It is not read again, unless it is to be read in another way.
  expect(await regularRows(sections, read, 2, signal, [look])).toEqual(afterwards);
  const other = { ...read, nullValue: "?" };
  await expect(regularRows(sections, other, 2, signal, [look])).rejects.toThrow("ENOENT");
});

test("a small chunk, and one for a table with a key, are not looked at", async () => {
  expect((await receive(rows.slice(0, 1_000_000), parametersOf()))[1]).toBeUndefined();
  expect((await receive(rows, parametersOf({}, "keyed")))[1]).toBeUndefined();
});

test("what breaks off is not looked at any more", async () => {
  const pieces = async function* pieces(): AsyncGenerator<Buffer> {
    yield Buffer.from(rows);
    throw new Error("the client is gone");
  };
  const seen: string[] = [];
  const arriving = new Arriving(
    folder,
    parametersOf(),
    async () => undefined,
    async (job, until, reach) =>
      lookAtArriving(job, engine, until, (size) => Promise.race([reach(size), aborted(until)])).finally(() => {
        seen.push("over");
      }),
  );
  await expect(arriving.write(Readable.from(pieces()), signal)).rejects.toThrow("the client is gone");
  expect(await arriving.look).toBeUndefined();
  expect(seen).toEqual(["over"]);
});

/** As the worker does for a task that is stopped. */
function aborted(until: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  until.addEventListener("abort", () => {
    reject(new Error("stopped"));
  });
  return promise;
}

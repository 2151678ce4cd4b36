import { createReadStream } from "node:fs";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import { InputError } from "#errors.ts";
import { readList } from "#plan/lists.ts";
import { clearWrongTypes, loadList } from "#service/directory/check.ts";
import { SyncUpload } from "#service/directory/receive.ts";
import { openMemory } from "../../support/duckdb.ts";
import type { Memory } from "../../support/duckdb.ts";
import { cases } from "../../support/random.ts";

let folder: string;
let file: string;
let memory: Memory;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-json-"));
  file = join(folder, "list.json");
  memory = await openMemory();
});
afterAll(async () => {
  memory.close();
  await rm(folder, { recursive: true });
});

/** Reads the list in the file as one that a client sends, in small pieces, into `listed`. */
async function readSent(): Promise<void> {
  const type = "multipart/form-data; boundary=ROLLCALL";
  async function* body(): AsyncGenerator<Buffer> {
    yield Buffer.from('--ROLLCALL\r\nContent-Disposition: form-data; name="principals"\r\n\r\n');
    yield* createReadStream(file, { highWaterMark: 65_536 }) as AsyncIterable<Buffer>;
    yield Buffer.from("\r\n--ROLLCALL--\r\n");
  }
  const signal = new AbortController().signal;
  const upload = new SyncUpload(Readable.from(body()), type, new URLSearchParams(), { folder, signal });
  try {
    await loadList(upload.pieces(), upload.received, (sql) => memory.connection.run(sql));
    const received = await upload.received;
    if (received === undefined) throw new Error("there is no list");
    await clearWrongTypes(memory.connection, received.elements);
  } finally {
    await upload.discard();
  }
}

/** The elements of a list that is sent, or why it is refused. A target's list keeps the text of elements that are no principals. */
async function read(text: string | Buffer): Promise<unknown[] | string> {
  await writeFile(file, text);
  try {
    await readSent();
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    return error.message;
  }
  await readList(memory.connection, createReadStream(file), folder);
  const rows = await memory.connection.rows<{ index: bigint; json: string }>(
    "SELECT index, json::VARCHAR AS json FROM read_principals ORDER BY index",
  );
  expect(rows.map(({ index }) => Number(index))).toEqual(rows.map((_, place) => place));
  expect(await memory.connection.rows("SELECT index FROM listed ORDER BY index")).toEqual(
    rows.map(({ index }) => ({ index })),
  );
  expect(await readdir(folder)).toEqual(["list.json"]);
  return rows.map(({ json }) => JSON.parse(json) as unknown);
}

function parse(text: string): unknown[] | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    const hasHalfPair = /\\ud[89a-f]/.test(JSON.stringify(value));
    return Array.isArray(value) && !hasHalfPair ? value : undefined;
  } catch {
    return undefined;
  }
}

const words = ["true", "false", "null", "NaN", "nan", "Infinity", "-inf", "0", "-1.5e3", "01", "1.", ".5", "+1", "nul"];
const pieces = [
  "[",
  "]",
  "{",
  "}",
  ",",
  ":",
  " ",
  "\n",
  "\t",
  "\r",
  "\v",
  "\f",
  "\u00a0",
  "\u0000",
  "\ufeff",
  "/**/",
  "#",
  "'a'",
  '"a"',
  '"name"',
  '"name":',
  '"mail":"x"',
  '"\\u006eame":',
  '"\\ud83d\\ude00"',
  '"\\"',
  '"',
  "\\",
  '"\\ud800"',
  '"a\tb"',
  '{"name":"a"}',
  '{"x":NaN}',
  '{"a":1,}',
  "[1,]",
  '"a, }"',
  '"Infinity"',
  ...words,
];

test("B.5 what is no JSON array is refused, and nothing else is", async () => {
  let arrays = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(fc.constantFrom(...pieces), { maxLength: 12 }), fc.boolean(), async (parts, isArray) => {
      const text = isArray ? `[${parts.join("")}]` : parts.join("");
      const expected = parse(text);
      const actual = await read(text);
      if (expected !== undefined) arrays++;
      if (typeof actual === "string") {
        expect(actual).toMatch(/^principals(?:: not valid JSON|\[\d+\]\.\w+: is given twice$)/);
        if (!actual.endsWith("twice")) expect(expected).toBeUndefined();
      } else {
        expect(actual).toEqual(expected);
      }
    }),
    { numRuns: cases(200) },
  );
  expect(arrays).toBeGreaterThan(3);
});

test("B.5 any array is read as it is, and refused when any byte of it is missing or another", async () => {
  // What is no object is refused in any case; numbers that DuckDB does not hold are refused here already.
  const list = fc.array(fc.record({ x: fc.jsonValue(), y: fc.jsonValue() }), { maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(
      list,
      fc.nat({ max: 2 }),
      fc.nat(),
      fc.constantFrom("", ",", "}", '"', "N", " "),
      async (value, indent, place, other) => {
        const text = JSON.stringify(value, null, indent);
        expect(await read(text)).toEqual(JSON.parse(text));
        const at = place % text.length;
        const broken = text.slice(0, at) + other + text.slice(at + 1);
        const expected = parse(broken);
        const actual = await read(broken);
        if (typeof actual === "string") expect(actual.endsWith("twice") ? undefined : expected).toBeUndefined();
        else expect(actual).toEqual(expected);
      },
    ),
    { numRuns: cases(60) },
  );
});

test.each([
  ['[{"name":"a"},{"name":"b",}]', "principals: not valid JSON at byte 26: expected a key or a value"],
  ['[{"name":"a"},{"name" "b"}]', "principals: not valid JSON at principals[1]: unexpected character"],
  [
    '[{"name":"a"},{"name":"b',
    "principals: not valid JSON at byte 24: expected a double quote at the end of the string",
  ],
  ['[{"x":-Infinity}]', "principals: not valid JSON at byte 7: expected true, false, null or a number"],
  ['[{},{"groupNames":[],"mail":"a","groupNames":[]}]', "principals[1].groupNames: is given twice"],
  ["\ufeff[]", "principals: not valid JSON at byte 0: expected an array in [ ]"],
  ["", "principals: not valid JSON at byte 0: expected an array in [ ]"],
  ["[] []", "principals: not valid JSON at byte 3: expected nothing after the end of the array"],
])("B.5 %s is refused with its place", async (text, message) => {
  expect(await read(text)).toBe(message);
});

test("B.5 bytes that are not UTF-8 are refused with their place", async () => {
  const bytes = Buffer.concat([Buffer.from('[{},{"name":"'), Buffer.from([0xff]), Buffer.from('"}]')]);
  expect(await read(bytes)).toBe("principals: not valid JSON at principals[1]: invalid UTF-8 encoding in string");
});

test("B.5 the place is right however long the list is", async () => {
  const elements = Array.from({ length: 300_000 }, (_, index) => `{"name":"${index} ${"x".repeat(120)}"}`);
  elements[299_000] = '{"name" 5}';
  expect(await read(`[${elements.join(",\n")}]`)).toBe(
    "principals: not valid JSON at principals[299000]: unexpected character",
  );
});

test("B.5 depth is no matter", async () => {
  const deep = "[".repeat(100_000) + "]".repeat(100_000);
  await writeFile(file, `[{"x":${deep}},{"groupNames":${deep}},{"name":${deep}},${deep}]`);
  await readSent();
  const rows = await memory.connection.rows(`SELECT kind, name, group_names FROM listed`);
  expect(rows).toEqual(Array.from({ length: 4 }, () => ({ kind: "", name: "", group_names: [] })));
});

test.each([
  ["[".repeat(250_001), "principals[1]: has more than 250,000 arrays and objects inside each other"],
  [
    "[".repeat(5_000_000) + "]".repeat(5_000_000),
    "principals[1]: has more than 250,000 arrays and objects inside each other",
  ],
  [`[${"0,".repeat(1_000_001)}0]`, "principals[1]: has more than 1,000,000 values"],
])("B.5 what would take all memory is refused (%#)", async (value, message) => {
  expect(await read(`[{"name":"a"},{"visibility":${value}}]`)).toBe(message);
});

test("B.9 of a target's list, the text of an element is kept only where it says more than the interface knows", async () => {
  const user = '"name":"a","displayName":"A","mail":"","principalTypeEnum":"LOCAL_USER","groupNames":["g"]';
  const group = '"name":"g","displayName":"G","principalTypeEnum":"LOCAL_GROUP","groupNames":[]';
  const known = '"visibility":"DEFAULT","created":1,"modified":2';
  const more = [
    `{${group}, "mail":"g@example.com"}`,
    `{${user}, "visibility":1.10}`,
    `{${user}, "visibility":null}`,
    `{${user}, "colour":"red"}`,
    `{${known}, "name":"x","principalTypeEnum":"LDAP_USER"}`,
  ];
  await writeFile(file, `[{${user}}, {${user},${known}}, {${known},${group}}, ${more.join(", ")}]`);
  await readList(memory.connection, createReadStream(file), folder);
  const rows = await memory.connection.rows<{ json: string | null }>(
    "SELECT json::VARCHAR AS json FROM read_principals",
  );
  expect(rows.map(({ json }) => json)).toEqual([null, null, null, ...more]);
});

test("an element may be longer than DuckDB takes at first", async () => {
  const small = '{"name":"a"},'.repeat(200_000);
  await writeFile(file, `[${small}{"name":"${"x".repeat(35_000_000)}"}]`);
  const database = await openDatabase({ path: ":memory:", memory: 2 ** 30, spill: join(folder, "spill") });
  const connection = await database.connect();
  await readList(connection, createReadStream(file), folder);
  const rows = await connection.rows(
    "SELECT count(*)::INTEGER AS count, max(len(json))::INTEGER AS longest FROM read_principals",
  );
  expect(rows).toEqual([{ count: 200_001, longest: 35_000_011 }]);
  connection.close();
  database.close();
});

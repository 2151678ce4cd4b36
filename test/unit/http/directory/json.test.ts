import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Item, itemsOf, JsonError } from "#http/directory/json.ts";

type Found = Omit<Extract<Item, { kind: "resource" }>, "isListed"> | Extract<Item, { kind: "list" }>;

/** Without whether they are listed. */
async function items(text: string | Buffer, size = 7): Promise<readonly Found[]> {
  const bytes = Buffer.from(text);
  async function* pieces() {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
  }
  const found = (await Array.fromAsync(itemsOf(pieces()))).flat();
  return found.map((item) => (item.kind === "list" ? item : resource(item.value, item.line)));
}

const resource = (value: unknown, line = 1): Found => ({ kind: "resource", value, line });

test("reads a list, and reports on it after its resources", async () => {
  const text =
    '{"totalResults":2,\n"Resources":[{"id":"1",\n"members":[{"value":"x"}]},\n{"id":"2","Resources":["a"]}],"startIndex":1}';
  expect(await items(text)).toEqual([
    resource({ id: "1", members: [{ value: "x" }] }, 2),
    resource({ id: "2", Resources: ["a"] }, 4),
    { kind: "list", envelope: { totalResults: 2, Resources: [], startIndex: 1 }, line: 1 },
  ]);
});

test("reads lists one after the other, and those without resources", async () => {
  const text = '{"totalResults":0}\n{"Resources":[],"totalResults":0}\n{"resources":[{"id":"1"}],"totalResults":1}';
  expect((await items(text)).map(({ kind, line }) => `${kind} ${line}`)).toEqual([
    "list 1",
    "list 2",
    "resource 3",
    "list 3",
  ]);
});

test("reads arrays and lines, with a byte order mark too", async () => {
  expect(await items('\u{FEFF}\n[{"id":"1"},\n {"id":"2"}]\n')).toEqual([
    resource({ id: "1" }, 2),
    resource({ id: "2" }, 3),
  ]);
  expect(await items('{"id":"1"}\r\n\r\n{"id":"2","a":"Resources"}\n')).toEqual([
    resource({ id: "1" }, 1),
    resource({ id: "2", a: "Resources" }, 3),
  ]);
});

describe("what is not JSON, or not all of it", () => {
  test.each([
    ["", "truncated", 1],
    [" \n ", "truncated", 1],
    ["\u{FEFF}", "truncated", 1],
    ['{"Resources":[{"id":"1"}', "truncated", 1],
    ['[\n{"id":"1"},\n', "truncated", 3],
    ['{"id":"1"}\n{"id":"2', "truncated", 2],
    ['{"Resources":[\n{"id":"1"},]}', "malformed", 2],
    ['{"id":"1",}', "malformed", 1],
    ['{"id":NaN}', "malformed", 1],
    ['{"id":"1"}\n\nx', "malformed", 3],
    ['[{"id":"1"}]]', "malformed", 1],
    ["<html>", "malformed", 1],
    ['{"id":"a\tb"}', "malformed", 1],
  ])("%j", async (text, reason, line) => {
    for (const size of [1, 7, 1_000]) {
      const error: unknown = await items(text, size).catch((error: unknown) => error);
      expect(error).toBeInstanceOf(JsonError);
      expect(error).toMatchObject({ reason, line });
    }
  });

  test("bytes that are not UTF-8", async () => {
    const text = '{"id":"J\u{f6}rg"}, "and more"';
    await expect(items(Buffer.from(text, "latin1"))).rejects.toThrow("is not in UTF-8, as JSON must be");
  });
});

/**
 * A value as JSON has it, which cannot say -0. Not by `JSON.parse`: that of V8 14.6 takes the key `"` for `\` once it has
 * seen an object with that one.
 */
function asJson(value: unknown): unknown {
  if (typeof value === "number") return value + 0;
  if (Array.isArray(value)) return value.map(asJson);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, asJson(each)]));
}

test("reads whatever JSON there is, in pieces of any size", async () => {
  const values = fc.array(
    fc.dictionary(fc.string(), fc.jsonValue()).map((value) => ({ ...value, id: "1" })),
    { maxLength: 5 },
  );
  await fc.assert(
    fc.asyncProperty(values, fc.integer({ min: 1, max: 40 }), fc.boolean(), async (resources, size, isPretty) => {
      const space = isPretty ? 2 : undefined;
      const list = JSON.stringify({ totalResults: resources.length, Resources: resources }, undefined, space);
      const array = JSON.stringify(resources, undefined, space);
      const expected = resources.map(asJson);
      const valuesOf = async (text: string) =>
        (await items(text, size)).flatMap((item) => (item.kind === "resource" ? [item.value] : []));
      expect(await valuesOf(list)).toEqual(expected);
      expect(await valuesOf(array)).toEqual(expected);
    }),
  );
});

test("keeps the digits of numbers that JavaScript would round", async () => {
  const [found] = await items('{"id":9007199254740993,"a":9007199254740992,"b":1e400,"c":1.50,"d":-0.1}');
  expect(found).toMatchObject({ value: { id: "9007199254740993", a: 9007199254740992, b: "1e400", c: 1.5, d: -0.1 } });
});

describe("JSON beyond its bounds", () => {
  const user = (rest: string) => `{"id":"1","a":${rest}}`;
  const deep = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
  const keys = (count: number) => `{${Array.from({ length: count }, (_, at) => `"k${at}":1`).join(",")}}`;
  const inList = (text: string) => `{"totalResults":1,"Resources":[${text}]}`;

  test.each([
    ["as deep as may be", user(deep(96))],
    ["as many names as may be", user(keys(10_000))],
    ["a long text", user(`"${"x".repeat(2_000_000)}"`)],
  ])("%s is read", async (_, text) => {
    for (const each of [`[${text}]`, inList(text)]) expect((await items(each, 65_536)).length).toBeGreaterThan(0);
  });

  test.each([
    ["an array", "[".repeat(500_000), /more than 100 arrays and objects inside each other/],
    ["objects", '{"a":'.repeat(500_000), /more than 100 arrays and objects inside each other/],
    ["a resource", user("[".repeat(500_000)), /more than 100 arrays and objects inside each other/],
    ["a list", inList(user("[".repeat(500_000))), /more than 100 arrays and objects inside each other/],
    ["beside the resources", `{"Resources":[],"a":${"[".repeat(500_000)}`, /more than 100 arrays/],
    ["names", user(keys(10_001)), /an object with more than 10,000 names/],
    [
      "names of the list",
      `{"Resources":[{"id":"1"}],${keys(10_001).slice(1)}`,
      /an object with more than 10,000 names/,
    ],
    ["values of the list", `{"Resources":[],"a":[${"0,".repeat(100_001)}0]}`, /more than 100,000 values beside/],
    ["a text", inList(user(`"${"x".repeat(17 * 1024 * 1024)}`)), /a value of more than 16 MiB/],
    ["a number", inList(user("1".repeat(17 * 1024 * 1024))), /a value of more than 16 MiB/],
    ["white space", inList(user(" ".repeat(17 * 1024 * 1024))), /a value of more than 16 MiB/],
  ])("%s fails at once", async (_, text, message) => {
    const failure = { reason: "malformed", line: 1, message: expect.stringMatching(message) };
    await expect(items(text, 65_536)).rejects.toMatchObject(failure);
  });
});

test("finds the list that a path leads to, in pieces of any size, and nothing else", async () => {
  const text =
    '{"a": "items", "data": {"total": 2, "items": [{"id": 1, "items": [3]}, {"id": "2"}], "x": {"items": 4}}, "items": [5]}';
  for (let size = 1; size < text.length; size += 7) {
    const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, index) =>
      Buffer.from(text.slice(index * size, (index + 1) * size)),
    );
    const items = (await Array.fromAsync(itemsOf(inOrder(pieces), [["data", "items"]]))).flat();
    expect(items.map(({ kind }) => kind)).toEqual(["resource", "resource", "list"]);
    expect(items.map((item) => item.kind === "resource" && item.value)).toEqual([
      { id: 1, items: [3] },
      { id: "2" },
      false,
    ]);
    expect(items.at(-1)).toMatchObject({ envelope: { data: { total: 2, items: [], x: { items: 4 } }, items: [5] } });
  }
  const none = (
    await Array.fromAsync(itemsOf(inOrder([Buffer.from('{"data": [{"items": []}]}')]), [["data", "items"]]))
  ).flat();
  expect(none.map(({ kind }) => kind)).toEqual(["resource"]);
});

async function* inOrder(pieces: readonly Buffer[]): AsyncGenerator<Buffer> {
  yield* pieces;
}

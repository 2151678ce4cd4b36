import { mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { ListPieces } from "#plan/list-pieces.ts";
import type { ListPiece } from "#plan/list-pieces.ts";
import { principalFields } from "#plan/list-scan.ts";
import type { ListScan, PrincipalField } from "#plan/list-scan.ts";
import { cases } from "../../support/random.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-pieces-"));
});
afterAll(() => rm(folder, { recursive: true }));

/** Cuts a text that arrives in blocks. @returns the pieces' texts with the place of their first elements, and what was seen */
async function cut(
  text: string,
  block: number,
  size: number,
): Promise<{ pieces: [number, string][]; seen: Pick<ListScan, "wrong" | "repeated"> }> {
  const published: Promise<ListPiece>[] = [];
  const list = new ListPieces(folder, (piece) => published.push(piece), size);
  try {
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; at += block) {
      const written = bytes.subarray(at, at + block);
      list.write(written);
      // It has taken a copy.
      written.fill(0);
      await list.room();
    }
    const { wrong, repeated } = await list.end();
    const pieces: [number, string][] = [];
    for (const piece of await Promise.all(published)) {
      const content = await readFile(piece.file, "utf8");
      expect(Buffer.byteLength(content)).toBe(piece.bytes);
      pieces.push([piece.first, content]);
    }
    return { pieces, seen: { wrong, repeated } };
  } finally {
    await list.discard();
    expect(await readdir(folder)).toEqual([]);
  }
}

type Members = readonly (readonly [key: string, value: unknown])[];

/** What specification 2.7 says of the types of an element. */
function wrongOf(members: Members): PrincipalField[] {
  const isGroup = members.some(([key, value]) => key === "principalTypeEnum" && value === "LOCAL_GROUP");
  return principalFields.filter((field) => {
    if (isGroup && (field === "mail" || field === "password")) return false;
    return members.some(([key, value]) => {
      if (key !== field || value === null || value === undefined) return false;
      if (field !== "groupNames") return typeof value !== "string";
      return !Array.isArray(value) || value.some((name) => typeof name !== "string");
    });
  });
}

function escaped(text: string): string {
  return `"${text
    .split("")
    .map((letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .join("")}"`;
}

const key = fc.constantFrom(...principalFields, "id", "Name", "groupName", "principalTypeEnum2", 'a"b', "");
const value = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom("LOCAL_GROUP", "LOCAL_USER", "x", "", 'quo"te', "back\\", "é,[{", null) },
  { weight: 1, arbitrary: fc.constantFrom("LOCAL_GROUP") },
  fc.array(fc.constantFrom<unknown>("a", "b", "c]", null, 5, ["d"], { name: 1 }), { maxLength: 3 }),
  fc.constantFrom<unknown>(5, true, {}, { name: 5, groupNames: [5] }, [[]]),
);
const members = fc.uniqueArray(fc.tuple(key, value), { selector: ([name]) => name, maxLength: 9 });
const element = fc.oneof(
  { weight: 8, arbitrary: members },
  fc.constantFrom<unknown>(5, null, "name", '{"name":5}', [{ name: 5 }]),
);

test("B.5 pieces are the list, and wrong types are found, however it arrives and is cut", async () => {
  const isMembers = (each: unknown): each is Members =>
    Array.isArray(each) && each.every((pair) => Array.isArray(pair));
  await fc.assert(
    fc.asyncProperty(
      fc.array(element, { maxLength: 30 }),
      fc.boolean(),
      fc.integer({ min: 1, max: 80 }),
      fc.integer({ min: 1, max: 400 }),
      async (elements, isEscaped, block, size) => {
        const written = (text: string): string => (isEscaped ? escaped(text) : JSON.stringify(text));
        const texts = elements.map((each) =>
          isMembers(each)
            ? `{${each.map(([name, given]) => `${written(name)} : ${typeof given === "string" ? written(given) : JSON.stringify(given)}`).join(" ,\n")} }`
            : JSON.stringify(each),
        );
        const { pieces, seen } = await cut(` [${texts.join(" , ")}]\n`, block, size);
        expect(pieces.flatMap(([, text]) => JSON.parse(text) as unknown[])).toEqual(
          texts.map((text) => JSON.parse(text) as unknown),
        );
        let first = 0;
        for (const [place, text] of pieces) {
          expect(place).toBe(first);
          first += (JSON.parse(text) as unknown[]).length;
        }
        expect(seen.repeated).toBeUndefined();
        expect(seen.wrong).toEqual(
          elements.flatMap((each, index) => {
            const fields = isMembers(each) ? wrongOf(each) : undefined;
            return fields?.length === 0 ? [] : [{ index, fields }];
          }),
        );
      },
    ),
    { numRuns: cases(150) },
  );
});

test("the buffers of a list are freed with its files", async () => {
  const made = vi.spyOn(Buffer, "allocUnsafeSlow");
  await cut(`[${'{"name":"a"},'.repeat(200_000)}{}]`, 65_536, 1_000_000);
  await expect(cut(`[${'{"name":"a"},'.repeat(1000)}`, 1000, 5000)).rejects.toThrow("not valid JSON");
  // Node makes some, too, when a file is read.
  const buffers = made.mock.results
    .filter((_, index) => made.mock.calls[index]?.[0] === 1024 * 1024)
    .map(({ value }) => value as Buffer<ArrayBuffer>);
  made.mockRestore();
  expect(buffers.length).toBeGreaterThan(1);
  expect(buffers.every(({ buffer }) => buffer.detached)).toBe(true);
});

test("B.5 the first field that is given twice is found, wherever blocks end", async () => {
  const text =
    '[{"mail":"a","mai":"b","x":{"mail":1,"mail":2}},{"mail":"a","ma\\u0069l":"b","name":"c"},{"name":1,"name":2}]';
  for (let block = 1; block <= text.length; block++) {
    expect((await cut(text, block, 20)).seen.repeated).toEqual({ index: 1, field: "mail" });
  }
});

test("B.5 wrong types are told of a hundred elements at the most", async () => {
  const { wrong } = (await cut(`[${Array.from({ length: 300 }, () => '{"name":5}').join(",")}]`, 50, 1000)).seen;
  expect(wrong).toHaveLength(100);
  expect(wrong.at(-1)).toEqual({ index: 99, fields: ["name"] });
});

test.each([
  ["[,]", "at byte 1: expected a value"],
  ["[{},,{}]", "at byte 4: expected a value"],
  ["[{},]", "at byte 4: expected a key or a value"],
  ["[],", "at byte 2: expected nothing after the end of the array"],
  [",[]", "at byte 0: expected an array in [ ]"],
  ["[{}", "at byte 3: expected a comma, or the end of the array or object"],
])("B.5 %s is refused where pieces of it would not be", async (text, message) => {
  for (const size of [1, 100])
    await expect(cut(text, 1, size)).rejects.toThrow(`principals: not valid JSON ${message}`);
});

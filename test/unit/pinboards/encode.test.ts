import { expect, test } from "vitest";
import { encodePage } from "#service/pinboards/request.ts";
import type { Format } from "#service/pinboards/request.ts";

async function encode(columnNames: readonly string[], rows: readonly (readonly unknown[])[], format: Format) {
  const page = await encodePage({ columnNames, rows, totalRowCount: 7 }, format);
  const text = Buffer.concat(page.rows).toString("utf8");
  return { text, page };
}

test("B.11 COMPACT: rows are arrays", async () => {
  const { text, page } = await encode(
    ["a", "b"],
    [
      [1, "ü\n"],
      [null, { x: [1] }],
    ],
    "COMPACT",
  );
  expect(text).toBe('[1,"ü\\n"],[null,{"x":[1]}]');
  expect(page).toMatchObject({ columnNames: ["a", "b"], totalRowCount: 7, rowCount: 2 });
});

test("B.11 FULL: rows are objects, in the order of the columns, whatever these are called", async () => {
  const names = ["b", "2", "1", "__proto__", 'q"'];
  const { text } = await encode(names, [[1, 2, 3, 4, 5]], "FULL");
  expect(text).toBe('{"b":1,"2":2,"1":3,"__proto__":4,"q\\"":5}');
});

test.each([
  [
    ["x", "x"],
    ["x", "x_2"],
  ],
  [
    ["x", "x", "x"],
    ["x", "x_2", "x_3"],
  ],
  [
    ["x", "x", "x_2"],
    ["x", "x_3", "x_2"],
  ],
  [
    ["x_2", "x", "x", "x"],
    ["x_2", "x", "x_3", "x_4"],
  ],
  [
    ["x", "X"],
    ["x", "X"],
  ],
  [
    ["", ""],
    ["", "_2"],
  ],
])("B.11 FULL: the columns %j are the keys %j", async (columns, keys) => {
  const { text, page } = await encode(columns, [columns.map((_, index) => index)], "FULL");
  expect(Object.entries(JSON.parse(text) as object)).toEqual(keys.map((key, index) => [key, index]));
  expect(page.columnNames).toEqual(columns);
});

test("no rows, and more than fit into a piece", async () => {
  expect((await encode(["a"], [], "FULL")).text).toBe("");
  const rows = Array.from({ length: 5000 }, (_, index) => [index, "x".repeat(40)]);
  const { text, page } = await encode(["a", "b"], rows, "COMPACT");
  expect(JSON.parse(`[${text}]`)).toEqual(rows);
  expect(page.rows.length).toBeGreaterThan(2);
});

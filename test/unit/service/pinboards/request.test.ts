import { describe, expect, test } from "vitest";
import { InputError } from "#errors.ts";
import { readDataRequest, readHeaderRequest } from "#service/pinboards/request.ts";
import { rowEncoder } from "#service/pinboards/rows.ts";
import type { Format } from "#service/pinboards/rows.ts";

const id = "6f1c2a52-0d8e-4a57-9f0b-6d2d2b8a7c11";
const [one, two] = ["11111111-1111-1111-1111-11111111111a", "22222222-2222-2222-2222-22222222222b"];

const read = (given: Record<string, string>, vizid: readonly string[] = []) => readDataRequest({ id, ...given }, vizid);
const problemsOf = (work: () => unknown): unknown => {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    return error.problems.length > 0 ? error.problems : error.message;
  }
};

test("B.11 the pinboard alone: all of it, compact, without paging", () => {
  expect(read({})).toEqual({ pinboard: id, visualizations: [], format: "COMPACT", paging: {} });
  expect(read({ id: id.toUpperCase(), formattype: "FULL" })).toMatchObject({ pinboard: id, format: "FULL" });
});

test("B.11 no id, or none that is a GUID", () => {
  expect(problemsOf(() => readDataRequest({}, []))).toEqual(["id: is missing: the GUID of a pinboard"]);
  for (const wrong of ["", "x", `${id}0`, `{${id}}`, ` ${id}`, id.replaceAll("-", "")]) {
    expect(problemsOf(() => read({ id: wrong }))).toEqual(["id: must be a GUID"]);
  }
});

test.each(["", "full", "compact", "XML", "constructor"])("B.11 formattype %j", (formattype) => {
  expect(problemsOf(() => read({ formattype }))).toEqual(["formattype: must be FULL or COMPACT"]);
});

test.each([
  [[one], [one]],
  [[one.toUpperCase()], [one]],
  [[` ${one} `], [one]],
  [[`["${one}","${two}"]`], [one, two]],
  [[` [ "${one}" , "${two}" ] `], [one, two]],
  [[`[${one},${two}]`], [one, two]],
  [[`[${one}]`], [one]],
  [
    [one, two],
    [one, two],
  ],
  [
    [one, one.toUpperCase(), `[${two},${one}]`],
    [one, two],
  ],
  [["", one], [one]],
  [[""], []],
  [["[]"], []],
  [[" [ ] "], []],
])("B.12 vizid %j", (vizid, visualizations) => {
  expect(read({}, vizid).visualizations).toEqual(visualizations);
});

test.each([
  "x",
  `${one},${two}`,
  `"${one}"`,
  `[${one}`,
  `[${one},]`,
  `["${one}" "${two}"]`,
  `{"a":"${one}"}`,
  "[1]",
  "null",
])("B.12 vizid %j is no GUID", (vizid) => {
  expect(problemsOf(() => read({}, [one, vizid]))).toEqual(["vizid: must be a GUID, or a list of GUIDs like [g1,g2]"]);
});

describe("B.13", () => {
  test.each([
    [{ batchsize: "10" }, { size: 10, offset: 0 }],
    [
      { batchsize: "10", offset: "5" },
      { size: 10, offset: 5 },
    ],
    [
      { batchsize: "10", offset: "0" },
      { size: 10, offset: 0 },
    ],
    [
      { batchsize: "10", pagenumber: "1", offset: "5" },
      { size: 10, offset: 0 },
    ],
    [
      { batchsize: "10", pagenumber: "3", offset: "5" },
      { size: 10, offset: 20 },
    ],
    [
      { batchsize: "10", pagenumber: "-1", offset: "5" },
      { size: 10, offset: 5 },
    ],
    [{ offset: "5" }, { offset: 5 }],
    [{ offset: "0" }, { offset: 0 }],
    [{ pagenumber: "3" }, {}],
    [{ pagenumber: "3", batchsize: "-1" }, {}],
    [{ pagenumber: "3", offset: "7" }, { offset: 7 }],
    [{ pagenumber: "-1", batchsize: "-1", offset: "-1" }, {}],
  ])("%j", (given, paging) => {
    expect(read(given).paging).toEqual(paging);
  });

  test.each(["batchsize", "pagenumber"])("%s", (name) => {
    for (const wrong of ["0", "-0", "-2", "", "x", "1.5", "1e3", "0x1", " 1", "Infinity", "99999999999999999999"]) {
      expect(problemsOf(() => read({ [name]: wrong }))).toEqual([`${name}: must be a whole number, at least 1, or -1`]);
    }
  });

  test("offset", () => {
    for (const wrong of ["-2", "", "x", "1.5"]) {
      expect(problemsOf(() => read({ offset: wrong }))).toEqual(["offset: must be a whole number, at least 0, or -1"]);
    }
  });

  test("a page that is beyond every number", () => {
    const given = { batchsize: "9007199254740991", pagenumber: "3" };
    expect(problemsOf(() => read(given))).toBe("pagenumber: there cannot be that many rows before the page");
  });
});

test("every parameter that is wrong is named", () => {
  expect(problemsOf(() => readDataRequest({ batchsize: "0", offset: "x" }, ["x", "y"]))).toEqual([
    "id: is missing: the GUID of a pinboard",
    "vizid: must be a GUID, or a list of GUIDs like [g1,g2]",
    "batchsize: must be a whole number, at least 1, or -1",
    "offset: must be a whole number, at least 0, or -1",
  ]);
});

test("B.14 listvizheaders: no id or an empty one is none, a malformed one is refused", () => {
  expect(readHeaderRequest({})).toBeUndefined();
  expect(readHeaderRequest({ id: "" })).toBeUndefined();
  expect(readHeaderRequest({ id: id.toUpperCase() })).toBe(id);
  expect(problemsOf(() => readHeaderRequest({ id: "x" }))).toEqual(["id: must be a GUID"]);
});

function encode(columnNames: readonly string[], rows: readonly (readonly unknown[])[], format: Format): string {
  return rows.map(rowEncoder(columnNames, format)).join(",");
}

test("B.11 COMPACT: rows are arrays", () => {
  const text = encode(
    ["a", "b"],
    [
      [1, "ü\n"],
      [null, { x: [1] }],
    ],
    "COMPACT",
  );
  expect(text).toBe('[1,"ü\\n"],[null,{"x":[1]}]');
});

test("B.11 FULL: rows are objects, in the order of the columns, whatever these are called", () => {
  const names = ["b", "2", "1", "__proto__", 'q"'];
  const text = encode(names, [[1, 2, 3, 4, 5]], "FULL");
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
])("B.11 FULL: the columns %j are the keys %j", (columns, keys) => {
  const text = encode(columns, [columns.map((_, index) => index)], "FULL");
  expect(Object.entries(JSON.parse(text) as object)).toEqual(keys.map((key, index) => [key, index]));
});

import { expect, test } from "vitest";
import { booleansOf, formatsOf, usualBooleansOf, usualFormatsOf } from "#exports/format/formats.ts";

test.each([
  ["DATE", ["2024-01-31"], "%Y-%m-%d"],
  ["DATE", ["20240131", "19991231"], "%Y%m%d"],
  ["DATE", ["31.01.2024"], "%d.%m.%Y"],
  ["DATE", ["12/31/2024", "01/02/2024"], "%m/%d/%Y"],
  ["DATE", ["31/12/2024", "01/02/2024"], "%d/%m/%Y"],
  ["TIMESTAMP", ["2024-01-31 10:11:12", "2024-01-31 10:11:12.123456"], "%Y-%m-%d %H:%M:%S"],
  ["TIMESTAMP", ["2024-01-31T10:11:12Z"], "%Y-%m-%dT%H:%M:%SZ"],
  ["TIMESTAMP", ["2024-01-31T10:11:12.000+0000", "2024-01-31T10:11:12-05:30"], "%Y-%m-%dT%H:%M:%S%z"],
  ["TIMESTAMP", ["2024-01-31", "2024-02-01"], "%Y-%m-%d"],
  ["TIMESTAMP", ["2024-01-31 10:11+02"], "%Y-%m-%d %H:%M%z"],
  ["TIMESTAMP", ["2024-01-31 10:11:12.123 +0100", "2024-07-31 10:11:12.000 -0730"], "%Y-%m-%d %H:%M:%S %z"],
  ["TIMESTAMP", ["2024-01-31 10:11:12.123456 UTC", "2024-01-31 10:11:12 UTC"], "%Y-%m-%d %H:%M:%S UTC"],
  ["TIMESTAMP", ["31-JAN-24 01.11.12.000000 PM"], "%d-%b-%y %I.%M.%S %p"],
  ["TIMESTAMP", ["31.01.2024 10:11"], "%d.%m.%Y %H:%M"],
  ["TIME", ["10:11:12"], "%H:%M:%S"],
  ["DATE", ["1/13/2024", "1/2/2024"], "%m/%d/%Y"],
  ["DATE", ["1.2.2024"], "%d.%m.%Y"],
  ["DATE", ["31-JAN-2024", "1-feb-2024"], "%d-%b-%Y"],
  ["DATE", ["January 2, 2024"], "%b %d, %Y"],
  ["TIMESTAMP", ["1/13/2024 3:04:05 PM"], "%m/%d/%Y %I:%M:%S %p"],
] as const)("%s of %j", (kind, values, format) => {
  expect(formatsOf(kind, values)).toEqual([format]);
});

test("what could be two formats is both, and what is none is none", () => {
  expect(formatsOf("DATE", ["01/02/2024"])).toEqual(["%d/%m/%Y", "%m/%d/%Y"]);
  // Seconds since 1970, a month 13, the name of a zone.
  expect(formatsOf("DATE", ["1706659200"])).toEqual([]);
  expect(formatsOf("DATE", ["2024-13-01"])).toEqual([]);
  expect(formatsOf("TIMESTAMP", ["2024-01-31T10:11:12 CET"])).toEqual([]);
  expect(formatsOf("DATE", [])).toEqual([]);
  // A service would not know where the month ends.
  expect(formatsOf("DATE", ["2024115"])).toEqual([]);
  expect(formatsOf("TIME", ["10203"])).toEqual([]);
});

test("booleans", () => {
  expect(booleansOf(["ja", "nein", "ja"])).toEqual(["ja", "nein"]);
  expect(booleansOf(["1"])).toEqual(["1", "0"]);
  expect(booleansOf(["yes", "nein"])).toBeUndefined();
  expect(booleansOf([])).toBeUndefined();
});

test("what most values are is the format, where a few are something else", () => {
  expect(usualFormatsOf("DATE", ["31.01.2024", "01.02.2024", "soon"])).toEqual(["%d.%m.%Y"]);
  expect(usualFormatsOf("DATE", ["01/02/2024", "soon", "02/03/2024"])).toEqual(["%d/%m/%Y", "%m/%d/%Y"]);
  expect(usualFormatsOf("DATE", ["31.01.2024", "soon"])).toEqual([]);
  expect(usualFormatsOf("DATE", [])).toEqual([]);
  expect(usualBooleansOf(["ja", "nein", "vielleicht"])).toEqual(["ja", "nein"]);
  expect(usualBooleansOf(["ja", "vielleicht"])).toBeUndefined();
});

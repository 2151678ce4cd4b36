import { expect, test } from "vitest";
import { cellAt, columnName, dateText, formatOf, isoText, numberText, unescaped } from "#connectors/csv/cell-values.ts";

test.each([
  [0, undefined, "number"],
  [14, undefined, "date"],
  [20, undefined, "time"],
  [22, undefined, "date"],
  [49, undefined, "number"],
  [164, "yyyy-mm-dd", "date"],
  [164, "[$-F800]dddd, mmmm dd, yyyy", "date"],
  [164, "dd/mm/yy;@", "date"],
  [164, "mmm-yy", "date"],
  [164, "[Red]0.00", "number"],
  [164, '#,##0.00 "days"', "number"],
  [164, "0.00E+00", "number"],
  [164, String.raw`#,##0\ \d`, "number"],
  [164, "_-* #,##0.00 _h_-", "number"],
  [164, "General", "number"],
  [164, "hh:mm AM/PM", "time"],
  [164, "[hh]:mm:ss", "number"],
  [164, "mm:ss.0", "time"],
  [164, "00000", { texts: ["", "", "", "", "", ""] }],
  [164, '"EMP"000', { texts: ["EMP", "", "", ""] }],
  [164, String.raw`[Blue]\E-00" (old)"_);[Red]-00`, { texts: ["E-", "", " (old)"] }],
  [164, "[>9]00", "number"],
  [164, '"EUR "0', "number"],
  [164, '00.00" kg"', "number"],
  [164, "0", "number"],
])("format %i %j is one of %j", (id, code, format) => {
  expect(formatOf(id, code)).toEqual(format);
});

test.each([
  [1, false, "1900-01-01"],
  [59, false, "1900-02-28"],
  [60, false, undefined],
  [61, false, "1900-03-01"],
  [45_351, false, "2024-02-29"],
  [45_351.999_999_9, false, "2024-03-01"],
  [45_351.573_0, false, "2024-02-29T13:45:07"],
  [2_958_465, false, "9999-12-31"],
  [2_958_466, false, undefined],
  [0, false, undefined],
  [-1, false, undefined],
  [Number.NaN, false, undefined],
  [0, true, "1904-01-01"],
  [43_889, true, "2024-02-29"],
])("day %d (of 1904: %s) is %s", (serial, is1904, text) => {
  expect(dateText(serial, "date", is1904)).toBe(text);
});

test.each([
  ["2024-02-29", "2024-02-29"],
  ["2024-02-29T00:00:00.000", "2024-02-29"],
  ["2024-02-29T13:45:07.000Z", "2024-02-29T13:45:07"],
  ["2024-02-29T13:45:07", "2024-02-29T13:45:07"],
  ["T08:30:00", "08:30:00"],
  ["08:30:00.000", "08:30:00"],
])("the date %s of a strict workbook is %s", (value, text) => {
  expect(isoText(value)).toBe(text);
});

test("numbers are written as people write them", () => {
  expect(numberText("10011", "number")).toBe("10011");
  expect(numberText("1.0000000000000002E-2", "number")).toBe("0.01");
  expect(numberText("1E5", "number")).toBe("100000");
  expect(numberText("-0.5", "number")).toBe("-0.5");
  expect(numberText("7", { texts: ["", "", "", ""] })).toBe("007");
  expect(numberText("1234", { texts: ["", "", "", ""] })).toBe("1234");
  expect(numberText("42", { texts: ["EMP", "", "", "-", "x"] })).toBe("EMP004-2x");
  expect(numberText("12345", { texts: ["EMP", "", "", "-", "x"] })).toBe("EMP1234-5x");
  expect(numberText(" ", "number")).toBeUndefined();
  expect(numberText("1e999", "number")).toBeUndefined();
});

test("cells have names", () => {
  expect([0, 25, 26, 701, 702, 16_383].map(columnName)).toEqual(["A", "Z", "AA", "ZZ", "AAA", "XFD"]);
  expect(cellAt("XFD1048576")).toEqual({ row: 1_048_576, column: 16_383 });
  expect(cellAt("1A")).toBeUndefined();
  expect(unescaped("a_x000D_b_x005F_x")).toBe("a\rb_x");
});

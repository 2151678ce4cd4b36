import { describe, expect, test } from "vitest";
import { readStartRequest } from "#service/loads/start-request.ts";
import { formatOf, maxErrorsOf, targetOf } from "#service/loads/load-format.ts";
import type { LoadParameters } from "#wire/loads.ts";
import { defaultParameters } from "../../../fixtures/load-parameters.ts";

const target = { database: "d", table: "t" };

function read(body: unknown): LoadParameters | undefined {
  return readStartRequest(typeof body === "string" ? body : JSON.stringify(body));
}

function valid(body: unknown): LoadParameters {
  const parameters = read(body);
  if (parameters === undefined) throw new Error(`not valid: ${JSON.stringify(body)}`);
  return parameters;
}

describe("2.2 defaults", () => {
  test.each([
    { target },
    { target_database: "d", target_table: "t" },
    { target, format: {}, load_options: {}, advanced_options: {} },
    { target: { ...target, schema: null }, format: null, load_options: null, advanced_options: null },
    { target, format: { date_time: null, boolean: {}, type: null }, target_schema: null, empty_target: null },
    { target: { ...target, schema: "" } },
    { target, unknown: 1, format: { other: [] } },
  ])("%j", (body) => {
    expect(read(body)).toEqual(defaultParameters);
  });

  test("what is filled in is a body that means the same", () => {
    expect(read(defaultParameters)).toEqual(defaultParameters);
  });
});

test("A.3 the flat form and the nested one are taken together", () => {
  const body = { target_database: "d", target: { table: "t" }, target_schema: "s", field_separator: "|" };
  const parameters = valid({ ...body, empty_target: true, format: { null_value: "" } });
  expect(targetOf(parameters)).toEqual({ database: "d", schema: "s", table: "t" });
  expect(parameters.format).toMatchObject({ field_separator: "|", null_value: "" });
  expect(parameters.load_options.empty_target).toBe(true);
});

test("A.3 a key given in both forms with one value is taken, null beside a value too", () => {
  const twice = { target, target_database: "d", format: { field_separator: ";" }, field_separator: ";" };
  expect(read({ ...twice, empty_target: true, load_options: { empty_target: null } })).toMatchObject({
    format: { field_separator: ";" },
    load_options: { empty_target: true },
  });
});

test("A.3 enumerations are case-insensitive", () => {
  expect(valid({ target, format: { type: "CSV" } }).format.type).toBe("csv");
  expect(valid({ target, format: { type: "Delimited" } }).format.type).toBe("delimited");
});

test.each(["\t", "\u0001", "€", "😀", " "])("A.3 one Unicode character separates: %j", (separator) => {
  expect(valid({ target, format: { field_separator: separator } }).format.field_separator).toBe(separator);
});

test("A.3 the separator of delimited text may be what encloses fields of csv: nothing encloses its own", () => {
  expect(valid({ target, format: { type: "delimited", field_separator: '"' } }).format.field_separator).toBe('"');
});

test("A.3 no enclosing and no escape character", () => {
  const { format } = valid({ target, format: { enclosing_character: "", escape_character: "" } });
  expect(format).toMatchObject({ enclosing_character: "", escape_character: "" });
});

test("A.18 a format that does not rule may be anything", () => {
  for (const format of [
    { date_time: { converted_to_epoch: true, date_format: "%Q", date_time_format: "%" } },
    { date_time: { date_format: "%-d.%-m.%y", date_time_format: "%FT%T.%f%z", time_format: "%I:%M %p" } },
    { type: "delimited", date_time: { date_format: "%a, %d %b %Y" } },
  ]) {
    expect(read({ target, format }), JSON.stringify(format)).toBeDefined();
  }
});

describe("A.3 not valid", () => {
  test.each([
    "",
    "{",
    "[]",
    "null",
    "target_database=d&target_table=t",
    {},
    { target: { database: "d" } },
    { target: { table: "t" } },
    { target: { database: "", table: "t" } },
    { target: { database: "d", table: "" } },
    { target: { database: 1, table: "t" } },
    { target: "d.t" },
    { target: [] },
    { target, target_database: "e" },
    { target, target_table: "T" },
    { target: { ...target, schema: "a" }, target_schema: "b" },
    { target, format: { field_separator: "|" }, field_separator: "," },
    { target, load_options: { empty_target: false }, empty_target: true },
    { target, target_database: "" },
    { target, format: { type: "json" } },
    { target, format: { type: true } },
    { target, format: { field_separator: "" } },
    { target, format: { field_separator: "||" } },
    { target, format: { field_separator: "\\t" } },
    { target, format: { field_separator: "\n" } },
    { target, format: { field_separator: "\ud83d" } },
    { target, format: { field_separator: '"' } },
    { target, format: { field_separator: "|", enclosing_character: "|" } },
    { target, format: { enclosing_character: "''" } },
    { target, format: { escape_character: "\\\\" } },
    { target, format: { has_header_row: "true" } },
    { target, format: { flexible: 1 } },
    { target, format: { null_value: 0 } },
    { target, format: { date_time: { converted_to_epoch: "false" } } },
    { target, format: { date_time: { date_format: 1 } } },
    { target, format: { date_time: { date_format: "%Q" } } },
    { target, format: { date_time: { date_format: "%g-%V-%u" } } },
    { target, format: { date_time: { date_format: "%Y %W %a" } } },
    { target, format: { date_time: { date_format: "%Y %U %u" } } },
    { target, format: { date_time: { date_format: "%G %V %A" } } },
    { target, format: { date_time: { date_time_format: "%Y-%m-%d %" } } },
    { target, format: { date_time: { date_time_format: "%f %S" } } },
    { target, format: { date_time: { converted_to_epoch: true, time_format: "%N" } } },
    { target, format: { type: "delimited", date_time: { converted_to_epoch: true, date_format: "%N" } } },
    { target, format: { date_time: { date_format: "%b".repeat(40) } } },
    { target, format: { boolean: { true_format: true } } },
    { target, format: { boolean: [] } },
    { target, load_options: { max_ignored_rows: -1 } },
    { target, load_options: { max_ignored_rows: 1.5 } },
    { target, load_options: { max_ignored_rows: "1" } },
    { target, advanced_options: { max_reported_parsing_errors: -1 } },
  ])("%j", (body) => {
    expect(read(body)).toBeUndefined();
  });
});

describe("A.18 converted_to_epoch", () => {
  const epoch = (format: object): boolean => formatOf(valid({ target, format })).convertedToEpoch;

  test("rules when it is given", () => {
    expect(epoch({ date_time: { converted_to_epoch: true, date_format: "%Y" } })).toBe(true);
    expect(epoch({ date_time: { converted_to_epoch: false } })).toBe(false);
  });

  test("absent: formats that were given mean formatted values, else epoch", () => {
    expect(epoch({})).toBe(true);
    expect(epoch({ date_time: { date_format: "%Y" } })).toBe(false);
    expect(epoch({ date_time: { date_time_format: "%Y" } })).toBe(false);
    expect(epoch({ date_time: { time_format: "%H" } })).toBe(true);
    expect(epoch({ date_time: { date_format: null, converted_to_epoch: null } })).toBe(true);
  });

  test("never for delimited", () => {
    expect(epoch({ type: "delimited", date_time: { converted_to_epoch: true } })).toBe(false);
  });
});

test("2.2 what concerns one type only is nothing in the other", () => {
  const format = { enclosing_character: "'", escape_character: "\\", boolean: { use_bit_values: true } };
  expect(formatOf(valid({ target, format }))).toMatchObject({
    enclosingCharacter: "'",
    escapeCharacter: "",
    useBitValues: true,
  });
  expect(formatOf(valid({ target, format: { ...format, type: "delimited" } }))).toMatchObject({
    enclosingCharacter: "",
    escapeCharacter: "\\",
    useBitValues: false,
  });
});

test("A.12 no client can have more errors described than fit into a status", () => {
  const wanted = (count: number): number =>
    maxErrorsOf(valid({ target, advanced_options: { max_reported_parsing_errors: count } }));
  expect([wanted(0), wanted(7), wanted(1e9)]).toEqual([0, 7, 10_000]);
});

import { execFile } from "node:child_process";
import { appendFile, mkdtemp, readFile, rename, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { parse } from "csv-parse/sync";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { SourceRecord } from "#connector.ts";
import type { RollcallError } from "#errors.ts";
import csv from "#connectors/csv/index.ts";
import { debianPackages, missing } from "../../support/ldap/debian.ts";
import { withZip64, xlsx, zip, type XlsxCell, type XlsxOptions, type XlsxSheet } from "../../support/xlsx.ts";
import { type CsvProvision, csvMedium, type Format, memberOfColumns, pairs } from "./csv-medium.ts";
import { failureOf } from "./ldap-reading.ts";
import { type Fault, sourceSuite } from "./suite.ts";

const [begin, end] = ["<<CSV ", " CSV>>"];

/** The same rows in a workbook, which also holds them as text, so that a test can change them. */
const inWorkbook = (format: Format, name: string, prefix?: string): Format => ({
  ...format,
  name,
  extension: ".xlsx",
  options: { ...format.options, source: {} },
  encode: (text) => {
    const rows = text === "" ? [] : parse(text, { delimiter: format.delimiter, relax_column_count: true });
    const sheets = [
      { name: "Notes", rows: [] },
      { name: "Company", rows },
    ];
    return xlsx(sheets, { prefix, more: { "source.csv": Buffer.from(begin + text + end) } });
  },
  decode: (bytes) => {
    const text = bytes.toString();
    return text.slice(text.indexOf(begin) + begin.length, text.indexOf(end));
  },
});

const before: readonly Fault<CsvProvision>[] = [
  {
    name: "the users are missing",
    inject: ({ path }) => rm(path("users")),
    message: /^users\.xlsx does not exist/,
  },
  {
    name: "the users are cut off",
    inject: async ({ path }) => truncate(path("users"), (await readFile(path("users"))).length - 30),
    message: /^users\.xlsx ends before the end of the workbook: it is cut off/,
  },
  {
    name: "a byte of the users is another one",
    inject: async ({ path }) => {
      const bytes = await readFile(path("users"));
      const at = bytes.indexOf("sheet2.xml") + 60;
      bytes[at] = (bytes[at] ?? 0) ^ 0x55;
      await writeFile(path("users"), bytes);
    },
    message: /^users\.xlsx is a damaged Excel workbook: xl\/worksheets\/sheet2\.xml /,
  },
  {
    name: "somebody has the users open in Excel",
    inject: ({ folder }) => writeFile(join(folder, "~$users.xlsx"), "somebody"),
    message: /^users\.xlsx: it is open in Excel or LibreOffice, as ~\$users\.xlsx beside it says/,
    advice: "retry",
  },
  {
    name: "somebody has the users open in LibreOffice",
    inject: ({ folder }) => writeFile(join(folder, ".~lock.users.xlsx#"), "somebody"),
    message: /^users\.xlsx: it is open in Excel or LibreOffice, as \.~lock\.users\.xlsx# beside it says/,
    advice: "retry",
  },
  {
    name: "the users are a header alone",
    inject: ({ edit }) => edit("users", (text) => text.slice(0, text.indexOf("\n") + 1)),
    message: /^users\.xlsx has too few rows: 0/,
  },
  {
    name: "the users end after a row",
    inject: ({ edit }) => edit("users", (text) => text.slice(0, text.lastIndexOf("\n", text.length - 2) + 1)),
    message: /^users\.xlsx has too few rows: 8 after the header, expected at least 9/,
  },
  {
    name: "the header is missing",
    inject: ({ edit }) => edit("users", (text) => text.slice(text.indexOf("\n") + 1)),
    message: /^users\.xlsx:1: the header has no column/,
  },
  {
    name: "no sheet has values",
    inject: ({ edit }) => edit("users", () => ""),
    message: /^users\.xlsx has no visible sheet with values: "Notes", "Company"/,
  },
];

const during: readonly Fault<CsvProvision>[] = [
  {
    name: "the users grow",
    inject: ({ path }) => appendFile(path("users"), "x"),
    message: /^users\.xlsx changed while it was being read/,
    advice: "retry",
  },
  {
    name: "the users are cut off",
    inject: ({ path }) => truncate(path("users"), 80),
    message: /^users\.xlsx changed while it was being read/,
    advice: "retry",
  },
  {
    name: "the users are replaced",
    inject: async ({ path }) => {
      await writeFile(`${path("users")}.new`, await readFile(path("users")));
      await rename(`${path("users")}.new`, path("users"));
    },
    message: /^users\.xlsx changed while it was being read/,
    advice: "retry",
  },
];

const ofColumns = inWorkbook(memberOfColumns, "Excel, memberships in a column of users and groups");
const ofPairs = inWorkbook(pairs, "Excel, memberships in a sheet of pairs, elements with a prefix", "x");
sourceSuite(csvMedium(ofColumns, { before, during }, { users: 20_000, heap: 32 }));
sourceSuite(csvMedium(ofPairs, { before: [], during: [] }, undefined));

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-excel-"));
});

afterEach(() => rm(folder, { recursive: true }));

interface Reading {
  readonly records: readonly SourceRecord[];
  readonly warnings: readonly string[];
}

async function read(content: Buffer | undefined, more: object = {}, attributes?: readonly string[]): Promise<Reading> {
  if (content !== undefined) await writeFile(join(folder, "people.xlsx"), content);
  const { source = {}, ...users } = more as { source?: object };
  const options = csv.options.parse({ ...source, users: { file: "people.xlsx", id: "id", ...users } });
  const warnings: string[] = [];
  const context = {
    signal: new AbortController().signal,
    warn: (message: string) => void warnings.push(message),
    ...(attributes && { attributes: { users: attributes, groups: [] } }),
  };
  const records = (await Array.fromAsync(csv.open(options, { name: "hr", folder }).read(context))).flat();
  return { records, warnings };
}

const people = (rows: XlsxSheet["rows"], more: Partial<XlsxSheet> = {}, options: XlsxOptions = {}): Buffer =>
  xlsx([{ name: "People", rows, ...more }], options);

const failure = (...args: Parameters<typeof read>): Promise<RollcallError> => failureOf(read(...args));

const attributesOf = ({ records }: Reading) => records.map((record) => "attributes" in record && record.attributes);

test("dates, times, truths, numbers and formulas are texts that rules can read", async () => {
  const formats = ["dd.mm.yyyy", "00000", '[$-407]d. mmmm yyyy "at" hh:mm', '0.00 "days"', "[h]:mm", "hh:mm:ss"];
  const cell = (style: number, value: number | string): XlsxCell => ({
    xml: `<c r="REF" s="${style}"><v>${value}</v></c>`,
  });
  const row: XlsxCell[] = [
    "a",
    cell(1, 44197),
    cell(2, 42),
    cell(3, 44197.75),
    cell(4, "0.30000000000000004"),
    cell(5, 1.5),
    cell(6, 0.5),
    cell(7, 59),
    { xml: '<c r="REF" t="d"><v>2021-01-01T00:00:00Z</v></c>' },
    { xml: '<c r="REF" t="str"><f>A2&amp;"x"</f><v>ax_x000D_</v></c>' },
    { xml: '<c r="REF" t="inlineStr"><is><r><t>Jö</t></r><r><t>rg</t></r><rPh><t>yomi</t></rPh></is></c>' },
    true,
    { xml: '<c r="REF"><f>1+1</f><v>2</v></c>' },
    cell(0, "1.23E+15"),
    cell(0, -7),
    { xml: '<c r="REF" t="s"><v></v></c>' },
  ];
  const header = [
    "id",
    "day",
    "five",
    "moment",
    "sum",
    "hours",
    "noon",
    "early",
    "iso",
    "formula",
    "rich",
    "yes",
    "two",
    "big",
    "less",
    "empty",
  ];
  expect(attributesOf(await read(people([header, row], {}, { formats })))).toEqual([
    {
      id: "a",
      day: "2021-01-01",
      five: "00042",
      moment: "2021-01-01T18:00:00",
      sum: "0.3",
      hours: "1.5",
      noon: "12:00:00",
      early: "1900-02-28",
      iso: "2021-01-01",
      formula: "ax\r",
      rich: "Jörg",
      yes: "true",
      two: "2",
      big: "1230000000000000",
      less: "-7",
    },
  ]);
  const in1904 = people([header.slice(0, 2), row.slice(0, 2)], {}, { formats, is1904: true });
  expect(attributesOf(await read(in1904))).toMatchObject([{ day: "2025-01-02" }]);
});

test("archives may have the sizes of ZIP64, and part names in any case", async () => {
  const book = people([["id"], ["a"]]);
  const renamed = Buffer.from(book.toString("latin1").replaceAll("xl/sharedStrings", "xl/SharedStrings"), "latin1");
  for (const content of [withZip64(book), renamed]) expect((await read(content)).records).toMatchObject([{ id: "a" }]);
});

test("ids that are numbers are texts, and are told", async () => {
  const found = await read(
    people([
      ["id", "n"],
      [10011, 1],
      ["00012", 2],
      [13, 3],
    ]),
  );
  expect(found.records.map((record) => "id" in record && record.id)).toEqual(["10011", "00012", "13"]);
  expect(found.warnings).toEqual([
    'people.xlsx, sheet "People": "id" has ids or references, and 2 are numbers (the first in A2): zeros in front of a number are lost; format the column as text if there were any',
  ]);
  for (const many of [1234567890123456, 1e21])
    expect((await failure(people([["id"], [many]]))).message).toMatch(
      /^people\.xlsx:2: cell A2: a number of more than 15 digits, of which Excel keeps 15; format the column as text/,
    );
});

test("hidden rows are read, counted and told", async () => {
  const after = '<autoFilter ref="A1:A4"/>';
  const found = await read(people([["id"], ["a"], ["b"], ["c"]], { hiddenRows: [2, 4], after }));
  expect(found.records).toHaveLength(3);
  expect(found.warnings).toEqual([
    expect.stringMatching(
      /^people\.xlsx, sheet "People": 2 rows are hidden \(it has a filter\) and read like all others/,
    ),
  ]);
});

describe("a cell without a value of its own", () => {
  const formula = { xml: '<c r="REF"><f>VLOOKUP(A2,B:C,2)</f></c>' };
  const error = { xml: '<c r="REF" t="e"><f>1/0</f><v>#N/A</v></c>' };
  const noDate = { xml: '<c r="REF" s="1"><v>0</v></c>' };

  test.each([
    [
      "a formula that nobody computed",
      formula,
      /cell B2 has a formula without a value, .* open it in Excel and save it/,
    ],
    ["an error", error, /cell B2 is #N\/A; correct it/],
    ["a date that is none", noDate, /cell B2 is formatted as a date, and no date has its number/],
  ])("fails where it is read: %s", async (_, cell, message) => {
    const book = people([
      ["id", "mail"],
      ["a", cell],
    ]);
    expect((await failure(book, {}, ["mail"])).message).toMatch(message);
    expect((await failure(book, { columns: { mail: "mail" } }, [])).message).toMatch(message);
    expect((await failure(book)).message).toMatch(/^people\.xlsx:2: cell B2 /);
    const { warnings, records } = await read(book, {}, ["id"]);
    expect(records).toHaveLength(1);
    expect(warnings).toEqual([expect.stringMatching(/: 1 cell in columns that nobody reads without a value: B2 /)]);
  });

  test("fails in the header", async () => {
    expect((await failure(people([["id", error], ["a"]]))).message).toMatch(
      /^people\.xlsx:1: cell B1 of the header is #N\/A/,
    );
  });
});

test("merged cells of the header, and of columns that are read, fail", async () => {
  const merged = (range: string) =>
    people([["id", "name", "x"], ["a", "A"], ["b"]], { after: `<mergeCells><mergeCell ref="${range}"/></mergeCells>` });
  expect((await failure(merged("B1:C1"))).message).toBe(
    "people.xlsx: the cells B1:C1 of the header are merged; give each column a name of its own, in one row",
  );
  expect((await failure(merged("B2:B3"), {}, ["name"])).message).toMatch(
    /the cells B2:B3 are merged, so only the first has a value/,
  );
  expect((await read(merged("C2:C3"), {}, ["name"])).records).toHaveLength(2);
});

test("the sheet and the row of the header can be named", async () => {
  const rows = [["Report of today"], [], ["id", "name"], [], ["a", "A"], [], ["b"]];
  const book = xlsx([
    { name: "Cover", rows: [["Hello"]] },
    { name: "Über uns", rows },
    { name: "Old", rows: [["id"], ["z"]], state: "hidden" },
  ]);
  expect((await failure(book)).message).toBe(
    'people.xlsx has several sheets: "Cover", "Über uns", "Old"; name one as sheet',
  );
  expect((await failure(book, { sheet: "Uber uns" })).message).toMatch(
    /^people\.xlsx has no sheet "Uber uns"; it has "Cover"/,
  );
  const found = await read(book, { sheet: "über uns", headerRow: 3 });
  expect(found.records).toMatchObject([
    { id: "a", origin: "people.xlsx:5" },
    { id: "b", origin: "people.xlsx:7" },
  ]);
  expect((await read(book, { sheet: "Über uns", skipUntilHeader: true })).records).toHaveLength(2);
  expect((await read(book, { sheet: "Old" })).records).toMatchObject([{ id: "z" }]);
  expect(
    csv.options.safeParse({ users: { file: "a", id: "b", headerRow: 2, skipLines: 1 } }).error?.issues,
  ).toMatchObject([{ path: ["users", "headerRow"], message: "expected one of headerRow and skipLines" }]);
  await writeFile(join(folder, "people.xlsx"), "id\na\n");
  expect((await failure(undefined, { sheet: "Old" })).message).toMatch(/^people\.xlsx is no Excel workbook/);
  expect((await read(undefined, { headerRow: 1 })).records).toMatchObject([{ id: "a" }]);
});

test("a value beyond the header fails, with its cell", async () => {
  expect(
    (
      await failure(
        people([
          ["id", "name"],
          ["a", "A", undefined, "more"],
        ]),
      )
    ).message,
  ).toBe("people.xlsx:2: cell D2 has a value, and its column has no name in the header (row 1)");
});

test("what is no workbook of today is refused with advice", async () => {
  const ole = Buffer.concat([Buffer.from([0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1]), Buffer.alloc(2_000)]);
  expect((await failure(ole)).message).toBe(
    "people.xlsx is an Excel workbook of before 2007 (.xls), or another Office document; save it as .xlsx",
  );
  const encrypted = Buffer.concat([ole, Buffer.from("EncryptedPackage", "utf16le"), Buffer.alloc(500)]);
  expect((await failure(encrypted)).message).toMatch(/^people\.xlsx is protected by a password; save it without one/);
  expect((await failure(zip({ "a.txt": "hello" }))).message).toBe(
    "people.xlsx is a zip archive, not CSV; unzip it, then load the files in it",
  );
  const ods = zip({ mimetype: Buffer.from("application/vnd.oasis.opendocument.spreadsheet"), "content.xml": "<a/>" });
  expect((await failure(ods)).message).toMatch(/^people\.xlsx is an OpenDocument spreadsheet/);
  const binary = zip({
    "[Content_Types].xml": "<a/>",
    "_rels/.rels": '<R><Relationship Id="a" Type="x/officeDocument" Target="xl/workbook.bin"/></R>',
  });
  expect((await failure(binary)).message).toBe("people.xlsx is a binary Excel workbook (.xlsb); save it as .xlsx");
});

test("bombs are refused before they do harm", async () => {
  const rows = [["id"], ["a"]];
  const spaces = people(rows, {}, { more: { "xl/sharedStrings.xml": `<sst>${" ".repeat(20_000_000)}</sst>` } });
  expect((await failure(spaces)).message).toMatch(/xl\/sharedStrings\.xml grows to more than 200 times its size/);
  const laughs = `<!DOCTYPE sst [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><sst><si><t>&b;</t></si></sst>`;
  expect((await failure(people(rows, {}, { more: { "xl/sharedStrings.xml": laughs } }))).message).toMatch(
    /sharedStrings\.xml (?:has a document type|is not XML)/,
  );
  const far = {
    "xl/worksheets/sheet1.xml":
      '<worksheet><sheetData><row r="1"><c r="ZZZ1"><v>1</v></c></row></sheetData></worksheet>',
  };
  expect((await failure(people(rows, {}, { more: far }))).message).toMatch(/a cell of row 1 is at ZZZ1/);
});

test("a pattern does not match the lock files of Office", async () => {
  await writeFile(join(folder, "a.xlsx"), people([["id"], ["a"]]));
  await writeFile(join(folder, "~$b.xlsx"), "somebody");
  expect((await read(undefined, { file: "*.xlsx" })).records).toMatchObject([{ id: "a", origin: "a.xlsx:2" }]);
});

const openpyxl = debianPackages("openpyxl", "/usr/lib/python3/dist-packages/openpyxl", ["python3-openpyxl"]);
const reason = await missing(openpyxl);

test.skipIf(reason !== undefined)("workbooks of openpyxl are read, but not its formulas", async () => {
  const { path } = await openpyxl;
  const script = `
import datetime, openpyxl, sys
book = openpyxl.Workbook()
sheet = book.active
sheet.append(["id", "name", "start", "at", "active", "pay"])
sheet.append(["a", "J\\u00f6rg <&> \\U0001F989\\nM\\u00fc\\u00dfig", datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 13, 45, 7), True, 1.25])
sheet.append(["b", None, datetime.date(1900, 1, 1), datetime.time(8, 30), False, "=F2*2"])
sheet.row_dimensions[3].hidden = True
sheet.auto_filter.ref = "A1:F3"
book.create_sheet("Empty")
book.save(sys.argv[1])
`;
  const env = { ...process.env, PYTHONPATH: path("/usr/lib/python3/dist-packages") };
  await promisify(execFile)("python3", ["-c", script, join(folder, "people.xlsx")], { env });
  const { records, warnings } = await read(undefined, {}, ["name", "start", "at", "active"]);
  expect(records).toMatchObject([
    {
      attributes: {
        name: "Jörg <&> 🦉\nMüßig",
        start: "2024-02-29",
        at: "2024-02-29T13:45:07",
        active: "true",
        pay: "1.25",
      },
    },
    { attributes: { id: "b", start: "1900-01-01", at: "08:30:00", active: "false" } },
  ]);
  expect(warnings).toEqual([
    expect.stringMatching(/1 row is hidden \(it has a filter\)/),
    expect.stringMatching(/without a value: F3 has a formula without a value/),
  ]);
  expect((await failure(undefined, {}, ["pay"])).message).toMatch(
    /^people\.xlsx:3: cell F3 has a formula without a value/,
  );
});

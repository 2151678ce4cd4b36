import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { guessFormat } from "#exports/format/guess.ts";
import type { Guess } from "#exports/format/guess.ts";
import type { FormatOptions } from "#exports/format/options.ts";
import { Workbench } from "#duckdb/workbench.ts";

let folder: string;
let workbench: Workbench;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-guess-"));
  workbench = await Workbench.open({ folder: join(folder, "work"), memory: 2 ** 28 });
});
afterAll(async () => {
  await workbench.close();
  await rm(folder, { recursive: true });
});

/** @param table `id BIGINT, name VARCHAR`; undefined: it is another server's */
function guess(table: string | undefined, text: string, given: Partial<FormatOptions> = {}): Promise<Guess> {
  const columns = table?.split(", ").map((column) => {
    const [name = "", type = ""] = column.split(" ");
    return { name, type };
  });
  return guessFormat(workbench, { name: "rows.csv", sample: Buffer.from(text), isWhole: true }, columns, given);
}

describe("lines end as they do for a load", () => {
  test("a header that ends otherwise than the rows", async () => {
    const { columns, options, doubts } = await guess("id BIGINT, s VARCHAR", "id,s\r\n1,x\n2,y\n");
    expect([columns, options, doubts]).toEqual([
      [
        ["id", "BIGINT", '"1", "2"'],
        ["s", "VARCHAR", '"x", "y"'],
      ],
      { has_header_row: true },
      [],
    ]);
  });
  test.each(["id,s\r1,x\r2,y\r", "id,s\r1,x\r2,y", "\uFEFFid,s\r1,x\n2,y\n", `id,s\r${"1,x\r".repeat(300_000)}`])(
    "a return alone ends nothing",
    async (text) => {
      await expect(guess("id BIGINT, s VARCHAR", text, { has_header_row: true })).rejects.toThrow(
        "rows.csv: lines end in a carriage return (\\r) without a newline",
      );
    },
  );
  test("a return in a row is a doubt, in quotes it is data", async () => {
    const { doubts } = await guess("id BIGINT, s VARCHAR", "id,s\n1,x\n2,y\r3,z\n");
    expect(doubts).toEqual([expect.stringMatching(/^row 2 has a carriage return/)]);
    expect((await guess("id BIGINT, s VARCHAR", 'id,s\n1,"x\ry"\n')).doubts).toEqual([]);
  });
  test("rows that would be rejected are named", async () => {
    const { notes } = await guess("id BIGINT, s VARCHAR", 'id,s\n1,x\n2,"y"z\n3,"w"v\n');
    expect(notes).toEqual(['row 2 would be rejected, and 1 more like it: text after the closing "']);
  });
});

describe("numbers that are hardly seconds since 1970", () => {
  test.each([
    [
      "DATE",
      ["45321", "36526"],
      "since: 45321 is 1970-01-01 as seconds since 1970, 2024-01-30 as a day of a spreadsheet; ",
    ],
    ["DATE", ["45321", "n/a", "36526"], "2024-01-30 as a day of a spreadsheet"],
    ["DATE", ["2024", "1999"], "since: 2024 is 1970-01-01 as seconds since 1970"],
    ["TIMESTAMP", ["45321.5", "45322.25"], "since: 45321.5 is 1970-01-01"],
    [
      "TIMESTAMP",
      ["1706659200000"],
      "since: 1706659200000 is no date before the year 10000 as seconds since 1970, and 2024-01-31 as milliseconds",
    ],
    ["DATE", ["1706659200000"], "and 2024-01-31 as milliseconds"],
    ["TIMESTAMP", ["1706659200000000", "0"], "and 2024-01-31 as microseconds"],
    ["TIMESTAMP", ["1706659200000000000"], "and 2024-01-31 as nanoseconds"],
    ["DATE", ["0", "20241231", "0"], "since: 20241231 is 1970-08-23 as seconds since 1970, and a day as %Y%m%d"],
  ])("%s %j", async (type, values, told) => {
    const text = `id,since\n${values.map((value, i) => `${i},${value}\n`).join("")}`;
    const { doubts, options } = await guess(`id BIGINT, since ${type}`, text);
    expect(doubts).toEqual([expect.stringContaining(told)]);
    expect(doubts[0]).toContain("give --converted-to-epoch");
    expect(options).not.toHaveProperty("converted_to_epoch");
    expect((await guess(`id BIGINT, since ${type}`, text, { converted_to_epoch: true })).doubts).toEqual([]);
  });
  test.each([
    ["DATE", ["1706659200", "0"]],
    ["TIMESTAMP", ["1706659200.5", "-86400"]],
    ["DATE", ["253402214400"]],
    ["DATE", [""]],
  ])("seconds are taken for seconds: %s %j", async (type, values) => {
    const text = `id,since\n${values.map((value, i) => `${i},${value}\n`).join("")}`;
    expect((await guess(`id BIGINT, since ${type}`, text)).doubts).toEqual([]);
  });
  test("a column each: one of days beside one of seconds; and seconds beside dates", async () => {
    const two = await guess("a DATE, b DATE", "a,b\n1706659200,45321\n");
    expect(two.doubts).toEqual([expect.stringMatching(/^b: 45321 is 1970-01-01/)]);
    const mixed = await guess("a DATE, b TIMESTAMP", "a,b\n2024-01-31,1706659200\n");
    expect(mixed.doubts).toEqual(['b has numbers ("1706659200") where others are %Y-%m-%d; write both in one way']);
  });
});

describe("a number that no load takes", () => {
  test.each(["12,5", "1.234,50", "1,234.50", "1,234", "1.234.567", "1'234", "12 345", "-1\u202F234,5"])(
    "%s",
    async (number) => {
      for (const type of ["BIGINT", "DOUBLE", "DECIMAL(12,2)"]) {
        const { doubts } = await guess(`id BIGINT, amount ${type}`, `id;amount\n1;1.23\n2;${number}\n`);
        expect(doubts).toEqual([
          expect.stringContaining(`amount: "${number}" is no number in a load; write all numbers`),
        ]);
      }
      expect((await guess("id BIGINT, amount VARCHAR", `id;amount\n1;x\n2;${number}\n`)).doubts).toEqual([]);
    },
  );
  test.each(["1.234", "-12.5", "1e3", "NaN", "12,", "x"])("%s is one, or something else", async (text) => {
    expect((await guess("id BIGINT, amount DOUBLE", `id;amount\n1;2\n2;${text}\n`)).doubts).toEqual([]);
  });
});

describe("a null that is a text, too", () => {
  test.each(["NA", "NULL", "-", "None", "N/A"])("%s", async (nothing) => {
    const text = `code,sales,country\na,1,${nothing}\nb,${nothing},DE\nc,3,${nothing}\n`;
    const { doubts, doubtful } = await guess("code VARCHAR, sales BIGINT, country VARCHAR", text);
    expect(doubts).toEqual([
      `"${nothing}" stands for null in sales, but country is text and may mean it (2 rows of country): ` +
        "give --null-value if it is null there, too, or write nulls differently",
    ]);
    expect(doubtful).toEqual(["null_value"]);
    const given = await guess("code VARCHAR, sales BIGINT, country VARCHAR", text, { null_value: nothing });
    expect(given.doubts).toEqual([]);
  });
  test("is none where no text has it", async () => {
    const table = "code VARCHAR, sales BIGINT";
    expect(await guess(table, "code,sales\na,NA\nb,1\n")).toMatchObject({ doubts: [], options: { null_value: "NA" } });
  });
  test("empty fields stay what the interface says that they are", async () => {
    const table = "code VARCHAR, since DATE";
    const options = { has_header_row: true, date_format: "%Y-%m-%d" };
    const empty = await guess(table, "code,since\na,\n,2024-01-31\n");
    expect(empty).toMatchObject({ doubts: [], notes: [], options });
    expect(empty.options).not.toHaveProperty("null_value");
    const both = await guess(table, "code,since\na,-\n,2024-01-31\nb,\n");
    expect(both).toMatchObject({ doubts: [], notes: [], options: { ...options, null_value: "-" } });
  });
  test("the first and the last day of all, which stand for no date, are dates", async () => {
    const told = await guess("id BIGINT, since DATE", "id,since\n1,9999-12-31\n2,0001-01-01\n");
    expect(told).toMatchObject({ doubts: [], notes: [], options: { date_format: "%Y-%m-%d" } });
  });
});

describe("a header", () => {
  test("is not told from a line for spreadsheets, which is refused", async () => {
    await expect(guess("login VARCHAR, team VARCHAR", "sep=,\r\nlogin,team\r\nada,x\r\n")).rejects.toThrow(
      "rows.csv begins with a line for spreadsheets (sep=,), which would be loaded as a row",
    );
  });

  test.each<[string | undefined, string, boolean | "doubt"]>([
    ["login VARCHAR, team VARCHAR", "Login,Team\nada,x\n", true],
    ["login VARCHAR, team VARCHAR", "Benutzer,Abteilung\nada,x\n", "doubt"],
    ["login VARCHAR, team VARCHAR", "ada,x\ngrace,y\n", "doubt"],
    ["login VARCHAR, team VARCHAR, town VARCHAR", "login,Abteilung,Ort\nada,x,y\n", "doubt"],
    ["id BIGINT, name VARCHAR", "Nummer,Name\n1,x\n", true],
    ["id BIGINT, name VARCHAR", "Nummer,Vorname\n1,x\nNA,y\n3,z\n", true],
    ["id BIGINT, name VARCHAR", "1,x\n2,y\n", false],
    [undefined, "Benutzer,Abteilung\nada,x\n", "doubt"],
  ])("%s over %j: %s", async (table, text, expected) => {
    const { options, doubts } = await guess(table, text);
    if (expected === "doubt") expect(doubts).toEqual([expect.stringMatching(/^is the first row \(".*"\) a header\?/)]);
    else expect([options.has_header_row ?? false, doubts]).toEqual([expected, []]);
    for (const has_header_row of [true, false])
      expect((await guess(table, text, { has_header_row })).doubts).toEqual([]);
  });
});

describe("what is not found out names the options that say it", () => {
  test("a separator that separates nothing names the header", async () => {
    const text = `id,name,code\n${'1,"A",X\n'.repeat(50)}51,"He said ""x;y"" ok",Z\n`;
    const { doubts } = await guess("id BIGINT, name VARCHAR, code VARCHAR", text, { field_separator: ";" });
    expect(doubts[0]).toBe(
      'with the separator ";" the first row is one field, "id,name,code", and the table has 3 columns; give --field-separator: is it ","?',
    );
  });
  test.each([
    ["# export of HR\nid,name\n1,a\n2,b\n", 'the first row ("# export of HR") is', '"id", "name"', true],
    [
      "# export\n# 3 rows, at noon\n\nid;name\n1;a\n2;b\n",
      'the first 2 rows ("# export", …) are',
      '"id", "name"',
      true,
    ],
    ["People,,\nid,name,\n1,a,\n", 'the first row ("People", "", "") is', '"id", "name", ""', true],
    [",\nid,name\n1,a\n", 'the first row ("", "") is', '"id", "name"', true],
    ["-- people\n1,a\n2,b\n", 'the first row ("-- people") is', '"1", "a"', undefined],
  ])("titles and comments above the rows: %j", async (text, those, below, header) => {
    const { doubts, options } = await guess("id BIGINT, name VARCHAR", text);
    expect([doubts, options.has_header_row]).toEqual([
      [`${those} neither a header nor data, and a load has no comments; delete what is above ${below}`],
      header,
    ]);
  });
  test("short rows and names among the data are no titles", async () => {
    const table = "name VARCHAR, type VARCHAR";
    for (const [columns, text, given] of [
      [table, "ada,name\ngrace,type\n", {}],
      [table, "name,type\nada,x\nname,type\n", {}],
      ["id BIGINT, name VARCHAR", "1\n2,b\n3,c\n", { flexible: true }],
    ] as const)
      expect((await guess(columns, text, given)).doubts.join()).not.toContain("neither a header");
  });
  test("dates and booleans", async () => {
    const { doubts } = await guess("a DATE, b BOOLEAN", "a,b\n3rd of May,vielleicht\n4th of May,nie\n");
    expect(doubts).toEqual([
      'no format is known for "3rd of May" in a; give --date-format as for strptime, like %Y%m%d',
      'which of "vielleicht", "nie" is true? Give --true-format and --false-format',
    ]);
  });
  test("a quote that is never closed", async () => {
    await expect(guess("a VARCHAR, b VARCHAR", '"ada,x\ngrace,y\n')).rejects.toThrow(/^rows\.csv: row 1: no closing "/);
  });
  test("a separator that encloses", async () => {
    await expect(guess("a VARCHAR", "x\n", { field_separator: '"' })).rejects.toThrow("cannot both separate fields");
  });
});

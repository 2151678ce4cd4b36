import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { LoadFormat } from "#service/loads/load-format.ts";
import { useParsing } from "./parsing.ts";
import { cases } from "../../../support/random.ts";

const { load } = useParsing();

/** Fields of which a part converts, and a part only nearly. Of a load, all are made of few kinds of bytes. */
const unit = fc.constantFrom(
  ["0", "1", "2", "9"],
  ["0", "1", "2", "9", "-"],
  ["0", "1", "2", "9", "-", "."],
  ["0", "1", "2", "9", "-", ".", " "],
  ["1", "2", "-", "/", ":", " "],
  ["1", "2", "-", "+", "e", "_", "x", "inf", "nan", "\t"],
);
const date = fc
  .date({ min: new Date("0000-01-01"), max: new Date("9999-12-31"), noInvalidDate: true })
  .map((value) => value.toISOString());
const fields = unit.chain((units) => {
  const wild = fc.array(fc.constantFrom(...units), { minLength: 1, maxLength: 12 }).map((parts) => parts.join(""));
  const number = fc.oneof(fc.integer().map(String), fc.double({ noNaN: true }).map(String), fc.bigInt().map(String));
  const moment = date.chain((iso) =>
    fc.constantFrom(
      iso.slice(0, 10),
      iso.slice(0, 10).replaceAll("-0", "-"),
      iso.slice(0, 19).replace("T", " "),
      iso.slice(0, 23).replace("T", " "),
      iso.slice(0, 10).split("-").reverse().join("."),
      iso.slice(0, 10).replaceAll("-", "/"),
      ` ${iso.slice(0, 10)}`,
      `${iso.slice(0, 19).replace("T", "  ")} `,
      "2023-02-29",
      "2024-02-30 24:00:00",
      "2024-02-28 24:00:00",
      "2024-02-28 23:59:60",
      "0000-01-01",
      "-024-01-05",
      "2024-1-005",
      "20240-1-05",
    ),
  );
  const tidy = fc.constantFrom(number, moment, wild).chain((one) => fc.array(one, { minLength: 1, maxLength: 3 }));
  const nothing = fc.constantFrom([], [], [], ["(null)"], [""], ['""'], ['"1"']);
  return fc.tuple(tidy, nothing).map(([some, more]) => [...some, ...more]);
});
const types = [
  "BIGINT",
  "INTEGER",
  "SMALLINT",
  "DOUBLE",
  "FLOAT",
  "DECIMAL(9,2)",
  "DATE",
  "TIMESTAMP",
  "TIME",
  "VARCHAR",
];
const format: fc.Arbitrary<Partial<LoadFormat>> = fc.record({
  convertedToEpoch: fc.boolean(),
  dateFormat: fc.constantFrom(
    "%Y-%m-%d",
    "%d.%m.%Y",
    "%Y%m%d",
    "%Y/%m/%d",
    "%y-%e-%m",
    "%F",
    "%d %b %Y",
    "%Y-%m-%d %H:%M",
  ),
  dateTimeFormat: fc.constantFrom("%Y-%m-%d %H:%M:%S", "%F %T", "%Y-%m-%d", "%d.%m.%Y", "%Y-%m-%d %H:%M:%S.%f"),
  skipSecondFraction: fc.boolean(),
  hasHeaderRow: fc.boolean(),
});

test("A.15 A.17 A.18 A.19 what is read in one pass is what is read with care", async () => {
  let direct = 0;
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...types), fields, format, async (type, values, options) => {
      const header = options.hasHeaderRow === true ? "a,b\n" : "";
      const lines = values.map((value) => `${value},x\n`).join("");
      // The comparison is made by `load`.
      const { isDirect } = await load([`a ${type}`, "b VARCHAR"], options, header + lines);
      if (isDirect) direct++;
    }),
    { numRuns: cases(150) },
  );
  expect(direct).toBeGreaterThan(7);
});

describe("A.7 is read in one pass", () => {
  const columns = ["id BIGINT", "name VARCHAR", "day DATE", "at TIMESTAMP", "amount DOUBLE", "is BOOLEAN"];
  const formats = { convertedToEpoch: false, dateFormat: "%Y-%m-%d", dateTimeFormat: "%Y-%m-%d %H:%M:%S" };
  const row = '1,"a ""b"", c",2024-02-29,2024-02-29 12:00:00,-1.5,T\n';

  test.each<[string, Partial<LoadFormat>, string[]]>([
    ["rows with everything", formats, [row + row]],
    ["nulls and empty fields", formats, [`${row}(null),(null),(null),(null),(null),(null)\n,,,,,\n`]],
    ["chunks with a header each", { ...formats, hasHeaderRow: true }, [`h,a,b,c,d,e\n${row}`, `h,a,b,c,d,e\n${row}`]],
    ["a header in the first chunk only", { ...formats, hasHeaderRow: true }, [`h\n${row}`, row, `${row}${row}`]],
    ["fractions of seconds", formats, [row.replace("12:00:00", "12:00:00.25")]],
    ["a byte order mark, and no newline at the end", formats, [`\uFEFF${row}`, row.trimEnd()]],
    ["numbers with signs and exponents", formats, ["+1,x,2024-02-29,2024-02-29 12:00:00,1e5,F\n"]],
    [
      "dates that are not as DuckDB writes them",
      { ...formats, dateFormat: "%d.%m.%Y", dateTimeFormat: "%d.%m.%Y %H:%M" },
      ["1,x,29.2.2024,29.02.2024 12:00,1,F\n"],
    ],
    ["epoch seconds", {}, ["1,x,1709164800,1709208000.5,1,F\n2,y,-1,-1,0,T\n"]],
  ])("%s", async (_, format, chunks) => {
    const { isDirect, rejected } = await load(columns, format, ...chunks);
    expect({ isDirect, rejected }).toEqual({ isDirect: true, rejected: 0 });
  });

  test.each<[string, Partial<LoadFormat>, string]>([
    ["too many fields", formats, `${row}1,2,3,4,5,6,7\n`],
    ["a number that is none", formats, row.replace("1", "1.5")],
    ["a number too large", formats, row.replace("1", "9".repeat(20))],
    ["a date that is none", formats, row.replace("02-29", "02-30")],
    ["neither true nor false", formats, row.replace("T", "true")],
    ["text behind quotes", formats, row.replace('c"', 'c"x')],
    ["beyond what a DOUBLE holds", formats, row.replace("-1.5", "1".repeat(400))],
    ["epoch seconds beyond what a TIMESTAMP holds", {}, "1,x,1,9223372036855,1,T\n"],
  ])("is not: %s", async (_, format, chunk) => {
    const { isDirect, rejected } = await load(columns, format, chunk);
    expect({ isDirect, rejected }).toEqual({ isDirect: false, rejected: 1 });
  });
});

describe("A.15 A.19 rows that are not like the first megabytes of them", () => {
  const columns = ["a INTEGER", "b DATE", "c DOUBLE", "d VARCHAR"];
  const format = { convertedToEpoch: false, dateFormat: "%Y-%m-%d" };
  const text = "x".repeat(20_000);
  const first = Array.from({ length: 240 }, (_, i) => `${i},2024-02-29,${i}.5,${text}\n`).join("");

  test.each([
    ["are like them", "7,2024-02-29,1.5,x\n", true, 0],
    ["are empty and null", ",,,\n(null),(null),(null),(null)\n", true, 0],
    ["are in quotes", '"8","2024-01-01","1","""y"""\n', true, 0],
    ["have spaces, signs and exponents", " 9 , 2024-01-01,+1e3,y\n", true, 0],
    ["have a fraction where there is none", "1.5,2024-02-29,1,y\n", false, 1],
    ["are hexadecimal", "0x1f,2024-02-29,1,y\n", false, 1],
    ["have another date", "1,20240229,1,y\n", false, 1],
    ["have a day that is none", "1,2024-02-30,1,y\n", false, 1],
    ["are too large", "1,2024-02-29,1e999,y\n", false, 1],
    ["have a field less", "1,2024-02-29,1\n", false, 1],
    ["have several lines", '1,2024-02-29,1,"a\nb"\n', false, 0],
  ])("%s", async (_, odd, direct, bad) => {
    const { isDirect, rejected, accepted } = await load(columns, format, `${first}${odd}`);
    const count = odd.startsWith(",") ? 242 : 241 - bad;
    expect({ isDirect, rejected, accepted }).toEqual({ isDirect: direct, rejected: bad, accepted: count });
  });
});

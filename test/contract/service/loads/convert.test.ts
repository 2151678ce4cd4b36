import { describe, expect, test } from "vitest";
import type { LoadFormat } from "#service/loads/load-format.ts";
import { useParsing } from "./parsing.ts";

const { load } = useParsing();

/** Loads one value a row into a column, and shows what becomes of each: its text, null, or `rejected`. */
async function each(
  type: string,
  format: Partial<LoadFormat>,
  values: readonly string[],
): Promise<Record<string, string | null>> {
  const text = values.map((value, i) => `${i};"${value}"\n`).join("");
  const { rows } = await load(["n INTEGER", `v ${type}`], { fieldSeparator: ";", ...format }, text);
  const found = new Map(rows.map(([n, v]) => [Number(n), v ?? null]));
  return Object.fromEntries(values.map((value, i) => [value, found.has(i) ? (found.get(i) ?? null) : "rejected"]));
}

/** The same as a table: `value` → what becomes of it. */
function rows(type: string, format: Partial<LoadFormat>, expected: Record<string, string | null>): void {
  test(`${type} ${JSON.stringify(format)}`, async () => {
    expect(await each(type, format, Object.keys(expected))).toEqual(expected);
  });
}
const no = "rejected";

describe("A.15 integers are an optional sign and digits within range", () => {
  const never = {
    "1.5": no,
    "1.0": no,
    "0x1f": no,
    "1_000": no,
    "1e3": no,
    "1 2": no,
    abc: no,
    "+": no,
    "--1": no,
    "\t1": no,
    "1\n": no,
    "٣": no,
    "0b1": no,
    T: no,
    "": null,
    "   ": null,
    " -5 ": "-5",
    "+7": "7",
    "007": "7",
    "-0": "0",
  };
  rows("INTEGER", {}, { ...never, "2147483647": "2147483647", "2147483648": no, "-2147483648": "-2147483648" });
  rows("SMALLINT", {}, { ...never, "32767": "32767", "32768": no });
  rows(
    "BIGINT",
    {},
    {
      ...never,
      "9223372036854775807": "9223372036854775807",
      "9223372036854775808": no,
      "-9223372036854775808": "-9223372036854775808",
    },
  );
});

describe("A.15 decimals are not rounded", () => {
  rows(
    "DECIMAL(6,2)",
    {},
    {
      "1.5": "1.50",
      "1.239": no,
      "1.2300": "1.23",
      "9999.99": "9999.99",
      "10000": no,
      "-.5": "-0.50",
      "5.": "5.00",
      "1e2": no,
      ".": no,
      NaN: no,
      Infinity: no,
      " 1 ": "1.00",
      "1_0": no,
      "0001.1": "1.10",
      ["1.10" + "0".repeat(60)]: "1.10",
      ["0".repeat(60) + "1"]: "1.00",
    },
  );
  rows("DECIMAL(4,0)", {}, { "12": "12", "12.0": "12", "12.5": no, ".0": "0" });
  rows("DECIMAL(38,10)", {}, { "1234567890123456789012345678.0123456789": "1234567890123456789012345678.0123456789" });
});

describe("A.15 exponents, NaN and Infinity in floating columns only", () => {
  const both = {
    "1.5": "1.5",
    "-2e3": "-2000.0",
    "1E+2": "100.0",
    ".5": "0.5",
    "5.": "5.0",
    NaN: "nan",
    Infinity: "inf",
    "-Infinity": "-inf",
    "+Infinity": "inf",
    " Infinity ": "inf",
    inf: no,
    nan: no,
    "1_0": no,
    "0x1p3": no,
    e5: no,
    "1e": no,
    "": null,
    "1e400": no,
  };
  rows("DOUBLE", {}, { ...both, "1e308": "1e+308" });
  rows("FLOAT", {}, { ...both, "1e39": no });
});

describe("A.15 other types", () => {
  const uuid = "8b0d6f4e-2f0c-4c3a-9a52-0c8e0d1f7a11";
  rows("UUID", {}, { [uuid]: uuid, [uuid.toUpperCase()]: uuid, [` ${uuid}`]: uuid, "8b0d6f4e": no, [`{${uuid}}`]: no });
  rows("VARCHAR", {}, { " a ": " a ", "": "", "\uFEFFx": "\uFEFFx" });
});

describe("A.20 booleans", () => {
  rows("BOOLEAN", {}, { T: "true", F: "false", t: no, true: no, "1": no, "0x1": no, " T ": "true", "": null });
  rows("BOOLEAN", { useBitValues: true }, { "0x1": "true", "0x0": "false", T: no, "1": no });
  rows("BOOLEAN", { trueFormat: "yes it's", falseFormat: " no" }, { "yes it's": "true", " no": "false", no });
  test("A.20 with delimited, use_bit_values is ignored", async () => {
    expect((await load(["a BOOLEAN"], { type: "delimited", useBitValues: true }, "T\n0x1\n")).rows).toEqual([["true"]]);
  });
});

describe("A.18 epoch values", () => {
  rows(
    "TIMESTAMP",
    {},
    {
      "0": "1970-01-01 00:00:00",
      "1.5": "1970-01-01 00:00:01.5",
      "-1.5": "1969-12-31 23:59:58.5",
      "-0.25": "1969-12-31 23:59:59.75",
      "1700000000.1234567": "2023-11-14 22:13:20.123456",
      "1e9": no,
      "20240101 00:00:00": no,
      " 5 ": "1970-01-01 00:00:05",
      "": null,
      "99999999999999999999": no,
      "9300000000000": no,
      "9223372036853.9999999": "294247-01-10 04:00:53.999999",
      "-210866803199.9999999": "4714-11-24 (BC) 00:00:00.000001",
      "-210866803200": no,
      ".5": no,
      "1.": no,
    },
  );
  rows("TIMESTAMP", { skipSecondFraction: true }, { "1.5": "1970-01-01 00:00:01" });
  rows(
    "DATE",
    {},
    {
      "0": "1970-01-01",
      "86399": "1970-01-01",
      "86400": "1970-01-02",
      "-1": "1969-12-31",
      "20240101": "1970-08-23",
      "1.5": no,
      "2024-01-01": no,
      "-210866803199": "4714-11-24 (BC)",
      "-210866803200": no,
    },
  );
  rows("TIME", {}, { "10:20:30": "10:20:30", "100": no });
});

describe("A.19 formats", () => {
  const formatted = { convertedToEpoch: false };
  rows("TIMESTAMP", formatted, {
    "20240102 03:04:05": "2024-01-02 03:04:05",
    "20240102 03:04:05.5": "2024-01-02 03:04:05.5",
    "20240102 03:04:05.123456789": "2024-01-02 03:04:05.123456",
    "20241301 00:00:00": no,
    "20240230 00:00:00": no,
    infinity: no,
    epoch: no,
    "-infinity": no,
    "20240102 03:04:05\n": no,
    "20240102 03:04:05,5": no,
    "20240102 03:04:05.": no,
    " 20240102 03:04:05 ": "2024-01-02 03:04:05",
    "20240102 03:04": no,
    "0": no,
  });
  rows(
    "TIMESTAMP",
    { ...formatted, skipSecondFraction: true },
    { "20240102 03:04:05.5": "2024-01-02 03:04:05", "20240102 03:04:05": "2024-01-02 03:04:05" },
  );
  rows(
    "TIMESTAMP",
    { ...formatted, secondFractionStart: "," },
    { "20240102 03:04:05,25": "2024-01-02 03:04:05.25", "20240102 03:04:05.25": no },
  );
  rows(
    "TIMESTAMP",
    { ...formatted, dateTimeFormat: "%d.%m.%Y %H.%M.%S %z" },
    {
      "02.01.2024 03.04.05.1234567 +0530": "2024-01-01 21:34:05.123456",
      "02.01.2024 03.04.05 -05:00": "2024-01-02 08:04:05",
      "02.01.2024 03.04.05.5 Z": "2024-01-02 03:04:05.5",
      "02.01.2024 03.04.05 +24:00": no,
      "02.01.2024 03.04.05 +01:60": no,
    },
  );
  rows(
    "TIMESTAMP",
    { ...formatted, dateTimeFormat: "%Y-%m-%dT%H:%M:%S.%fZ" },
    {
      "2024-01-02T03:04:05.123Z": "2024-01-02 03:04:05.123",
      "2024-01-02T03:04:05.1234567Z": "2024-01-02 03:04:05.123456",
      "2024-01-02T03:04:05Z": no,
    },
  );
  rows(
    "TIMESTAMP",
    { ...formatted, dateTimeFormat: "%a %b %e %T %Y" },
    { "Tue Jan  2 03:04:05 2024": "2024-01-02 03:04:05", "Tuesday January 2 03:04:05 2024": "2024-01-02 03:04:05" },
  );
  rows(
    "TIMESTAMP",
    { ...formatted, dateTimeFormat: "%D %r" },
    { "01/02/24 03:04:05 PM": "2024-01-02 15:04:05", "01/02/24 13:04:05 PM": no },
  );
  rows("DATE", formatted, { "20240229": "2024-02-29", "20230229": no, "": null, infinity: no });
  rows("DATE", { ...formatted, dateFormat: "%Y-%j" }, { "2024-060": "2024-02-29" });
  rows("TIME", { timeFormat: "%H:%M" }, { "23:59": "23:59:00", "24:00": no });
  rows("TIME", {}, { "10:20:30.1234567": "10:20:30.123456", "1:2:3": "01:02:03" });
  describe("a number has all of its digits where it could mean something else with less", () => {
    const dates = (dateFormat: string, expected: Record<string, string | null>): void => {
      rows("DATE", { ...formatted, dateFormat }, expected);
    };
    dates("%Y-%m-%d", {
      "2024-01-02": "2024-01-02",
      "2024-1-2": "2024-01-02",
      "0024-01-02": "0024-01-02",
      "24-01-02": no,
      "202-01-02": no,
      "4-01-02": no,
      "02024-01-02": no,
      "-024-01-02": no,
      "-44-01-02": no,
    });
    dates("%d/%m/%Y", { "1/2/2024": "2024-02-01", "01/02/24": no, "1/2/4": no });
    dates("%F", { "24-01-02": no });
    dates("%b %d %Y", { "Jan 2 2024": "2024-01-02", "Jan 2 24": no });
    dates("%d/%m/%y", { "1/2/05": "2005-02-01", "01/02/99": "1999-02-01", "1/2/5": no, "1/2/2024": no });
    dates("%Y %W %w %a", { "2024 10 3 Wed": "2024-03-06", "2024 10 0 Sun": "2024-03-10" });
    dates("%Y %U %w", { "2024 10 3": "2024-03-13", "2024 0 1": "2024-01-01" });
    dates("%G-%V-%u", { "2024-1-1": "2024-01-01", "24-01-1": no });
    dates("%Y-%j", { "2024-60": "2024-02-29", "2024-6": "2024-01-06", "24-060": no });
    dates("%Y%j", { "2024060": "2024-02-29", "202460": no });
    dates("%Y%m%d", { "20240115": "2024-01-15", "2024115": no, "2024011": no, "0240101": no, "240115": no });
    dates("%d%m%Y", { "15012024": "2024-01-15", "0501024": no, "5012024": no });
    dates("%y%m%d", { "240102": "2024-01-02", "24012": no, "24112": no });
    rows(
      "TIME",
      { timeFormat: "%H%M%S" },
      { "102030": "10:20:30", "102030.5": "10:20:30.5", "10203": no, "10203.5": no },
    );
    rows("TIME", { timeFormat: "%H:%M:%S" }, { "9:5:3": "09:05:03", "009:05:03": no });
    rows("TIME", { timeFormat: "%I:%M %p" }, { "3:04 PM": "15:04:00", "0:04 PM": no });
    rows(
      "TIMESTAMP",
      { ...formatted, dateTimeFormat: "%Y-%m-%d %H:%M" },
      { "2024-1-2 3:4": "2024-01-02 03:04:00", "24-01-02 03:04": no },
    );
    rows(
      "TIMESTAMP",
      { ...formatted, dateTimeFormat: "%d.%m.%Y %H:%M:%S.%f" },
      { "1.2.2024 3:4:5.25": "2024-02-01 03:04:05.25", "1.2.24 3:4:5.25": no },
    );
    rows(
      "TIMESTAMP",
      { ...formatted, dateTimeFormat: "%Y-%m-%dT%H:%M:%S%z" },
      {
        "2024-01-02T03:04:05+01:30:15": "2024-01-02 01:33:50",
        "2024-01-02T03:04:05Z": "2024-01-02 03:04:05",
        "24-01-02T03:04:05Z": no,
      },
    );
    test.each([
      ["DATE", { dateFormat: "%d.%m.%Y" }, "01.02.24"],
      ["DATE", { dateFormat: "%Y-%m-%d" }, "24-02-01"],
      ["TIMESTAMP", { dateTimeFormat: "%Y-%m-%d %H:%M:%S" }, "24-02-01 10:00:00"],
    ])("also where plain rows are read in one pass: %s %j", async (type, format, odd) => {
      const { rejected, errors, isDirect } = await load(
        [`a ${type}`, "b VARCHAR"],
        { ...formatted, ...format },
        `${odd},x\n`,
      );
      expect({ rejected, isDirect }).toEqual({ rejected: 1, isDirect: false });
      expect(errors[0]).toContain(`"${odd}" does not match `);
    });
  });

  test("A.19 a directive that is not understood is named", async () => {
    await expect(load(["a DATE"], { convertedToEpoch: false, dateFormat: "%Y %Q" }, "1\n")).rejects.toThrow(
      /"%Y %Q" has %Q/,
    );
    await expect(load(["a DATE"], { convertedToEpoch: false, dateFormat: "%Y %Z" }, "1\n")).rejects.toThrow(/has %Z/);
  });
  test("A.12 an error names the row, the column and what is wrong", async () => {
    const { errors } = await load(
      ["id INTEGER", "joined DATE"],
      { ...formatted, dateFormat: "%Y-%m-%d" },
      `1,2024-13-01\nx,2024-01-01\n1,${"y".repeat(200)}\n`,
    );
    expect(errors).toEqual([
      'row 1, column joined: "2024-13-01" does not match %Y-%m-%d',
      'row 2, column id: "x" is not an INTEGER',
      `row 3, column joined: "${"y".repeat(100)}…" does not match %Y-%m-%d`,
    ]);
  });
});

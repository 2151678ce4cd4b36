import { describe, expect, test } from "vitest";
import { useParsing } from "./parsing.ts";

const { load } = useParsing();
const two = ["a VARCHAR", "b VARCHAR"];

describe("A.7 rows", () => {
  test("A.7 a missing newline at the end of a chunk ends the row", async () => {
    expect((await load(two, {}, "1,2", "3,4\n", "5,6")).rows).toEqual([
      ["1", "2"],
      ["3", "4"],
      ["5", "6"],
    ]);
  });
  test("A.7 a BOM at the start of a chunk is dropped, once, and U+FEFF elsewhere is data", async () => {
    expect((await load(two, {}, "\uFEFF1,\uFEFF2\n", "\uFEFF\uFEFF3,4\n\uFEFF5,6")).rows).toEqual([
      ["1", "\uFEFF2"],
      ["\uFEFF3", "4"],
      ["\uFEFF5", "6"],
    ]);
  });
  test("A.7 \\n and \\r\\n end rows, also mixed; a lone \\r is data", async () => {
    expect((await load(two, {}, '1,2\r\n3,4\n5\r,\r6\r\n"7","8"\r\n9,\r\r\nx,y\r')).rows).toEqual([
      ["1", "2"],
      ["3", "4"],
      ["5\r", "\r6"],
      ["7", "8"],
      ["9", "\r"],
      ["x", "y\r"],
    ]);
  });
  test("A.7 a line without any character is skipped and not counted", async () => {
    const { rows, numbers } = await load(two, {}, "\n\r\n1,2\n\n\r\n3,4\n\n");
    expect([rows, numbers]).toEqual([
      [
        ["1", "2"],
        ["3", "4"],
      ],
      [1, 2],
    ]);
  });
  test("A.7 in a table of one column an empty line is an empty value", async () => {
    expect((await load(["a VARCHAR"], {}, "\n1\n\r\n2\n")).rows).toEqual([[""], ["1"], [""], ["2"]]);
    expect((await load(["a INTEGER"], {}, "\n1\n")).rows).toEqual([[null], ["1"]]);
  });
  test("A.7 an enclosing character inside an unquoted field is literal", async () => {
    expect((await load(two, {}, 'a"b"c,1"\n')).rows).toEqual([['a"b"c', '1"']]);
  });
  test("A.7 text after a closing enclosing character rejects the row, and only that", async () => {
    const { rows, errors, bad } = await load(two, {}, '"a"b"c,1\n2,"3" \n4,5\n');
    expect(rows).toEqual([["4", "5"]]);
    expect(errors).toEqual(['row 1, column a: text after the closing "', 'row 2, column b: text after the closing "']);
    expect(bad).toBe('"a"b"c,1\n2,"3" \n');
  });
  test("A.7 an unterminated enclosing character makes the rest of the chunk one rejected row", async () => {
    const { rows, numbers, errors, bad } = await load(two, {}, '1,2\n3,"4\n5,6\n7,8', "9,10\n");
    expect([rows, numbers]).toEqual([
      [
        ["1", "2"],
        ["9", "10"],
      ],
      [1, 3],
    ]);
    expect(errors).toEqual(['row 2, column b: no closing " before the end of the chunk']);
    expect(bad).toBe('3,"4\n5,6\n7,8\n');
  });
  test("A.7 the header is skipped, and dropped from later chunks only when it is equal byte for byte", async () => {
    const header = { hasHeaderRow: true };
    const { rows, numbers } = await load(two, header, "b,a\n1,2\n", "b,a\r\n3,4", "B,a\n5,6", "b,a", "b,ab\n");
    expect(rows).toEqual([
      ["1", "2"],
      ["3", "4"],
      ["B", "a"],
      ["5", "6"],
      ["b", "ab"],
    ]);
    expect(numbers).toEqual([1, 2, 3, 4, 5]);
    expect((await load(two, header, "\uFEFFb,a\r\n1,2\n", "\uFEFFb,a\n3,4")).rows).toEqual([
      ["1", "2"],
      ["3", "4"],
    ]);
    expect((await load(two, header, "", "b,a\n1,2\n")).rows).toEqual([["1", "2"]]);
  });
  test("A.7 the header may have an unterminated enclosing character, or one that holds a newline, or a lone \\r", async () => {
    expect((await load(two, { hasHeaderRow: true }, 'a,"b\n1,2\n')).rows).toEqual([["1", "2"]]);
    expect((await load(two, { hasHeaderRow: true }, 'a,"b\nc"\n1,2\n')).rows).toEqual([["1", "2"]]);
    expect((await load(two, { hasHeaderRow: true }, "\r,\n1,2\n")).rows).toEqual([["1", "2"]]);
    for (const header of ['a"b,c"\n', '"a"",""b",c\n', '"a""b","c"\n', '"",""\n', ',"a",\n']) {
      expect((await load(two, { hasHeaderRow: true }, `${header}""" ",\n`)).rows, header).toEqual([['" ', ""]]);
    }
    expect((await load(two, { hasHeaderRow: true }, '\n\r\n\na,"b\n1,2\n')).rows).toEqual([["1", "2"]]);
  });
  test("A.7 rows that end in \\r alone are not dropped with the header: the load fails, and says why", async () => {
    const why = "the first row would be dropped as the header, but it has a carriage return (\\r) without a newline";
    for (const chunk of [
      "a,b\r1,2\r3,4\r",
      "\uFEFFa,b\r1,2",
      'a,"b\nc"\r1,2\r',
      "\n\na,b\r1,2\n3,4\n",
      '"a",b\r1,2\r\n3,4\r\n',
    ])
      await expect(load(two, { hasHeaderRow: true }, chunk), chunk).rejects.toThrow(why);
    await expect(load(["a VARCHAR"], { hasHeaderRow: true }, "name\rAda\rBob\r")).rejects.toThrow(why);
    await expect(load(two, { hasHeaderRow: true, flexible: true }, "a,b\r1,2\r")).rejects.toThrow(why);
    // In quotes, or escaped, it is part of a name.
    expect((await load(two, { hasHeaderRow: true }, '"a\rb",c\n1,2\n')).rows).toEqual([["1", "2"]]);
    const delimited = { type: "delimited", escapeCharacter: "\\", hasHeaderRow: true } as const;
    expect((await load(two, delimited, "a\\\rb,c,d\n1,2\n")).rows).toEqual([["1", "2"]]);
    const { errors } = await load(two, {}, "1,2\r3,4\r");
    expect(errors).toEqual([
      "row 1, column b: the row has 3 fields, the table 2 columns; it has a carriage return (\\r) without a newline, which ends no row",
    ]);
  });
  test("A.7 no chunks, and empty ones", async () => {
    expect(await load(two, {})).toMatchObject({ rows: [], accepted: 0, rejected: 0, errors: [], bad: undefined });
    expect(await load(two, { hasHeaderRow: true }, "", "\uFEFF", "\n")).toMatchObject({ rows: [], accepted: 0 });
  });
  test("A.7 NUL, and a row longer than DuckDB's buffer", async () => {
    expect((await load(two, {}, 'a\0b,"\0"\n')).rows).toEqual([["a\0b", "\0"]]);
    const [a, b] = ["x".repeat(20_000_000), "y".repeat(20_000_000)];
    const { rows } = await load(two, {}, `1,2\n${a},"${b}"\n3,4\n`);
    expect(rows.map((row) => row.map((value) => value?.length))).toEqual([
      [1, 1],
      [a.length, b.length],
      [1, 1],
    ]);
  });
  test("A.7 A.13 rows, separators and ends of lines that lie across blocks", async () => {
    const wide = { fieldSeparator: "→", enclosingCharacter: "€" };
    const line = (i: number) => `€${i}€€→\n€→${"é".repeat(i % 40)}${i % 97 === 0 ? "→" : ""}\r\n`;
    const all = Array.from({ length: 30_000 }, (_, i) => i);
    const { rows, bad } = await load(two, wide, all.map(line).join(""));
    expect(rows).toEqual(all.filter((i) => i % 97 !== 0).map((i) => [`${i}€→\n`, "é".repeat(i % 40)]));
    expect(Buffer.from(bad ?? "", "latin1").toString()).toBe(
      all
        .filter((i) => i % 97 === 0)
        .map(line)
        .join(""),
    );
  });
  test("A.13 a row longer than 64 MiB is rejected, and comes back whole", async () => {
    const long = `${"x".repeat(68_000_000)},2\n`;
    const { rows, errors, bad } = await load(two, {}, `1,2\n${long}3,4\n`);
    expect([rows, errors]).toEqual([
      [
        ["1", "2"],
        ["3", "4"],
      ],
      ["row 2, column a: the row is longer than 64 MiB"],
    ]);
    expect(bad === long).toBe(true);
  });
});

describe("A.15 to A.17 fields", () => {
  test("A.12 A.13 a row of several lines is one; rejected rows come back as they were sent", async () => {
    const { numbers, errors, bad } = await load(
      ["a VARCHAR", "b INTEGER"],
      {},
      '"x\ny",1\r\n"p\r\nq",z\r\n',
      'r,2\ns,"t"',
    );
    expect(numbers).toEqual([1, 3]);
    expect(errors).toEqual(['row 2, column b: "z" is not an INTEGER', 'row 4, column b: "t" is not an INTEGER']);
    expect(bad).toBe('"p\r\nq",z\r\ns,"t"\n');
  });
  test("A.15 a row with the wrong number of fields is rejected", async () => {
    const { errors, bad } = await load(two, {}, "1\n1,2,3\n1,2\n");
    expect(errors).toEqual([
      "row 1, column b: missing: the row has 1 of 2 fields",
      "row 2, column b: the row has 3 fields, the table 2 columns",
    ]);
    expect(bad).toBe("1\n1,2,3\n");
  });
  test("A.15 bytes that are not UTF-8 reject the row", async () => {
    const broken = ["\xC3", "\x80", "\xC3,\xA9", "\xED\xA0\x80", "\xC0\xAF", "\xF4\x90\x80\x80", '"\xC3""\xA9"'];
    const text = broken.map((value) => `${value},1\n`).join("");
    const { rows, rejected, errors, bad } = await load(
      two,
      { flexible: true },
      Buffer.from(`${text}\xC3\xA9,1\n`, "latin1"),
    );
    expect(rows).toEqual([["é", "1"]]);
    expect(rejected).toBe(broken.length);
    expect(errors[0]).toBe("row 1, column a: bytes that are not UTF-8");
    expect(bad).toBe(text);
    const escaped = { type: "delimited", escapeCharacter: "\\" } as const;
    expect((await load(two, escaped, Buffer.from("\xC3\\\xA9,1\n", "latin1"))).rejected).toBe(1);
  });
  test("A.16 flexible drops extra fields and fills missing ones with nulls, row by row", async () => {
    const { rows, errors } = await load(
      ["a VARCHAR", "b INTEGER", "c VARCHAR"],
      { flexible: true },
      "1\n1,2,3,4\n1,2,3\n1,2\n",
    );
    expect(rows).toEqual([
      ["1", null, null],
      ["1", "2", "3"],
      ["1", "2", "3"],
      ["1", "2", null],
    ]);
    expect(errors).toEqual([]);
    const { errors: missing } = await load(["a VARCHAR", "b VARCHAR NOT NULL"], { flexible: true }, "1\n");
    expect(missing).toEqual(["row 1, column b: null, and the column is NOT NULL"]);
  });
  test("A.17 null_value matches an unquoted or quoted field exactly", async () => {
    const { rows } = await load(two, {}, '(null),"(null)"\n (null),(NULL)\n,""\n');
    expect(rows).toEqual([
      [null, null],
      [" (null)", "(NULL)"],
      ["", ""],
    ]);
    expect((await load(two, { nullValue: "" }, ',""\n"a",b\n')).rows).toEqual([
      [null, null],
      ["a", "b"],
    ]);
    expect((await load(two, { nullValue: 'a"b,' }, '"a""b,","a""b"\n')).rows).toEqual([[null, 'a"b']]);
  });
  test("A.17 an empty field is an empty string in a text column and null elsewhere", async () => {
    expect((await load(["a VARCHAR", "b INTEGER", "c DATE", "d BOOLEAN"], {}, ',,"",\n')).rows).toEqual([
      ["", null, null, null],
    ]);
    const { errors } = await load(["a VARCHAR NOT NULL", "b INTEGER NOT NULL"], {}, ",1\n1,\n(null),1\n");
    expect(errors).toEqual([
      "row 2, column b: null, and the column is NOT NULL",
      "row 3, column a: null, and the column is NOT NULL",
    ]);
  });
});

describe("A.23 formats", () => {
  const escaped = { type: "delimited", escapeCharacter: "\\", fieldSeparator: "|" } as const;
  test("A.23 delimited has no enclosing character, and an escape makes the next character literal", async () => {
    const { rows } = await load(two, escaped, '"a|"b"\n\\|x|y\\\nz\n\\\\|\\n\n\\\r|q\\\r\n\\¦|\\é\n');
    expect(rows).toEqual([
      ['"a', '"b"'],
      ["|x", "y\nz"],
      ["\\", "n"],
      ["\r", "q\r"],
      ["¦", "é"],
    ]);
  });
  test("A.23 null_value is compared before unescaping", async () => {
    expect((await load(two, { ...escaped, nullValue: "\\N" }, "\\N|N\n\\\\N|\\N\n")).rows).toEqual([
      [null, "N"],
      ["\\N", null],
    ]);
    expect((await load(two, escaped, "\\(null)|(null)\n")).rows).toEqual([["(null)", null]]);
  });
  test("A.23 delimited without an escape character, and csv that ignores it", async () => {
    expect((await load(two, { type: "delimited" }, 'a\\,"b"\n')).rows).toEqual([["a\\", '"b"']]);
    expect((await load(two, { escapeCharacter: "\\" }, 'a\\,"b\\"\n')).rows).toEqual([["a\\", "b\\"]]);
    expect((await load(two, { enclosingCharacter: "" }, '"a","b""\n')).rows).toEqual([['"a"', '"b""']]);
  });
  test("A.23 with trailing_field_separator a row without one is rejected", async () => {
    const trailing = { trailingFieldSeparator: true };
    const { rows, errors, bad } = await load(two, trailing, '1,2,\n1,2\n1,,\r\n1,2,""\n1,2,3,\n1,\n"a",","\n');
    expect(rows).toEqual([
      ["1", "2"],
      ["1", ""],
    ]);
    expect(bad).toBe('1,2\n1,2,""\n1,2,3,\n1,\n"a",","\n');
    expect(errors[0]).toBe('row 2, column b: no "," at the end of the row');
    expect((await load(two, { ...trailing, flexible: true }, "1,\n1,2,3,\n1,2\n")).rows).toEqual([
      ["1", null],
      ["1", "2"],
    ]);
    expect((await load(two, { ...trailing, ...escaped }, "1|2\\|\n1|2\\||\n")).rows).toEqual([["1", "2|"]]);
  });
  test("A.3 separators and enclosing characters of several bytes, or tabs", async () => {
    const wide = { fieldSeparator: "→", enclosingCharacter: "€" };
    expect((await load(two, wide, '€a→€€b€→c€d\n→"\n')).rows).toEqual([
      ["a→€b", "c€d"],
      ["", '"'],
    ]);
    expect((await load(two, { fieldSeparator: "\t", enclosingCharacter: "'" }, "'a\t''b'\t\"\n")).rows).toEqual([
      ["a\t'b", '"'],
    ]);
  });
});

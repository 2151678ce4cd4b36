import { expect, test } from "vitest";
import { foreignContent } from "#files/content.ts";

const latin = (text: string): Buffer => Buffer.from(text, "latin1");

test.each<[Buffer | string, string]>([
  [latin("PK\x03\x04\x14\0\x06\0\x08\0\0\0!\0...[Content_Types].xml ...xl/workbook.xml"), "an Excel workbook (.xlsx)"],
  [
    latin("PK\x03\x04\x14\0\0\x08\0\0mimetypeapplication/vnd.oasis.opendocument.spreadsheetPK"),
    "an OpenDocument spreadsheet (.ods)",
  ],
  [latin("PK\x03\x04\x14\0\0\0\x08\0people.csv"), "a zip archive"],
  [latin("PK\x05\x06\0\0"), "a zip archive"],
  [latin("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0"), "an Excel workbook (.xls), or another Office document"],
  [latin("PK\x03\x04\x14\0\0\0\x08\0mimetype\x4b\x2c PK\x03\x04 content.xml"), "an OpenDocument spreadsheet (.ods)"],
  [latin("\x09\x08\x08\0\0\0\x10\0"), "an Excel workbook (.xls)"],
  [latin("\x03\x7e\x0b\x1b\x32\0\0\0"), "a dBase table (.dbf)"],
  ["{\\rtf1\\ansi", "a document (RTF)"],
  [`people.csv${"\0".repeat(247)}ustar\0`, "a tar archive"],
  ["%PDF-1.7\n", "a PDF document"],
  [latin("\x1f\x8b\x08\0"), "packed with gzip"],
  [latin("BZh91AY"), "packed with bzip2"],
  [latin("\xfd7zXZ\0"), "packed with xz"],
  [Buffer.from("\uFEFFid,name\n", "utf16le"), "UTF-16 text"],
  [Buffer.from("\uFEFFid,name\n", "utf16le").swap16(), "UTF-16 text"],
  [Buffer.from("id,name\r\n1,Zoë\r\n", "utf16le"), "UTF-16 text"],
  [Buffer.from("id,name\r\n1,Zoë\r\n", "utf16le").swap16(), "UTF-16 text"],
  ["\uFEFF\n  <!DOCTYPE HTML>\n<html>", "a web page (HTML)"],
  ["<html lang=en>", "a web page (HTML)"],
  ['<?xml version="1.0"?>\n', "XML"],
  ['[{"id": 1}]', "JSON"],
  ['{\n  "users": []\n}', "JSON"],
  ['{"id":1}\n{"id":2}\n', "JSON"],
])("%j is %s", (start, is) => {
  expect(foreignContent(Buffer.from(start))).toMatchObject({ is });
});

test.each([
  "id,name\n1,Ada\n",
  "",
  "1",
  "a\0b,c\n",
  "\0",
  "\t\b\b,name\n",
  "PK,name\n1,PK\n",
  "<none>,1\n",
  "[1],2\n",
  "{x},2\n",
  '"[{""id"": 1}]",2\n',
  "Zoë,Łódź\n",
])("%j may be a table", (start) => {
  expect(foreignContent(Buffer.from(start))).toBeUndefined();
});

test("rows may begin as JSON does where somebody says so", () => {
  expect(foreignContent(Buffer.from('{"id":1}|x\n'), true)).toBeUndefined();
  expect(foreignContent(Buffer.from("%PDF-1.7"), true)).toBeDefined();
});

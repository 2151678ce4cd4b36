import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connectors } from "#connectors/index.ts";
import { xlsx, zip } from "../../../support/xlsx.ts";
import { columnsOf, separatorIn } from "#cli/init/csv-file.ts";
import { likelyLogin, likelyMemberOf } from "#cli/init/draft.ts";
import { Examples } from "#cli/init/examples.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-csv-"));
});
afterAll(() => rm(folder, { recursive: true }));

const text = "id;name\n1;Zoë Ünal\n2;Renée\n";
const utf16 = (bytes: string): Buffer => Buffer.from(bytes, "utf16le");
const latin1 = (bytes: string): Buffer => Buffer.from(bytes, "latin1");
const semicolon = { delimiter: ";" };

describe("how a CSV file is written", () => {
  test.each<[string, Buffer | string, object]>([
    ["commas in UTF-8", text.replaceAll(";", ","), {}],
    ["with a byte order mark", `\uFEFF${text}`, semicolon],
    ["in Latin-1", latin1(text), { ...semicolon, encoding: "windows-1252" }],
    ["in UTF-16 with a mark", Buffer.concat([utf16("\uFEFF"), utf16(text)]), { ...semicolon, encoding: "utf-16" }],
    ["in UTF-16 without", utf16(text), { ...semicolon, encoding: "utf-16le" }],
    ["in big-endian UTF-16", utf16(text).swap16(), { ...semicolon, encoding: "utf-16be" }],
    ["packed", gzipSync(text), semicolon],
    ["tabs", text.replaceAll(";", "\t"), { delimiter: "\t" }],
    ["pipes, and more commas than pipes in a value", 'id|name\n1|"a,b,c,d"\n2|"e,f,g,h"\n', { delimiter: "|" }],
    ["a header with commas in quotes", '"id";"name, first, last"\n1;x\n', semicolon],
    ["a line sep=", `sep=;\r\n${text}`, { sepLine: true }],
    [
      "blank rows and trailing separators",
      "id;name;\n1;x;\n;;\n",
      { ...semicolon, skipBlankRows: true, trailingDelimiters: true },
    ],
    ["one column", "id\n1\n2\n", {}],
    ["longer than what is looked at", text + "3;Ünal\n".repeat(200_000), semicolon],
    ["longer, in Latin-1", latin1(text + "3;Ünal\n".repeat(200_000)), { ...semicolon, encoding: "windows-1252" }],
  ])("%s", async (_, content, dialect) => {
    await writeFile(join(folder, "file.csv"), content);
    const found = await columnsOf("file.csv", { folder, connectors });
    expect(JSON.parse(JSON.stringify(found.dialect))).toEqual(dialect);
    expect(found.names[0]).toBe("id");
    if (typeof content !== "string" || content.includes("Zoë"))
      expect(found.examples.of("name").slice(0, 2)).toEqual(["Zoë Ünal", "Renée"]);
  });

  test("an empty file has no header, and one that is not there is named", async () => {
    await writeFile(join(folder, "file.csv"), "\n");
    await expect(columnsOf("file.csv", { folder, connectors })).rejects.toThrow("file.csv is empty");
    await expect(columnsOf("fil.csv", { folder, connectors })).rejects.toThrow(
      /fil\.csv does not exist .*there is file\.csv/,
    );
  });
});

function examplesOf(values: Readonly<Record<string, readonly string[]>>): Examples {
  const examples = new Examples();
  for (const [name, found] of Object.entries(values)) for (const value of found) examples.add(name, value);
  return examples;
}

test("a workbook has columns as a CSV file has; another archive has none", async () => {
  const rows = [
    ["id", "name"],
    [1, "Zoë"],
    ["2", "Renée"],
  ];
  await writeFile(join(folder, "people.xlsx"), xlsx([{ name: "People", rows }]));
  const found = await columnsOf("people.xlsx", { folder, connectors });
  expect(found).toMatchObject({ names: ["id", "name"], dialect: undefined });
  expect(found.examples.of("name")).toEqual(["Zoë", "Renée"]);
  await writeFile(join(folder, "people.zip"), zip({ "people.csv": Buffer.from("id\n1\n") }));
  await expect(columnsOf("people.zip", { folder, connectors })).rejects.toThrow(
    "people.zip is a zip archive, not CSV; unzip it",
  );
});

test("a login is guessed from names, and from values where the names are of another language", () => {
  const rest = { Personalnummer: ["1001"], Name: ["Anna Müller"], "E-Mail": ["anna@x.de"] };
  expect(likelyLogin(examplesOf({ ...rest, Kürzel: ["amuell"] }))).toBe("Kürzel");
  expect(likelyLogin(examplesOf({ ...rest, uid: ["amuell"] }))).toBe("uid");
  expect(likelyLogin(examplesOf({ Name: ["Anna Müller"] }))).toBe("Name");
  expect(likelyLogin(examplesOf({}))).toBeUndefined();
});

test("the column of groups is the one with their keys, and what separates them is seen", () => {
  const users = examplesOf({ department: ["IT"], Gruppen: ["g1|g2"] });
  expect(likelyMemberOf(users, ["g2", "g7"])).toBe("Gruppen");
  expect(likelyMemberOf(users, ["x"])).toBe("department");
  expect(separatorIn(users.of("Gruppen"))).toBe("|");
  expect(separatorIn(users.of("department"))).toBeUndefined();
});

test("examples are different, short, and safe to show", () => {
  const examples = examplesOf({ a: ["x", "x", " ", "\u001B[2Jy", "z".repeat(50), "w"], long: [] });
  expect(examples.choices(["a", "b"])).toEqual([
    { name: `a   x, \\u{001b}[2Jy, ${"z".repeat(23)}…`, value: "a" },
    { name: "b", value: "b" },
  ]);
});

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectors, readTable } from "#connectors/index.ts";
import { checkRules, compileRules, tablesOf } from "#principals/compile.ts";
import { readTables } from "#principals/lookup.ts";
import type { LookupTables } from "#principals/lookup.ts";
import type { Rules } from "#principals/rules.ts";
import { load, problemsOf } from "../config/support.ts";

const sites = `site, city ,"post code"\nBER,Berlin,10115\n Zürich ,"Zürich, City",\nMUC,München,80331\n\n`;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-lookup-"));
});
afterAll(() => rm(folder, { recursive: true }));

async function tablesWith(rules: Rules, files: Readonly<Record<string, string | Buffer>>): Promise<LookupTables> {
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
  return readTables(tablesOf(rules), folder, readTable);
}

test("a table has as many columns as a sheet of Excel at the most, and is refused at once", async () => {
  const header = Array.from({ length: 100_000 }, (_, index) => `c${index}`).join(",");
  const rules = withMail('lookup("wide.csv", entry.uid).c1');
  const tables = await tablesWith(rules, { "wide.csv": `${header}\n` });
  expect(tables.get("wide.csv")).toMatchObject({
    message: expect.stringMatching(/^wide\.csv:1: the header has 100,000 columns, and 16,384 are the most;/),
  });
  const most = Array.from({ length: 16_384 }, (_, index) => `c${index}`).join(",");
  expect((await tablesWith(rules, { "wide.csv": `${most}\n` })).get("wide.csv")).not.toBeInstanceOf(Error);
});

const withMail = (mail: string): Rules => ({ users: { name: "entry.uid", displayName: "entry.uid", mail } });

/** What the rule `mail` gives for the attributes. */
async function evaluate(mail: string, attributes: Readonly<Record<string, string | string[]>>): Promise<unknown> {
  const rules = compileRules(withMail(mail), undefined, await tablesWith(withMail(mail), { "sites.csv": sites }));
  const verdict = rules.judge({
    kind: "user",
    id: "1",
    origin: "people.csv:2",
    attributes: { uid: "ada", ...attributes },
    keys: [],
    memberOf: [],
    members: [],
  });
  return verdict.verdict === "included" ? verdict.attributes["mail"] : verdict;
}

test.each([
  ['lookup("sites.csv", entry.site).city', { site: "BER" }, "Berlin"],
  ['lookup("sites.csv", entry.site).city', { site: " Zu\u0308rich" }, "Zürich, City"],
  ['lookup("sites.csv", entry.site)["post code"]', { site: "MUC" }, "80331"],
  // An empty field, a key that no row has, and no key at all.
  ['lookup("sites.csv", entry.site)["post code"]', { site: "Zürich" }, undefined],
  ['lookup("sites.csv", entry.site).city', { site: "ROM" }, undefined],
  ['lookup("sites.csv", entry.site).city', {}, undefined],
  ['lookup("sites.csv", entry.site) == null ? "none" : "one"', { site: "ROM" }, "none"],
  ['null != lookup("sites.csv", entry.site) ? "one" : "none"', { site: "ROM" }, "none"],
  ['lookup("sites.csv", entry.site) == null ? "none" : "one"', { site: "BER" }, "one"],
  ['has(lookup("sites.csv", entry.site)) ? "one" : "none"', { site: "ROM" }, "none"],
  ['coalesce(lookup("sites.csv", entry.site).city, "elsewhere")', { site: "ROM" }, "elsewhere"],
  ['join(values(entry.site).map(s, lookup("sites.csv", s).city), "+")', { site: ["BER", "MUC"] }, "Berlin+München"],
])("%s for %j", async (rule, attributes: Readonly<Record<string, string | string[]>>, expected) => {
  expect(await evaluate(rule, attributes)).toBe(expected);
});

test("several keys at once quarantine the record", async () => {
  expect(await evaluate('lookup("sites.csv", entry.site).city', { site: ["BER", "MUC"] })).toMatchObject({
    verdict: "quarantined",
    reason: expect.stringContaining("lookup() needs a text, not several values; use first(…)"),
  });
});

test.each([
  ["semicolons", "site;city\nBER;Berlin, East\n"],
  ["tabs and a byte order mark", "\uFEFFsite\tcity\r\nBER\tBerlin, East\r\n"],
  ["a line that names the delimiter", "sep=|\nsite|city\nBER|Berlin, East\n"],
  ["UTF-16", Buffer.from("\uFEFFsite;city\nBER;Berlin, East\n", "utf16le")],
  ["empty columns at the end, and short rows", 'site,city,floor,,\nBER,"Berlin, East"\n,,,,\n'],
])("a table with %s", async (_, content) => {
  const rules = withMail('lookup("t.csv", entry.site).city');
  const tables = await tablesWith(rules, { "t.csv": content });
  const compiled = compileRules(rules, undefined, tables);
  const [, , trace] = compiled.trace({
    kind: "user",
    id: "1",
    origin: "",
    attributes: { site: "BER" },
    keys: [],
    memberOf: [],
    members: [],
  });
  expect(trace).toMatchObject({ attributes: { site: "BER" }, value: "Berlin, East" });
});

test.each([
  [
    "site,city\nBER,Berlin\nMUC,München\nBER ,Potsdam\n",
    't.csv:4: the key "BER" is already used in line 2; remove one',
  ],
  ["site,city\nBER,Berlin\n,Nowhere\n", 't.csv:3: the key (column "site") is empty'],
  ["site,city\nBER,Berlin,10115\n", "t.csv:2: has 3 fields, the header has 2"],
  ["site,city,site\n", 't.csv:1: columns 1 and 3 are both called "site"; rename one'],
  ["site,,city\n", "t.csv:1: column 2 of the header has no name"],
  ["", "t.csv is empty; its first line names the columns, the key first"],
  ['site,city\nBER,"Berlin\n', "t.csv:2: the row that starts here has an opening quote that is never closed"],
  [
    Buffer.from("site,city\nBER,Berlin\nMUC,München\n", "latin1"),
    "t.csv:3: the row that starts here holds bytes that are not utf-8; save the file as UTF-8",
  ],
  [
    `a,b\n${Array.from({ length: 100_001 }, (_, row) => `${row},x\n`).join("")}`,
    "t.csv:100002: more than 100,000 rows",
  ],
])("a table that is malformed: %#", async (content, message) => {
  const rules = withMail('lower(lookup("t.csv", entry.site).city)');
  expect(checkRules(rules, await tablesWith(rules, { "t.csv": content }))).toEqual([
    { path: ["users", "mail"], offset: 13, message: expect.stringContaining(message) },
  ]);
});

test("the digest changes with the content, and not with how it is written", async () => {
  const rules = withMail('lookup("t.csv", entry.site).city');
  const digests: unknown[] = [];
  for (const content of ["a,b\nx,1\n", 'a;b\r\n"x";1\r\n\r\n', "a,b\nx,2\n", "a,c\nx,1\n"]) {
    const table = (await tablesWith(rules, { "t.csv": content })).get("t.csv");
    digests.push(table !== undefined && "digest" in table ? table.digest : table);
  }
  expect(digests[1]).toBe(digests[0]);
  expect(new Set(digests).size).toBe(3);
});

test("validating names file, line and place of what is wrong with a lookup", async () => {
  const text = (rule: string): string => `service:
sources: { corp: { connector: csv, users: { file: people.csv, id: id } } }
targets: { analytics: embedded }
syncs:
  staff:
    from: [corp]
    to: analytics
    users:
      name: entry.login
      displayName: ${rule}
`;
  const surroundings = { connectors, readTable, files: { "sites.csv": sites } };
  const problems = (rule: string): Promise<readonly string[]> => problemsOf(text(rule), surroundings);
  expect(await problems('lookup("sites.csv", entry.site).ctiy')).toEqual([
    'rollcall.yaml:10:51: syncs.staff.users.displayName: sites.csv has no column "ctiy"; did you mean "city"?',
  ]);
  expect(await problems('lookup("sties.csv", entry.site).city')).toEqual([
    "rollcall.yaml:10:27: syncs.staff.users.displayName: sties.csv does not exist (looked in FOLDER); there is sites.csv",
  ]);
  expect(await problems("lookup(entry.file, entry.site).city")).toEqual([
    expect.stringMatching(/^rollcall.yaml:10:27: .* the file of a table is written here, as a text in quotes/),
  ]);
  const { configuration } = await load(text('lookup("sites.csv", entry.site).city'), surroundings);
  expect(tablesOf(configuration.syncs["staff"]!.rules)).toEqual(["sites.csv"]);
});

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { MembershipLines, ReadContext } from "#connector.ts";
import csv from "#connectors/csv/index.ts";
import { openDatabase } from "#duckdb/database.ts";
import type { Connection, Database } from "#duckdb/database.ts";
import { assemble } from "#principals/assembly.ts";
import { compileRules } from "#principals/compile.ts";
import { cases } from "../../support/random.ts";

let folder: string;
let database: Database;
let connection: Connection;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-csv-lines-"));
  database = await openDatabase({ path: ":memory:", memory: 512 * 1024 ** 2, spill: folder });
  connection = await database.connect();
});

afterAll(async () => {
  connection.close();
  database.close();
  await rm(folder, { recursive: true });
});

const rules = compileRules({
  users: { name: "entry.id", displayName: "entry.id" },
  groups: { name: "entry.id", displayName: "entry.id" },
});

/** What becomes of a file of memberships, read as lines or as records; or the message of the error. */
async function assembled(options: object, asLines: boolean): Promise<{ found: unknown; lines: number }> {
  const source = csv.open(csv.options.parse(options), { name: "corp", folder });
  const { signal } = new AbortController();
  const context: ReadContext = { signal, warn: () => {} };
  let lines = 0;
  const records = (takeLines: (lines: MembershipLines) => Promise<void>) => {
    const counted = (some: MembershipLines): Promise<void> => {
      lines += some.count;
      return takeLines(some);
    };
    return source.read(asLines ? { ...context, takeLines: counted } : context);
  };
  try {
    const assembly = await assemble(connection, [{ name: "corp", records }], rules, { signal });
    const principals = await connection.rows("SELECT kind, name, group_names FROM assembled ORDER BY ALL");
    const lost = await connection.rows("FROM lost_reference ORDER BY ALL");
    return { found: { assembly, principals, lost }, lines };
  } catch (error) {
    return { found: String(error), lines };
  }
}

const cell = fc.constantFrom("g1", "g2", "u1", "u2", "both", "nobody", "ü", "u\u{308}", "a b", "unit", "person");
const odd = fc.constantFrom(
  "",
  " ",
  " g1",
  "u1 ",
  "\u{A0}u1",
  '"u1"',
  '"g\n1"',
  'g"1',
  "1,2;3",
  "\r",
  "#N/A",
  "1.23457E+11",
);

const header = ["unit", "person", "note"];
/** What was read before, with the header, is read as records. */
const earlier = Array.from({ length: 70 }, () => ["g1", "u1", "x".repeat(1000)]);

test("memberships are the same whether they come as lines or as records", async () => {
  await writeFile(join(folder, "users.csv"), "id\nu1\nu2\nboth\nü\na b\n");
  await writeFile(join(folder, "groups.csv"), "id\ng1\ng2\nboth\n");
  const value = fc.oneof({ weight: 60, arbitrary: cell }, { weight: 1, arbitrary: odd });
  let lines = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        rows: fc.array(fc.oneof({ weight: 40, arbitrary: fc.tuple(value, value, value) }, fc.array(value)), {
          maxLength: 12,
        }),
        delimiter: fc.constantFrom(",", ";", "\t", "|", "]"),
        newline: fc.constantFrom("\n", "\r\n", "\r"),
        ends: fc.boolean(),
        quote: fc.constantFrom('"', "'", ""),
        kind: fc.constantFrom(undefined, "user", "group"),
        shortRows: fc.boolean(),
        skipBlankRows: fc.boolean(),
      }),
      async ({ rows, delimiter, newline, ends, quote, kind, shortRows, skipBlankRows }) => {
        const text = [header, ...earlier, ...rows].map((row) => row.join(delimiter)).join(newline);
        await writeFile(join(folder, "memberships.csv"), text + (ends ? newline : ""));
        const options = {
          users: { file: "users.csv", id: "id" },
          groups: { file: "groups.csv", id: "id" },
          memberships: {
            file: "memberships.csv",
            group: "unit",
            member: "person",
            minRows: 0,
            delimiter,
            quote,
            kind,
            shortRows,
            skipBlankRows,
          },
        };
        const [asLines, asRecords] = [await assembled(options, true), await assembled(options, false)];
        expect(asLines.found).toEqual(asRecords.found);
        lines += asLines.lines;
      },
    ),
    { numRuns: cases(12) },
  );
  expect(lines).toBeGreaterThan(0);
});

test.each([
  ["a member that a spreadsheet has shortened", "g1,1.23457E+11,", "a reference is a number that Excel has shortened"],
  ["a group that a spreadsheet could not find", "#N/A,u1,", "a reference is an error of Excel"],
  ["the header again, in another case", "Unit,Person,Note", "is the header again"],
])("%s ends the read, also far down", async (_, row, message) => {
  await writeFile(join(folder, "users.csv"), "id\nu1\n");
  await writeFile(join(folder, "pairs.csv"), `${[header, ...earlier].join("\n")}\n${row}\ng1,u1,\n`);
  const memberships = { file: "pairs.csv", group: "unit", member: "person" };
  const { found } = await assembled({ users: { file: "users.csv", id: "id" }, memberships }, true);
  expect(found).toContain(`pairs.csv:72: ${message}`);
});

test("every line of a large file is known, and where it changes from lines to records and back", async () => {
  const rows = Array.from({ length: 60_000 }, (_, i) => `g${1 + (i % 2)},u${i % 7_000}`);
  rows[31_000] = "g1 , u2";
  rows[31_001] = "g2,nobody at all";
  rows[59_998] = 'g1,"u\n3"';
  rows[59_999] = "g3,u1";
  const users = Array.from({ length: 7_000 }, (_, i) => `u${i}\n`).join("");
  await writeFile(join(folder, "users.csv"), `id\n${users}`);
  await writeFile(join(folder, "groups.csv"), "id\ng1\ng2\n");
  await writeFile(join(folder, "memberships.csv"), `unit,person\n${rows.join("\n")}\n`);
  const options = {
    users: { file: "users.csv", id: "id" },
    groups: { file: "groups.csv", id: "id" },
    memberships: { file: "memberships.csv", group: "unit", member: "person" },
  };
  const [asLines, asRecords] = [await assembled(options, true), await assembled(options, false)];
  expect(asLines.found).toEqual(asRecords.found);
  expect(asLines.lines).toBeGreaterThan(50_000);
  expect(asRecords.lines).toBe(0);
  expect(asLines).toMatchObject({
    found: {
      assembly: {
        unresolved: {
          count: 3,
          reasons: [
            { origin: "memberships.csv:31003" },
            { origin: "memberships.csv:60000" },
            { origin: "memberships.csv:60002" },
          ],
        },
      },
    },
  });
});

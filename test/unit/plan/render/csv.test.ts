import { parse } from "csv-parse/sync";
import { expect, test } from "vitest";
import type { Change } from "#plan/change.ts";
import { renderCsv } from "#plan/render/csv.ts";
import { visible } from "#text.ts";
import { hostileChanges, hostileTexts, planOf } from "../../../support/plans.ts";

async function all(parts: AsyncIterable<string>): Promise<string> {
  return (await Array.fromAsync(parts)).join("");
}

test("no spreadsheet runs anything in it, and every row has its columns", async () => {
  const csv = await all(renderCsv(planOf(hostileChanges)));
  expect(csv.startsWith('\uFEFF"kind","name","action","what","from","to"\n')).toBe(true);
  const rows = parse<Record<string, string>>(csv, { bom: true, columns: true });
  expect(rows).toHaveLength(hostileTexts.length * 4);
  for (const row of rows) for (const value of Object.values(row)) expect(value).not.toMatch(/^[=+\-@\t\r\n＝＋－＠]/);
  const names = new Set(rows.map(({ name }) => name?.replace(/^'/, "")));
  expect([...names]).toEqual(hostileTexts.map(visible));
  expect(csv.slice(1)).toMatch(/^[[\P{C}\n]--[\p{Default_Ignorable_Code_Point}]]*$/v);
});

test("an attribute that is unset is not one that is empty; memberships are one row each", async () => {
  const change: Change = {
    action: "update",
    kind: "group",
    name: "a,b",
    attributes: [
      { attribute: "description", from: "" },
      { attribute: "mail", to: "x" },
    ],
    groupsAdded: ["in"],
    groupsRemoved: ["out"],
  };
  const [, ...rows] = (await all(renderCsv(planOf([change])))).trimEnd().split("\n");
  expect(rows).toEqual([
    '"group","a,b","update","description","",',
    '"group","a,b","update","mail",,"x"',
    '"group","a,b","update","membership","out",',
    '"group","a,b","update","membership",,"in"',
  ]);
});

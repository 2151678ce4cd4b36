import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { expectNoProblems, openBrowser } from "../support/browser.ts";
import { forget, signedIn, startDaemon } from "../support/console.ts";
import { hostile } from "../support/pages.ts";
import { companyOfEachTest } from "../support/rollcall/company.ts";
import { stopRollcall } from "../support/rollcall/rollcall.ts";

const company = companyOfEachTest((yaml) =>
  yaml.replace("  data: data\n", "  data: data\n  tables: tables.sql\n  pinboards: pinboards\n"),
);

const board = "00000000-0000-4000-8000-000000000000";
const visualization = (index: number): string => `00000000-0000-4000-8000-${String(index + 1).padStart(12, "0")}`;
const text = (value = ""): string => `'${value.replaceAll("'", "''")}'`;

const shown = [
  { type: "HEADLINE", title: "Licences", sql: "SELECT 12840 AS licences" },
  {
    type: "CHART",
    title: "Sign-ins",
    sql: "SELECT (DATE '2026-01-01' + (i // 2)::INT) AS day, ['Porto', 'Gdańsk'][i % 2 + 1] AS site, i % 17 AS n FROM range(240) r(i)",
  },
  {
    type: "CHART",
    title: "Names",
    sql: `SELECT * FROM (VALUES ${hostile.map((each, index) => `(${text(each)}, ${index})`).join(", ")}) v("<script>alert(1)</script>", n)`,
  },
  {
    type: "CHART",
    title: "Many",
    sql: "SELECT i % 977 AS x, i * 7919 % 5003 AS y FROM range(10000) r(i)",
    chart: { mark: "dot" },
  },
  {
    type: "TABLE",
    title: "Rows",
    sql: `SELECT i, ${text(hostile[0])} || i AS "a
b", ${text(hostile[2])} AS "${"c".repeat(255)}", '=1+1' AS d, -i AS e FROM range(250) r(i)`,
  },
  { type: "TABLE", title: "Large", sql: "SELECT repeat('x', 2000000) AS x FROM range(10)" },
  { type: "TABLE", title: "Broken", sql: "SELECT * FROM nothing_like_that" },
  { type: "CHART", title: "Misnamed", sql: "SELECT 1 AS month, 2 AS net", chart: { y: "nett" } },
  ...Array.from({ length: 20 }, (_, index) => ({
    type: "TABLE",
    title: `Table ${index}`,
    sql: `SELECT ${index} AS n`,
  })),
];

test("pinboards show figures, charts and tables, and why one of them cannot; with and without JavaScript", async () => {
  await company.write("tables.sql", "CREATE DATABASE IF NOT EXISTS d; CREATE TABLE IF NOT EXISTS d.t (id BIGINT);");
  await mkdir(join(company.folder, "pinboards"));
  const visualizations = shown.map((each, index) => ({
    id: visualization(index),
    name: `v${index}`,
    database: "d",
    ...each,
  }));
  await company.write("pinboards/usage.yaml", JSON.stringify({ id: board, name: "Usage", visualizations }));
  await using browser = await openBrowser();
  const daemon = await startDaemon(company, /"msg":"sync staff: (?:applied|no change)/);
  const window = await signedIn(browser, daemon.url);
  const { page } = window;
  await page.getByRole("link", { name: "Pinboards" }).click();
  expect(await window.accessibility()).toEqual([]);

  const answer = page.waitForResponse(`**/pinboards/${board}`);
  await page.getByRole("link", { name: "Usage" }).click();
  expect((await (await answer).body()).length).toBeLessThan(300_000);
  const card = (title: string) => page.getByRole("article", { name: title, exact: true });
  // The last ones come when they are in sight.
  await card("Table 19").scrollIntoViewIfNeeded();
  await card("Table 19").getByRole("cell", { name: "19" }).waitFor();
  await card("Sign-ins").getByLabel("Line chart of n by day, 2 series").waitFor();
  expect(await card("Licences").textContent()).toContain("12,840");
  expect(await card("Sign-ins").getByRole("listitem").allTextContents()).toEqual([
    expect.stringContaining("Porto"),
    expect.stringContaining("Gdańsk"),
  ]);
  expect(await card("Names").textContent()).toContain("gnp.\\u{202e}cod");
  expect(await card("Many").textContent()).toContain("10,000 points");
  expect(await card("Rows").textContent()).toMatch(/The first 10 of\s+250 rows/);
  await card("Broken").scrollIntoViewIfNeeded();
  await card("Broken")
    .getByText(/nothing_like_that is not a table/)
    .waitFor();
  await card("Misnamed")
    .getByText(/did you mean "net"\?/)
    .waitFor();
  await card("Many").getByText("As a table").click();
  await card("Many").getByRole("columnheader", { name: "x" }).waitFor();
  expect(await window.accessibility()).toEqual([]);

  await page.getByRole("link", { name: "Sign-ins" }).click();
  await page.getByLabel("Line chart of n by day, 2 series").filter({ visible: true }).waitFor();
  expect(await window.accessibility()).toEqual([]);
  await page.getByRole("link", { name: "Next" }).click();
  await page.getByText(/101 to 200 of\s+240/).waitFor();

  await page.goto(`/pinboards/${board}/${visualization(4)}?from=200`);
  expect(await page.getByRole("row").count()).toBe(51);
  expect(await window.accessibility()).toEqual([]);
  const csv = await (await window.context.request.get(`/pinboards/${board}/${visualization(4)}/download`)).text();
  expect(csv.split("\n")).toHaveLength(252);
  expect(csv).toMatch(/^\uFEFF"i","a\\u\{000a\}b","c{255}","d","e"\n0,"<script>alert\(1\)<\/script>0",/);
  expect(csv).toContain(`"'=1+1",-249\n`);
  expectNoProblems(window);
  await page.goto(`/pinboards/${board}/${visualization(5)}`);
  await page.getByText("too much for a page").waitFor();
  expect(await page.getByRole("link", { name: "CSV" }).getAttribute("href")).toMatch(/\/download$/);
  forget(window, 400);
  await page.goto(`/pinboards/${board}/${visualization(6)}`);
  await page.getByText("nothing_like_that is not a table").waitFor();
  forget(window, 400);
  await page.goto(`/pinboards/${board}/${visualization(99)}`);
  await page.getByText("there is no such visualization on this pinboard").waitFor();
  forget(window, 404);
  expectNoProblems(window);
  const cookies = await window.context.storageState();
  await window.close();

  const plain = await browser.window(daemon.url, { javaScriptEnabled: false, storageState: cookies });
  await plain.page.goto(`/pinboards/${board}`);
  const last = plain.page.getByRole("article", { name: "Table 19", exact: true });
  await last.getByRole("link", { name: "Show only this one" }).click();
  await plain.page.getByRole("cell", { name: "19" }).waitFor();
  expectNoProblems(plain);
  await plain.close();
  await stopRollcall(daemon.running);
});

import { readdir, readFile, stat } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { expectNoProblems, openBrowser } from "../support/browser.ts";
import { forget, holdFirst, startDaemon } from "../support/console.ts";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";
import { stopRollcall } from "../support/rollcall/rollcall.ts";

const company = companyOfEachTest((yaml) => yaml.replace("  data: data", "  data: data\n  tables: tables.sql"));

const tables = `CREATE DATABASE IF NOT EXISTS hr;
CREATE TABLE IF NOT EXISTS hr.people (id BIGINT PRIMARY KEY, name VARCHAR, since DATE, active BOOLEAN);
CREATE TABLE IF NOT EXISTS hr.core_default_schema."<img src=x onerror=alert(1)>" (x INTEGER);
`;

const fileName = "<img src=x onerror=alert(1)>\u202E.csv";
const rows = `id;name;since;active
1;"Lovelace; <script>alert(1)</script>";31.01.2024;ja
2;Grace;13.02.2024;nein
3;\u202Egnp;nonsense;ja
`;

/** Drops files on an element, as a person does. */
async function drop(page: Page, on: string, files: readonly (readonly [name: string, text: string])[]): Promise<void> {
  const data = await page.evaluateHandle(`(() => {
    const transfer = new DataTransfer();
    for (const [name, text] of ${JSON.stringify(files)}) transfer.items.add(new File([text], name));
    return transfer;
  })()`);
  for (const type of ["dragover", "drop"]) await page.locator(on).dispatchEvent(type, { dataTransfer: data });
}

test("a file is dropped on a table, looked at, corrected, and loaded; with and without JavaScript", async () => {
  await using browser = await openBrowser();
  await company.write("tables.sql", tables);
  await company.write("people.csv", people.replace("staff;engines", "staff;DataManager"));
  await company.write("groups.csv", "id,name,within\nstaff,Staff,\nDataManager,Data managers,\n");
  const daemon = await startDaemon(company, "sync staff: applied");
  const place = join(company.folder, "data/service/loads");
  /** The files of loads that are on the disk, with who may read them. */
  const stored = async (): Promise<string[]> => {
    const found = await readdir(place, { recursive: true, withFileTypes: true });
    const files = found.filter((each) => each.isFile()).map(({ parentPath, name }) => join(parentPath, name));
    return Promise.all(files.map(async (file) => ((await stat(file)).mode & 0o777).toString(8)));
  };

  const window = await browser.window(daemon.url);
  const { page } = window;
  const main = page.getByRole("main");
  const said = async (): Promise<string> => ((await main.textContent()) ?? "").replaceAll(/\s+/g, " ");
  // A data manager, who may not look at the syncs: loads are all there is.
  await page.goto("/");
  await window.signIn("ada", "initial-user-secret");
  await page.waitForURL("**/loads");
  const places = await page.getByRole("navigation", { name: "Console" }).getByRole("link").allInnerTexts();
  expect(places).toEqual(["Loads"]);
  expect(await said()).toMatch(/hr\.people ?id, name, since, active ?id ?0/);
  expect(await window.accessibility()).toEqual([]);
  expectNoProblems(window);
  await page.goto("/runs");
  expect(await said()).toContain("ada lacks the administration privilege");
  forget(window, 403);

  // One file at a time.
  await page.goto("/loads");
  const row = "tr[data-table=people]";
  await drop(page, row, [
    ["a.csv", rows],
    ["b.csv", rows],
  ]);
  await page.getByRole("alert").filter({ hasText: "One file at a time" }).waitFor();
  expect(await window.accessibility()).toEqual([]);
  await page.getByRole("button", { name: "Close" }).click();

  await drop(page, row, [[fileName, rows]]);
  await page.waitForURL(/\/loads\/[0-9a-f-]{36}$/);
  const draft = page.url();
  expect(await page.getByRole("heading", { level: 1 }).textContent()).toContain("\\u{202e}.csv");
  expect(await said()).toContain('1 row of 3 would be rejected in the file: row 3, column since: "nonsense" does not');
  expect(await page.locator(".previewed tbody tr").first().textContent()).toMatch(
    /1\s*Lovelace; <script>alert\(1\)<\/script>\s*2024-01-31\s*true/,
  );
  expect(await page.getByLabel("Separator", { exact: true }).inputValue()).toBe(";");
  expect(await page.getByLabel("Dates", { exact: true }).inputValue()).toBe("%d.%m.%Y");
  expect(await page.getByLabel("True", { exact: true }).inputValue()).toBe("ja");
  expect(await window.accessibility()).toEqual([]);
  // Only its owner may read what waits there.
  expect(await stored()).toEqual(["600", "600"]);

  // What is corrected is read again at once, and nothing of it is loaded.
  await page.getByLabel("Dates", { exact: true }).fill("%Q");
  await page.getByText("has %Q, which is not understood").waitFor();
  // The answer to what was entered before may come after the next correction.
  const gate = await holdFirst(page, "**/preview");
  await page.getByLabel("Dates", { exact: true }).fill("%d.%m.%Y");
  await gate.reached;
  const sent = page.waitForRequest("**/preview");
  await page.getByLabel("The first row is a header").uncheck();
  await sent;
  await gate.open();
  await page.getByText("2 rows of 4 would be rejected").waitFor();
  await page.getByLabel("The first row is a header").check();
  await page.getByText("1 row of 3 would be rejected").waitFor();
  await page.getByText("None of the 2 keys is in the table").waitFor();
  await page.getByLabel("Rows that may be rejected").fill("many");
  await page.getByRole("button", { name: "Load into people" }).click();
  await page.getByText("Rows that may be rejected: expected a whole number").waitFor();
  forget(window, 400);
  // What was entered is there for whoever comes back.
  await page.goto(draft);
  expect(await page.getByLabel("Rows that may be rejected").inputValue()).toBe("many");
  await page.getByLabel("Rows that may be rejected").fill("1");
  await page.getByRole("button", { name: "Load into people" }).click();
  await page.getByText("2 rows loaded").waitFor();
  expect(await said()).toContain('row 3, column since: "nonsense" does not match %d.%m.%Y');
  expect(await window.accessibility()).toEqual([]);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("link", { name: "Download them" }).click(),
  ]);
  expect(await readFile(await download.path(), "utf8")).toBe("3;\u202Egnp;nonsense;ja\n");
  expect(await stored()).toHaveLength(1);
  // It is a cycle of hers, as in the interface.
  const listed = await window.context.request.get("/ts_dataservice/v1/public/loads");
  const [status] = JSON.parse(await listed.text()) as { status: object; rows_written: string }[];
  expect(status).toMatchObject({ status: { code: "OK" }, rows_written: "2", ignored_row_count: "1" });
  await page.getByRole("link", { name: "hr.people" }).click();
  await page.getByText("A row whose key is known replaces it.").waitFor();
  expect(await window.accessibility()).toEqual([]);
  expectNoProblems(window);

  // Without JavaScript: the table's own form.
  const cookies = await window.context.storageState();
  const plain = await browser.window(daemon.url, { javaScriptEnabled: false, storageState: cookies });
  await plain.page.goto("/loads");
  await plain.page.locator("tbody a").filter({ hasText: "people" }).last().click();
  expect(await plain.page.getByRole("main").textContent()).toContain("A row whose key is known replaces it.");
  const choose = async (): Promise<void> => {
    const file = { name: "more.csv", mimeType: "text/csv", buffer: Buffer.from("id,name\n4,Zoë\n") };
    await plain.page.getByLabel("A file of").setInputFiles(file);
    await plain.page.getByRole("button", { name: "Look at it" }).click();
  };
  await choose();
  await plain.page.getByText("More", { exact: true }).click();
  await plain.page.getByLabel("Rows may have fields too many").check();
  await plain.page.getByRole("button", { name: "Read it again" }).click();
  expect((await plain.page.getByRole("main").textContent())?.replaceAll(/\s+/g, " ")).toContain(
    "1 row in the file, and none would be rejected",
  );
  await plain.page.getByRole("button", { name: "Load into people" }).click();
  await expect
    .poll(async () => {
      await plain.page.reload();
      return plain.page.getByRole("main").textContent();
    })
    .toMatch(/1 row loaded/);
  await plain.page.getByRole("link", { name: "hr.people" }).click();
  expect(await plain.page.getByRole("main").textContent()).toMatch(/3 rows, 4 columns/);
  await choose();
  await plain.page.getByText("More", { exact: true }).click();
  await plain.page.getByLabel("Rows may have fields too many").check();
  await plain.page.getByRole("button", { name: "Read it again" }).click();
  expect((await plain.page.getByRole("main").textContent())?.replaceAll(/\s+/g, " ")).toContain(
    "1 row of the table would be replaced",
  );
  await plain.page.getByRole("button", { name: "Discard the file" }).click();
  expect(await plain.page.getByRole("main").textContent()).toMatch(/more\.csv\s*cancelled/);
  expect(await stored()).toHaveLength(1);
  expectNoProblems(plain);
  await plain.close();

  // What breaks off, or is forged, leaves nothing behind.
  await page.goto("/loads");
  const token = await page.locator("input[name=token]").first().inputValue();
  const cookie = cookies.cookies.map(({ name, value }) => `${name}=${value}`).join("; ");
  const part = (name: string, more: string, text: string): string =>
    `--b\r\ncontent-disposition: form-data; name="${name}"${more}\r\n\r\n${text}`;
  const begin = (sent: string, length: number): { end(): void; readonly status: Promise<number | undefined> } => {
    const headers = { cookie, "content-type": "multipart/form-data; boundary=b", "content-length": length };
    const path = "/loads/upload?database=hr&schema=core_default_schema&table=people";
    const sending = request(new URL(path, daemon.url), { method: "POST", headers });
    const { promise: status, resolve } = Promise.withResolvers<number | undefined>();
    sending.on("response", (answer) => resolve(answer.resume().statusCode)).on("error", () => resolve(undefined));
    sending.write(sent);
    return { end: () => sending.destroy(), status };
  };
  const whole = (hidden: string): string =>
    `${part("token", "", hidden)}\r\n${part("file", '; filename="x.csv"', "1,x\n")}\r\n--b--\r\n`;
  const first = `${part("file", '; filename="x.csv"', "1,x\n")}\r\n--b--\r\n`;
  for (const forged of [whole("wrong"), first]) expect(await begin(forged, forged.length).status).toBe(403);
  expect(await stored()).toHaveLength(1);
  // What is no table of text is named.
  const workbook = { name: "people.xlsx", mimeType: "", buffer: Buffer.from("PK\x03\x04[Content_Types].xml xl/") };
  await page.goto("/loads/table?database=hr&schema=core_default_schema&table=people");
  await page.getByLabel("A file of").setInputFiles(workbook);
  await page.getByRole("button", { name: "Look at it" }).click();
  await page.getByText("people.xlsx is an Excel workbook (.xlsx), not CSV or delimited text").waitFor();
  forget(window, 400);
  expect(await stored()).toHaveLength(1);
  await page.goto("/loads");
  const broken = `${part("token", "", token)}\r\n${part("file", '; filename="x.csv"', "1,x\n".repeat(50_000))}`;
  const sending = begin(broken, broken.length + 1000);
  await expect.poll(async () => (await stored()).length).toBe(3);
  sending.end();
  expect(await sending.status).toBeUndefined();
  await expect.poll(async () => (await stored()).length).toBe(1);
  await page.getByText("cancelled").nth(1).waitFor();
  expectNoProblems(window);
  await window.close();

  // Who has no such privilege sees nothing of it.
  const other = await browser.window(daemon.url);
  await other.page.goto("/loads");
  await other.signIn("grace", "initial-user-secret");
  expect(await other.page.getByRole("main").textContent()).toContain("grace lacks the");
  forget(other, 403);
  expectNoProblems(other);
  await other.close();
  await stopRollcall(daemon.running);
});

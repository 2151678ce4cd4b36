import { expect, test } from "vitest";
import { expectNoProblems, useBrowser } from "../support/browser.ts";
import { careful, hostile, signedIn, startDaemon } from "../support/console.ts";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";
import { stopRollcall } from "../support/rollcall/rollcall.ts";

const company = companyOfEachTest();
const browser = useBrowser();

test("somebody is found, with what the target, the sources and the runs say of them; with and without JavaScript", async () => {
  await company.write("people.csv", people + hostile);
  await company.applied();
  await company.configure(careful);
  await company.write("people.csv", (people + hostile).replace("Ada Lovelace", "Ada King"));
  const daemon = await startDaemon(company, "waits for approval");
  const window = await signedIn(browser(), daemon.url);
  const { page } = window;
  const main = page.getByRole("main");
  await page.getByRole("link", { name: "People and groups" }).click();
  await page.getByRole("row").nth(5).waitFor();
  expect(await main.textContent()).toMatch(/\d users and groups/);
  expect(await main.textContent()).toContain("<script>alert(1)</script> \\u{202e}gnp");
  expect(await window.accessibility()).toEqual([]);
  // By a part of the mail, and by the id of a record.
  for (const [text, found] of [
    ["HOPPER", ["grace"]],
    ["ada@", ["ada"]],
    ["engi", ["engines"]],
  ] as const) {
    await page.getByRole("searchbox", { name: "Search" }).fill(text);
    await page.getByRole("button", { name: "Search" }).click();
    await page.waitForURL(`**text=${encodeURIComponent(text)}**`);
    expect(await page.locator("tbody th").allTextContents()).toEqual(found);
  }
  await page.goto("/people?text=nobody-like-that");
  await page.getByRole("link", { name: "look for nobody-like-that in the sources" }).click();
  expect(await main.textContent()).toMatch(/Nothing in the sources of staff or in analytics is called/);
  expect(await window.accessibility()).toEqual([]);

  await page.goto("/people?text=ada");
  await page.getByRole("link", { name: "ada" }).click();
  await page.getByText("record of company").first().waitFor();
  await page.getByText("created").first().waitFor();
  const said = ((await main.textContent()) ?? "").replaceAll(/\s+/g, " ");
  expect(said).toMatch(/ada user of analytics/);
  expect(said).toMatch(/display name Ada Lovelace/);
  expect(said).toContain("company 1 by staff");
  expect(said).toMatch(/2 groups directly/);
  expect(said).toMatch(/user ada: update, a record makes it \(people\.csv:2/);
  expect(said).toMatch(/waits since [^]*rollcall approve \S+/);
  expect(said).toContain('displayName: "Ada Lovelace" → "Ada King"');
  expect(said).toContain('users.displayName: entry.name → "Ada King"');
  expect(await window.accessibility()).toEqual([]);

  await page.getByRole("link", { name: "staff", exact: true }).first().click();
  await page.getByText("group of analytics").waitFor();
  await page.getByRole("link", { name: "Also through other groups" }).click();
  await page.waitForURL("**nested=yes**");
  await page.getByRole("cell", { name: "user" }).first().waitFor();
  expect(await page.locator("tbody th").allTextContents()).toEqual(["engines", "ada", "evil", "grace", "zoe"]);
  expect(await window.accessibility()).toEqual([]);
  expectNoProblems(window);
  const cookies = await window.context.storageState();
  await window.close();

  const plain = await browser().window(daemon.url, { javaScriptEnabled: false, storageState: cookies });
  await plain.page.goto("/people/user?name=evil");
  await plain.page.getByRole("link", { name: "Show what the runs did with it" }).click();
  expect(await plain.page.locator("#history").textContent()).toMatch(/applied[^]*created/);
  await plain.page.goBack();
  await plain.page.getByRole("link", { name: "Read the sources and explain it" }).click();
  expect(await plain.page.getByRole("main").textContent()).toContain("user evil: nothing to do");
  expectNoProblems(plain);
  await plain.close();
  await stopRollcall(daemon.running);
});

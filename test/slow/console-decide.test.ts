import { expect, test } from "vitest";
import { expectNoProblems, useBrowser } from "../support/browser.ts";
import { careful, forget, hostile, signedIn, startDaemon } from "../support/console.ts";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";
import { stopRollcall } from "../support/rollcall/rollcall.ts";

const company = companyOfEachTest();
const browser = useBrowser();

test("a plan is looked at, approved and watched; another browser that decides too late is told", async () => {
  await company.configure(careful);
  await company.write("people.csv", people + hostile);
  const daemon = await startDaemon(company, "waits for approval");
  const [one, two] = [await signedIn(browser(), daemon.url), await signedIn(browser(), daemon.url)];
  const { page } = one;
  expect(await page.locator("main").textContent()).toMatch(/staff waits for approval[^]*4 users and 2 groups created/);
  await page.getByRole("link", { name: "Look at the plan" }).click();
  await expect.poll(() => page.title()).toContain("Plan · staff");
  const shown = page.getByRole("main");
  expect(await shown.textContent()).toMatch(
    /4 users and 2 groups created, \d+ memberships added\.[^]*Waits for approval/,
  );
  expect(await shown.textContent()).toContain("<script>alert(1)</script> \\u{202e}gnp");
  expect(await one.accessibility()).toEqual([]);
  // Only what is asked for.
  const names = page.locator(".change b a");
  await page.getByRole("searchbox", { name: "Name" }).fill("rac");
  await expect.poll(() => names.allTextContents()).toEqual(["grace"]);
  // The focus stays where one types.
  expect(await page.getByRole("searchbox", { name: "Name" }).evaluate("document.activeElement.name")).toBe("name");
  await page.getByLabel("Source").selectOption("company");
  await page.waitForURL(/source=company/);
  const filtered = page.getByRole("link", { name: "CSV" }).last();
  await expect.poll(() => filtered.getAttribute("href")).toMatch(/[?&]source=company&name=rac$/);
  expect(await names.allTextContents()).toEqual(["grace"]);
  // From the section to its change, and back.
  await page.evaluate("document.activeElement.blur()");
  for (const [key, focused] of [
    ["j", "summary"],
    ["j", ".change a"],
    ["k", "summary"],
  ] as const) {
    await page.keyboard.press(key);
    expect(await page.locator(`${focused}:focus`).count(), key).toBe(1);
  }
  await page.getByRole("link", { name: "Approve…", exact: true }).click();
  await two.page.goto(new URL(page.url()).pathname);
  expect(await shown.textContent()).toMatch(/analytics will have\s+4 users and 2 groups created/);
  expect(await one.accessibility()).toEqual([]);
  await page.getByLabel("Reason (optional)").fill("as discussed");
  await page.getByRole("button", { name: "Apply 6 changes" }).click();
  // Nobody reloads.
  await page.getByText("applied", { exact: false }).first().waitFor();
  await expect.poll(() => page.locator("hgroup").textContent()).toContain("applied");
  expect(await shown.textContent()).toMatch(
    /approved by admin \(user of the service, 127\.0\.0\.1\); because: as discussed/,
  );
  expect(await one.accessibility()).toEqual([]);

  await two.page.getByRole("button", { name: "Apply 6 changes" }).click();
  expect(await two.page.getByRole("alert").textContent()).toMatch(
    /Nothing was decided\.\s+It was approved by admin \(user of the service, 127\.0\.0\.1\); because: as discussed/,
  );
  expect(await two.accessibility()).toEqual([]);
  forget(two, 409);

  // What was applied can be undone: that is a plan which waits.
  await page.getByRole("link", { name: "Undo…" }).click();
  await page.getByRole("button", { name: "Plan the undo" }).click();
  await expect.poll(() => page.locator("hgroup").textContent()).toMatch(/held by limits|pending/);
  expect((await daemon.runs())[0]).toMatchObject({ cause: "undo", by: { name: "admin", from: "127.0.0.1" } });
  for (const window of [one, two]) {
    expectNoProblems(window);
    await window.close();
  }
  await stopRollcall(daemon.running);
});

import { expect, test } from "vitest";
import { expectNoProblems, useBrowser } from "../support/browser.ts";
import { careful, forget, hostile, signedIn, startDaemon } from "../support/console.ts";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";
import { stopRollcall } from "../support/rollcall/rollcall.ts";

const company = companyOfEachTest();
const browser = useBrowser();

test("without JavaScript: override a limit, approve a part, reject; a plan that was replaced shows the difference", async () => {
  await company.applied();
  await company.configure(careful);
  await company.write("people.csv", people.replace(/^2,.*\n3,.*\n/m, "") + hostile);
  const daemon = await startDaemon(company, /held by the limit/);
  const window = await signedIn(browser(), daemon.url, { javaScriptEnabled: false });
  const { page } = window;
  const main = page.getByRole("main");

  const held = (await daemon.runs()).find(({ state }) => state === "held")!;
  await page.getByRole("link", { name: "Look at the plan" }).click();
  expect(await main.textContent()).toMatch(/2 users deleted[^]*the limit on deletions holds this/);
  // A part of it, without those who would go.
  await page.getByRole("link", { name: "Approve a part…" }).click();
  await page.getByLabel("deleted").uncheck();
  await page.getByRole("button", { name: "See what that applies" }).click();
  expect(await main.textContent()).toMatch(/1 user created, 1 membership added\s+\(only create\)/);
  await page.goBack();
  await page.getByLabel("Leave out these users and groups").fill("zoe\n");
  await page.getByRole("button", { name: "See what that applies" }).click();
  expect(await main.textContent()).toContain("all but user zoe");

  // The plan is replaced while the form is open.
  await page.goto(`/runs/${held.id}/approve`);
  await company.write("people.csv", people.replace(/^2,.*\n3,.*\n/m, ""));
  const newer = await daemon.run();
  expect(newer.state).toBe("held");
  await page.getByLabel("Override the limit on deletions").check();
  await page.getByLabel("Reason").fill("they left");
  await page.getByRole("button", { name: "Delete 2 users, apply 1 other change" }).click();
  expect(await main.textContent()).toMatch(
    /Nothing was decided\.\s+It is superseded\.[^]*2 changes are the same\.[^]*No longer planned \(1\)\s+create user evil/,
  );
  forget(window, 409);
  await page.getByRole("link", { name: "Look at this plan" }).click();
  await page.getByRole("link", { name: /^Override/ }).click();
  await page.getByLabel("Override the limit on deletions").check();
  await page.getByLabel("Reason").fill("they left");
  await page.getByRole("button", { name: "Delete 2 users" }).click();
  expect(await daemon.ended(newer.id)).toMatchObject({
    state: "applied",
    decisions: [{ decision: "approved", overrides: ["deletes"], reason: "they left", by: { name: "admin" } }],
  });

  await company.write("people.csv", people.replace(/^2,.*\n3,.*\n/m, "").replace("ada@", "countess@"));
  const last = await daemon.run();
  await page.goto(`/runs/${last.id}/plan`);
  expect(await main.textContent()).toMatch(/mail\s+ada@example\.com\s+→\s+countess@example\.com/);
  const report = await window.context.request.get(`/runs/${last.id}/report?format=csv`);
  expect([report.headers()["content-disposition"], await report.text()]).toEqual([
    `attachment; filename="run-${last.id}.csv"`,
    expect.stringContaining(`"user","ada","update","mail","ada@example.com","countess@example.com"`),
  ]);
  for (const [format, text] of [
    ["html", "<!DOCTYPE html>"],
    ["json", '"plan":{'],
    ["markdown", "countess@"],
  ] as const)
    expect(await (await window.context.request.get(`/runs/${last.id}/report?format=${format}`)).text()).toContain(text);
  await page.getByRole("link", { name: "Reject…" }).click();
  await page.getByLabel("Reason").fill("a typing mistake");
  await page.getByRole("button", { name: "Reject" }).click();
  expect(await main.textContent()).toMatch(
    /rejected by admin \(user of the service, 127\.0\.0\.1\); because: a typing mistake/,
  );
  await page.goto("/runs?state=rejected");
  expect(await page.locator("tbody tr").count()).toBe(1);
  expectNoProblems(window);
  await window.close();
  await stopRollcall(daemon.running);
});

import { expect, test } from "vitest";
import { expectNoProblems, useBrowser } from "../support/browser.ts";
import { forget, signedIn, startDaemon } from "../support/console.ts";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";
import { stopRollcall } from "../support/rollcall/rollcall.ts";

const company = companyOfEachTest((yaml) => yaml.replace("to: analytics", "to: analytics\n    approval: required"));
const browser = useBrowser();

test("a part of a plan is ticked, by hand and by keyboard: these, or all but these; a filter narrows it", async () => {
  const daemon = await startDaemon(company, "waits for approval");
  const id = (await daemon.runs())[0]?.id ?? "";
  const window = await signedIn(browser(), daemon.url);
  const { page } = window;
  const main = page.getByRole("main");
  await page.goto(`/runs/${id}/plan`);
  await page.getByRole("checkbox", { name: "Select user zoe" }).check();
  expect(await main.textContent()).toContain("1 ticked");
  // What is ticked stays so when the page brings itself up to date.
  await daemon.run();
  await page.waitForResponse((answer) => answer.url().endsWith("/plan"));
  await expect.poll(() => main.textContent()).toContain("1 ticked");
  expect(await page.getByRole("checkbox", { name: "Select user zoe" }).isChecked()).toBe(true);
  await page.getByRole("button", { name: "Approve all but the ticked…" }).click();
  expect(await main.textContent()).toMatch(/2 users and 2 groups created[^]*\(all but user zoe\)/);
  await page.goBack();
  // By keyboard: from the change to its section.
  await page.getByRole("checkbox", { name: "Select user zoe" }).uncheck();
  for (const key of ["k", "k", "k", "x"]) await page.keyboard.press(key);
  expect(await main.textContent()).toContain("3 ticked");
  expect(await page.getByRole("checkbox", { name: "Select user zoe" }).isDisabled()).toBe(true);
  expect(await window.accessibility()).toEqual([]);
  await page.getByRole("button", { name: "Approve only the ticked…" }).click();
  expect(await main.textContent()).toMatch(/3 users created[^]*\(only user ada, user grace, user zoe\)/);
  // Only what the filter shows.
  await page.goto(`/runs/${id}/plan?name=gra`);
  await page.getByRole("checkbox", { name: "Select all 1 created users" }).check();
  await page.getByRole("button", { name: "Approve only the ticked…" }).click();
  expect(await main.textContent()).toMatch(/1 user created[^]*\(only user grace\)/);
  await page.getByRole("button", { name: /^Apply/ }).click();
  await page.waitForURL(/\/runs\/[^/]+$/);
  expect(await daemon.ended(id)).toMatchObject({
    state: "applied",
    decisions: [{ selection: { these: [{ kind: "user", name: "grace" }] } }],
    counts: { users: { create: 1 }, groups: { create: 0 } },
  });
  expectNoProblems(window);
  await stopRollcall(daemon.running);
});

test("without JavaScript: nothing is ticked, a name is mistyped: it says so in place, and nothing is lost; names are links", async () => {
  const daemon = await startDaemon(company, "waits for approval");
  const id = (await daemon.runs())[0]?.id ?? "";
  const window = await signedIn(browser(), daemon.url, { javaScriptEnabled: false });
  const { page } = window;
  const main = page.getByRole("main");
  await page.goto(`/runs/${id}/plan`);
  await page.getByRole("button", { name: "Approve only the ticked…" }).click();
  expect(await main.textContent()).toContain("No change is ticked");
  await page.goBack();
  await page.getByRole("checkbox", { name: "Select user ada" }).check();
  await page.getByRole("checkbox", { name: "Select group staff" }).check();
  await page.getByRole("button", { name: "Approve only the ticked…" }).click();
  expect(await main.textContent()).toContain("(only user ada, group staff)");

  await page.goto(`/runs/${id}/part`);
  const names = page.getByLabel("Leave out these users and groups");
  await names.fill("zoe\ngarce");
  await page.getByRole("button", { name: "See what that applies" }).click();
  expect(await page.getByRole("alert").textContent()).toBe(
    'The plan does not change anybody called "garce"; did you mean "grace"?',
  );
  expect(await names.inputValue()).toBe("zoe\ngarce");
  await names.fill("zoe\ngrace");
  await page.getByRole("button", { name: "See what that applies" }).click();
  expect(await main.textContent()).toContain("all but user grace, user zoe");
  forget(window, 400);

  await company.write("people.csv", people.replace("Ada Lovelace", "Ada King"));
  await page.goto(`/runs/${id}/plan`);
  await page.locator(".change").getByRole("link", { name: "ada" }).click();
  expect(new URL(page.url()).pathname + new URL(page.url()).search).toBe("/people/user?target=analytics&name=ada");
  forget(window, 404);
  expectNoProblems(window);
  await stopRollcall(daemon.running);
});

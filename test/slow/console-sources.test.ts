import { rename } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { expectNoProblems, openBrowser } from "../support/browser.ts";
import { forget, hostile, signedIn, startDaemon } from "../support/console.ts";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";
import { stopRollcall } from "../support/rollcall/rollcall.ts";

const company = companyOfEachTest();

test("sources and targets are checked on demand; a sync is run now; with the keyboard and without JavaScript", async () => {
  await using browser = await openBrowser();
  await company.write("people.csv", people + hostile);
  await company.configure((yaml) =>
    yaml.replace(
      "defaultPassword",
      `expectations:
      - { name: enough, expect: users.size() > 2 }
      - { name: mails, over: users, expect: mail != null, otherwise: warn }
    defaultPassword`,
    ),
  );
  const daemon = await startDaemon(company, "applied and verified");
  const window = await signedIn(browser, daemon.url);
  const { page } = window;
  const main = page.getByRole("main");
  const said = async (): Promise<string> => ((await main.textContent()) ?? "").replaceAll(/\s+/g, " ");

  // With the keyboard, from the overview.
  await page.getByRole("link", { name: "Run staff now…" }).waitFor();
  expect(await said()).toMatch(/staff 1 expectation is broken: mails/);
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.waitForURL("**/connections");
  expect(await said()).toMatch(/company source · csv Last read .* Found 4 users, 2 groups Took/);
  expect(await said()).toMatch(/analytics target · this service Last listed .* Has 5 users, 4 groups/);
  expect(await window.accessibility()).toEqual([]);
  // The page comes up to date by itself.
  await page.getByRole("button", { name: "Check the sources and rules" }).click();
  await page.getByText("5 users, 2 groups", { exact: true }).waitFor();
  expect(await said()).toMatch(/checked .* by admin: 4 users, 2 groups, 1 excluded, 0 quarantined/);
  expect(await page.locator("tbody th").allTextContents()).toHaveLength(3);
  await page.getByRole("button", { name: "Check the target" }).click();
  await page.getByText("logged in as admin, with the administration privilege").waitFor();
  expect(await said()).not.toMatch(/administrator-secret|initial-user-secret/);
  expect(await window.accessibility()).toEqual([]);

  // Without its file the check fails with the words of the command, and so does a run.
  const [file, away] = [join(company.folder, "people.csv"), join(company.folder, "away.csv")];
  await rename(file, away);
  await page.getByRole("button", { name: "Check the sources and rules" }).click();
  await page.getByText("not checked: source company could not be read").waitFor();
  expect(await said()).toMatch(/check failed .* people\.csv does not exist .* Fix the problem first/);
  expect(await window.accessibility()).toEqual([]);
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("link", { name: "Run staff now…" }).click();
  expect(await said()).toContain("Changes within the limits are applied to analytics at once");
  expect(await window.accessibility()).toEqual([]);
  await page.getByRole("button", { name: "Run staff now" }).click();
  await page.getByText("Fix the problem first").waitFor();
  await page.goto("/connections");
  expect(await said()).toMatch(/Failed once, .*: .*people\.csv does not exist/);
  await rename(away, file);
  await company.write("people.csv", people.replace("Ada Lovelace", "Ada King") + hostile);
  await page.goto("/runs?sync=staff");
  await page.getByRole("link", { name: "Run staff now…" }).click();
  await page.getByRole("button", { name: "Run staff now" }).click();
  await main.getByText("applied").waitFor();
  expect(await said()).toMatch(/Expectations 1 kept, 1 broken kept "enough": users\.size\(\) > 2 is true/);
  const [last] = await daemon.runs();
  expect(last).toMatchObject({ cause: "demand", by: { name: "admin", from: "127.0.0.1" }, state: "applied" });

  // Neither is begun by a form that is not of this session.
  const before = (await daemon.runs()).length;
  for (const [path, form] of [
    ["/syncs/staff/run", { token: "guessed" }],
    ["/connections/check", { what: "target", name: "analytics" }],
  ] as const)
    expect((await window.context.request.post(path, { form, headers: { origin: daemon.url } })).status()).toBe(403);
  expect(await daemon.runs()).toHaveLength(before);
  await page.goto("/syncs/nobody/run");
  expect(await said()).toContain("No sync is called nobody");
  forget(window, 404);
  expectNoProblems(window);
  const storageState = await window.context.storageState();
  await window.close();

  const plain = await browser.window(daemon.url, { javaScriptEnabled: false, storageState });
  await plain.page.goto("/connections");
  await plain.page.getByRole("button", { name: "Check the target" }).click();
  await expect
    .poll(async () => {
      await plain.page.reload();
      return plain.page.getByRole("main").textContent();
    })
    .toMatch(/checked\s+(just now|\d seconds? ago) by admin/);
  expectNoProblems(plain);
  await plain.close();
  await stopRollcall(daemon.running);
});

test("the session of a page that is open and live ends after the idle time", async () => {
  await using browser = await openBrowser();
  await company.applied();
  await company.configure((yaml) => yaml.replace("  data: data\n", "  data: data\n  sessions: { idle: 8s }\n"));
  const daemon = await startDaemon(company, "no change");
  const window = await signedIn(browser, daemon.url);
  const { page } = window;
  await page.goto("/runs");
  const shown = await page.locator("tbody tr").count();
  // Each run brings the page up to date: if that were a use, it would never end.
  await daemon.run();
  await expect.poll(() => page.locator("tbody tr").count()).toBeGreaterThan(shown);
  await expect
    .poll(async () => {
      await daemon.run();
      return page.title();
    })
    .toBe("Sign in · Rollcall");
  expect(new URL(page.url()).searchParams.get("next")).toBe("/runs");
  forget(window, 401);
  expectNoProblems(window);
  await window.close();
  await stopRollcall(daemon.running);
});

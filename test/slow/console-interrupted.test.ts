import { expect, test } from "vitest";
import { expectNoProblems, useBrowser } from "../support/browser.ts";
import { careful, hostile, signedIn, startDaemon } from "../support/console.ts";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";
import { stopRollcall } from "../support/rollcall/rollcall.ts";

const company = companyOfEachTest();
const browser = useBrowser();
/** What a daemon says that was started again: its plan waits as before, or it has nothing to do. */
const again = /which still waits|its next slot is at/;

test("a session that ends, and a daemon that stops, in the middle of a decision, and two that are made at once: nothing is lost, and nothing done twice", async () => {
  await company.configure(careful);
  await company.write("people.csv", people + hostile);
  const first = await startDaemon(company, "waits for approval");
  const window = await signedIn(browser(), first.url);
  const { page } = window;
  const [run] = await first.runs();
  const id = run!.id;

  // Signed out elsewhere, and then approved here.
  await page.goto(`/runs/${id}/approve?action=create&kind=user`);
  const form = page.url();
  await page.getByLabel("Reason").fill("as discussed");
  const other = await window.context.newPage();
  const signOut = async (): Promise<void> => {
    await other.goto("/audit");
    await other.getByRole("button", { name: "Sign out" }).click();
    await other.waitForURL(/\/sign-in$/);
  };
  await signOut();
  await page.getByRole("button", { name: "Apply 4 changes" }).click();
  expect((await page.getByRole("alert").textContent())?.trim()).toBe(
    "Your session has ended, so nothing was done. Sign in, and do it again.",
  );
  expect(await window.accessibility()).toEqual([]);
  await window.signIn("admin", "administrator-secret");
  await page.waitForURL(form);
  expect(await page.getByRole("main").textContent()).toMatch(/analytics will have\s+4 users created/);
  expect(await first.ended(id)).toMatchObject({ state: "pending", decisions: [] });
  // A page that brings itself up to date does not show the sign-in inside itself.
  await page.goto(`/runs/${id}/plan`);
  await signOut();
  await first.run();
  await page.waitForURL(/\/sign-in\?next=/);
  expect(await page.getByRole("alert").count()).toBe(0);
  expect(window.problems.splice(0)).toEqual(expect.arrayContaining([expect.stringContaining("401")]));
  await window.signIn("admin", "administrator-secret");
  await page.waitForURL(`**/runs/${id}/plan`);

  // What somebody has entered is not thrown away to ask for a sign-in.
  await page.goto(`/runs/${id}/approve`);
  await page.getByLabel("Reason").fill("as discussed");
  await signOut();
  await first.run();
  await page.getByText("Your session is over").waitFor();
  expect(await page.getByLabel("Reason").inputValue()).toBe("as discussed");
  expect(await window.accessibility()).toEqual([]);
  window.problems.splice(0);
  await page.getByRole("link", { name: "sign in again" }).click();
  await window.signIn("admin", "administrator-secret");
  await page.waitForURL(`**/runs/${id}/approve`);

  // The daemon stops while one page asks, and another one shows.
  await page.goto(`/runs/${id}/approve`);
  await page.getByLabel("Reason").fill("they are all new");
  await other.goto(`/runs/${id}`);
  await stopRollcall(first.running);
  await page.getByText("Rollcall can't be reached").waitFor();
  expect(await window.accessibility()).toEqual([]);
  await page.getByRole("button", { name: "Apply 6 changes" }).click();
  await page.getByText("nothing was sent").waitFor();
  await company.configure((yaml) => yaml.replace("127.0.0.1:0", new URL(first.url).host));
  const second = await startDaemon(company, again);
  await expect.poll(() => page.locator(".unreached").count()).toBe(0);
  window.problems.splice(0);
  await page.getByRole("button", { name: "Apply 6 changes" }).click();
  await page.waitForURL(`**/runs/${id}`);
  expect(await second.ended(id)).toMatchObject({ state: "applied", decisions: [{ reason: "they are all new" }] });
  await expect.poll(() => other.locator("hgroup").textContent()).toContain("applied");
  expect(await other.locator(".unreached").count()).toBe(0);
  expectNoProblems(window);

  // Without JavaScript the browser says that nothing answers; what is sent again is done once.
  await company.write("people.csv", people.replace("ada@", "countess@") + hostile);
  const next = await second.run();
  expect(next.state).toBe("pending");
  const storageState = await window.context.storageState();
  await window.close();
  const plain = await browser().window(second.url, { javaScriptEnabled: false, storageState });
  await plain.page.goto(`/runs/${next.id}/approve`);
  second.running.process.kill("SIGKILL");
  await second.running.ended;
  await plain.page.getByRole("button", { name: "Apply 1 change" }).click();
  await plain.page.waitForURL(/^chrome-error:/);
  const third = await startDaemon(company, again);
  expect(await third.ended(next.id)).toMatchObject({ state: "pending", decisions: [] });
  plain.problems.splice(0);
  await plain.page.reload();
  await plain.page.waitForURL(`**/runs/${next.id}`);
  expect(await third.ended(next.id)).toMatchObject({ state: "applied", decisions: [{ decision: "approved" }] });
  expectNoProblems(plain);

  // Two browsers at the same moment: one decides, the other is told.
  await company.write("people.csv", people.replace("ada@", "lady@") + hostile);
  const last = await third.run();
  const rival = await plain.context.newPage();
  const both = [plain.page, rival];
  for (const each of both) await each.goto(`/runs/${last.id}/approve`);
  await Promise.all(both.map((each) => each.getByRole("button", { name: "Apply 1 change" }).click()));
  const told = await Promise.all(both.map((each) => each.getByRole("alert").allTextContents()));
  expect(told.flat()).toEqual([expect.stringMatching(/Nothing was decided\.\s+It was approved by admin/)]);
  expect((await third.ended(last.id)).decisions).toHaveLength(1);
  await plain.close();
  await stopRollcall(third.running);
});

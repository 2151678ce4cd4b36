import { expect, test } from "vitest";
import { expectNoProblems, useBrowser } from "../support/browser.ts";
import { careful, startDaemon } from "../support/console.ts";
import { hostile } from "../support/pages.ts";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";
import { stopRollcall } from "../support/rollcall/rollcall.ts";

const company = companyOfEachTest();
const browser = useBrowser();

/** Words of up to 16 letters that stand in two lines. */
const brokenWords = `(() => {
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text !== null; text = texts.nextNode())
    for (const { 0: word, index } of text.data.matchAll(/(?<![\\w-])[A-Za-z]{2,16}(?![\\w-])/g)) {
      if (!text.parentElement.checkVisibility() || text.parentElement.closest(".aloud, svg, option") !== null) continue;
      const range = document.createRange();
      range.setStart(text, index);
      range.setEnd(text, index + word.length);
      if (new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1) found.push(word);
    }
  return found;
})()`;

const quoted = hostile.map((text) => `"${text.replaceAll('"', '""')}"`);
/** A person and a group for each awkward text. */
const awkward = quoted.map((text, index) => `9${index},${text},${text},${text},active,staff\n`).join("");
const awkwardGroups = `id,name,within\nstaff,Staff,\nengines,Engines,staff\n${quoted.map((text) => `${text},${text},staff\n`).join("")}`;

test("with the keyboard alone: sign in, look at a plan, approve it, watch it, find a person; then every page, in both schemes", async () => {
  await company.configure(careful);
  await company.write("people.csv", people + awkward);
  await company.write("groups.csv", awkwardGroups);
  const daemon = await startDaemon(company, "waits for approval");
  const window = await browser().window(daemon.url);
  const { page } = window;
  const { keyboard } = page;
  const focused = (): Promise<string> => page.evaluate("document.activeElement.textContent.trim()");
  /** Presses the key until the focus is on what is called so. */
  const reach = async (key: string, name: string | RegExp): Promise<void> => {
    for (let pressed = 0; pressed < 150; pressed++) {
      const text = await focused();
      if (typeof name === "string" ? text === name : name.test(text)) return;
      await keyboard.press(key);
    }
    expect.fail(`${key} does not lead to ${String(name)}, but to ${await focused()}`);
  };

  await page.goto("/");
  await expect.poll(() => page.evaluate("document.activeElement.name")).toBe("username");
  await keyboard.type("admin");
  await keyboard.press("Tab");
  await keyboard.type("administrator-secret");
  await keyboard.press("Enter");
  await page.waitForURL(`${daemon.url}/`);
  await reach("Tab", /Look at the plan$/);
  await keyboard.press("Enter");
  await page.waitForURL("**/plan");
  await reach("j", /Created users/);
  await reach("Tab", "Approve…");
  await keyboard.press("Enter");
  await page.waitForURL("**/approve");
  await reach("Tab", /^Apply \d+ changes$/);
  await keyboard.press("Enter");
  await page.waitForURL(/\/runs\/[\w-]+$/);
  await expect.poll(() => page.locator("hgroup").textContent()).toContain("applied");

  await keyboard.press("g");
  await keyboard.press("p");
  await page.waitForURL("**/people");
  await keyboard.press("f");
  await keyboard.type("hopper");
  await page.waitForURL("**text=hopper**");
  await expect.poll(() => page.locator("tbody tr").count()).toBe(1);
  await reach("Tab", /^grace( hopper)?$/i);
  await keyboard.press("Enter");
  await page.waitForURL("**/people/user?**name=grace**");
  // The search over everything leads there, too.
  await page.goto("/");
  await keyboard.press("/");
  await keyboard.type("hopper");
  await page.getByRole("dialog").getByRole("link", { name: "grace" }).waitFor();
  expect(await window.accessibility()).toEqual([]);
  await keyboard.press("Enter");
  await page.waitForURL("**/people/user?**name=grace**");
  await keyboard.press("?");
  await page.getByRole("dialog").waitFor();
  await keyboard.press("Escape");
  await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
  expectNoProblems(window);

  // Every page that a link leads to, one for each kind; and those that nothing leads to.
  await company.write("people.csv", people);
  const held = await daemon.run();
  expect(held.state).toBe("held");
  await page.setViewportSize({ width: 360, height: 800 });
  const wrong: string[] = [];
  const kindOf = (path: string): string => path.replace(/\?.*/, "").replace(/\d{8}-\d{6}-\w+/, ":id");
  const first = [`/runs/${held.id}/approve`, "/search?q=ada", `/people/user?name=${encodeURIComponent(hostile[0]!)}`];
  const [waiting, seen] = [[...first, "/"], new Map<string, string>()];
  for (let path = waiting.shift(); path !== undefined; path = waiting.shift()) {
    if (seen.has(kindOf(path))) continue;
    seen.set(kindOf(path), path);
    await page.goto(path);
    wrong.push(...(await window.accessibility()).map((each) => `${path}: ${each}`));
    const width = await page.evaluate<number>("document.documentElement.scrollWidth");
    if (width > 360) wrong.push(`${path}: ${width} pixels wide on a phone`);
    wrong.push(
      ...(await page.evaluate<string[]>(brokenWords)).map((word) => `${path}: broken inside the word ${word}`),
    );
    const links = await page
      .locator("a[href^='/']:not([download])")
      .evaluateAll((all) => all.map((link) => link.getAttribute("href") ?? ""));
    waiting.push(...links.filter((link) => !/\/download|\/report|^\/docs\//.test(link)));
  }
  expect(wrong).toEqual([]);
  // On paper there is nothing to press, and what is folded is there.
  await page.goto(`/runs/${held.id}/plan`);
  await page.locator("details.changes").evaluateAll((all) => all.forEach((each) => each.removeAttribute("open")));
  expect(await page.locator(".change").first().isVisible()).toBe(false);
  await page.emulateMedia({ media: "print" });
  expect(await page.locator(".change").first().isVisible()).toBe(true);
  for (const pressed of [".bar", ".filters", ".downloads", "nav"])
    expect(await page.locator(pressed).first().isVisible(), pressed).toBe(false);
  await page.emulateMedia({ media: null });
  const undone = (await daemon.runs()).find(({ state }) => state === "applied")!.id;
  expect([...seen.keys()]).toEqual(
    expect.arrayContaining(["/runs/:id/plan", "/runs/:id/part", "/runs/:id/reject", "/doubt", "/audit"]),
  );
  await page.goto(`/runs/${undone}/undo`);
  expect(await window.accessibility()).toEqual([]);
  expectNoProblems(window);
  await page.goto("/runs/none");
  expect(await page.getByRole("alert").textContent()).toContain("none");
  expect(await window.accessibility()).toEqual([]);
  await window.close();
  await stopRollcall(daemon.running);
});

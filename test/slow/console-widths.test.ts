import { afterAll, beforeAll, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { expectNoProblems, useBrowser } from "../support/browser.ts";
import type { Window } from "../support/browser.ts";
import { company, emptyInstallation, emptyPages, pagesOf, signedIn } from "../support/screenshot-company.ts";
import type { Installation } from "../support/screenshot-company.ts";
import { forget } from "../support/console.ts";

const widths = [320, 768, 1024, 1440, 1920];
/** Where axe looks, in the light and in the dark: the tests of each page have it look at ordinary windows. */
const judged = new Set([320]);

const browser = useBrowser();
const installations: Installation[] = [];
let pages: Record<string, string>;

beforeAll(async () => {
  const [full, empty] = await Promise.all([company(), emptyInstallation()]);
  installations.push(full, empty);
  ({ pages } = await pagesOf(full));
});
afterAll(async () => {
  for (const each of installations) await each[Symbol.asyncDispose]();
});

/**
 * What is wider than its place. Only what has more columns than a window can have scrolls by itself, as a region that the
 * keyboard reaches; text of a code is cut or breaks.
 */
const tooWide = `(() => {
  const scrolls = "[role=region][tabindex], textarea, .crumbs, .crumbs *, .cut";
  const found = [];
  if (document.documentElement.scrollWidth > innerWidth) found.push("the page");
  for (const element of document.querySelectorAll("body *")) {
    if (element.closest("svg, option") !== null || element.matches(scrolls) || !element.checkVisibility()) continue;
    // It is only read aloud.
    if (getComputedStyle(element).clipPath !== "none") continue;
    const inside = element.parentElement.closest("[role=region][tabindex]") !== null;
    if (!inside && element.getBoundingClientRect().right > innerWidth + 1) found.push(element.outerHTML.slice(0, 160));
    else if (getComputedStyle(element).overflowX !== "visible" && element.scrollWidth > element.clientWidth + 1)
      found.push("scrolls: " + element.outerHTML.slice(0, 160));
  }
  return found.slice(0, 5);
})()`;

async function wrongWith(window: Window, name: string): Promise<string[]> {
  const { page } = window;
  const wrong: string[] = [];
  for (const width of widths) {
    await page.setViewportSize({ width, height: 900 });
    const found = await page.evaluate<string[]>(tooWide);
    if (judged.has(width)) found.push(...(await window.accessibility()));
    wrong.push(...found.map((each) => `${name} at ${width}: ${each}`));
  }
  return wrong;
}

/** With the parts that it asks for by itself. */
async function open(page: Page, path: string): Promise<void> {
  await page.goto(path);
  await expect.poll(() => page.locator("main .htmx-request").count()).toBe(0);
}

/** In two windows beside each other, each with half of the pages. */
test.each([
  ["a company with syncs in every state", 0],
  ["a new installation", 1],
])("every page of %s fits windows from 320 to 1,920 pixels, and axe finds nothing", async (_, index) => {
  const { url } = installations[index]!;
  const all = Object.entries(index === 0 ? pages : emptyPages);
  const halves = [0, 1].map(async (half) => {
    const window = await browser().window(url);
    await window.page.goto("/");
    const wrong = half === 0 ? await wrongWith(window, "sign-in") : [];
    await signedIn(window);
    for (const [place, [name, path]] of all.entries()) {
      if (place % 2 !== half) continue;
      await open(window.page, path);
      wrong.push(...(await wrongWith(window, name)));
      // That page is missing on purpose.
      if (name === "not-found") forget(window, 404);
    }
    expectNoProblems(window);
    await window.close();
    return wrong;
  });
  expect((await Promise.all(halves)).flat()).toEqual([]);
});

test("a check of a shared target leads back to the sync where it was begun, and leaves open what was open", async () => {
  const window = await browser().window(installations[0]!.url);
  const { page } = window;
  await page.goto("/");
  await signedIn(window);
  await page.goto("/connections");
  const [guests, suppliers] = [page.locator("#sync-guests"), page.locator("#sync-suppliers")];
  for (const each of [guests, suppliers]) await each.locator("summary").first().click();
  await suppliers.getByRole("button", { name: "Check the target" }).click();
  await page.waitForURL("**/connections#target-analytics:suppliers");
  for (const each of [guests, suppliers]) expect(await each.getAttribute("open")).not.toBeNull();
  expectNoProblems(window);
  await window.close();
});

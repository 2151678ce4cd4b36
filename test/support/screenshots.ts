import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { openBrowser } from "./browser.ts";
import type { Window } from "./browser.ts";
import {
  company,
  emptyInstallation,
  emptyPages,
  licencesFile,
  pagesOf,
  signedIn,
  tablePage,
} from "./screenshot-company.ts";
import type { Installation } from "./screenshot-company.ts";

/*
 * `npm run screenshots [FOLDER] [PAGES]`: every page of the console, or those whose names match a regular expression, on a
 * desktop and on a phone, in the light and in the dark: of a company with syncs in every state, and (`empty-…`) of a new
 * installation. Look at them after changing a page. Those that are called `readme-…` are smaller; the README has them, from
 * docs/images.
 */

const folder = process.argv[2] ?? fileURLToPath(new URL("../../node_modules/.cache/screenshots", import.meta.url));
const wanted = new RegExp(process.argv[3] ?? "");
const devices = { desktop: 1440, phone: 390 } as const;

/** The tallest picture, in pixels. */
const tallest = 2400;

/** Where an installation usually is, instead of the folder of this one. */
const tidyPaths = `(() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text !== null; text = texts.nextNode())
    text.data = text.data.replaceAll(/\\/tmp\\/rollcall-screenshots-\\w+/g, "/etc/rollcall");
})()`;

await mkdir(folder, { recursive: true });
await using browser = await openBrowser();
await Promise.all([picturesOfCompany(), picturesOfNothing()]);
process.stdout.write(`${folder}\n`);

async function picturesOfNothing(): Promise<void> {
  await using installation = await emptyInstallation();
  await everyDevice(installation, emptyPages);
}

async function picturesOfCompany(): Promise<void> {
  await using installation = await company();
  const { url } = installation;
  const { pages, moved } = await pagesOf(installation);
  if (wanted.test("rules")) Object.assign(pages, await tried(url, moved));
  await everyDevice(installation, pages);
  await readme(url, { overview: "/", plan: pages["plan"] ?? "" });
}

/** Every page on a desktop and on a phone. */
async function everyDevice(installation: Installation, pages: Readonly<Record<string, string>>): Promise<void> {
  const { url } = installation;
  // Once: every window shows the same checks.
  if ("table" in pages && wanted.test("connections")) await checked(url);
  await Promise.all(
    Object.entries(devices).map(async ([device, width]) => {
      const window = await browser.window(url, { viewport: { width, height: 900 } });
      const take = (name: string): Promise<void> => picture(window, `${name}-${device}`, width);
      await window.page.goto("/");
      if (wanted.test("sign-in")) await take("sign-in");
      await signedIn(window);
      for (const [name, path] of Object.entries(pages)) {
        if (!wanted.test(name)) continue;
        await open(window.page, path);
        await take(name);
      }
      if ("table" in pages && wanted.test("draft")) await loaded(window.page, installation.folder, take);
      await window.close();
    }),
  );
}

/** A page in the light and in the dark, as tall as it is. */
async function picture({ page }: Window, name: string, width: number): Promise<void> {
  await page.evaluate(tidyPaths);
  const height = await page.evaluate<number>("document.documentElement.scrollHeight");
  await page.setViewportSize({ width, height: Math.min(tallest, Math.max(900, height)) });
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: join(folder, `${name}-${colorScheme}.png`) });
  }
  await page.setViewportSize({ width, height: 900 });
}

/** Opens a page, with the parts that it asks for itself and what is listed for it. */
async function open(page: Page, path: string): Promise<void> {
  // A target that is slow is listed for longer than anybody waits.
  for (let tries = 0; tries < 20; tries++) {
    await page.goto(path);
    while ((await page.locator("main .htmx-request, #explanation [hx-get]").count()) > 0)
      await page.waitForTimeout(100);
    if ((await page.getByText("is being listed").count()) === 0) return;
  }
}

/** Checks everything, and waits for the results. */
async function checked(url: string): Promise<void> {
  const window = await browser.window(url);
  const { page } = window;
  await signedIn(window);
  await page.goto("/connections");
  const sync = page.locator("#sync-staff");
  await sync.locator("summary").first().click();
  for (const label of ["Check the sources and rules", "Check the target"]) {
    await sync.getByRole("button", { name: label }).click();
    await sync.getByRole("button", { name: label }).waitFor();
  }
  await window.close();
}

/** Loads a file: how it looks before and after. */
async function loaded(page: Page, within: string, take: (name: string) => Promise<void>): Promise<void> {
  const file = join(within, "licences of 2026.csv");
  await writeFile(file, licencesFile());
  await page.goto(tablePage);
  await page.setInputFiles("input[type=file]", file);
  await page.getByRole("button", { name: "Look at it" }).click();
  await page.waitForURL(/\/loads\/[0-9a-f]{8}-/);
  await take("draft");
  await page.getByLabel("Rows that may be rejected").fill("400");
  await page.getByRole("button", { name: "Load into licences" }).click();
  await page
    .getByText(/rows? loaded/)
    .first()
    .waitFor();
  await take("draft-loaded");
}

/** Tries rules: for one user, for everybody, and what is refused. @returns their addresses */
async function tried(url: string, login: string): Promise<Record<string, string>> {
  const window = await browser.window(url);
  const { page } = window;
  await signedIn(window);
  const trials: Record<string, string> = {};
  for (const [name, from, to, button] of [
    ["rules-one", "displayName: entry.display_name", "displayName: upper(entry.display_name)", "Explain"],
    [
      "rules-all",
      'entry.status != "left"',
      'entry.status != "left" && entry.site != "Gdańsk"',
      "Compare for everybody",
    ],
    ["rules-refused", "name: lower(entry.login)", "name: lowr(entry.login)\n      mail2: entry.mail", "Explain"],
  ] as const) {
    await page.goto("/rules?sync=staff");
    const box = page.getByLabel("Rules of");
    await box.fill((await box.inputValue()).replace(from, to));
    await page.getByLabel("User or group").fill(login);
    await page.getByRole("button", { name: button }).click();
    await page.locator("#result time").first().waitFor();
    trials[name] = `${new URL(page.url()).pathname}#result`;
  }
  await window.close();
  return trials;
}

async function readme(url: string, pages: Readonly<Record<string, string>>): Promise<void> {
  const window = await browser.window(url, { viewport: { width: 1160, height: 640 }, colorScheme: "light" });
  await signedIn(window);
  for (const [name, path] of Object.entries(pages)) {
    await open(window.page, path);
    await window.page.evaluate(tidyPaths);
    await window.page.screenshot({ path: join(folder, `readme-${name}.png`) });
  }
  await window.page.setViewportSize({ width: 390, height: 780 });
  await open(window.page, "/");
  await window.page.evaluate(tidyPaths);
  await window.page.screenshot({ path: join(folder, "readme-phone.png") });
  await window.close();
}

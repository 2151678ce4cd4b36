import { mkdir, readFile, rmdir, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import chromium from "@sparticuz/chromium";
import { chromium as playwright } from "playwright-core";
import type { Browser, BrowserContext, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";
import { architecture, debianPackages } from "./ldap/debian.ts";
import type { Unpacked } from "./ldap/debian.ts";

const axeSource = readFile(new URL(import.meta.resolve("axe-core/axe.min.js")), "utf8");

/** A real Chromium. */
export interface TestBrowser extends AsyncDisposable {
  /**
   * Opens a window without cookies.
   * @param origin the only place its pages may load anything from
   */
  window(origin: string, options?: BrowserContextOptions): Promise<Window>;
}

/** A window with one page. Whatever goes wrong in it is a problem. */
export interface Window {
  readonly page: Page;
  readonly context: BrowserContext;
  /**
   * What the pages did that none may: errors and warnings in the console, violations of the policy, requests to other
   * places, answers that say that something failed. Empty the list after what a test provokes.
   */
  readonly problems: string[];
  /** Fills in the form of the sign-in and sends it. */
  signIn(name: string, password: string): Promise<void>;
  /** What axe finds wrong with the page as it is, in the light and in the dark. */
  accessibility(): Promise<string[]>;
  close(): Promise<void>;
}

/** What Chromium's package expects of the system, and a small Debian does not have. */
const libraries = (): Promise<Unpacked> =>
  debianPackages("chromium", `/usr/lib/${architecture()}/libnss3.so`, ["libnss3", "libexpat1"]);

/** Starts Chromium. The tests run as root in containers, where it cannot confine itself. */
export async function openBrowser(): Promise<TestBrowser> {
  const { env } = await libraries();
  const browser = await playwright.launch({
    executablePath: await unpacked(),
    env,
    // Not the arguments of its package: they turn off the rules about other sites.
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--font-render-hinting=none"],
    headless: true,
  });
  return {
    window: (origin, options) => openWindow(browser, origin, options),
    [Symbol.asyncDispose]: () => browser.close(),
  };
}

/** One browser for the tests of a file. */
export function useBrowser(): () => TestBrowser {
  let browser: TestBrowser;
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(async () => {
    await browser[Symbol.asyncDispose]();
  });
  return () => browser;
}

/** How long unpacking may take, in milliseconds; a lock that is older was left by a process that was killed. */
const patience = 120_000;

/** The package unpacks Chromium where the system has its temporary files; two test files must not do so at once. */
async function unpacked(): Promise<string> {
  const lock = join(tmpdir(), "rollcall-chromium.lock");
  while (!(await taken(lock))) {
    const { mtimeMs } = await stat(lock).catch(() => ({ mtimeMs: Date.now() }));
    if (Date.now() - mtimeMs > patience) await rmdir(lock).catch(() => undefined);
    await delay(100);
  }
  try {
    return await chromium.executablePath();
  } finally {
    await rmdir(lock);
  }
}

async function taken(lock: string): Promise<boolean> {
  return mkdir(lock).then(
    () => true,
    () => false,
  );
}

async function openWindow(browser: Browser, origin: string, options: BrowserContextOptions = {}): Promise<Window> {
  const context = await browser.newContext({
    baseURL: origin,
    locale: "en-GB",
    timezoneId: "Europe/Berlin",
    // Colours in transition would be judged as they are half way.
    reducedMotion: "reduce",
    ...options,
  });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") problems.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(`script: ${error.message}`));
  page.on("request", (request) => {
    const { origin: to, protocol } = new URL(request.url());
    if (to !== origin && protocol !== "data:") problems.push(`request: ${request.url()}`);
  });
  page.on("response", (answer) => {
    if (answer.status() >= 400) problems.push(`answer: ${answer.status()} ${answer.url()}`);
  });
  return {
    page,
    context,
    problems,
    signIn: async (name, password) => {
      await page.getByLabel("Name").fill(name);
      await page.getByLabel("Password").fill(password);
      await page.getByRole("button", { name: "Sign in" }).click();
    },
    accessibility: async () => {
      const found: string[] = [];
      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        found.push(...(await violations(page)).map((each) => `${colorScheme}: ${each}`));
      }
      await page.emulateMedia({ colorScheme: null });
      return found;
    },
    close: () => context.close(),
  };
}

interface Violation {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

/** Through the protocol of the debugger, which the policy of the page does not bind. */
async function violations(page: Page): Promise<string[]> {
  const source = await axeSource;
  const results = await page.evaluate<readonly Violation[]>(`(async () => {
    if (window.axe === undefined) { ${source} }
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
    return violations.map(({ id, help, nodes }) => ({ id, help, nodes: nodes.map(({ html, failureSummary }) => ({ html, failureSummary })) }));
  })()`);
  return results.flatMap(({ id, help, nodes }) =>
    nodes.map(
      ({ html, failureSummary = "" }) =>
        `${id}: ${help}: ${html.slice(0, 200)}: ${failureSummary.replaceAll("\n", " ")}`,
    ),
  );
}

/** Fails if anything in the window went wrong so far. */
export function expectNoProblems({ problems }: Window): void {
  expect(problems).toEqual([]);
}

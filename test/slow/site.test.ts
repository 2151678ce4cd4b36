import { spawn } from "node:child_process";
import { cp, mkdtemp, readFile, readdir, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { expectNoProblems, useBrowser } from "../support/browser.ts";
import { runTool } from "../support/process.ts";
import { makeCompany } from "../support/rollcall/company.ts";
import type { CompanyFolder } from "../support/rollcall/company.ts";
import { stopRollcall, watchOutput } from "../support/rollcall/rollcall.ts";
import type { Running } from "../support/rollcall/rollcall.ts";

const browser = useBrowser();
const parts = [
  "bin",
  "config",
  "connectors",
  "docs",
  "packaging",
  "src",
  "package.json",
  "CHANGELOG.md",
  "CONTRIBUTING.md",
];

/** A checkout of its own: others may build the site of this one meanwhile. */
let checkout: string;
let company: CompanyFolder;
let running: Running;
let url: string;
/** Every file of the site, as its address. */
let files: ReadonlySet<string>;

beforeAll(async () => {
  const root = fileURLToPath(new URL("../../", import.meta.url));
  checkout = await mkdtemp(join(tmpdir(), "rollcall-site-"));
  for (const part of parts) await cp(join(root, part), join(checkout, part), { recursive: true });
  await symlink(join(root, "node_modules"), join(checkout, "node_modules"));
  await runTool("npm", ["run", "site", "--prefix", checkout], "", process.env);
  const entries = await readdir(join(checkout, "site"), { recursive: true, withFileTypes: true });
  files = new Set(
    entries
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join("/docs", parentPath.slice(join(checkout, "site").length), name)),
  );
  company = await makeCompany();
  const start = [join(checkout, "bin/rollcall.js"), "start", "--config", company.config];
  running = watchOutput(spawn(process.execPath, start, { env: { ...process.env, NO_COLOR: "1" } }));
  await running.wrote("applied and verified");
  url = /the service is listening on (http:\/\/[\d.:]+)/.exec(running.output())?.[1] ?? "";
});
afterAll(async () => {
  await stopRollcall(running);
  await company.remove();
  await rm(checkout, { recursive: true });
});

/** The pages, and of each the addresses that it names and the anchors that it has. */
async function pages(): Promise<Map<string, { links: string[]; anchors: Set<string> }>> {
  const found = new Map<string, { links: string[]; anchors: Set<string> }>();
  for (const file of files) {
    if (!file.endsWith(".html") || file === "/docs/404.html") continue;
    const html = await readFile(join(checkout, "site", file.slice("/docs/".length)), "utf8");
    const all = (pattern: RegExp): string[] => [...html.matchAll(pattern)].map(([, value = ""]) => value);
    found.set(file, { links: all(/ (?:href|src)="([^"]*)"/g), anchors: new Set(all(/ id="([^"]*)"/g)) });
  }
  return found;
}

test("every link and image of every page leads to a file of the site and to a place in it, and none but links to another host", async () => {
  const site = await pages();
  expect(site.size).toBeGreaterThan(50);
  const broken: string[] = [];
  for (const [page, { links }] of site)
    for (const link of links) {
      if (link.startsWith("https://")) continue;
      const { pathname, hash, origin } = new URL(link.replaceAll("&amp;", "&"), `http://here${page}`);
      const file = pathname.endsWith("/") ? `${pathname}index.html` : decodeURIComponent(pathname);
      const anchor = decodeURIComponent(hash.slice(1));
      const isThere = origin === "http://here" && files.has(file);
      if (!isThere || (anchor !== "" && !site.get(file)?.anchors.has(anchor))) broken.push(`${page}: ${link}`);
    }
  expect(broken).toEqual([]);
});

test("every page is in the contents", async () => {
  const site = await pages();
  const home = site.get("/docs/index.html")?.links ?? [];
  const listed = new Set(home.map((link) => (link.endsWith("/") ? `${link}index.html` : link)));
  expect([...site.keys()].filter((page) => page !== "/docs/index.html" && !listed.has(page))).toEqual([]);
});

test("the service serves it as it serves the console: types, caching, and a policy that allows nothing inline", async () => {
  for (const [path, type, caching] of [
    ["/docs/", "text/html; charset=utf-8", "no-cache"],
    ["/docs/guide/plans.html", "text/html; charset=utf-8", "no-cache"],
    ["/docs/connectors/ldap/", "text/html; charset=utf-8", "no-cache"],
    ["/docs/files/config/rollcall.yaml", "text/plain; charset=utf-8", "no-cache"],
    ...[...files].filter((file) => /assets\/(?:app|style|icon)\./.test(file)).map((file) => [file, "", "immutable"]),
  ] as const) {
    const answer = await fetch(url + path);
    expect(answer.status, path).toBe(200);
    expect(answer.headers.get("content-type"), path).toContain(type);
    expect(answer.headers.get("cache-control"), path).toContain(caching);
    const policy = answer.headers.get("content-security-policy") ?? "";
    expect(policy, path).toContain("default-src 'none'");
    expect(policy, path).not.toMatch(/unsafe|data:|https?:/);
    expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
  }
  const gone = await fetch(`${url}/docs/guide/none.html`);
  expect([gone.status, await gone.text()]).toEqual([404, expect.stringContaining("</html>")]);
  expect((await fetch(`${url}/docs/..%2fpackage.json`)).status).toBe(404);
});

test("a reader comes from the console, searches, follows a link, and reads in the dark", async () => {
  const window = await browser().window(url);
  const { page } = window;
  await page.goto("/");
  await window.signIn("admin", "administrator-secret");
  await page.getByRole("link", { name: "Documentation" }).click();
  await page.waitForURL("**/docs/");
  expect(await page.getByRole("heading", { level: 1 }).textContent()).toContain("Rollcall");
  await page.getByRole("button", { name: "Search" }).click();
  await page.getByRole("searchbox").fill("quarantined");
  await page.locator("#localsearch-list a").first().click();
  await page.waitForURL(/\/docs\/\w.*\.html/);
  await page.goto("/docs/guide/plans.html");
  await page.getByRole("link", { name: "What happened" }).first().click();
  await page.waitForURL("**/plans.html#what-happened");
  await page.getByRole("switch").first().click();
  expect(await page.evaluate("document.documentElement.classList.contains('dark')")).toBe(true);
  await page.goto("/docs/guide/rules.html");
  expect(await page.evaluate("getComputedStyle(document.body).backgroundColor")).toBe("rgb(15, 21, 24)");
  expectNoProblems(window);
  await window.close();
});

test("on a phone no page scrolls sideways, and none breaks the policy", async () => {
  const window = await browser().window(url, { viewport: { width: 360, height: 760 } });
  const { page } = window;
  const wide: string[] = [];
  for (const path of (await pages()).keys()) {
    await page.goto(path);
    if (Number(await page.evaluate("document.documentElement.scrollWidth - innerWidth")) > 0) wide.push(path);
  }
  expect(wide).toEqual([]);
  expectNoProblems(window);
  await page.goto("/docs/");
  expect(await window.accessibility()).toEqual([]);
  await window.close();
});

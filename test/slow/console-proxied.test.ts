import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { expectNoProblems, useBrowser } from "../support/browser.ts";
import { careful, forget, signedIn, startDaemon } from "../support/console.ts";
import { startPathProxy } from "../support/path-proxy.ts";
import { companyOfEachTest } from "../support/rollcall/company.ts";
import { stopRollcall } from "../support/rollcall/rollcall.ts";

const company = companyOfEachTest();
const browser = useBrowser();

test("behind a proxy with a path of its own and another Host, everything leads below it", async () => {
  const proxy = await startPathProxy();
  onTestFinished(proxy.stop);
  await company.configure((yaml) => `${careful(yaml)}console: { publicUrl: ${proxy.url} }\n`);
  const daemon = await startDaemon(company, "waits for approval");
  proxy.lead(daemon.url);
  const window = await browser().window(new URL(proxy.url).origin);
  const { page } = window;
  await page.goto(`${proxy.url}/`);
  await page.waitForURL(/\/rollcall\/sign-in/);
  await window.signIn("admin", "administrator-secret");
  await page.waitForURL(/\/rollcall\/$/);
  await page.getByRole("link", { name: "Look at the plan" }).first().click();
  await page.waitForURL(/\/rollcall\/runs\/.*\/plan$/);
  await page.getByRole("link", { name: "Approve…", exact: true }).click();
  await page.getByRole("button", { name: /^Apply/ }).click();
  await page.waitForURL(/\/rollcall\/runs\/[^/]+$/);
  // Nobody reloads: the page is told that something has changed.
  await expect.poll(() => page.locator("hgroup").textContent()).toContain("applied");
  for (const key of ["g", "r"]) await page.keyboard.press(key);
  await page.waitForURL(/\/rollcall\/runs$/);
  expect(proxy.outside.filter((each) => each !== "/favicon.ico")).toEqual([]);
  expectNoProblems(window);

  // An older browser does not say where a form comes from, but for its Origin; and what is refused is a page with the reason.
  const { origin } = new URL(proxy.url);
  const send = (from: string) =>
    fetch(`${proxy.url}/sign-in`, {
      method: "POST",
      headers: { origin: from, "content-type": "application/x-www-form-urlencoded" },
      body: "username=admin&password=wrong",
    });
  expect((await send(origin)).status).toBe(401);
  // Somebody whose session has ended comes back to the page with the form that they sent.
  const ended = await fetch(`${proxy.url}/runs/x/approve`, {
    method: "POST",
    redirect: "manual",
    headers: { origin, referer: `${proxy.url}/runs/x/approve?only=create` },
  });
  expect(ended.headers.get("location")).toBe("/rollcall/sign-in?next=%2Fruns%2Fx%2Fapprove%3Fonly%3Dcreate&unsent=yes");
  const refused = await send("http://elsewhere.example.com");
  expect([refused.status, refused.headers.get("content-type")]).toEqual([403, "text/html; charset=utf-8"]);
  expect(await refused.text()).toContain("The request comes from a page of another site");
  await stopRollcall(daemon.running);
});

test("unknown pages are pages, for browsers alone; HEAD is answered as GET is, without a body", async () => {
  await company.configure(careful);
  const daemon = await startDaemon(company, "waits for approval");
  const window = await signedIn(browser(), daemon.url);
  for (const path of ["/nowhere", "/runs/20270101-000000-aaaaaa", "/people/nowhere"]) {
    const answer = await window.page.goto(path);
    expect([answer?.status(), await window.page.getByRole("heading", { level: 1 }).textContent()], path).toEqual([
      404,
      "Not found",
    ]);
  }
  forget(window, 404);
  const other = await fetch(`${daemon.url}/nowhere`);
  expect([other.status, other.headers.get("content-type")]).toEqual([404, "application/json"]);
  for (const [path, status] of [
    ["/sign-in", 200],
    ["/assets/console.css", 200],
    ["/", 303],
  ] as const) {
    const head = await fetch(`${daemon.url}${path}`, { method: "HEAD", redirect: "manual" });
    expect([head.status, await head.text()], path).toEqual([status, ""]);
  }
  expect((await window.context.request.head("/runs")).status()).toBe(200);
  expectNoProblems(window);
  await stopRollcall(daemon.running);
});

test("where browsers come by https, the cookies of all accounts travel over TLS alone", async () => {
  await company.configure((yaml) => `${careful(yaml)}console: { publicUrl: "https://rollcall.example.com" }\n`);
  await company.write("password", "correct horse battery");
  const add = ["account", "add", "kim", "--role", "viewer", "--password-file", join(company.folder, "password")];
  expect(await company.command(...add)).toMatchObject({ code: 0 });
  const daemon = await startDaemon(company, "waits for approval");
  for (const [of, username, password, cookie] of [
    [":service", "admin", "administrator-secret", "JSESSIONID"],
    [":rollcall", "kim", "correct horse battery", "__Host-rollcall"],
  ] as const) {
    const body = new URLSearchParams({ of, username, password });
    const answer = await fetch(`${daemon.url}/sign-in`, { method: "POST", redirect: "manual", body });
    expect(answer.headers.get("set-cookie")).toMatch(new RegExp(`^${cookie}=[^;]+;.*; Secure`));
  }
  await stopRollcall(daemon.running);
});

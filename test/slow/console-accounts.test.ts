import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Page } from "playwright-core";
import { expectNoProblems, useBrowser } from "../support/browser.ts";
import type { Window } from "../support/browser.ts";
import { forget } from "../support/console.ts";
import { companyOfEachTest } from "../support/rollcall/company.ts";

const company = companyOfEachTest((yaml) =>
  yaml.replace(/syncs:[^]*$/, "").replace("sources:", "sources:\n  pushed: { connector: scim, inbox: {} }"),
);
const browser = useBrowser();
const password = "correct horse battery";

/** Nothing is wider than a phone. */
async function fitsPhone(page: Page): Promise<void> {
  await page.setViewportSize({ width: 360, height: 740 });
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(360);
  await page.setViewportSize({ width: 1280, height: 800 });
}

/** An administrator adds a token of an inbox, and revokes it; an approver only looks. @returns it */
async function inboxToken(admin: Window, approver: Window, url: string): Promise<string> {
  await admin.page.goto("/inbox");
  await admin.page.getByRole("link", { name: "Add a token…" }).click();
  await admin.page.getByLabel("Name").fill("okta <b>");
  await admin.page.getByRole("button", { name: "Add the token" }).click();
  const token = (await admin.page.locator("code.secret").textContent()) ?? "";
  await fitsPhone(admin.page);
  expect(await admin.accessibility()).toEqual([]);
  const push = async (userName: string): Promise<number> => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/scim+json" };
    const schemas = ["urn:ietf:params:scim:schemas:core:2.0:User"];
    const body = JSON.stringify({ schemas, userName });
    return (await fetch(`${url}/scim/v2/pushed/Users`, { method: "POST", headers, body })).status;
  };
  expect(await push("kim")).toBe(201);

  await admin.page.goto("/inbox/pushed/token");
  await admin.page.getByLabel("Name").fill("okta <b>");
  await admin.page.getByRole("button", { name: "Add the token" }).click();
  expect(await admin.page.getByRole("alert").textContent()).toContain("has a token okta <b> already");
  forget(admin, 400);

  const { page } = approver;
  expect((await page.goto("/inbox/pushed/token"))?.status()).toBe(403);
  expect(await page.getByRole("main").textContent()).toContain("Managing inboxes needs the role administrator");
  for (const path of ["token", "revoke"]) {
    const form = `new URLSearchParams({ token: document.querySelector("input[name=token]").value, id: "okta <b>" })`;
    const sent = `fetch("/inbox/pushed/${path}", { method: "POST", body: ${form} }).then(({ status }) => status)`;
    expect(await page.evaluate(sent)).toBe(403);
  }
  forget(approver, 403);
  await page.goto("/inbox");
  expect(await page.getByRole("heading", { name: "pushed" }).textContent()).toMatch(/pushed\s+1 user, 0 groups/);
  expect(await page.getByRole("row", { name: "okta <b>" }).count()).toBe(2);
  expect(await page.getByText(/Add a token|Revoke/).count()).toBe(0);
  expect(await page.content()).not.toContain(token);

  await admin.page.goto("/inbox");
  expect(await admin.accessibility()).toEqual([]);
  expect(await admin.page.content()).not.toContain(token);
  await admin.page.getByRole("link", { name: "Revoke the token okta" }).click();
  expect(await admin.accessibility()).toEqual([]);
  await admin.page.getByRole("button", { name: "Revoke the token" }).click();
  await admin.page.getByText("no provider can push yet").waitFor();
  expect(await push("lou")).toBe(401);
  return token;
}

test("an administrator adds and disables people, who change their own passwords and make their own tokens", async () => {
  const file = join(company.folder, "password");
  await writeFile(file, password);
  const add = ["account", "add", "root", "--role", "administrator", "--password-file", file];
  expect(await company.command(...add)).toMatchObject({ code: 0 });
  const running = company.begin("start");
  await running.wrote("the service is listening on");
  const url = /listening on (http:\S+?)"/.exec(running.output())?.[1] ?? "";

  const admin = await browser().window(url);
  await admin.page.goto("/accounts");
  await admin.page.getByLabel("Account of").selectOption("Rollcall");
  await fitsPhone(admin.page);
  expect(await admin.accessibility()).toEqual([]);
  await admin.signIn("root", password);
  await admin.page.waitForURL(/\/accounts$/);
  const adding = admin.page.getByRole("region", { name: "Add an account" });
  await adding.getByLabel("Name").fill("ada");
  await adding.getByRole("radio", { name: "Approver" }).check();
  await adding.getByRole("button").click();
  const given = (await admin.page.locator(".notice code").textContent()) ?? "";
  expect(given).toMatch(/^[\w-]{20}$/);
  await fitsPhone(admin.page);
  expect(await admin.accessibility()).toEqual([]);
  await adding.getByLabel("Name").fill("ADA");
  await adding.getByRole("button").click();
  expect(await admin.page.getByRole("alert").textContent()).toContain("there is an account ADA already");
  forget(admin, 400);

  const own = await browser().window(url);
  await own.page.goto("/account");
  await own.signIn("ada", given);
  await own.page.waitForURL(/\/account$/);
  const form = own.page.getByRole("region", { name: "Password" });
  const change = async (current: string, next: string, again = next): Promise<string | null> => {
    await form.getByLabel("Current password").fill(current);
    await form.getByLabel("New password").fill(next);
    await form.getByLabel("The same again").fill(again);
    await form.getByRole("button").click();
    return own.page.getByRole("alert").textContent();
  };
  expect(await change(given, password, "other")).toContain("the two new passwords differ");
  expect(await change("wrong", password)).toContain("the current password is wrong");
  forget(own, 400);
  expect(await change(given, password)).toContain("Your password is changed");
  await own.page.getByLabel("Name of the token").fill("laptop <b>");
  await own.page.getByRole("button", { name: "Create a token" }).click();
  const token = (await own.page.locator(".notice code").textContent()) ?? "";
  await fitsPhone(own.page);
  expect(await own.accessibility()).toEqual([]);
  const ask = async (): Promise<number> =>
    (await fetch(`${url}/control/v1/caller`, { headers: { authorization: `Bearer ${token}` } })).status;
  expect(await ask()).toBe(200);
  await own.page.goto("/account");
  expect(await own.page.content()).not.toContain(token);
  expect((await own.page.goto("/accounts"))?.status()).toBe(403);
  expect(await own.page.getByRole("main").textContent()).toContain("Managing accounts needs the role administrator");
  forget(own, 403);

  expect(running.output()).not.toContain(await inboxToken(admin, own, url));

  // The page that is open is no longer theirs.
  await own.page.goto("/runs");
  await admin.page.goto("/accounts");
  await admin.page.getByRole("button", { name: "Disable ada" }).click();
  await admin.page.getByRole("button", { name: "Enable ada" }).waitFor();
  expect(await ask()).toBe(401);
  await own.page.goto("/runs");
  expect(await own.page.title()).toBe("Sign in · Rollcall");
  await own.signIn("ada", password);
  expect(await own.page.getByRole("alert").textContent()).toContain("This account is disabled");
  forget(own, 401);
  await admin.page.getByRole("button", { name: "Enable ada" }).click();
  await admin.page.getByRole("button", { name: "Disable ada" }).waitFor();
  expect(await ask()).toBe(200);
  // What cannot be taken back is asked for first.
  await admin.page.getByRole("link", { name: "Revoke the token laptop <b>…" }).click();
  expect(await admin.page.getByRole("main").textContent()).toContain("are refused from now on");
  expect(await admin.accessibility()).toEqual([]);
  expect(await ask()).toBe(200);
  await admin.page.getByRole("button", { name: "Revoke the token" }).click();
  await expect.poll(ask).toBe(401);
  await admin.page.goto("/accounts");
  await admin.page.getByRole("link", { name: "New password for ada…" }).click();
  expect(await admin.page.getByRole("main").textContent()).toContain("The present one no longer works");
  await admin.page.getByRole("button", { name: "Make a new password" }).click();
  expect(await admin.page.getByRole("main").textContent()).toContain("The password of ada, shown only this once");
  await admin.page.goto("/accounts");
  await admin.page.getByRole("link", { name: "Remove ada…" }).click();
  expect(await admin.page.getByRole("main").textContent()).toContain("it can no longer sign");
  expect(await admin.accessibility()).toEqual([]);
  await admin.page.getByRole("button", { name: "Remove ada" }).click();
  await admin.page.waitForURL("**/accounts");
  expect(await admin.page.getByRole("rowheader", { name: "ada" }).count()).toBe(0);
  for (const window of [admin, own]) expectNoProblems(window);
  await admin.close();
  await own.close();
});

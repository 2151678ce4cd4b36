import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { expectNoProblems, openBrowser } from "../support/browser.ts";
import type { TestBrowser } from "../support/browser.ts";
import { careful, forget, signedIn, startDaemon } from "../support/console.ts";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";

const company = companyOfEachTest();
let browser: TestBrowser;

beforeAll(async () => {
  browser = await openBrowser();
});

afterAll(async () => {
  await browser[Symbol.asyncDispose]();
});

/** The digest of every file of the daemon's folder, but the workbenches. */
async function stored(): Promise<Record<string, string>> {
  const folder = join(company.folder, "data/daemon");
  const names = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = names.filter((each) => each.isFile() && !each.parentPath.startsWith(join(folder, "work")));
  const texts = files.map(async ({ parentPath, name }) => {
    const path = join(parentPath, name);
    return [
      path,
      createHash("sha256")
        .update(await readFile(path))
        .digest("hex"),
    ] as const;
  });
  return Object.fromEntries(await Promise.all(texts));
}

test("rules are tried for one and for all, refused with their line, stopped; nothing is written", async () => {
  await company.write(
    "people.csv",
    people.replaceAll(/^(\w+),/gm, (_, id) => `${id},${id === "id" ? "password" : "hunter2"},`),
  );
  await company.applied();
  await company.configure(careful);
  await company.configure((yaml) =>
    `${yaml}console: { viewers: true }\n`.replace("mail: entry.mail", 'mail: "${env:MAIL_RULE}"'),
  );
  company.env = { MAIL_RULE: "entry.mail" };
  const daemon = await startDaemon(company, "no change");
  // Its first run is over, and nobody is left to be told.
  const told = join(company.folder, "data/daemon/outbox/told.json");
  await expect.poll(() => readFile(told, "utf8").catch(() => "")).toContain("no change");
  const window = await signedIn(browser, daemon.url);
  const before = { files: await stored(), runs: await daemon.runs() };
  const { page } = window;
  const box = page.getByLabel("Rules of staff");
  const result = page.locator("#result");
  const replace = async (from: string, to: string): Promise<void> => {
    const text = await box.inputValue();
    expect(text).toContain(from);
    await box.fill(text.replace(from, to));
  };

  await page.getByRole("link", { name: "Rules" }).click();
  expect(await page.getByRole("main").textContent()).toMatch(/Nothing is saved or applied/);
  expect(await box.inputValue()).toContain("mail: ${env:MAIL_RULE}");
  expect(await window.accessibility()).toEqual([]);

  // For one.
  await replace("displayName: entry.name", "displayName: upper(entry.name)");
  await page.getByLabel("User or group").fill("ada");
  await page.keyboard.press("Enter");
  await result.getByText("the whole explanation").first().waitFor();
  expect(await result.textContent()).toMatch(/Now\s+nothing to do[^]*Changed\s+update[^]*Ada Lovelace[^]*ADA LOVELACE/);
  expect(await result.textContent()).toMatch(/upper\(entry\.name\)\s*→\s*"ADA LOVELACE"/);
  expect(await window.accessibility()).toEqual([]);

  // For everybody.
  await replace('entry.status == "active"', 'entry.login != "grace"');
  await page.getByRole("button", { name: "Compare for everybody" }).click();
  await result.getByRole("heading", { name: "The next run" }).waitFor();
  expect(await result.textContent()).toMatch(
    /1 user entering, 2 users changing, 1 user leaving[^]*Leaving users[^]*grace[^]*the configuration changed: syncs\.staff\.users\.include/,
  );
  expect(await window.accessibility()).toEqual([]);

  // What is no rule is refused; so is what would read something.
  await box.fill(`${await box.inputValue()}sources:\n  corp: { connector: ./evil.ts }\n`);
  await page.getByRole("button", { name: "Compare for everybody" }).click();
  await result.getByText("The rules have a problem.").waitFor();
  expect(await result.textContent()).toMatch(/rules:\d+:1: sources: only the rules of staff can be tried/);
  await replace("sources:\n  corp: { connector: ./evil.ts }\n", "");
  await replace("mail: ${env:MAIL_RULE}", "mail: '\"${env:HOME}${file:/etc/passwd}\"'");
  await page.getByRole("button", { name: "Compare for everybody" }).click();
  await result.getByText(/reads the environment or a file/).waitFor();

  // No rule reads a password, however it is named.
  await page.goto("/rules");
  await replace("displayName: entry.name", `displayName: 'coalesce(entry["pass" + "word"], entry.name)'`);
  await page.getByLabel("User or group").fill("ada");
  await page.getByRole("button", { name: "Explain" }).click();
  await result.getByText("The next run would do the same with ada").waitFor();
  expect(await page.content()).not.toContain("hunter2");

  // A rule that takes long for many is stopped, and the daemon is not held up.
  const rows = Array.from({ length: 20_000 }, (_, id) => `${id + 10},hunter2,user${id},User ${id},,active,staff\n`);
  await company.write("people.csv", (await readFile(join(company.folder, "people.csv"), "utf8")) + rows.join(""));
  const endless = async (): Promise<void> => {
    await page.goto("/rules");
    const digits = "[1,2,3,4,5,6,7,8,9,10]";
    const forever = Array.from("abcdefghij").reduce((inner, each) => `${digits}.all(${each}, ${inner})`, "true");
    await replace('entry.status == "active"', `size(entry.login) > 0 && ${forever}`);
    await page.getByLabel("User or group").fill("ada");
    await page.getByRole("button", { name: "Explain" }).click();
    await result.getByText("Reading the sources with the changed rules").waitFor();
  };
  await endless();
  // The page fetches itself; whoever is about to press Stop stays there.
  const stop = page.getByRole("button", { name: "Stop" });
  await stop.focus();
  for (let fetched = 0; fetched < 3; fetched++) await page.waitForResponse(/\/rules\//);
  expect(await page.evaluate("document.activeElement.id")).toBe("stop");
  await page.keyboard.press("Enter");
  await result.getByText("Stopped.").waitFor();

  expect({ files: await stored(), runs: await daemon.runs() }).toEqual(before);
  expectNoProblems(window);

  // Without JavaScript.
  const plain = await signedIn(browser, daemon.url, { javaScriptEnabled: false });
  await plain.page.goto("/rules");
  await plain.page.getByRole("button", { name: "Explain" }).click();
  expect(await plain.page.getByRole("alert").textContent()).toContain("Whom shall it explain?");
  forget(plain, 400);
  await plain.page.getByLabel("User or group").fill("nobody-at-all");
  await plain.page.getByRole("button", { name: "Explain" }).click();
  await expect
    .poll(async () => {
      const again = plain.page.getByRole("link", { name: "Look again" });
      if ((await again.count()) > 0) await again.click();
      await plain.page.reload();
      return plain.page.locator("#result").textContent();
    })
    .toContain("is called nobody-at-all");
  // What a killed process leaves is removed by the next one.
  expect(await readdir(join(company.folder, "data/daemon/work"))).toEqual([]);
  expectNoProblems(plain);
  await plain.close();

  // Who may only look.
  const viewer = await browser.window(daemon.url);
  await viewer.page.goto("/rules");
  await viewer.signIn("ada", "initial-user-secret");
  expect(await viewer.page.getByRole("main").textContent()).toContain("Trying rules needs the role administrator");
  expect(await viewer.page.getByRole("link", { name: "Rules" }).count()).toBe(0);
  forget(viewer, 403);
  expectNoProblems(viewer);
  await viewer.close();

  // When the daemon is killed, so is what it tries, whatever that does.
  await endless();
  const { pid: parent } = daemon.running.process;
  const children = (await readFile(`/proc/${parent}/task/${parent}/children`, "utf8")).trim().split(" ");
  const calls = await Promise.all(children.map((child) => readFile(`/proc/${child}/cmdline`, "utf8")));
  const child = children.find((_, index) => calls[index]?.includes("try-rules"));
  expect(child).toBeDefined();
  daemon.running.process.kill("SIGKILL");
  await expect.poll(() => existsSync(`/proc/${child}`)).toBe(false);
  await window.close();
});

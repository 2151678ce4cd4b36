import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { expect, test } from "vitest";
import { expectNoProblems, useBrowser } from "../support/browser.ts";
import { careful, holdFirst, hostile, signedIn, startDaemon } from "../support/console.ts";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";
import { stopRollcall } from "../support/rollcall/rollcall.ts";

const company = companyOfEachTest();
const browser = useBrowser();

test("somebody is found, with what the target, the sources and the runs say of them; with and without JavaScript", async () => {
  await company.write("people.csv", people + hostile);
  await company.applied();
  await company.configure(careful);
  await company.write("people.csv", (people + hostile).replace("Ada Lovelace", "Ada King"));
  const daemon = await startDaemon(company, "waits for approval");
  const window = await signedIn(browser(), daemon.url);
  const { page } = window;
  const main = page.getByRole("main");
  await page.getByRole("link", { name: "People and groups" }).click();
  await page.getByRole("row").nth(5).waitFor();
  expect(await main.textContent()).toMatch(/Users\s*5\s*Groups\s*4/);
  expect(await main.textContent()).toContain("<script>alert(1)</script> \\u{202e}gnp");
  expect(await window.accessibility()).toEqual([]);
  // By a part of the mail, and by the id of a record.
  const names = async (): Promise<string[]> =>
    (await page.locator("tbody th").allTextContents()).map((each) => each.trim());
  for (const [text, found] of [
    ["HOPPER", ["Grace Hopper"]],
    ["ada@", ["Ada Lovelace"]],
    ["engi", ["Engines"]],
  ] as const) {
    await page.getByRole("searchbox", { name: "Search", exact: true }).fill(text);
    await page.waitForURL(`**text=${encodeURIComponent(text)}**`);
    await expect.poll(names).toEqual(found);
  }
  // What was typed last is what the list shows, however late the answer to an earlier letter comes.
  const search = page.getByRole("searchbox", { name: "Search", exact: true });
  const gate = await holdFirst(page, "**/people?*");
  await search.fill("h");
  await gate.reached;
  for (const text of ["ho", "ada@"]) {
    await search.fill(text);
    await page.waitForURL(`**text=${encodeURIComponent(text)}**`);
  }
  await gate.open();
  await expect.poll(names).toEqual(["Ada Lovelace"]);
  await page.goto("/people?text=nobody-like-that");
  await page.getByRole("link", { name: "look for nobody-like-that in the sources" }).click();
  expect(await main.textContent()).toMatch(/Nothing in the sources or in analytics is called/);
  expect(await window.accessibility()).toEqual([]);

  await page.goto("/people?text=ada");
  await page.getByRole("link", { name: "Ada Lovelace" }).click();
  await page.getByText("Record of company").first().waitFor();
  await page.getByText("created").first().waitFor();
  const said = ((await main.textContent()) ?? "").replaceAll(/\s+/g, " ");
  expect(said).toMatch(/Ada Lovelace ada, user of analytics/);
  expect(said).toContain("company 1 by staff");
  expect(said).toMatch(/2 groups directly/);
  expect(said).toMatch(/staff user ada update A record makes it \(people\.csv:2/);
  expect(said).toMatch(/Waits since [^]*Look at the plan/);
  expect(said).toContain("display name Ada Lovelace → Ada King");
  expect(said).toMatch(/Display name ?Ada King ?entry\.name ?name Ada King/);
  expect(await window.accessibility()).toEqual([]);

  await page.getByRole("group", { name: "Paths to groups" }).getByRole("link", { name: "staff", exact: true }).click();
  await page.getByText("group of analytics").waitFor();
  await page.getByRole("link", { name: "Also through other groups" }).click();
  await page.waitForURL("**nested=yes**");
  const members = page.getByRole("region", { name: "Users and groups" });
  expect((await members.getByRole("rowheader").allTextContents()).map((each) => each.trim().split(/ {2,}/)[0])).toEqual(
    ["Engines", "Ada Lovelace", expect.stringContaining("<script>alert(1)"), "Grace Hopper", "Zoë Ünal"],
  );
  expect(await window.accessibility()).toEqual([]);

  // Whoever was deleted is found, with the run that did it, and the way back.
  await company.write("people.csv", (people + hostile).replace(/^2,.*\n/m, ""));
  const { id } = await daemon.run();
  expect(await company.command("approve", id)).toMatchObject({ code: 0 });
  await page.goto("/people?text=hopper");
  await page.getByRole("heading", { name: "Deleted 1 match" }).waitFor();
  expect(await window.accessibility()).toEqual([]);
  await page.getByRole("link", { name: "Grace Hopper" }).click();
  await page.getByText("A run of staff deleted this user").waitFor();
  await page.getByText("created").first().waitFor();
  expect(await window.accessibility()).toEqual([]);
  await page.getByRole("link", { name: "Undo…" }).click();
  await page.waitForURL(`**/runs/${id}/undo`);
  expectNoProblems(window);
  const cookies = await window.context.storageState();
  await window.close();

  const plain = await browser().window(daemon.url, { javaScriptEnabled: false, storageState: cookies });
  await plain.page.goto("/people/user?name=evil");
  await plain.page.getByRole("link", { name: "Show what the runs did with it" }).click();
  expect(await plain.page.locator("#history").textContent()).toMatch(/applied[^]*created/);
  await plain.page.goBack();
  await plain.page.getByRole("link", { name: "Read the sources and explain it" }).click();
  expect(await plain.page.getByRole("main").textContent()).toMatch(/user\s+evil[^]*nothing to do/);
  expectNoProblems(plain);
  await plain.close();
  await stopRollcall(daemon.running);
});

test("a source that never answers keeps no other sync from explaining somebody", async () => {
  const sockets = new Set<Socket>();
  const silent = createServer((socket) => sockets.add(socket)).listen(0, "127.0.0.1");
  await once(silent, "listening");
  const { port } = silent.address() as AddressInfo;
  const hung = `connector: http, url: "http://127.0.0.1:${port}", users: { url: users, id: id }`;
  await company.configure(
    (yaml) => `${yaml.replace(/^sources:$/m, `sources:\n  hr: { ${hung} }`)}
  hired: { from: [hr], to: analytics, users: { name: entry.id, displayName: entry.id } }
`,
  );
  const daemon = await startDaemon(company, /applied|no change/);
  const window = await signedIn(browser(), daemon.url);
  const { page } = window;
  await page.goto("/people/user?name=ada");
  const explanation = page.getByRole("region", { name: "Where it comes from" });
  await explanation.getByText("hired: reads hr").waitFor();
  const record = explanation.getByRole("article", { name: "staff" });
  await record.getByText("Record of company").waitFor();
  // Bringing the section up to date takes nothing away that a person is reading.
  const shown = await record.elementHandle();
  const asked = page.waitForResponse((response) => response.url().includes("since="));
  await (await asked).finished();
  await explanation.getByText("hired: reads hr").waitFor();
  expect(await shown?.evaluate((element) => element.isConnected)).toBe(true);
  expect(await window.accessibility()).toEqual([]);
  for (const socket of sockets) socket.destroy();
  silent.close();
  await explanation.getByText("could not be asked").waitFor();
  expect(await explanation.getByText("reads hr").count()).toBe(0);
  await window.close();
  await stopRollcall(daemon.running);
});

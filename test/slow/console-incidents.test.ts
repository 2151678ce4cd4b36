import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { expectNoProblems, useBrowser } from "../support/browser.ts";
import { signedIn, startDaemon } from "../support/console.ts";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";
import { stopRollcall } from "../support/rollcall/rollcall.ts";

const company = companyOfEachTest((yaml) =>
  yaml.replace("to: analytics", "to: analytics\n    deletions: { after: 7d }\n    limits: { shrink: { count: 0 } }"),
);
const browser = useBrowser();

test("half a file is lost with a grace period: every place says who would leave, and a person can accept it", async () => {
  await company.applied();
  await company.write("people.csv", people.replace(/^2,.*\n3,.*\n/m, ""));
  const daemon = await startDaemon(company, /held by the limit on shrinkage/);
  const id = (await daemon.runs())[0]?.id ?? "";
  const day = new Date(Date.now() + 7 * 86_400_000).toLocaleDateString("en-GB", { day: "numeric", month: "long" });
  const verdict = new RegExp(`2 users would leave on ${day} \\d{4}; the limit on shrinkage holds this`, "i");
  const commands = [(await company.command("status")).stdout, (await company.command("runs")).stdout];
  expect(commands[0]).toMatch(verdict);
  expect(commands[1]).toContain(`2 users would leave on ${day}`);
  expect((await company.command("show", id)).stdout).toContain(`2 users would leave on ${day}`);
  expect((await company.command("audit")).stdout).toContain(`2 users would leave on ${day}`);

  const window = await signedIn(browser(), daemon.url);
  const { page } = window;
  const main = page.getByRole("main");
  expect(await main.textContent()).toMatch(verdict);
  await page.goto("/runs");
  expect(await main.textContent()).toContain("2 users leaving");
  await page.goto(`/runs/${id}`);
  expect(await main.textContent()).toMatch(verdict);
  await page.getByRole("link", { name: "Look at the plan and decide" }).click();
  await page.waitForURL(/\/plan$/);
  expect(await main.textContent()).toMatch(verdict);
  for (const path of ["/", `/runs/${id}`, `/runs/${id}/plan`]) {
    await page.goto(path);
    expect(await main.textContent(), path).not.toMatch(/\b0 deleted|no changes?\b|\b0 changes$/i);
    expect(await main.textContent(), path).not.toMatch(/`|rollcall (?:approve|reject)/);
    expect(await window.accessibility(), path).toEqual([]);
  }
  await page.getByRole("link", { name: /^Override/ }).click();
  await page.getByLabel("Override the limit on shrinkage").check();
  await page.getByLabel("Reason").fill("the Berlin office closed");
  await page.getByRole("button", { name: "Accept that 2 users leave" }).click();
  expect(await daemon.ended(id)).toMatchObject({ state: "no change", decisions: [{ overrides: ["shrink"] }] });
  await page.goto("/");
  expect(await main.textContent()).toContain(`2 users will leave on ${day}`);
  expectNoProblems(window);
  await stopRollcall(daemon.running);
});

test("what failed says whether another run comes; what was undone shows its plan, and leads to the run that it undoes", async () => {
  await company.configure((yaml) => yaml.replace(/ {4}schedule: .*\n/, ""));
  await company.applied();
  const daemon = await startDaemon(company, "http://127");
  await company.write("people.csv", "id,login,name,mail,status,groups\n1,ada");
  const failed = await daemon.run();
  expect(failed.state).toBe("failed");
  const window = await signedIn(browser(), daemon.url);
  const { page } = window;
  const main = page.getByRole("main");
  await page.goto(`/runs/${failed.id}`);
  expect(await main.textContent()).toContain("No further run is scheduled.");
  expect(await main.textContent()).not.toContain("Nothing needs to be done");
  await page.getByRole("link", { name: "Run staff now…" }).click();
  await page.waitForURL(/\/syncs\/staff\/run$/);

  const applied = (await daemon.runs()).find(({ state }) => state === "applied");
  await page.goto(`/runs/${applied?.id}/undo`);
  await page.getByRole("button", { name: "Plan the undo" }).click();
  await page.waitForURL(/\/plan$/);
  await expect.poll(() => main.textContent()).toMatch(/3 users and 2 groups deleted/);
  await page.locator("hgroup").getByRole("link", { name: applied?.id }).click();
  await page.waitForURL(new RegExp(`/runs/${applied?.id}$`));
  expectNoProblems(window);
  await stopRollcall(daemon.running);
});

test("a held run has deleted nobody, and one that was stopped is cancelled: in the journal, the log and the metrics", async () => {
  await company.configure((yaml) => yaml.replace("deletions: { after: 7d }", "deletions: { after: 0 }"));
  await company.applied();
  await company.write("people.csv", people.replace(/^2,.*\n3,.*\n/m, ""));
  expect((await company.command("apply")).code).toBe(3);
  const { stdout } = await company.command("audit");
  expect(stdout).toMatch(/planned, not applied: 2 users deleted/);
  expect(stdout).toMatch(/applied: 3 users and 2 groups created/);
  expect(await readFile(join(company.folder, "data", "daemon", "audit.jsonl"), "utf8")).toContain('"result":"held"');
});

test("two people approve a plan, one at the command line and one in the console; each sees what the other has done", async () => {
  await company.configure((yaml) => yaml.replace("to: analytics", "to: analytics\n    approval: { people: 2 }"));
  const daemon = await startDaemon(company, "waits for approval");
  const id = (await daemon.runs())[0]?.id ?? "";
  const approved = await company.command("approve", id, "--yes", "--reason", "as announced");
  expect(approved).toMatchObject({ code: 3, stdout: expect.stringContaining("1 of 2 approved; needs one more") });
  expect(await company.command("approve", id, "--yes")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("another person must approve it"),
  });
  expect((await company.command("status")).stdout).toContain("(1 of 2 approved; needs one more)");
  expect((await company.command("show", id)).stdout).toMatch(
    /approvals +1 of 2 approved; needs one more\n +approved by /,
  );

  const window = await signedIn(browser(), daemon.url);
  const { page } = window;
  const main = page.getByRole("main");
  await page.goto(`/runs/${id}/plan`);
  expect(await main.textContent()).toMatch(/1 of 2 approved; needs one more\.\s+Approved by .*because: as announced/);
  await page.getByRole("link", { name: "Approve…", exact: true }).click();
  expect(await main.textContent()).toMatch(/Approval 2 of 2\.\s+With it, the plan is applied\./);
  expect(await window.accessibility()).toEqual([]);
  await page.getByRole("button", { name: "Apply 5 changes" }).click();
  expect(await daemon.ended(id)).toMatchObject({ state: "applied", decisions: [{}, { by: { name: "admin" } }] });

  // The first of two in the console.
  await company.write("people.csv", people.replace("ada@", "countess@"));
  const next = await daemon.run();
  await page.goto(`/runs/${next.id}/approve`);
  await page.getByRole("button", { name: "Approve, as 1 of 2" }).click();
  await page.waitForURL(/\/plan$/);
  expect(await main.textContent()).toMatch(/1 of 2 approved[^]*admin has approved the run \S+ already: another person/);
  expectNoProblems(window);
  await stopRollcall(daemon.running);
});

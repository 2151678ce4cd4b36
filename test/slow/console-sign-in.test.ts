import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { expectNoProblems, useBrowser } from "../support/browser.ts";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";
import type { Running } from "../support/rollcall/rollcall.ts";
import { stopRollcall } from "../support/rollcall/rollcall.ts";
import { startService } from "../support/rollcall/service.ts";

const company = companyOfEachTest();
const admin = { username: "admin", password: "administrator-secret" };
const browser = useBrowser();

/** Where a process listens, from its log. */
async function urlOf(running: Running, of: "service" | "daemon"): Promise<string> {
  const said = new RegExp(`the ${of} is listening on (http://[\\d.:]+)`);
  await running.wrote(said);
  return said.exec(running.output())?.[1] ?? "";
}

/** Posts a form as a browser does that does not follow. */
function post(url: string, form: Record<string, string>, headers: Record<string, string> = {}): Promise<Response> {
  const { origin } = new URL(url);
  return fetch(url, {
    method: "POST",
    redirect: "manual",
    headers: { origin, "content-type": "application/x-www-form-urlencoded", ...headers },
    body: new URLSearchParams(form),
  });
}

function cookieOf(answer: Response): string {
  return (answer.headers.get("set-cookie") ?? "").split(";", 1)[0] ?? "";
}

test("an administrator signs in, sees the overview, and signs out: then the session is over", async () => {
  const running = company.start();
  const url = await urlOf(running, "service");
  await running.wrote("applied and verified");
  const window = await browser().window(url);
  const { page } = window;
  await page.goto("/runs?state=applied");
  expect(await page.title()).toBe("Sign in · Rollcall");
  expect(await window.accessibility()).toEqual([]);
  await window.signIn("admin", "wrong");
  expect((await page.getByRole("alert").textContent())?.trim()).toBe("The name or the password is wrong.");
  expect(window.problems.splice(0).map((each) => each.split(" ", 2).join(" "))).toContain("answer: 401");
  await window.signIn("admin", admin.password);
  // To where they wanted to go.
  await page.waitForURL(/\/runs\?state=applied$/);
  await page.getByRole("link", { name: "Overview" }).click();
  expect(await page.getByRole("heading", { level: 1 }).textContent()).toBe("Overview");
  expect(await page.getByRole("main").textContent()).toMatch(/staff[^]*applied[^]*users \+3/);
  expect(await window.accessibility()).toEqual([]);
  const cookies = await window.context.cookies();
  expect(cookies).toMatchObject([{ name: "JSESSIONID", httpOnly: true, sameSite: "Lax", path: "/" }]);
  const cookie = `JSESSIONID=${cookies[0]?.value ?? ""}`;
  const ask = (): Promise<Response> => fetch(url, { headers: { cookie }, redirect: "manual" });
  expect((await ask()).status).toBe(200);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL(/\/sign-in$/);
  expect((await ask()).status).toBe(303);
  expectNoProblems(window);
  await window.close();
  await stopRollcall(running);
});

test("the console keeps others out: no session, no privilege, another site, a form of another session", async () => {
  await company.applied();
  const running = company.start();
  const url = await urlOf(running, "service");
  const refused = await fetch(`${url}/runs`, { redirect: "manual" });
  expect([refused.status, refused.headers.get("location")]).toEqual([303, "/sign-in?next=%2Fruns"]);
  const policy = refused.headers.get("content-security-policy") ?? "";
  expect(policy).toContain("default-src 'none'");
  expect(policy).not.toContain("unsafe");
  // Other paths are answered as before, and the interface's stay what they are.
  const unknown = await fetch(`${url}/elsewhere`);
  expect([unknown.status, await unknown.json()]).toEqual([404, { error: "There is no GET /elsewhere here." }]);
  expect((await fetch(`${url}/tspublic/v1/nothing`)).headers.get("content-security-policy")).toBeNull();
  expect((await fetch(`${url}/tspublic/v1/user/list`)).status).toBe(401);
  expect(await (await fetch(`${url}/healthz`)).json()).toEqual({ status: "alive" });

  const ada = await post(`${url}/sign-in`, { username: "ada", password: "initial-user-secret" });
  expect(ada.status).toBe(303);
  const looked = await fetch(url, { headers: { cookie: cookieOf(ada) } });
  expect([looked.status, await looked.text()]).toEqual([
    403,
    expect.stringContaining("The account ada lacks the administration privilege"),
  ]);

  const opened = await post(`${url}/sign-in`, { ...admin, next: "/..//evil.example/x" });
  expect([opened.status, opened.headers.get("location")]).toEqual([303, "/"]);
  const cookie = cookieOf(opened);
  const next = async (path: string): Promise<string | null> => {
    const query = new URLSearchParams({ next: path }).toString();
    return (await fetch(`${url}/sign-in?${query}`, { headers: { cookie }, redirect: "manual" })).headers.get(
      "location",
    );
  };
  expect(await next("/.//evil.example")).toBe("/");
  expect(await next("/people/explain?name=kim")).toBe("/people/explain?name=kim");
  const token =
    /name="token" value="([^"]+)"/.exec(await (await fetch(url, { headers: { cookie } })).text())?.[1] ?? "";
  const statusOf = async (form: Record<string, string>, headers: Record<string, string>): Promise<number> =>
    (await post(`${url}/sign-out`, form, headers)).status;
  expect(await statusOf({ token }, { cookie, origin: "https://evil.example" })).toBe(403);
  expect(await statusOf({ token }, { cookie, "sec-fetch-site": "cross-site" })).toBe(403);
  expect(await statusOf({}, { cookie })).toBe(403);
  expect(await statusOf({ token: `${token}x` }, { cookie })).toBe(403);
  expect(await statusOf({ token }, { cookie })).toBe(303);
  expect((await post(`${url}/sign-in`, admin, { origin: "https://evil.example" })).status).toBe(403);

  // The eleventh wrong password is refused unread.
  const statuses: number[] = [];
  for (let count = 0; count < 11; count++)
    statuses.push((await post(`${url}/sign-in`, { username: "grace", password: "guess" })).status);
  expect(statuses).toEqual([...Array.from({ length: 10 }, () => 401), 429]);
  await stopRollcall(running);
});

test("viewers may look where the configuration says so; `console: false` turns it off", async () => {
  await company.configure((yaml) => `${yaml}console: { viewers: true }\n`);
  const twice = ["7", "8"].map((id) => `${id},twin <b>,Twin,twin${id}@example.com,active,\n`);
  await company.write("people.csv", `${people}${twice.join("")}9,lost,Lost,lost@example.com,active,nowhere\n`);
  await company.applied();
  const running = company.start();
  const url = await urlOf(running, "service");
  const cookie = cookieOf(await post(`${url}/sign-in`, { username: "ada", password: "initial-user-secret" }));
  const page = await (await fetch(url, { headers: { cookie } })).text();
  expect(page).toContain("<small>viewer · Rollcall");
  const id = /href="\/runs\/([\w-]+)"/.exec(page)?.[1] ?? "";
  const statusOf = async (path: string): Promise<number> =>
    (await fetch(`${url}/runs/${id}${path}`, { headers: { cookie } })).status;
  expect([await statusOf(""), await statusOf("/plan"), await statusOf("/undo")]).toEqual([200, 200, 403]);
  const token = /name="token" value="([^"]+)"/.exec(page)?.[1] ?? "";
  const undone = await post(`${url}/runs/${id}/undo`, { token }, { cookie });
  expect([undone.status, await undone.text()]).toEqual([
    403,
    expect.stringContaining("needs the role approver or administrator; ada has the role viewer"),
  ]);

  // What the run was not sure of, with lists for whoever keeps the source.
  const window = await browser().window(url);
  const audit = window.page;
  await audit.goto("/doubt");
  await window.signIn("ada", "initial-user-secret");
  await audit.waitForURL(/\/doubt$/);
  const main = audit.getByRole("main");
  expect(await main.textContent()).toMatch(/2 records quarantined[^]*twin <b>[^]*people\.csv/);
  expect(await main.textContent()).toMatch(/1 membership left out[^]*nowhere[^]*does not exist/);
  expect(await window.accessibility()).toEqual([]);
  const lists = await audit.getByRole("link", { name: "as CSV" }).all();
  const texts = await Promise.all(
    lists.map(async (link) =>
      (await fetch(new URL((await link.getAttribute("href")) ?? "", url), { headers: { cookie } })).text(),
    ),
  );
  expect(texts).toEqual([
    expect.stringMatching(
      /^"sync",[^\n]*\n(?:"staff",[^\n]*"twin <b>","company","\d+","people\.csv:\d+",[^\n]*\n){2}$/,
    ),
    expect.stringMatching(/^"sync",[^\n]*\n"staff",[^\n]*nowhere[^\n]*\n$/),
  ]);

  // The audit log, as `rollcall audit` has it.
  await audit.getByRole("link", { name: "Audit" }).click();
  await audit.waitForURL(/\/audit$/);
  expect(await main.textContent()).toMatch(/Verified\.\s+\d+ entries in 1 file: everything is as it was written\./);
  expect(await main.textContent()).toMatch(/run [\w-]+ of staff ended: applied/);
  expect(await window.accessibility()).toEqual([]);
  await audit.getByLabel("Event").selectOption("started");
  await expect
    .poll(() => audit.locator("tbody tr").allTextContents())
    .toEqual([expect.stringMatching(/started the daemon/)]);
  const lines = await fetch(`${url}/audit/download?format=jsonl`, { headers: { cookie } });
  const log = join(company.folder, "data/daemon/audit.jsonl");
  expect(await lines.text()).toBe(await readFile(log, "utf8"));
  const href = (await audit.getByRole("link", { name: "CSV" }).getAttribute("href")) ?? "";
  const csv = await fetch(new URL(href, url), { headers: { cookie } });
  expect([csv.headers.get("content-disposition"), await csv.text()]).toEqual([
    'attachment; filename="audit.csv"',
    expect.stringMatching(/^\uFEFF?"number","time"[^\n]*\n"\d+","[^"]+","started",[^\n]*\n$/),
  ]);
  const written = await readFile(log, "utf8");
  await writeFile(log, written.replace('"event":"started"', '"event":"stopped"'));
  await audit.goto("/audit");
  expect(await main.textContent()).toMatch(/BROKEN: audit\.jsonl, line \d+ \(changed\)/);
  await writeFile(log, written);
  expectNoProblems(window);
  await window.close();
  await stopRollcall(running);

  await company.configure((yaml) => yaml.replace("console: { viewers: true }", "console: false"));
  const without = company.start();
  const there = await urlOf(without, "service");
  expect((await fetch(there)).status).toBe(404);
  await stopRollcall(without);
});

test("a daemon alone has the console on its own listener, for the accounts of its target", async () => {
  await using service = await startService();
  const { name, password } = service.administrator;
  const target = `{ url: "${service.url}", username: ${name}, password: "${password}" }`;
  await company.configure((yaml) => yaml.replace("analytics: embedded", `analytics: ${target}`));
  const running = company.start("--only", "daemon");
  const url = await urlOf(running, "daemon");
  await running.wrote("applied and verified");
  // It has the documents, too: those of the package, or in a checkout that has not built them how to do so.
  const documents = await fetch(`${url}/docs/`);
  expect(documents.headers.get("content-security-policy")).toContain("default-src 'none'");
  expect(await documents.text()).toMatch(/On this page|npm run site/);
  const wrong = await post(`${url}/sign-in`, { username: name, password: "guess" });
  expect([wrong.status, await wrong.text()]).toEqual([
    401,
    expect.stringContaining("The name or the password is wrong."),
  ]);
  const user = await post(`${url}/sign-in`, { username: "ada", password: "initial-user-secret" });
  expect((await fetch(url, { headers: { cookie: cookieOf(user) } })).status).toBe(403);
  const window = await browser().window(url);
  await window.page.goto("/");
  expect(await window.page.getByText("With an account of the target").count()).toBe(1);
  await window.signIn(name, password);
  await window.page.waitForURL(`${url}/`);
  expect(await window.page.getByRole("main").textContent()).toMatch(/staff[^]*applied/);
  // Tables and loads are with the service.
  await window.page.getByRole("link", { name: "Loads" }).click();
  await window.page.getByText("rollcall load FILE --table DATABASE.TABLE --target analytics").waitFor();
  await window.page.getByRole("button", { name: "Sign out" }).click();
  await window.page.waitForURL(/\/sign-in$/);
  expectNoProblems(window);
  await window.close();
  // Its other paths are as they were.
  expect(await (await fetch(`${url}/elsewhere`)).json()).toMatchObject({
    error: { message: "There is no GET /elsewhere here." },
  });
  await service.stop();
  const gone = await post(`${url}/sign-in`, { username: name, password });
  expect([gone.status, await gone.text()]).toEqual([503, expect.stringContaining("target analytics: login as admin")]);
  await stopRollcall(running);
});

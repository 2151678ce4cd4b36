import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { RunRecord } from "#state/record.ts";
import { openBrowser } from "./browser.ts";
import type { Page } from "playwright-core";
import type { TestBrowser } from "./browser.ts";
import { startRollcall, stopRollcall } from "./rollcall/rollcall.ts";

/*
 * `npm run screenshots [FOLDER] [PAGES]`: every page of the console with the sample company, or those whose names match a
 * regular expression, on a desktop and on a phone, in the light and in the dark. Look at them after changing a page. Those
 * that are called `readme-…` are smaller; the README has them, from docs/images.
 */

const folder = process.argv[2] ?? fileURLToPath(new URL("../../node_modules/.cache/screenshots", import.meta.url));
const wanted = new RegExp(process.argv[3] ?? "");
const company = await mkdtemp(join(tmpdir(), "rollcall-screenshots-"));
const configuration = join(company, "rollcall.yaml");
const people = join(company, "sample/people.csv");
const password = "screenshots-only";

await mkdir(folder, { recursive: true });
await cp(new URL("../../config", import.meta.url), company, { recursive: true });
const sample = await readFile(configuration, "utf8");
const deletions = `deletions: { after: 0 }
    limits: { deletes: { count: 5 } }
    expectations:
      - { name: enough people, expect: users.size() > 150 }
      - { name: nobody is called evil, over: users, expect: name != "evil", otherwise: warn }`;
await writeFile(
  configuration,
  sample
    .replace("127.0.0.1:8442", "127.0.0.1:0")
    .replace("../data", "data")
    .replace("    to: analytics", `    to: analytics\n    ${deletions}`),
);
const board = "5c5c5c5c-0000-4000-8000-000000000000";
const visualization = (index: number): string => `5c5c5c5c-0000-4000-8000-${String(index + 1).padStart(12, "0")}`;
const shown = [
  { type: "HEADLINE", sql: "SELECT 12840 AS licences, 1234567.50::DECIMAL(12, 2) AS cost, 3.2 AS per_person" },
  {
    type: "CHART",
    title: "Sign-ins by day and site",
    sql: `SELECT (DATE '2026-01-01' + i::INT) AS day, site, (100 + 60 * sin(i / 9.0 + length(site)) + i % 7 * 6)::INT AS sign_ins
      FROM range(120) r(i), (VALUES ('Rotterdam'), ('Gdańsk'), ('Porto')) s(site) ORDER BY ALL`,
  },
  {
    type: "CHART",
    title: "Licences by department and kind",
    sql: `SELECT 'Department ' || d AS department, kind, (d * 7 + length(kind) * 3) % 40 + 2 AS licences
      FROM range(7) r(d), (VALUES ('full'), ('viewer'), ('trial')) s(kind) ORDER BY ALL`,
  },
  {
    type: "CHART",
    title: "Ten thousand answers",
    sql: "SELECT i % 977 AS milliseconds, (i * 7919) % 5000 + i % 977 * 3 AS bytes FROM range(10000) r(i)",
    chart: { mark: "dot" },
  },
  {
    type: "TABLE",
    title: "Awkward <b>values</b> \u202e",
    sql: `SELECT i, '<script>alert(' || i || ')</script>' AS "<i>column", repeat('long ', 40) AS text, NULL AS nothing, -i / 3 AS part
      FROM range(40) r(i)`,
  },
  { type: "CHART", title: "A query that fails", sql: "SELECT * FROM nothing_like_that" },
];
await writeFile(
  join(company, "sample/pinboards/usage.yaml"),
  JSON.stringify({
    id: board,
    name: "Usage",
    description: "Licences and sign-ins, for the yearly review",
    visualizations: shown.map((each, index) => ({
      id: visualization(index),
      name: `v${index}`,
      title: "Licences",
      database: "directory",
      ...each,
    })),
  }),
);

const table = { database: "directory", schema: "core_default_schema", table: "licences" };
const tablePage = `/loads/table?${new URLSearchParams(table).toString()}`;
const definition =
  "CREATE TABLE IF NOT EXISTS directory.licences (id BIGINT PRIMARY KEY, holder VARCHAR, since DATE, active BOOLEAN, cost DECIMAL(9, 2));";
await writeFile(join(company, "sample/tables.sql"), `\n${definition}\n`, { flag: "a" });
const licences = join(company, "licences of 2026.csv");
const granted = Array.from(
  { length: 400 },
  (_, i) => `${i + 1};"Ramdin, R.";${(i % 19) + 10}.02.2026;${i % 3 === 0 ? "no" : "yes"};${i}.50`,
);
await writeFile(licences, `id;holder;since;active;cost\n${granted.join("\n")}\n401;x;soon;yes;1\n`);

const running = startRollcall(["start", "--config", configuration], { env: { ROLLCALL_ADMIN_PASSWORD: password } });
try {
  await running.wrote('"msg":"sync staff: exported');
  const { url, token } = JSON.parse(await readFile(join(company, "data/daemon/control.json"), "utf8")) as {
    url: string;
    token: string;
  };
  const request = async (path: string, method = "GET"): Promise<unknown> => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    return (await fetch(`${url}/control/v1${path}`, { method, headers })).json();
  };
  // Somebody left by mistake, somebody moved, and somebody has an awkward name.
  const [header = "", ...rows] = (await readFile(people, "utf8")).trim().split("\n");
  const moved = rows.map((row, index) => (index % 8 === 0 ? row.replace(",Rotterdam,", ",Gdańsk,") : row));
  const awkward =
    "999001,evil,<b>,x,<script>alert(1)</script> \u202Egnp,evil@example.com,Clerk,1310,Rotterdam,employee,active,2024-01-01";
  await writeFile(people, `${[header, ...moved.slice(9), awkward].join("\n")}\n`);
  const { id } = (await request("/syncs/staff/run", "POST")) as RunRecord;
  await running.wrote("held by the limit");
  const { runs } = (await request("/runs")) as { runs: RunRecord[] };
  const applied = runs.find(({ state }) => state === "applied")?.id ?? id;

  const pages: Record<string, string> = {
    overview: "/",
    runs: "/runs",
    run: `/runs/${applied}`,
    "run-held": `/runs/${id}`,
    plan: `/runs/${id}/plan`,
    "plan-filtered": `/runs/${id}/plan?action=update`,
    approve: `/runs/${id}/approve`,
    part: `/runs/${id}/part`,
    reject: `/runs/${id}/reject`,
    undo: `/runs/${applied}/undo`,
    "in-doubt": "/doubt",
    people: "/people",
    user: "/people/user?name=rramdin",
    loads: "/loads",
    table: tablePage,
    pinboards: "/pinboards",
    pinboard: "/pinboards/11ae9113-9104-46eb-a4f8-18f4b53feaa7",
    "pinboard-usage": `/pinboards/${board}`,
    "pinboard-chart": `/pinboards/${board}/${visualization(1)}`,
    "pinboard-table": `/pinboards/${board}/${visualization(4)}`,
    rules: "/rules",
    connections: "/connections",
    "run-now": "/syncs/staff/run",
    audit: "/audit",
    "not-found": "/runs/none",
  };
  await using browser = await openBrowser();
  Object.assign(pages, await tried(browser, url, rows[20]?.split(",")[1] ?? ""));
  for (const [device, width] of Object.entries({ desktop: 1440, phone: 360 }))
    for (const colorScheme of ["light", "dark"] as const) {
      const window = await browser.window(url, { viewport: { width, height: 900 }, colorScheme });
      const take = async (name: string): Promise<void> => {
        await window.page.screenshot({ path: join(folder, `${name}-${device}-${colorScheme}.png`) });
      };
      await window.page.goto("/");
      await take("sign-in");
      await window.signIn("admin", password);
      await window.page.waitForURL(/\/$/);
      // As it looks once somebody has checked everything.
      await window.page.goto("/connections");
      for (const label of ["Check the sources and rules", "Check the target"]) {
        await window.page.getByRole("button", { name: label }).click();
        await window.page.getByRole("button", { name: label }).waitFor();
      }
      for (const [name, path] of Object.entries(pages)) {
        if (!wanted.test(name)) continue;
        await open(window.page, path);
        await take(name);
      }
      if (wanted.test("draft") || wanted.test("load")) {
        await window.page.goto(tablePage);
        await window.page.setInputFiles("input[type=file]", licences);
        await window.page.getByRole("button", { name: "Look at it" }).click();
        await window.page.waitForURL(/\/loads\/[0-9a-f]{8}-/);
        await take("draft");
        await window.page.getByLabel("Rows that may be rejected").fill("400");
        await window.page.getByRole("button", { name: "Load into licences" }).click();
        await window.page
          .getByText(/rows? loaded/)
          .first()
          .waitFor();
        await take("load");
      }
      await window.close();
    }
  const window = await browser.window(url, { viewport: { width: 1160, height: 640 }, colorScheme: "light" });
  await window.page.goto("/");
  await window.signIn("admin", password);
  await window.page.waitForURL(/\/$/);
  for (const name of ["overview", "plan"]) {
    await open(window.page, pages[name] ?? "/");
    await window.page.screenshot({ path: join(folder, `readme-${name}.png`) });
  }
  process.stdout.write(`${folder}\n`);
} finally {
  await stopRollcall(running);
  await rm(company, { recursive: true, force: true });
}

/** Opens a page, with the parts that it asks for itself. */
async function open(page: Page, path: string): Promise<void> {
  await page.goto(path);
  while ((await page.locator("main .htmx-request").count()) > 0) await page.waitForTimeout(100);
}

/** Tries rules: for one user, for everybody, and what is refused. @returns their addresses */
async function tried(browser: TestBrowser, url: string, login: string): Promise<Record<string, string>> {
  const window = await browser.window(url);
  const { page } = window;
  await page.goto("/rules");
  await window.signIn("admin", password);
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
    await page.goto("/rules");
    const box = page.getByLabel("Rules of");
    await box.fill((await box.inputValue()).replace(from, to));
    await page.getByLabel("User or group").fill(login);
    await page.getByRole("button", { name: button }).click();
    await page.locator("#result time").waitFor();
    trials[name] = `${new URL(page.url()).pathname}#result`;
  }
  await window.close();
  return trials;
}

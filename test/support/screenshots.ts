import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { RunRecord } from "#sync/record.ts";
import { openBrowser } from "./browser.ts";
import { startRollcall, stopRollcall } from "./rollcall/rollcall.ts";

/*
 * `npm run screenshots [FOLDER]`: every page of the console with the sample company, on a desktop and on a phone, in the
 * light and in the dark. Look at them after changing a page.
 */

const folder = process.argv[2] ?? fileURLToPath(new URL("../../node_modules/.cache/screenshots", import.meta.url));
const company = await mkdtemp(join(tmpdir(), "rollcall-screenshots-"));
const configuration = join(company, "rollcall.yaml");
const people = join(company, "sample/people.csv");
const password = "screenshots-only";

await mkdir(folder, { recursive: true });
await cp(new URL("../../config", import.meta.url), company, { recursive: true });
const sample = await readFile(configuration, "utf8");
const deletions = "deletions: { after: 0 }\n    limits: { deletes: { count: 5 } }";
await writeFile(
  configuration,
  sample
    .replace("127.0.0.1:8442", "127.0.0.1:0")
    .replace("../data", "data")
    .replace("    to: analytics", `    to: analytics\n    ${deletions}`),
);

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

  const pages = {
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
    audit: "/audit",
    "not-found": "/runs/none",
  };
  await using browser = await openBrowser();
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
      for (const [name, path] of Object.entries(pages)) {
        await window.page.goto(path);
        await take(name);
      }
      await window.close();
    }
  process.stdout.write(`${folder}\n`);
} finally {
  await stopRollcall(running);
  await rm(company, { recursive: true, force: true });
}

import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { KindCounts } from "#plan/change.ts";
import type { RunRecord } from "#state/record.ts";
import type { Window } from "./browser.ts";
import { startRollcall, stopRollcall } from "./rollcall/rollcall.ts";
import type { Running } from "./rollcall/rollcall.ts";

const password = "screenshots-only";
const pushToken = `${password}-of-a-provider`;

/** A daemon with a console, in a folder of its own. */
export interface Installation extends AsyncDisposable {
  readonly folder: string;
  readonly url: string;
  /** Through the control API. */
  ask<Answer>(path: string, body?: object): Promise<Answer>;
}

/** A service without syncs, tables and pinboards, as it is after the installation. */
export async function emptyInstallation(): Promise<Installation> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-screenshots-"));
  await writeFile(
    join(folder, "rollcall.yaml"),
    `service: { listen: "127.0.0.1:0", administrator: { name: admin, password: ${password} } }\n`,
  );
  return installation(folder, await start(folder));
}

/** An installation, and the last run of each of its syncs; `applied`: the first of `staff`. */
export interface Company extends Installation {
  readonly runs: Readonly<Record<string, RunRecord>>;
}

/** The sample company with eleven more syncs, so that there is one in every state. */
export async function company(): Promise<Company> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-screenshots-"));
  await cp(new URL("../../config", import.meta.url), folder, { recursive: true });
  const [directory, depot] = [await slowDirectory(), await emptyInstallation()];
  const inside = (name: string): string => join(folder, "sample", name);
  await mkdir(inside("syncs"));
  for (const [index, { name, size }] of syncs.entries())
    await writeFile(inside(`syncs/${name}.csv`), peopleOf(index, size));
  await writeFile(inside("pinboards/usage.yaml"), JSON.stringify(pinboard));
  await writeFile(inside("tables.sql"), `\n${licences}\n`, { flag: "a" });
  await configure(folder, { directory, depot }, false);
  const first = await start(folder);
  await first.wrote('"msg":"sync staff: exported');
  for (const { name } of syncs.filter(({ isNew }) => isNew !== true)) await first.wrote(`"msg":"sync ${name}: applied`);
  await stopRollcall(first);
  await withPast(join(folder, "data/daemon/journal.json"));
  await configure(folder, { directory, depot }, true);
  const running = await start(folder);
  const { ask, ...rest } = await installation(folder, running);
  await change(inside);
  await push(rest.url);
  const runs: Record<string, RunRecord> = {};
  const begin = (name: string): Promise<RunRecord> => ask<RunRecord>(`/syncs/${name}/run`, {});
  for (const name of ["staff", ...syncs.filter(({ isNew }) => isNew !== true).map((each) => each.name)])
    if (name !== "warehouse") runs[name] = await begin(name);
  for (const [name, { id }] of Object.entries(runs)) runs[name] = await ended(ask, id);
  await ask(`/runs/${runs["agency"]?.id}/reject`, { reason: "The agency sent last month's list." });
  runs["okta"] = await ended(ask, (await begin("okta")).id);
  const { id = "", digest } = runs["sales"] ?? {};
  await ask(`/runs/${id}/approve`, { digest, only: ["create", "update"], reason: "The others are on leave." });
  runs["sales"] = await ended(ask, id);
  // It takes its target for itself: nothing else can be planned there.
  directory.isSlow = true;
  for (const [name, role] of Object.entries(staff)) {
    await ask("/accounts", { name, role, password: `${password} ${name}` });
    await ask("/login", { name, password: `${password} ${name}`, token: "laptop" });
  }
  runs["warehouse"] = await begin("warehouse");
  const all = (await ask<{ runs: RunRecord[] }>("/runs?limit=1000")).runs;
  const applied = all.findLast(({ sync, state }) => sync === "staff" && state === "applied");
  return {
    ...rest,
    ask,
    runs: { ...runs, ...(applied && { applied }) },
    [Symbol.asyncDispose]: async () => {
      directory.closeAllConnections();
      directory.close();
      await depot[Symbol.asyncDispose]();
      await rest[Symbol.asyncDispose]();
    },
  };
}

/** The syncs besides that of the sample. `later`: what is configured once it has run. */
const syncs: readonly {
  readonly name: string;
  readonly size: number;
  readonly schedule?: string;
  readonly later?: string;
  /** It has never run. */
  readonly isNew?: true;
}[] = [
  { name: "agency", size: 18, schedule: "0 5 * * 1-5", later: "approval: required" },
  { name: "archive", size: 9, isNew: true },
  { name: "okta", size: 0, isNew: true },
  { name: "contractors", size: 46, schedule: "30 * * * *", later: "approval: required" },
  { name: "customers", size: 120, schedule: "*/10 * * * *" },
  { name: "guests", size: 31, schedule: "0 */4 * * *" },
  { name: "interns", size: 12, schedule: "0 6 * * *", later: "retries: { attempts: 0 }" },
  { name: "legacy", size: 27, schedule: "0 3 1 * *", later: "overdueAfter: 7d\n    catchUp: false" },
  { name: "sales", size: 64, schedule: "*/30 * * * *", later: "approval: required" },
  { name: "service-desk", size: 25, schedule: "0 7 * * *", later: "deletions: { after: 7d }" },
  { name: "suppliers", size: 83, schedule: "15 2 * * *" },
  { name: "warehouse", size: 40, schedule: "0 * * * *" },
];

/** The accounts of Rollcall. */
const staff = {
  "femke.de.wit@example.com": "approver",
  "leila.haddad@example.com": "viewer",
  "operations-on-call": "administrator",
};

const licences =
  "CREATE TABLE IF NOT EXISTS directory.licences (id BIGINT PRIMARY KEY, holder VARCHAR, since DATE, active BOOLEAN, cost DECIMAL(9, 2));";

const [given, family, teams] = [
  [
    "Aylin",
    "Bartosz",
    "Chiara",
    "Daan",
    "Eszter",
    "Femke",
    "Goran",
    "Hanna",
    "Ines",
    "Jonas",
    "Kaito",
    "Leïla",
    "Mateus",
  ],
  [
    "Okonkwo",
    "Van der Berg",
    "Østergaard",
    "Nowak",
    "Bianchi",
    "Yılmaz",
    "Ferreira",
    "Dvořák",
    "Haddad",
    "Lindqvist",
    "Tanaka",
  ],
  ["Operations", "Field Service", "Planning", "Quality", "Key Accounts"],
];

function peopleOf(sync: number, size: number): string {
  const rows = Array.from({ length: size }, (_, index) => {
    const of = <Of>(list: readonly Of[], step: number): Of => list[(index * step + sync * 3) % list.length]!;
    const [first, last] = [of(given ?? [], 5), of(family ?? [], 3)];
    const login = `${first}.${last}`
      .normalize("NFD")
      .replaceAll(/[^\w.]/g, "")
      .toLowerCase();
    return `${sync}${1000 + index},${login}${sync}${index},${first} ${last},${login}@partner.example,${of(teams ?? [], 1)},active`;
  });
  return `id,login,name,mail,team,status\n${rows.join("\n")}\n`;
}

/** @param isLater once every sync has run */
async function configure(
  folder: string,
  { directory, depot }: Readonly<Record<"directory" | "depot", { readonly url: string }>>,
  isLater: boolean,
): Promise<void> {
  const file = join(folder, "rollcall.yaml");
  const sample = await readFile(new URL("../../config/rollcall.yaml", import.meta.url), "utf8");
  const sources = syncs.map(({ name }) =>
    name === "okta"
      ? `  okta: { connector: scim, inbox: { settle: 1s, tokens: [${pushToken}] } }`
      : name === "warehouse"
        ? `  warehouse: { connector: scim, url: "${directory.url}", auth: { bearer: ${password} }, groups: false }`
        : `  ${name}: { connector: csv, users: { file: sample/syncs/${name}.csv, id: id } }`,
  );
  const definitions = syncs.map(({ name, schedule, later = "" }) =>
    [
      `  ${name}:`,
      `    from: [${name}]`,
      `    to: ${name === "warehouse" ? "depot" : "analytics"}`,
      schedule !== undefined && `    schedule: "${schedule}"`,
      isLater && later !== "" && `    ${later}`,
      `    groupsFromRules: create`,
      name === "warehouse" || name === "okta"
        ? `    users: { name: entry.userName, displayName: entry.displayName }`
        : `    users: { include: entry.status == "active", name: entry.login, displayName: entry.name, mail: entry.mail, groups: '[entry.team]' }`,
    ]
      .filter((line) => line !== false)
      .join("\n"),
  );
  const limits = `limits: { deletes: { count: 5 } }
    expectations:
      - { name: enough people, expect: users.size() > 150 }
      - { name: nobody is called evil, over: users, expect: name != "evil", otherwise: warn }`;
  const text = sample
    .replace("127.0.0.1:8442", "127.0.0.1:0")
    .replace("../data", "data")
    .replace("\nsources:", `  depot: { url: "${depot.url}", username: admin, password: ${password} }\n\nsources:`)
    .replace("\nsyncs:", `${sources.join("\n")}\n\nsyncs:`)
    .replace("    to: analytics", `    to: analytics\n    ${limits}`);
  const [head = "", tail = ""] = text.split("\n# Who is told");
  await writeFile(file, `${head}${definitions.join("\n")}\n\n# Who is told${tail}`);
}

/** What happened in the companies since: one thing for each sync. */
async function change(inside: (name: string) => string): Promise<void> {
  const edit = async (name: string, how: (rows: readonly string[]) => readonly string[]): Promise<void> => {
    const [header = "", ...rows] = (await readFile(inside(name), "utf8")).trim().split("\n");
    await writeFile(inside(name), `${[header, ...how(rows)].join("\n")}\n`);
  };
  const awkward =
    "999001,evil,<b>,x,<script>alert(1)</script> \u202Egnp,evil@example.com,Clerk,1310,Rotterdam,employee,active,2024-01-01";
  await edit("people.csv", (rows) => {
    const moved = rows.map((row, index) => (index % 8 === 0 ? row.replace(",Rotterdam,", ",Gdańsk,") : row));
    return [...moved.slice(9), awkward];
  });
  const promoted = (row: string, index: number): string => (index % 9 === 0 ? row.replace("Planning", "Quality") : row);
  await edit("syncs/agency.csv", (rows) => rows.slice(0, 9));
  await edit("syncs/contractors.csv", (rows) =>
    rows.slice(3).map(promoted).concat("8888,new.hire,New Hire,,Planning,active"),
  );
  await edit("syncs/guests.csv", (rows) => [...rows, "77,\u200Bodd.one,Odd One,,Planning,active", rows[0] ?? ""]);
  await edit("syncs/sales.csv", (rows) => rows.slice(4).map(promoted));
  await edit("syncs/service-desk.csv", (rows) => rows.slice(6));
  await edit("syncs/customers.csv", (rows) => rows.slice(3).map(promoted));
  await rm(inside("syncs/interns.csv"));
  await rm(inside("syncs/legacy.csv"));
}

/** A provider pushes some people, and then deletes more of them than brakes let pass. */
async function push(url: string): Promise<void> {
  const send = async (method: string, path: string, body?: object): Promise<{ id: string }> => {
    const headers = { authorization: `Bearer ${pushToken}`, "content-type": "application/scim+json" };
    const answer = await fetch(`${url}/scim/v2/okta${path}`, {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
    });
    return answer.status === 204 ? { id: "" } : ((await answer.json()) as { id: string });
  };
  const ids: string[] = [];
  for (let index = 0; index < 40; index++) {
    const userName = `guest.${index}@a-long-name-of-a-company.example`;
    const schemas = ["urn:ietf:params:scim:schemas:core:2.0:User"];
    ids.push((await send("POST", "/Users", { schemas, userName, displayName: `Guest ${index}`, active: true })).id);
  }
  const members = ids.map((value) => ({ value }));
  const schemas = ["urn:ietf:params:scim:schemas:core:2.0:Group"];
  await send("POST", "/Groups", { schemas, displayName: "Guests", members });
  for (const id of ids.slice(0, 14)) await send("DELETE", `/Users/${id}`);
}

/** A directory by SCIM that does not come to an end once it is slow. */
async function slowDirectory(): Promise<Server & { readonly url: string; isSlow: boolean }> {
  const Resources = Array.from({ length: 40 }, (_, index) => ({
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
    id: `w${index}`,
    userName: `picker.${index}`,
    displayName: `Picker ${index}`,
  }));
  const server = createServer((request, response) => {
    response.setHeader("content-type", "application/scim+json");
    if (self.isSlow) {
      const drops = setInterval(() => response.write(" "), 1000);
      response.once("close", () => {
        clearInterval(drops);
      });
      return;
    }
    const list = request.url?.includes("/Users") === true ? Resources : [];
    response.end(
      JSON.stringify({
        schemas: ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
        totalResults: list.length,
        itemsPerPage: list.length,
        startIndex: 1,
        Resources: list,
      }),
    );
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const self = Object.assign(server, { url, isSlow: false });
  return self;
}

/** Gives the journal a month before the runs that it has: mostly quiet ones, and some that changed something. */
async function withPast(file: string): Promise<void> {
  const journal = JSON.parse(await readFile(file, "utf8")) as {
    runs: RunRecord[];
    syncs: Record<string, { lastSuccessAt?: string; knownSince?: string; lastSlotAt?: string }>;
  };
  const day = 86_400_000;
  const at = (iso: string, days: number): string => new Date(Date.parse(iso) - days * day).toISOString();
  const before = (run: RunRecord, days: number, more: Partial<RunRecord>): RunRecord => {
    const startedAt = at(run.startedAt, days);
    const id = `${startedAt.replaceAll(/[-:]/g, "").slice(0, 15).replace("T", "-")}${run.id.slice(15)}`;
    const stages = run.stages.map((stage) => Object.assign({}, stage, { startedAt: at(stage.startedAt, days) }));
    const endedAt = at(run.endedAt ?? run.startedAt, days);
    return { ...run, id, startedAt, endedAt, stages, cause: "schedule", kept: false, decisions: [], ...more };
  };
  const kindOf = (before: number, { create = 0, update = 0, delete: gone = 0 } = {}): KindCounts => ({
    before,
    after: before + create - gone,
    create,
    update,
    delete: gone,
  });
  const past = journal.runs.flatMap((run, index) => {
    if (run.sync === "legacy") return [before(run, 12, {})];
    return Array.from({ length: 30 }, (_, days) => {
      const some = ((index + 3) * (days + 7) * 31) % 11;
      const isQuiet = some < 4;
      const changed = isQuiet ? {} : { create: some % 3, update: some, delete: some > 7 ? some - 7 : 0 };
      // The company has grown by a user a day.
      const users = kindOf((run.counts?.users.before ?? 0) - 30 + days, changed);
      const groups = kindOf(run.counts?.groups.before ?? 0);
      const counts = { users, groups, membershipsAdded: 0, membershipsRemoved: 0 };
      return before(run, 30 - days, { state: isQuiet ? "no change" : "applied", counts });
    });
  });
  const legacy = journal.syncs["legacy"];
  if (legacy?.lastSuccessAt !== undefined) legacy.lastSuccessAt = at(legacy.lastSuccessAt, 12);
  if (legacy?.knownSince !== undefined) legacy.knownSince = at(legacy.knownSince, 40);
  const kept = journal.runs.filter(({ sync }) => sync !== "legacy");
  const runs = [...past.toSorted((a, b) => (a.id < b.id ? -1 : 1)), ...kept];
  await writeFile(file, JSON.stringify({ ...journal, runs }, undefined, 2));
}

async function start(folder: string): Promise<Running> {
  const running = startRollcall(["start", "--config", join(folder, "rollcall.yaml")], {
    env: { ROLLCALL_ADMIN_PASSWORD: password },
  });
  await running.wrote(listening);
  return running;
}

const listening = /the service is listening on (http:[^"]+)/;

async function installation(folder: string, running: Running): Promise<Installation> {
  const [, url = ""] = listening.exec(running.output()) ?? [];
  return {
    folder,
    url,
    ask: api(folder),
    [Symbol.asyncDispose]: async () => {
      running.process.kill("SIGKILL");
      await running.ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** The control API of the daemon that runs in the folder. */
function api(folder: string): Installation["ask"] {
  return async <Answer>(path: string, body?: object): Promise<Answer> => {
    const known = await presence(join(folder, "data/daemon/control.json"));
    const { url, token } = JSON.parse(known) as { url: string; token: string };
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    const answer = await fetch(`${url}/control/v1${path}`, { headers, ...sent });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as Answer;
  };
}

/** What a daemon writes once its API can be used. */
async function presence(file: string): Promise<string> {
  for (;;) {
    const text = await readFile(file, "utf8").catch(() => undefined);
    if (text !== undefined) return text;
    await delay(50);
  }
}

/** Waits for a run to come to something. */
async function ended(ask: Installation["ask"], id: string): Promise<RunRecord> {
  for (;;) {
    const run = await ask<RunRecord>(`/runs/${id}`);
    if (run.state !== "running") return run;
    await delay(100);
  }
}

/** Signs in as the administrator of the service. */
export async function signedIn({ page, signIn }: Window): Promise<void> {
  if (page.url() === "about:blank") await page.goto("/");
  const of = page.getByLabel("Account of");
  if ((await of.count()) > 0) await of.selectOption(":service");
  await signIn("admin", password);
  await page.waitForURL(/\/$/);
}

/* Its pages, by what their pictures are called */

const table = new URLSearchParams({ database: "directory", schema: "core_default_schema", table: "licences" });
/** The page of a table into which files can be loaded. */
export const tablePage = `/loads/table?${table.toString()}`;

export const emptyPages: Readonly<Record<string, string>> = Object.fromEntries(
  ["", "runs", "inbox", "doubt", "people", "rules", "pinboards", "connections", "loads", "audit", "accounts"].map(
    (path) => [`empty-${path === "" ? "overview" : path}`, `/${path}`],
  ),
);

/** @returns also somebody whom the plan of `staff` changes */
export async function pagesOf({
  ask,
  runs,
}: Company): Promise<{ readonly pages: Record<string, string>; readonly moved: string }> {
  const run = (name: string, page = ""): string => `/runs/${runs[name]?.id}${page}`;
  const person = (name: string): string =>
    `/people/user?${new URLSearchParams({ target: "analytics", name }).toString()}`;
  const [moved, deleted] = [await changed("staff", "update"), await changed("customers", "delete")];
  const pages = {
    overview: "/",
    runs: "/runs",
    run: run("applied"),
    "run-held": run("staff"),
    "run-failed": run("interns"),
    "run-running": run("warehouse"),
    "run-part": run("sales"),
    plan: run("staff", "/plan"),
    "plan-filtered": run("staff", "/plan?action=update"),
    "plan-pending": run("contractors", "/plan"),
    "plan-leaving": run("service-desk", "/plan"),
    approve: run("staff", "/approve"),
    "approve-pending": run("contractors", "/approve"),
    part: run("contractors", "/part"),
    reject: run("contractors", "/reject"),
    undo: run("applied", "/undo"),
    leavers: "/leavers",
    inbox: "/inbox",
    "inbox-token": "/inbox/okta/token",
    "in-doubt": "/doubt",
    people: "/people",
    "people-groups": "/people?kind=group",
    "people-search": `/people?text=${deleted.slice(0, 5)}`,
    "people-deleted": "/people?kind=deleted",
    "people-nobody": "/people?text=new.hire",
    user: person(moved),
    "user-deleted": person(deleted),
    group: "/people/group?name=Operations",
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
    search: "/search?q=re",
    accounts: "/accounts",
    account: "/account",
    "not-found": "/runs/none",
  };
  return { pages, moved };
  async function changed(sync: string, action: string): Promise<string> {
    const query = new URLSearchParams({ kind: "user", action }).toString();
    const changes = await ask<{ name: string }[]>(run(sync, `/changes?${query}`));
    return changes[0]?.name ?? "";
  }
}

/* What is shown of tables */

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
    sql: `SELECT (40 + 20 * sin(i) + i % 977 / 30 + hash(i) % 400 / 20)::INT AS milliseconds,
        (hash(i * 7) % 3000 + i % 977 * 3)::INT AS bytes FROM range(10000) r(i)`,
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

const pinboard = {
  id: board,
  name: "Usage",
  description: "Licences and sign-ins, for the yearly review",
  visualizations: shown.map((each, index) =>
    Object.assign({ id: visualization(index), name: `v${index}`, title: "Licences", database: "directory" }, each),
  ),
};

/** A file for the table of licences, with a row that is wrong. */
export function licencesFile(): string {
  const rows = Array.from(
    { length: 400 },
    (_, i) => `${i + 1};"Ramdin, R.";${(i % 19) + 10}.02.2026;${i % 3 === 0 ? "no" : "yes"};${i}.50`,
  );
  return `id;holder;since;active;cost\n${rows.join("\n")}\n401;x;soon;yes;1\n`;
}

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Running } from "../../support/rollcall/rollcall.ts";
import { companyOfEachTest } from "../../support/rollcall/company.ts";

/** Providers push to a daemon, which reads, holds and applies that like any other source. */

const configured = "a-token-of-the-configuration";
const pushed = `  pushed:
    connector: scim
    inbox: { settle: 1s, tokens: ["\${env:PROVIDER_TOKEN}"] }
`;
const company = companyOfEachTest(
  (yaml) =>
    yaml
      .replace(/ {2}company:\n(?: {4}.*\n)*/, pushed)
      .replace("[company]", "[pushed]")
      .replace(/ {4}schedule: .*\n/, "")
      .replace('entry.status == "active"', "entry.active != false")
      .replace("entry.login", "entry.userName")
      .replace("displayName: entry.name", "displayName: coalesce(entry.displayName, entry.userName)")
      .replace("name: entry.id", "name: entry.displayName")
      .replace("displayName: entry.name", "displayName: entry.displayName")
      .replace("defaultPassword:", "limits: { deletes: none }\n    defaultPassword:"),
  { PROVIDER_TOKEN: configured },
);

async function json(...args: string[]): Promise<ReturnType<typeof JSON.parse>> {
  const { code, stdout, stderr } = await company.command(...args, "--json");
  expect(code, stderr + stdout).toBe(0);
  return JSON.parse(stdout);
}

async function urlOf(running: Running): Promise<string> {
  await running.wrote(/listening on http/);
  const [, url = ""] = /listening on (http:\/\/[\d.:]+)/.exec(running.output()) ?? [];
  // The daemon is behind the service, and starts a moment later.
  await expect.poll(async () => (await json("status")).daemon).toMatchObject({ url });
  return url;
}

/** What a provider sends. */
function provider(url: string, token: string = configured, source = "pushed") {
  return async (method: string, path: string, body?: unknown) => {
    const answer = await fetch(`${url}/scim/v2/${source}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/scim+json" },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, body: text === "" ? {} : JSON.parse(text) };
  };
}
type Send = ReturnType<typeof provider>;

const user = (userName: string) => ({
  schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
  userName,
  displayName: `Person ${userName}`,
  active: true,
});
const active = (value: boolean) => ({
  schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
  Operations: [{ op: "Replace", path: "active", value: value ? "True" : "False" }],
});

/** Sends for many, a few at a time. @returns the answers, in order */
async function sendAll<Item>(items: readonly Item[], send: (item: Item) => ReturnType<Send>) {
  const answers: Awaited<ReturnType<Send>>[] = [];
  for (let from = 0; from < items.length; from += 10) {
    const some = await Promise.all(items.slice(from, from + 10).map(send));
    answers.push(...some);
  }
  return answers;
}

test("tokens: several at a time, shown once, refused when they are wrong, revoked or used too often", async () => {
  const added = await json("inbox", "token", "add", "pushed", "--name", "old");
  const running = company.start();
  const url = await urlOf(running);
  const other = await json("inbox", "token", "add", "pushed");
  expect(other).toMatchObject({ name: "token 2", token: expect.stringMatching(/^rollcall_inbox_.{43}$/) });
  for (const token of [configured, added.token, other.token])
    expect((await provider(url, token)("GET", "/Users")).status).toBe(200);
  const wrong = await provider(url, "wrong")("GET", "/Users");
  expect([wrong.status, wrong.headers.get("www-authenticate"), wrong.body.schemas]).toEqual([
    401,
    'Bearer realm="pushed"',
    ["urn:ietf:params:scim:api:messages:2.0:Error"],
  ]);
  expect((await provider(url, configured, "company")("GET", "/Users")).status).toBe(404);
  expect((await provider(url)("GET", "/Nothing")).body).toMatchObject({ status: "404" });
  expect((await provider(url)("POST", "/Users", { ...user("big"), nickName: "x".repeat(2 ** 20) })).status).toBe(413);

  await expect
    .poll(async () => (await json("inbox", "token", "list", "pushed")).tokens)
    .toMatchObject([
      { name: "old", used: expect.any(String) },
      { name: "token 2", used: expect.any(String) },
      { name: "token 1 of the configuration", used: expect.any(String) },
    ]);
  expect(await json("inbox", "token", "revoke", "pushed", "old")).toMatchObject({ revoked: true });
  expect((await provider(url, added.token)("GET", "/Users")).status).toBe(401);
  const failing = await company.command("inbox", "token", "revoke", "pushed", "old");
  expect([failing.code, failing.stderr]).toEqual([1, expect.stringContaining("no token old")]);
  expect((await company.command("inbox", "token", "add", "nowhere")).stderr).toContain("no source called nowhere");

  const { stdout: log } = await company.command("audit");
  expect(log).toMatch(/added the token old of the inbox pushed[^]*revoked the token old of the inbox pushed/);
  const stored = await readFile(join(company.folder, "data/daemon/inboxes/pushed.sqlite"), "latin1");
  for (const token of [added.token, other.token, configured])
    for (const text of [running.output(), log, stored]) expect(text).not.toContain(token);

  // A reload takes the inbox away, and brings another one.
  await company.configure((yaml) => yaml.replace("inbox: {", "inbox: { requestsPerSecond: 3,"));
  await company.command("reload");
  const rushing = await Promise.all(Array.from({ length: 12 }, () => provider(url)("GET", "/Users?count=0")));
  const refused = rushing.filter(({ status }) => status === 429);
  expect(refused.length).toBeGreaterThan(0);
  expect(refused[0]?.headers.get("retry-after")).toBe("1");
  await company.configure((yaml) => yaml.replaceAll("pushed", "okta"));
  expect(await company.command("reload")).toMatchObject({ code: 0 });
  expect((await provider(url)("GET", "/Users")).status).toBe(404);
  expect((await provider(url, configured, "okta")("GET", "/Users")).status).toBe(200);
});

test("a mass deactivation is held by the brake, approved in part and undone; the provider hears nothing of that", async () => {
  const running = company.start();
  const send = provider(await urlOf(running));
  const never = await company.command("apply", "staff");
  expect(never.stderr + never.stdout).toContain("nothing was pushed to it yet");
  const names = Array.from({ length: 500 }, (_, index) => `user${index}`);
  const people = await sendAll(names, (name) => send("POST", "/Users", user(name)));
  expect(new Set(people.map(({ status }) => status))).toEqual(new Set([201]));
  const group = { displayName: "all", members: people.map(({ body }) => ({ value: body.id })) };
  expect((await send("POST", "/Groups", group)).status).toBe(201);
  expect((await company.command("status")).stdout).toMatch(/inbox +pushed: 500 users, 1 group\n +last push/);
  // It waits until nothing has come for a second.
  const first = await company.run("apply", "staff");
  expect(first).toMatchObject({ outcome: "applied", plan: { counts: { users: { create: 500 } } } });

  const leaving = people.slice(0, 80);
  const answers = await sendAll(leaving, ({ body }) => send("PATCH", `/Users/${body.id}`, active(false)));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  const held = await company.command("apply", "staff");
  expect(held.code).toBe(3);
  expect(held.stderr + held.stdout).toContain(
    "pushed: 80 users deactivated in pushed, pushed with token 1 of the configuration (80), at most 50 (10% of 500)",
  );
  const [run] = (await json("runs")).runs;
  expect(run).toMatchObject({ state: "held", counts: { users: { delete: 80 } } });

  const without = await company.command("approve", run.id);
  expect(without.stderr + without.stdout).toContain("--override pushed");
  const part = await company.command("approve", run.id, "--these", "user3", "--these", "user4", "--override", "pushed");
  expect(part.code, part.stderr + part.stdout).toBe(0);
  // The rest is as it was.
  expect((await company.command("apply", "staff")).code).toBe(3);
  const [again] = (await json("runs")).runs;
  expect(again).toMatchObject({ state: "held", counts: { users: { delete: 78 } } });
  expect(await company.command("approve", again.id, "--override", "pushed")).toMatchObject({ code: 0 });
  // What somebody has let pass counts no more.
  expect(await company.run("apply", "staff")).toMatchObject({ outcome: "no change" });

  const undo = await company.command("undo", again.id);
  expect(undo.code, undo.stderr + undo.stdout).toBe(3);
  const [undoing] = (await json("runs")).runs;
  expect(undoing).toMatchObject({ state: "pending", counts: { users: { create: 78 } } });
  expect(await company.command("approve", undoing.id)).toMatchObject({ code: 0 });
  expect((await send("GET", "/Users?count=0")).body.totalResults).toBe(500);
  // They come back.
  const returned = await sendAll(leaving, ({ body }) => send("PATCH", `/Users/${body.id}`, active(true)));
  expect(new Set(returned.map(({ status }) => status))).toEqual(new Set([200]));
  const restored = await company.run("plan", "staff");
  expect(restored.notes.join("\n")).toContain("80 users reactivated by the provider that pushes to pushed");
});

test("the first cycle: nobody is deleted for not having been pushed yet", async () => {
  await company.configure((yaml) =>
    yaml
      .replace("settle: 1s,", "settle: 1s, firstCycle: 1h, brakes: false,")
      .replace("deletes: none", "deletes: none, shrink: none"),
  );
  const running = company.start();
  const send = provider(await urlOf(running));
  const people = await sendAll(["ada", "grace", "zoe"], (name) => send("POST", "/Users", user(name)));
  // An inbox knows that a group has no members, so that fails no read.
  expect((await send("POST", "/Groups", { displayName: "nobody yet" })).status).toBe(201);
  expect(await company.run("apply", "staff")).toMatchObject({ outcome: "applied" });
  const [ada, grace] = people.map(({ body }) => body.id as string);
  expect((await send("DELETE", `/Users/${ada}`)).status).toBe(204);
  await send("PATCH", `/Users/${grace}`, active(false));
  const cycle = await company.run("plan", "staff");
  // Who is there and was deactivated is not absent.
  expect(cycle.plan.changes).toMatchObject([{ action: "delete", name: "grace" }]);
  expect(cycle.notes.join("\n")).toMatch(/1 principal of the target left alone: pushed is in its first cycle until/);
  expect((await company.command("explain", "ada")).stdout).toContain("providers are still pushing everybody");
  await company.configure((yaml) => yaml.replace("firstCycle: 1h", "firstCycle: 1s"));
  const after = await company.run("plan", "staff");
  expect(after.plan.changes).toMatchObject([
    { action: "delete", name: "ada" },
    { action: "delete", name: "grace" },
  ]);
});

test("a push starts a run once it has settled; what was answered survives a daemon that is killed", async () => {
  await company.configure((yaml) => yaml.replace("to: analytics", 'to: analytics\n    schedule: "0 0 1 1 *"'));
  const killed = company.start();
  const send = provider(await urlOf(killed));
  const answered: string[] = [];
  const push = async (name: string): Promise<void> => {
    const { status } = await send("POST", "/Users", user(name));
    expect(status).toBe(201);
    answered.push(name);
    if (answered.length === 40) killed.process.kill("SIGKILL");
  };
  const names = Array.from({ length: 400 }, (_, index) => `user${index}`);
  const ends = await Promise.allSettled(names.map((name) => push(name)));
  await killed.ended;
  expect(ends.filter(({ status }) => status === "rejected").length).toBeGreaterThan(0);
  expect(answered.length).toBeGreaterThanOrEqual(40);

  const again = provider(await urlOf(company.start()));
  const { body } = await again("GET", "/Users?count=1000");
  const there = new Set((body.Resources as { userName: string }[]).map(({ userName }) => userName));
  expect(answered.filter((name) => !there.has(name))).toEqual([]);
  await expect
    .poll(async () => (await json("runs")).runs[0], { timeout: 20_000 })
    .toMatchObject({ state: "applied", counts: { users: { create: there.size } } });
  await again("POST", "/Users", user("late"));
  await expect
    .poll(async () => (await json("runs")).runs[0], { timeout: 20_000 })
    .toMatchObject({ by: { from: "push" }, state: "applied", counts: { users: { create: 1 } } });
});

test("a provider that is told to wait, and what it sent is not stored", async () => {
  await company.configure((yaml) => yaml.replace("settle: 1s,", "settle: 1s, refuse: true, brakes: { deletions: 2 },"));
  const send = provider(await urlOf(company.start()));
  const people = await sendAll(["ada", "grace", "zoe", "kim"], (name) => send("POST", "/Users", user(name)));
  const answers = [];
  for (const { body } of people) answers.push(await send("DELETE", `/Users/${body.id}`));
  expect(answers.map(({ status }) => status)).toEqual([204, 204, 503, 503]);
  expect(answers[2]?.headers.get("retry-after")).toBe("600");
  expect(answers[2]?.body.detail).toContain("deletions of users: 3 within the window of the brake, at most 2");
  expect((await send("GET", "/Users?count=0")).body.totalResults).toBe(2);
});

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { AuditEntry } from "#state/audit/entry.ts";
import { Visit } from "../support/cookies.ts";
import { startProvider } from "../support/oidc-provider.ts";
import type { OidcProvider } from "../support/oidc-provider.ts";
import { startPathProxy } from "../support/path-proxy.ts";
import type { PathProxy } from "../support/path-proxy.ts";
import { freePort } from "../support/process.ts";
import { rollcall } from "../support/rollcall/command.ts";
import { startRollcall, stopRollcall } from "../support/rollcall/rollcall.ts";
import type { Running } from "../support/rollcall/rollcall.ts";

/** Access tokens are short, so that the console asks the provider again soon. In seconds. */
const lifetime = 3;
const clientSecret = "the-client's-own-secret";
const password = "correct horse battery";
let folder: string;
let config: string;
let provider: OidcProvider;
let proxy: PathProxy;
let running: Running;
let url: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-oidc-"));
  config = join(folder, "rollcall.yaml");
  const port = await freePort();
  // Behind a proxy, below a path.
  proxy = await startPathProxy();
  ({ url } = proxy);
  proxy.lead(`http://127.0.0.1:${port}`);
  provider = await startProvider({ clientId: "rollcall", clientSecret, publicUrl: url }, lifetime);
  await writeFile(
    config,
    `control: { listen: "127.0.0.1:${port}" }
console:
  publicUrl: ${url}
  oidc:
    issuer: ${provider.issuer}
    name: Contoso
    clientId: rollcall
    clientSecret: "${clientSecret}"
    scopes: [openid, profile, groups]
    roles:
      viewer: staff
      approver: [identity, helpdesk]
      administrator: { claim: preferred_username, values: root@contoso }
`,
  );
  await writeFile(join(folder, "password"), password);
  const add = ["account", "add", "kim", "--role", "administrator", "--password-file", join(folder, "password")];
  await rollcall([...add, "--config", config]);
  running = startRollcall(["start", "--config", config]);
  await running.wrote("the daemon is listening on");
});
afterAll(async () => {
  await stopRollcall(running);
  await provider.stop();
  proxy.stop();
  await rm(folder, { recursive: true });
});

/** Signs in at the provider. @returns the page that the browser ends on */
async function signIn(visit: Visit, name: string, next = "/"): ReturnType<Visit["follow"]> {
  let page = await visit.follow(`${url}/sign-in/oidc?${new URLSearchParams({ next }).toString()}`);
  while (page.url.startsWith(provider.issuer)) {
    const answer = await visit.submit(page, { login: name, password: "any" });
    page = await visit.follow(new URL(answer.headers.get("location") ?? "", page.url).href);
  }
  return page;
}

const audit = async (): Promise<AuditEntry[]> =>
  (await readFile(join(folder, "data/daemon/audit.jsonl"), "utf8"))
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as AuditEntry);

test("somebody signs in with the provider, is where the link led, and has the role of their groups", async () => {
  provider.people.set("1", { name: "ada", groups: ["identity", "staff"] });
  const visit = new Visit();
  const asked = await visit.follow(`${url}/audit?event=account`);
  expect(asked.url).toBe(`${url}/sign-in?next=%2Faudit%3Fevent%3Daccount`);
  expect(asked.text).toContain("Sign in with Contoso");
  const page = await signIn(visit, "1", "/audit?event=account");
  expect(page.url).toBe(`${url}/audit?event=account`);
  expect(page.text).toMatch(/<bdi>ada<\/bdi>[^]*approver · /);
  expect((await visit.ask(`${url}/rules`)).status).toBe(403);
  expect((await audit()).at(-1)).toMatchObject({
    event: "signed in",
    by: { name: "ada", via: "oidc", id: `${provider.issuer} 1`, from: "127.0.0.1" },
  });
  // What the provider knows is useless to whoever reads the data folder, and in no page and no log.
  const stored = await readFile(join(folder, "data/daemon/access.json"), "utf8");
  expect(stored).not.toContain("eyJ");
  for (const text of [stored, page.text, running.output()]) expect(text).not.toContain(clientSecret);
});

test("a link leads nowhere else, and an answer of the provider counts once, in the browser that asked", async () => {
  provider.people.set("1", { name: "ada", groups: ["staff"] });
  const visit = new Visit();
  expect((await signIn(visit, "1", "//evil.example/x")).url).toBe(`${url}/`);
  // The provider knows them: it asks for nothing, and sends an answer.
  await visit.ask(`${url}/sign-in`);
  const back = await visit.follow(`${url}/sign-in/oidc`, (at) => at.includes("/callback?"));
  // Somebody else's browser: an answer that another began.
  const other = await new Visit().follow(back.url);
  expect([other.answer?.status, other.text]).toEqual([400, expect.stringContaining("This sign-in was not begun here")]);
  const tampered = await visit.ask(back.url.replace(/state=[^&]+/, "state=other"));
  expect([tampered.status, await tampered.text()]).toEqual([
    400,
    expect.stringContaining("Contoso refused the sign-in"),
  ]);
  // It is over, whatever comes then.
  expect((await visit.ask(back.url)).status).toBe(400);
});

test("somebody without a role is told which groups they have, and which they need", async () => {
  provider.people.set("2", { name: "<b>eve", groups: ["sales", "<i>x"] });
  const visit = new Visit();
  const { answer, text } = await signIn(visit, "2");
  expect(answer?.status).toBe(403);
  expect(text).toMatch(/&lt;b&gt;eve[^]*<bdi[^>]*>sales<\/bdi>[^]*&lt;i&gt;x[^]*identity, helpdesk[^]*root@contoso/);
  expect([...visit.cookies(url).keys()]).not.toContain("rollcall_session");
});

test("a name at the provider is not the local account of that name", async () => {
  provider.people.set("3", { name: "kim", groups: ["staff"] });
  const visit = new Visit();
  expect((await signIn(visit, "3")).text).toMatch(/<bdi>kim<\/bdi>[^]*viewer · /);
  expect((await visit.ask(`${url}/accounts`)).status).toBe(403);
});

test("a session asks the provider again: a role that is gone is gone, and so is a session that has ended there", async () => {
  provider.people.set("4", { name: "root@contoso", groups: [] });
  const visit = new Visit();
  await signIn(visit, "4");
  expect((await visit.ask(`${url}/accounts`)).status).toBe(200);
  provider.people.set("4", { name: "grace", groups: ["staff"] });
  await expect.poll(async () => (await visit.ask(`${url}/accounts`)).status, { timeout: 20_000 }).toBe(403);
  const page = await (await visit.ask(url)).text();
  expect(page).toContain("<bdi>grace</bdi>");
  const form = { name: "laptop", token: /name="token" value="([^"]+)"/.exec(page)?.[1] ?? "" };
  const created = await (await visit.ask(`${url}/account/tokens`, form)).text();
  const authorization = `Bearer ${/rollcall_[\w-]{43}/.exec(created)?.[0]}`;
  const withToken = async () => (await fetch(`${url}/control/v1/caller`, { headers: { authorization } })).status;
  expect(await withToken()).toBe(200);
  provider.people.delete("4");
  await expect.poll(async () => (await visit.ask(url)).status, { timeout: 20_000 }).toBe(303);
  provider.people.set("4", { name: "grace", groups: ["staff"] });
  expect((await visit.ask(url)).status).toBe(303);
  expect(await withToken()).toBe(401);
});

test("signing out here signs out there, and signing out there ends every session here", async () => {
  provider.people.set("5", { name: "olga", groups: ["helpdesk"] });
  const [visit, bystander] = [new Visit(), new Visit()];
  provider.people.set("6", { name: "pia", groups: ["staff"] });
  const page = await signIn(visit, "5");
  await signIn(bystander, "6");
  const signedOut = await visit.ask(`${url}/sign-out`, {
    token: /name="token" value="([^"]+)"/.exec(page.text)?.[1] ?? "",
  });
  const leave = (signedOut.headers.get("refresh") ?? "").replace("0; url=", "");
  expect(leave).toContain(`${provider.issuer}/session/end?`);
  expect((await visit.ask(url)).status).toBe(303);
  // The same person in another browser; the provider tells the console, whose browser was not there.
  const second = new Visit();
  const again = await signIn(second, "5");
  const leaving = await second.ask(`${url}/sign-out`, {
    token: /name="token" value="([^"]+)"/.exec(again.text)?.[1] ?? "",
  });
  const third = await signIn(second, "5");
  expect(third.url).toBe(`${url}/`);
  const end = await second.follow((leaving.headers.get("refresh") ?? "").replace("0; url=", ""));
  const done = await second.submit(end, { logout: "yes" });
  expect(done.headers.get("location")).toBe(`${url}/sign-in`);
  await expect.poll(() => provider.logouts.at(-1)).toEqual({ client: "rollcall" });
  expect((await second.ask(url)).status).toBe(303);
  expect((await bystander.ask(url)).status).toBe(200);
  // What was sent once does not count again, for sessions that begin later.
  const once = new URLSearchParams(provider.sent.at(-1)).get("logout_token") ?? "";
  for (const logout_token of [once, `${once.slice(0, -3)}AAA`, "", "x", "eyJhbGciOiJub25lIn0.eyJzdWIiOiI1In0."])
    expect((await new Visit().ask(`${url}/sign-in/oidc/logout`, { logout_token })).status).toBe(400);
});

test("without the provider, the sign-in page says so, and accounts with a password work", async () => {
  await provider.stop();
  await stopRollcall(running);
  running = startRollcall(["start", "--config", config]);
  await running.wrote("the daemon is listening on");
  const visit = new Visit();
  const { text } = await visit.follow(`${url}/accounts`);
  expect(text).toContain("Single sign-on is not available now: Contoso cannot be asked: nothing listens at");
  expect((await visit.ask(`${url}/sign-in/oidc`)).status).toBe(503);
  const wrong = await visit.ask(`${url}/sign-in`, { username: "kim", password: "wrong", next: "/accounts" });
  expect(wrong.status).toBe(401);
  const right = await visit.ask(`${url}/sign-in`, { username: "KIM", password, next: "/accounts" });
  expect([right.status, right.headers.get("location")]).toEqual([303, "/rollcall/accounts"]);
  expect(await (await visit.ask(`${url}/accounts`)).text()).toMatch(/local|password[^]*olga/);
  await provider.start();
  await expect
    .poll(async () => (await new Visit().ask(`${url}/sign-in`)).text(), { timeout: 20_000 })
    .toContain(">Sign in with Contoso<");
});

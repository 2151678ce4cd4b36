import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { administrator, call, login, post, sessionOf, startService } from "../../support/rollcall/service.ts";
import { testGolden } from "./golden.ts";
import { createUser, list, sync } from "./principals.ts";
import { serviceOfFile } from "./service-of-file.ts";

const service = serviceOfFile();

await testGolden("sessions", () => service);

async function loginA(url: string): Promise<string> {
  const body = JSON.stringify({ username: administrator.name, password: administrator.password });
  const answer = await call(`${url}/ts_dataservice/v1/public/session`, { method: "POST", body });
  return sessionOf(answer) ?? "";
}

function logout(url: string, session: string): Promise<{ status: number; text: string }> {
  return call(`${url}/tspublic/v1/session/logout`, { method: "POST", session });
}

describe("0.4", () => {
  test("a session opened by family A's login is valid in family B", async () => {
    expect((await list(service.url, await loginA(service.url))).status).toBe(200);
  });

  test("the cookie is found among others", async () => {
    const headers = { cookie: `a=b; JSESSIONID=${service.session}; JSESSIONID2=x` };
    expect((await call(`${service.url}/tspublic/v1/user/list`, { headers })).status).toBe(200);
  });

  test("every login opens a session of its own", async () => {
    const [first, second] = [await login(service.url), await login(service.url)];
    expect(first).not.toBe(second);
    await logout(service.url, first);
    expect((await list(service.url, second)).status).toBe(200);
  });
});

describe("4.2 logout", () => {
  test("ends the session and answers 204 without a body", async () => {
    const own = await login(service.url);
    expect(await logout(service.url, own)).toMatchObject({ status: 204, text: "" });
    expect((await list(service.url, own)).status).toBe(401);
    expect((await logout(service.url, own)).status).toBe(401);
  });

  test("needs no body and ignores one", async () => {
    const own = await login(service.url);
    const answer = await post(`${service.url}/tspublic/v1/session/logout`, { a: "b" }, { session: own });
    expect(answer.status).toBe(204);
  });
});

describe("0.5", () => {
  test("a session ends when it is idle, a remembered one does not", async () => {
    await using hasty = await startService({ service: { sessions: { idle: "1s", remembered: "1h" } } });
    const usual = await login(hasty.url);
    const { name: username, password } = administrator;
    const form = { username, password, rememberme: "TRUE" };
    const answer = await post(`${hasty.url}/tspublic/v1/session/login`, form);
    expect(answer.headers["set-cookie"]).toContain("Max-Age=3600");
    await delay(1500);
    expect((await list(hasty.url, usual)).status).toBe(401);
    expect((await list(hasty.url, sessionOf(answer) ?? "")).status).toBe(200);
  });

  test("a remembered session ends after its time, used or not", async () => {
    await using hasty = await startService({ service: { sessions: { idle: "1h", remembered: "1s" } } });
    const { name: username, password } = administrator;
    const answer = await post(`${hasty.url}/tspublic/v1/session/login`, { username, password, rememberme: "true" });
    await expect.poll(async () => (await list(hasty.url, sessionOf(answer) ?? "")).status).toBe(401);
  });

  test("sessions survive a restart and a crash; the session of the machine itself does not", async () => {
    const data = await mkdtemp(join(tmpdir(), "rollcall-data-"));
    const first = await startService({ data });
    const own = await login(first.url);
    const ended = await login(first.url);
    await logout(first.url, ended);
    const { session: local } = JSON.parse(await readFile(join(data, "service.json"), "utf8")) as { session: string };
    expect((await list(first.url, local)).status).toBe(200);
    await first.stop();
    const second = await startService({ data });
    expect((await list(second.url, own)).status).toBe(200);
    expect((await list(second.url, ended)).status).toBe(401);
    expect((await list(second.url, local)).status).toBe(401);
    const late = await login(second.url);
    await second.kill();
    const third = await startService({ data });
    expect((await list(third.url, own)).status).toBe(200);
    expect((await list(third.url, late)).status).toBe(200);
    await third.stop();
    await rm(data, { recursive: true });
  });

  test("no token is in the data folder, which only its owner can read", async () => {
    const own = await login(service.url);
    const folder = join(service.data, "service");
    expect((await stat(folder)).mode & 0o077).toBe(0);
    const stored = Buffer.concat([
      await readFile(join(folder, "service.duckdb")),
      await readFile(join(folder, "service.duckdb.wal")).catch(() => Buffer.alloc(0)),
    ]);
    expect(stored.includes(own)).toBe(false);
  });

  test("the sessions of a deleted user end at once, and stay ended when the user is created again", async () => {
    const carl = { name: "carl", password: "carl's password" };
    await createUser(service.url, service.session, carl);
    const own = await login(service.url, carl);
    expect((await list(service.url, own)).status).toBe(403);
    await sync(service.url, service.session, []);
    expect((await list(service.url, own)).status).toBe(401);
    const again = await login(service.url, carl).catch(String);
    expect(again).toContain("401");
    await createUser(service.url, service.session, carl);
    expect((await list(service.url, own)).status).toBe(401);
    expect((await list(service.url, await login(service.url, carl))).status).toBe(403);
    await sync(service.url, service.session, []);
  });
});

test("the session of this machine is the administrator's, and no logout ends it", async () => {
  const presence = join(service.data, "service.json");
  expect((await stat(presence)).mode & 0o077).toBe(0);
  const { session: local } = JSON.parse(await readFile(presence, "utf8")) as { session: string };
  expect((await logout(service.url, local)).status).toBe(204);
  expect((await list(service.url, local)).status).toBe(200);
});

test("0.7 without a password in the configuration one is generated and printed once", async () => {
  const data = await mkdtemp(join(tmpdir(), "rollcall-data-"));
  const options = { data, service: { administrator: { name: "root" } } };
  const first = await startService(options);
  const { stdout, stderr } = await first.stop();
  const password = /password of root is (\S+)/.exec(stdout + stderr)?.[1] ?? "";
  const second = await startService(options);
  expect((await list(second.url, await login(second.url, { name: "root", password }))).status).toBe(200);
  const ended = await second.stop();
  expect(ended.stdout + ended.stderr).not.toContain(password);
  // What the configuration says rules at every start.
  const third = await startService({ data, service: { administrator: { name: "root", password: "chosen" } } });
  expect(await login(third.url, { name: "root", password }).catch(String)).toContain("401");
  expect((await list(third.url, await login(third.url, { name: "root", password: "chosen" }))).status).toBe(200);
  await third.stop();
  await rm(data, { recursive: true });
});

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Control } from "#control/control.ts";
import { addControlRoutes } from "#control/routes.ts";
import { createToken } from "#control/access.ts";
import { startService } from "#service/service.ts";
import type { Service } from "#service/service.ts";
import { accountsIn } from "../../support/accounts.ts";
import { openManualCoordinator } from "../../support/coordinator.ts";
import type { ManualCoordinator } from "../../support/coordinator.ts";
import { pendingRun } from "../../support/runs.ts";
import { administrator, call, login } from "../../support/rollcall/service.ts";
import type { CallOptions } from "../../support/rollcall/service.ts";
import { sync, user } from "../interface/principals.ts";

const pending = "20261121-100000-000001";
const token = createToken();
const lines: string[] = [];
let folder: string;
let coordinator: ManualCoordinator;
let service: Service;
let admin: string;
let ada: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-control-"));
  coordinator = openManualCoordinator([pendingRun(pending)]);
  const log = pino({ level: "trace" }, { write: (line: string) => lines.push(line) });
  const control = new Control({
    token,
    ...accountsIn(folder),
    version: "1.2.3",
    startedAt: new Date().toISOString(),
    log,
  });
  control.attach({
    coordinator,
    configuration: () => ({ file: "rollcall.yaml", digest: "d1" }),
    audit: () => Promise.reject(new Error("nobody asks")),
    changes: async function* changes() {
      // There are none.
    },
    reload: async () => undefined,
    hold: { renew: () => true, release: () => undefined },
  });
  service = await startService({
    data: join(folder, "data"),
    memory: 256 * 1024 * 1024,
    engine: "duckdb",
    log,
    listen: { host: "127.0.0.1", port: 0 },
    administrator,
    allowPlainHttp: false,
    prefixes: ["", "/callosum/v1"],
    trustedProxies: [],
    sessions: { idle: 3_600_000, remembered: 3_600_000 },
    logins: { attempts: 10, window: 60_000, lockout: 60_000 },
    privileges: { administration: ["Administrator"], dataManagement: ["DataManager"] },
    loads: {
      lostAfter: 30_000,
      statusHold: 0,
      expireAfter: 3_600_000,
      maxChunk: 2 ** 20,
      maxCycle: 2 ** 20,
      minFreeDisk: 0,
    },
    queries: { timeout: 60_000, maxRows: 100 },
    routes: (app, host) => addControlRoutes(app, host, control),
  });
  admin = await login(service.url);
  await sync(service.url, admin, [user("ada")]);
  ada = await login(service.url, { name: "ada", password: "ada's password" });
});
afterAll(async () => {
  await service.stop();
  await rm(folder, { recursive: true });
});

const json = { "content-type": "application/json" };

async function ask(
  path: string,
  options: CallOptions = {},
): Promise<{ status: number; body: Record<string, unknown> }> {
  const { status, text } = await call(`${service.url}/control/v1${path}`, options);
  return { status, body: JSON.parse(text) as Record<string, unknown> };
}

function begin(
  session: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ status: number; body: Record<string, unknown> }> {
  return ask("/syncs/staff/run", { method: "POST", session, headers: { ...json, ...headers }, body: "{}" });
}

test("0.6 an administrator's session opens it, no other one does, and none does not", async () => {
  expect((await ask("/status", { session: admin })).body).toMatchObject({ version: "1.2.3" });
  expect((await ask("/status", { session: ada })).status).toBe(403);
  expect((await ask("/status", { session: "nothing" })).status).toBe(401);
  const { status, body } = await ask("/status");
  expect([status, body]).toEqual([401, { error: { message: expect.any(String), problems: [], advice: "fix" } }]);
  expect((await begin(ada)).status).toBe(403);
  expect((await ask("/nothing", { session: ada })).status).toBe(403);
});

test("who does something is noted: the user, and from where", async () => {
  const { status, body } = await begin(admin);
  expect([status, body["by"]]).toEqual([202, { name: administrator.name, from: "127.0.0.1", via: "service" }]);
  const byToken = await ask("/syncs/staff/run", {
    method: "POST",
    headers: { ...json, authorization: `Bearer ${token}`, "x-rollcall-account": "kim" },
  });
  expect(byToken.body["by"]).toEqual({ name: "kim", from: "command line", via: "command line" });
});

test("a wrong token is refused, whatever session comes with it", async () => {
  expect((await ask("/status", { session: admin, headers: { authorization: "Bearer nothing" } })).status).toBe(401);
});

test("what a page of another site makes an administrator's browser send does nothing", async () => {
  const before = coordinator.calls.length;
  const own = new URL(service.url).host;
  for (const headers of [
    { "sec-fetch-site": "cross-site" },
    { "sec-fetch-site": "same-site" },
    { "sec-fetch-site": "cross-site", origin: service.url },
    { origin: "https://evil.example" },
    { origin: "null" },
    { origin: `https://${own}.evil.example` },
    { origin: "http://127.0.0.1:1" },
  ] as Record<string, string>[]) {
    const { status, body } = await begin(admin, headers);
    expect([status, body["error"]], JSON.stringify(headers)).toEqual([
      403,
      {
        message: expect.stringContaining("the request comes from a page of another site"),
        problems: [],
        advice: "fix",
      },
    ]);
  }
  // What a form can send, and a script without asking first.
  for (const type of ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"]) {
    const path = `/runs/${pending}/reject`;
    const answer = await ask(path, { method: "POST", session: admin, headers: { "content-type": type }, body: "{}" });
    expect(answer.status, type).toBe(415);
  }
  expect((await ask("/reload", { method: "POST", session: admin })).status).toBe(415);
  // Nobody answers a preflight with leave.
  const preflight = await call(`${service.url}/control/v1/reload`, {
    method: "OPTIONS",
    headers: { origin: "https://evil.example", "access-control-request-method": "POST" },
  });
  expect(preflight.status).toBe(401);
  expect(Object.keys(preflight.headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
  expect(coordinator.calls.length).toBe(before);
});

test("a page of this server, and a client that is no browser, are served", async () => {
  for (const headers of [
    { "sec-fetch-site": "same-origin", origin: service.url },
    { "sec-fetch-site": "none" },
    { origin: service.url },
    {},
  ] as Record<string, string>[])
    expect((await begin(admin, headers)).status, JSON.stringify(headers)).toBe(202);
});

test("the families are as they were beside it, and the log has no token", async () => {
  const ping = await call(`${service.url}/ts_dataservice/v1/public/ping`);
  expect([ping.status, ping.text]).toEqual([200, "Ping Received."]);
  const unknown = await call(`${service.url}/nothing`);
  expect([unknown.status, unknown.text]).toEqual([404, '{"error":"There is no GET /nothing here."}']);
  const list = await call(`${service.url}/callosum/v1/tspublic/v1/user/list`, { session: admin });
  expect([list.status, list.headers["x-service-incident-id"]]).toEqual([200, expect.any(String)]);
  expect((await ask("/status", { session: admin })).body).toBeDefined();
  const log = lines.join("");
  expect(log).toContain("/control/v1/status");
  expect(log).not.toContain(token);
  expect(log).not.toContain(admin);
});

test("0.9 when the service stops, the streams end and it is gone in time", async () => {
  const answer = await fetch(`${service.url}/control/v1/events`, { headers: { authorization: `Bearer ${token}` } });
  expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
  const text = answer.text();
  await service.stop();
  expect(await text).toMatch(/^id: \S+\nevent: listening\ndata: {}\n\n$/);
});

import { networkInterfaces } from "node:os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import program from "../../../package.json" with { type: "json" };
import { call, login, post, startService } from "../../support/rollcall/service.ts";
import { parseExposition } from "../../support/exposition.ts";
import type { Exposition } from "../../support/exposition.ts";
import { into, startLoadService } from "./loading.ts";
import type { LoadService } from "./loading.ts";

let service: LoadService;

beforeAll(async () => {
  service = await startLoadService();
});

afterAll(() => service.end());

async function scrape(url = service.url): Promise<Exposition> {
  const answer = await call(`${url}/metrics`);
  expect(answer.status, answer.text).toBe(200);
  return parseExposition(answer.text);
}

/** An address of this machine that others reach it by; undefined where it has none. */
const outside = Object.values(networkInterfaces())
  .flatMap((addresses) => addresses ?? [])
  .find(({ family, internal }) => family === "IPv4" && !internal)?.address;

test("what is served is to the letter of the text format, and says what is running", async () => {
  const answer = await call(`${service.url}/metrics`);
  expect(answer.headers["content-type"]).toBe("text/plain; version=0.0.4; charset=utf-8");
  const { value } = parseExposition(answer.text);
  expect(value("rollcall_build_info", { version: program.version })).toBe(1);
  expect(value("process_resident_memory_bytes")).toBeGreaterThan(1e6);
  expect(value("nodejs_eventloop_active_seconds_total")).toBeGreaterThan(0);
});

test("loads are counted with their rows, and a name of no database is no label", async () => {
  const before = await scrape();
  await service.load(into("t", { load_options: { max_ignored_rows: 5 } }), "1,a\n2,b\nx,c\n");
  await service.load(into("t"), "x,c\n");
  await service.load(JSON.stringify({ target: { database: "nowhere", table: "t" } })).catch(() => undefined);
  await service.cancel(await service.start());
  const after = await scrape();
  const more = (name: string, labels?: Record<string, string>): number =>
    (after.value(name, labels) ?? 0) - (before.value(name, labels) ?? 0);
  expect(more("rollcall_load_rows_total", { database: "d", outcome: "written" })).toBe(2);
  expect(more("rollcall_load_rows_total", { database: "d", outcome: "ignored" })).toBe(2);
  expect(more("rollcall_loads_total", { outcome: "loaded" })).toBe(1);
  expect(more("rollcall_loads_total", { outcome: "failed" })).toBe(2);
  expect(more("rollcall_loads_total", { outcome: "cancelled" })).toBe(1);
  expect(more("rollcall_load_bytes_total")).toBe(16);
  expect(after.value("rollcall_load_cycles")).toBe(0);
  expect(after.samples.some(({ labels }) => labels["database"] === "nowhere")).toBe(false);
});

test("sessions are counted as they are open", async () => {
  const before = (await scrape()).value("rollcall_sessions") ?? 0;
  const session = await login(service.url);
  expect((await scrape()).value("rollcall_sessions")).toBe(before + 1);
  await post(`${service.url}/tspublic/v1/session/logout`, {}, { session });
  expect((await scrape()).value("rollcall_sessions")).toBe(before);
});

test("nothing that a client sends becomes a label, however odd it is", async () => {
  const paths = [
    ...Array.from({ length: 200 }, (_, index) => `/ts_dataservice/v1/loads/${index}-${"x".repeat(index)}`),
    ...Array.from({ length: 200 }, (_, index) => `/nowhere/${index}`),
    "/metrics/%0a%22}%201",
    "/%ff%fe",
    "/tspublic/v1/user/list?x=%22%0a",
    "//evil.example/metrics",
  ];
  for (const path of paths) await call(`${service.url}${path}`);
  for (const method of ["PUT", "DELETE", "PATCH", "OPTIONS"] as const) await call(`${service.url}/x`, { method });
  const { samples } = await scrape();
  const served = samples.filter(({ name }) => name === "rollcall_http_requests_total");
  const count = (route: string, status: string): number | undefined =>
    served.find(({ labels }) => labels["route"] === route && labels["status"] === status && labels["method"] === "GET")
      ?.value;
  expect(count("none", "404")).toBe(202);
  expect(count("none", "400")).toBe(1);
  expect(count("/ts_dataservice/v1/loads/:cycle_id", "401")).toBe(200);
  expect(new Set(served.map(({ labels }) => labels["route"])).size).toBeLessThan(15);
  expect(samples.length).toBeLessThan(600);
});

describe("who may read them", () => {
  const proxied = { "x-forwarded-for": "192.0.2.7" };

  test("whoever is on this machine, but not through a proxy nor by another name", async () => {
    expect((await call(`${service.url}/metrics`)).status).toBe(200);
    const { port } = new URL(service.url);
    expect((await call(`${service.url}/metrics`, { headers: { host: `localhost:${port}` } })).status).toBe(200);
    for (const headers of [proxied, { via: "1.1 proxy" }, { host: "rebound.example" }] as Record<string, string>[]) {
      const answer = await call(`${service.url}/metrics`, { headers });
      expect([answer.status, answer.headers["www-authenticate"]]).toEqual([401, "Bearer"]);
      expect(answer.text).not.toContain("rollcall_");
    }
  });

  test("administrators, and nobody else with a session", async () => {
    const url = `${service.url}/metrics`;
    expect((await call(url, { headers: proxied, session: service.session })).status).toBe(200);
    const principals = JSON.stringify([
      { name: "ada", displayName: "Ada", principalTypeEnum: "LOCAL_USER", password: "lovelace" },
    ]);
    await post(
      `${service.url}/tspublic/v1/user/sync`,
      { principals, applyChanges: "true", remoteDeleted: "false" },
      { session: service.session },
    );
    const session = await login(service.url, { name: "ada", password: "lovelace" });
    expect((await call(url, { headers: proxied, session })).status).toBe(403);
    expect((await call(url, { headers: proxied, session: "none" })).status).toBe(401);
  });

  test("with a token: who has it, also on this machine", async () => {
    const token = "prometheus-token-0123456789";
    await using closed = await startService({ beside: { metrics: { token } } });
    const url = `${closed.url}/metrics`;
    const bearer = (value: string) => ({ headers: { authorization: value } });
    expect((await call(url)).status).toBe(401);
    expect((await call(url, bearer(`Bearer ${token}`))).status).toBe(200);
    expect((await call(url, bearer(`bearer  ${token} `))).status).toBe(200);
    for (const wrong of [`Bearer ${token}x`, "Bearer", token, `Basic ${token}`, "Bearer \t"])
      expect((await call(url, bearer(wrong))).status, wrong).toBe(401);
    expect((await call(url, { session: await login(closed.url) })).status).toBe(200);
  });

  test.runIf(outside)("open: everybody; otherwise nobody from another address", async () => {
    const service = { listen: "0.0.0.0:0", allowPlainHttp: true };
    await using closed = await startService({ service });
    const at = (url: string): string => `http://${outside}:${new URL(url).port}/metrics`;
    expect((await call(at(closed.url))).status).toBe(401);
    await using open = await startService({ service, beside: { metrics: { open: true } } });
    expect((await call(at(open.url))).status).toBe(200);
  });
});

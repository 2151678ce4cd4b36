import { stat } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { InputError } from "#errors.ts";
import { startControl } from "../../support/control.ts";
import type { ControlServer } from "../../support/control.ts";
import { openManualCoordinator } from "../../support/coordinator.ts";
import type { ManualCoordinator } from "../../support/coordinator.ts";
import { digest, pendingRun } from "../../support/runs.ts";

const pending = "20261121-100000-000001";
const applied = "20261121-090000-000002";
const failed = "20261121-080000-000003";

let coordinator: ManualCoordinator;
let server: ControlServer;
let reload: () => Promise<void> = async () => undefined;

beforeAll(async () => {
  coordinator = openManualCoordinator([
    pendingRun(pending),
    pendingRun(applied, { state: "applied" }),
    pendingRun(failed, { state: "failed", sync: "guests" }),
  ]);
  server = await startControl(coordinator, { reload: () => reload() });
});
afterAll(() => server.stop());

async function errorOf(answer: Response): Promise<{ status: number; message: string; problems: readonly string[] }> {
  expect(answer.headers.get("content-type")).toBe("application/json; charset=utf-8");
  const { error } = (await answer.json()) as { error: { message: string; problems: string[]; advice: string } };
  expect(["fix", "retry", "stop"]).toContain(error.advice);
  return { status: answer.status, message: error.message, problems: error.problems };
}

describe("who may ask", () => {
  test.each([
    ["without anything", {}],
    ["with a wrong token", { authorization: `Bearer ${"x".repeat(43)}` }],
    ["with an empty token", { authorization: "Bearer " }],
    ["with another scheme", { authorization: "Basic YWRtaW46YWRtaW4=" }],
    ["with a cookie where there are no sessions", { cookie: "JSESSIONID=abc" }],
  ])("nobody %s: 401, before the body is looked at, and for what is not there too", async (_, headers) => {
    for (const path of ["/status", "/runs", "/events", `/runs/${pending}`, "/nothing"]) {
      const answer = await fetch(`${server.url}/control/v1${path}`, { headers });
      expect((await errorOf(answer)).status, path).toBe(401);
      expect(answer.headers.get("www-authenticate")).toBe("Bearer");
    }
    const body = "{".repeat(1000);
    const answer = await fetch(`${server.url}/control/v1/reload`, { method: "POST", headers, body });
    expect(answer.status).toBe(401);
  });

  test("the file with the token is its owner's alone", async () => {
    const { mode } = await stat(join(server.data, "daemon", "control.json"));
    expect((mode & 0o777).toString(8)).toBe("600");
  });

  test("the account that a command names is noted, whatever is in it; a forged one does no harm", async () => {
    for (const [said, name] of [
      ["zo%C3%AB%20k", "zoë k"],
      ["%", "command line"],
      ["", "command line"],
      ["a%0Ab", "command line"],
      ["x".repeat(300), "command line"],
    ] as const) {
      const headers: Record<string, string> = said === "" ? {} : { "x-rollcall-account": said };
      const run = (await (await server.post("/control/v1/syncs/staff/run", {}, headers)).json()) as { by: unknown };
      expect(run.by).toEqual({ name, from: "command line", via: "command line" });
    }
  });
});

describe("what is read", () => {
  test("the status", async () => {
    const answer = await server.request("/control/v1/status");
    expect(answer.status).toBe(200);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(await answer.json()).toEqual({
      pid: process.pid,
      version: "1.2.3",
      startedAt: expect.stringMatching(/^20.*Z$/),
      configuration: { file: "/etc/rollcall/rollcall.yaml", digest: "d1" },
      syncs: coordinator.syncs(),
    });
  });

  test("the syncs, and a run", async () => {
    expect(await (await server.request("/control/v1/syncs")).json()).toEqual({ syncs: coordinator.syncs() });
    expect(await (await server.request(`/control/v1/runs/${pending}`)).json()).toEqual(pendingRun(pending));
  });

  test.each([
    ["", [pending, applied, failed], false],
    ["?limit=2", [pending, applied], true],
    [`?before=${pending}`, [applied, failed], false],
    ["?sync=guests", [failed], false],
    ["?state=applied&sync=staff&limit=1000", [applied], false],
    ["?state=no%20change", [], false],
  ])("the runs, the newest first%s", async (query, ids, more) => {
    const own = openManualCoordinator(
      [...coordinator.runs()].filter(({ id }) => [pending, applied, failed].includes(id)),
    );
    const other = await startControl(own);
    const found = (await (await other.request(`/control/v1/runs${query}`)).json()) as { runs: { id: string }[] };
    await other.stop();
    expect(found).toEqual({ runs: found.runs, more });
    expect(found.runs.map(({ id }) => id)).toEqual(ids);
  });

  test.each([
    ["?limit=0", "limit: expected a whole number from 1 to 1000"],
    ["?limit=1001", "limit: expected a whole number from 1 to 1000"],
    ["?limit=1&limit=2", "limit: expected one value"],
    ["?state=gone", "state: expected one of running, pending, held"],
    ["?satte=held", "satte: unknown"],
  ])("a wrong query is 400 and names what is wrong: %s", async (query, problem) => {
    const { status, problems } = await errorOf(await server.request(`/control/v1/runs${query}`));
    expect(status).toBe(400);
    expect(problems).toEqual([expect.stringContaining(problem)]);
  });

  test("what is not there is 404", async () => {
    for (const path of ["/runs/nothing", "/nothing", "", "/runs/%2e%2e%2f"])
      expect((await errorOf(await server.request(`/control/v1${path}`))).status, path).toBe(404);
    expect(
      (
        await errorOf(
          await server.request("/control/v1/status", {
            method: "DELETE",
            headers: { "content-type": "application/json" },
          }),
        )
      ).status,
    ).toBe(404);
    expect((await errorOf(await server.post("/control/v1/syncs/nobody/run"))).message).toBe("no sync is called nobody");
    for (const action of ["reject", "undo"])
      expect((await errorOf(await server.post(`/control/v1/runs/nothing/${action}`))).status).toBe(404);
  });

  test("the process lives and serves, for whoever asks", async () => {
    expect(await (await fetch(`${server.url}/healthz`)).json()).toEqual({ status: "alive" });
    expect(await (await fetch(`${server.url}/readyz`)).json()).toEqual({ status: "ready" });
    expect((await fetch(`${server.url}/tspublic/v1/user/list`)).status).toBe(404);
  });
});

describe("what changes something", () => {
  test("a run is begun: 202 with the run as it began, and its end where it is asked for", async () => {
    const answer = await server.post("/control/v1/syncs/staff/run", { overrides: ["deletes"], digest });
    expect(answer.status).toBe(202);
    const run = (await answer.json()) as { id: string; state: string };
    expect(run.state).toBe("running");
    const before = await server.request(`/control/v1/runs/${run.id}/end`);
    expect(before.status).toBe(202);
    const last = coordinator.end(run.id, { state: "applied" });
    const after = await server.request(`/control/v1/runs/${run.id}/end`);
    expect([after.status, await after.json()]).toEqual([200, last]);
    expect((await server.request(`/control/v1/runs/${pending}/end`)).status).toBe(200);
  });

  test.each([
    ["approve", {}, "digest: missing; expected the 64 hexadecimal digits of a plan"],
    ["approve", { digest: "abc" }, "digest: expected the 64 hexadecimal digits of a plan"],
    ["approve", { digest, overrides: ["everything"] }, "overrides[0]: expected one of deletes, suspends, updates"],
    ["approve", { digest, only: "create" }, 'only: expected a list like ["create"]'],
    ["approve", { digest, only: ["move"] }, "only[0]: expected create, update, suspend, reactivate or delete"],
    ["approve", { digest, except: [{ kind: "user", name: "" }] }, "except[0].name: expected a name"],
    ["approve", { digest, except: [{ kind: "robot", name: "x" }] }, "except[0].kind: expected user or group"],
    ["approve", { digest, except: [{ kind: "user", name: "x", id: 1 }] }, "except[0].id: unknown"],
    ["approve", { digest, force: true }, "force: unknown"],
    ["approve", [digest], "expected a JSON object"],
    ["approve", "null", "digest: missing"],
    ["approve", '"text"', "expected a JSON object"],
    ["reject", { reason: 7 }, "reason: expected a text"],
    ["undo", { really: true }, "really: unknown"],
  ])("a wrong body is 400 and names the field: %s %j", async (action, body, problem) => {
    const before = coordinator.calls.length;
    const { status, problems } = await errorOf(await server.post(`/control/v1/runs/${pending}/${action}`, body));
    expect(status).toBe(400);
    expect(problems).toEqual([expect.stringContaining(problem)]);
    expect(coordinator.calls.length).toBe(before);
  });

  test("a reason has its bounds", async () => {
    const answer = await server.post(`/control/v1/runs/${pending}/reject`, { reason: "x".repeat(2001) });
    expect((await errorOf(answer)).problems).toEqual(["reason: expected a text of at most 2000 characters"]);
  });

  test("what is not JSON is 400, what is too large 413, what says it is something else 415", async () => {
    const path = `/control/v1/runs/${pending}/reject`;
    for (const body of ["{", "reason=x", "\u0000"])
      expect((await errorOf(await server.post(path, body))).message).toMatch(/^the body is not JSON: /);
    expect((await errorOf(await server.post(path, { reason: "x".repeat(70_000) }))).status).toBe(413);
    for (const type of [
      "application/x-www-form-urlencoded",
      "text/plain",
      "multipart/form-data; boundary=x",
      "application/jsonp",
      "x",
    ])
      expect((await errorOf(await server.post(path, "{}", { "content-type": type }))).status, type).toBe(415);
    const without = await server.request(path, { method: "POST" });
    expect((await errorOf(without)).status).toBe(415);
  });

  test("what cannot be done as things stand is 409, with every problem", async () => {
    const wrong = await errorOf(await server.post(`/control/v1/runs/${pending}/approve`, { digest: "f".repeat(64) }));
    expect(wrong).toEqual({
      status: 409,
      message: `run ${pending} has another plan`,
      problems: [`digest: expected ${digest}`],
    });
    expect((await errorOf(await server.post(`/control/v1/runs/${applied}/approve`, { digest }))).status).toBe(409);
    expect((await errorOf(await server.post(`/control/v1/runs/${failed}/undo`))).status).toBe(409);
  });

  test("the configuration is read again, or refused as a whole", async () => {
    const answer = await server.post("/control/v1/reload");
    expect(await answer.json()).toEqual({ configuration: { file: "/etc/rollcall/rollcall.yaml", digest: "d1" } });
    reload = () =>
      Promise.reject(new InputError("rollcall.yaml has a problem", { problems: ["rollcall.yaml:1:1: x"] }));
    const refused = await errorOf(await server.post("/control/v1/reload"));
    expect(refused).toEqual({
      status: 409,
      message: "rollcall.yaml has a problem",
      problems: ["rollcall.yaml:1:1: x"],
    });
  });

  test("what nobody foresaw is 500 and says nothing of what it was; the log does", async () => {
    const answer = await server.post("/control/v1/syncs/broken/run");
    const { status, message } = await errorOf(answer);
    expect([status, message]).toEqual([500, "something unexpected happened; the daemon's log says what"]);
    expect(server.logged()).toContain("hunter2");
  });

  test("a daemon that stops begins nothing, and still tells how it stands", async () => {
    const stopping = await startControl(openManualCoordinator([pendingRun(pending)]));
    stopping.beginStopping();
    for (const path of ["/syncs/staff/run", `/runs/${pending}/reject`]) {
      const { status, message } = await errorOf(await stopping.post(`/control/v1${path}`));
      expect([status, message]).toEqual([503, "the daemon is stopping"]);
    }
    expect((await stopping.request(`/control/v1/runs/${pending}`)).status).toBe(200);
    expect((await fetch(`${stopping.url}/readyz`)).status).toBe(503);
    await stopping.stop();
  });
});

test("a daemon alone has the service's connections: a client may close its side, and other sites change nothing", async () => {
  const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
  socket.end("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  expect(await text(socket)).toContain('{"status":"alive"}');
  const foreign = await server.request("/control/v1/reload", {
    method: "POST",
    headers: { "sec-fetch-site": "cross-site" },
  });
  expect((await errorOf(foreign)).status).toBe(403);
});

test("a daemon that is still starting says so", async () => {
  const starting = await startControl(undefined);
  for (const path of ["/status", "/runs", "/runs/x/end"]) {
    const { status, message } = await errorOf(await starting.request(`/control/v1${path}`));
    expect([status, message]).toEqual([503, "the daemon is starting"]);
  }
  expect((await starting.post("/control/v1/syncs/staff/run")).status).toBe(503);
  await starting.stop();
});

test("the token is in no answer and in no log", async () => {
  for (const path of ["/status", "/runs", "/syncs"])
    expect(await (await server.request(`/control/v1${path}`)).text()).not.toContain(server.token);
  await fetch(`${server.url}/control/v1/runs?token=${server.token}`);
  expect(server.logged()).not.toContain(server.token);
});

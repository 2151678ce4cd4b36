import { once } from "node:events";
import { stat } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findDaemon } from "#control/client.ts";
import type { FoundDaemon } from "#control/client.ts";
import type { RunRecord } from "#state/record.ts";
import { companyOfEachTest } from "../../support/rollcall/company.ts";
import { stopRollcall } from "../../support/rollcall/rollcall.ts";
import { startService } from "../../support/rollcall/service.ts";

const company = companyOfEachTest((yaml) => yaml.replace("to: analytics", "to: analytics\n    approval: required"));
const { start } = company;

async function found(): Promise<FoundDaemon> {
  const data = join(company.folder, "data");
  let daemon: FoundDaemon | undefined;
  await expect
    .poll(async () => (daemon = await findDaemon(data, "kim", new AbortController().signal).catch(() => undefined)))
    .toBeDefined();
  return daemon!;
}

async function request(path: string): Promise<unknown> {
  const { connection } = await found();
  const { value } = await connection.request({ method: "GET", path }, new AbortController().signal);
  return value;
}

async function pending(): Promise<RunRecord> {
  let runs: readonly RunRecord[] = [];
  await expect
    .poll(async () => {
      ({ runs } = (await request("/runs?state=pending")) as { runs: RunRecord[] });
      return runs.length;
    })
    .toBe(1);
  return runs[0]!;
}

test("commands ask the daemon where one is alive: what they decide is done there, and shown here", async () => {
  const daemon = start("--verbose");
  const run = await pending();
  const changes = (await request(`/runs/${run.id}/changes?kind=user`)) as { name: string }[];
  expect(changes.map(({ name }) => name)).toEqual(["ada", "grace", "zoe"]);
  const approved = await company.command("approve", run.id);
  expect([approved.code, approved.stdout]).toEqual([
    0,
    expect.stringMatching(/Created users \(3\)[^]*applied and verified/),
  ]);
  expect(await request(`/runs/${run.id}`)).toMatchObject({
    state: "applied",
    decisions: [{ decision: "approved", by: { from: "command line" } }],
  });
  const again = await company.command("approve", run.id);
  expect([again.code, again.stdout + again.stderr]).toEqual([1, expect.stringContaining("it is applied")]);
  expect((await company.command("apply")).code).toBe(0);
  const { stdout } = await stopRollcall(daemon);
  expect(stdout).toContain("/control/v1/status");
  // Without it, they work by themselves.
  expect((await company.command("apply")).code).toBe(0);
  await expect(stat(join(company.folder, "data/daemon/control.json"))).rejects.toThrow("ENOENT");
});

test("a daemon that goes by another configuration is told of, with what to do; then the file is read again", async () => {
  const daemon = start();
  await pending();
  await company.configure((yaml) => yaml.replace("displayName: entry.name", "displayName: upper(entry.name)"));
  const before = await company.command("apply");
  expect(before.stderr).toContain(
    `the daemon (process ${daemon.process.pid}) runs with another configuration than ${company.config} has now; `,
  );
  expect(before.stdout).not.toContain("ADA LOVELACE");
  const { connection } = await found();
  const { signal } = new AbortController();
  await connection.request({ method: "POST", path: "/reload" }, signal);
  const after = await company.command("apply");
  expect(after.stderr).not.toContain("another configuration");
  expect(after.stdout).toContain("ADA LOVELACE");
  await company.write("rollcall.yaml", "syncs: 7\n");
  await expect(connection.request({ method: "POST", path: "/reload" }, signal)).rejects.toMatchObject({
    message: "the old configuration stays",
    problems: [expect.stringContaining("rollcall.yaml:1:8: syncs: ")],
  });
});

test("a daemon that is killed while a command follows a run is told of, with what to do", async () => {
  // A target that never answers.
  const silent = createServer(() => undefined).listen(0, "127.0.0.1");
  await once(silent, "listening");
  const { port } = silent.address() as AddressInfo;
  const target = `{ url: "http://127.0.0.1:${port}", username: u, password: "1234" }`;
  await company.configure((yaml) => yaml.replace("analytics: embedded", `analytics: ${target}`));
  const daemon = start("--verbose");
  await found();
  const applying = company.begin("apply");
  await daemon.wrote(/"path":"\/control\/v1\/syncs\/staff\/run","status":202/);
  daemon.process.kill("SIGKILL");
  const { code, stdout, stderr } = await applying.ended;
  expect([code, stdout + stderr]).toEqual([
    1,
    expect.stringMatching(/the daemon \(process \d+\) ended while run \S+ was running\. .*`.* show/),
  ]);
  silent.closeAllConnections();
  silent.close();
});

test("a daemon alone listens by itself, for this machine", async () => {
  await using service = await startService();
  const target = `{ url: "${service.url}", username: ${service.administrator.name}, password: "${service.administrator.password}" }`;
  await company.configure((yaml) => yaml.replace("analytics: embedded", `analytics: ${target}`));
  const daemon = start("--only", "daemon");
  await daemon.wrote("the daemon is listening on http://127.0.0.1:");
  const { connection } = await found();
  const { url } = connection.presence;
  expect(await (await fetch(`${url}/readyz`)).json()).toEqual({ status: "ready" });
  expect((await fetch(`${url}/metrics`)).status).toBe(200);
  expect((await fetch(`${url}/control/v1/status`)).status).toBe(401);
  const run = await pending();
  expect((await company.command("reject", run.id, "--reason", "not now")).code).toBe(0);
  expect(await request(`/runs/${run.id}`)).toMatchObject({ state: "rejected" });
  const { stdout } = await stopRollcall(daemon);
  expect(stdout).not.toContain(connection.presence.token);
});

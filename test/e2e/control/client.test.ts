import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { connectCoordinator, findDaemon } from "#control/client.ts";
import type { RemoteCoordinator } from "#control/client.ts";
import { announceDaemon } from "#control/presence.ts";
import { InputError, UnavailableError } from "#errors.ts";
import { startControl } from "../../support/control.ts";
import type { ControlServer } from "../../support/control.ts";
import { freePorts } from "../../support/process.ts";
import { openManualCoordinator } from "../../support/coordinator.ts";
import type { ManualCoordinator } from "../../support/coordinator.ts";

const { signal } = new AbortController();
const by = { name: "kim", from: "command line" };

describe("is there a daemon on a data folder?", () => {
  const startedAt = new Date().toISOString();
  let data: string;
  beforeEach(async () => {
    data = await mkdtemp(join(tmpdir(), "rollcall-control-"));
  });
  afterEach(() => rm(data, { recursive: true }));

  test("none has ever been", async () => {
    expect(await findDaemon(data, "kim", signal)).toBeUndefined();
  });

  test("one is, and says how it stands", async () => {
    const server = await startControl(openManualCoordinator());
    const found = await findDaemon(server.data, "kim", signal);
    expect(found?.status).toMatchObject({ pid: process.pid, version: "1.2.3", syncs: [{ sync: "staff" }, {}] });
    await server.stop();
  });

  test("its process is gone", async () => {
    const child = spawn(process.execPath, ["--version"], { stdio: "ignore" });
    await once(child, "exit");
    const [port] = await freePorts();
    await announceDaemon(data, { pid: child.pid!, url: `http://127.0.0.1:${port}`, startedAt, token: "t" });
    expect(await findDaemon(data, "kim", signal)).toBeUndefined();
  });

  test("its process id is another's now: nothing listens there, or something else does", async () => {
    const [port] = await freePorts();
    await announceDaemon(data, { pid: process.pid, url: `http://127.0.0.1:${port}`, startedAt, token: "t" });
    expect(await findDaemon(data, "kim", signal)).toBeUndefined();
    const other = await startControl(openManualCoordinator());
    await announceDaemon(data, { pid: process.pid, url: other.url, startedAt, token: "t" });
    expect(await findDaemon(data, "kim", signal)).toBeUndefined();
    await other.stop();
  });

  test("what it left cannot be read", async () => {
    await announceDaemon(data, { pid: process.pid, url: "http://127.0.0.1:1", startedAt, token: "t" });
    await writeFile(join(data, "daemon", "control.json"), '{"pid": 1');
    expect(await findDaemon(data, "kim", signal)).toBeUndefined();
  });

  test("one is that does not serve yet", async () => {
    const starting = await startControl(undefined);
    const found = findDaemon(starting.data, "kim", signal);
    await expect(found).rejects.toThrow(UnavailableError);
    await expect(found).rejects.toThrow("the daemon is starting");
    await starting.stop();
  });
});

describe("a run is followed", () => {
  let coordinator: ManualCoordinator;
  let server: ControlServer;
  let remote: RemoteCoordinator;
  let interruption: AbortController;

  beforeEach(async () => {
    coordinator = openManualCoordinator();
    server = await startControl(coordinator);
    interruption = new AbortController();
    const daemon = await findDaemon(server.data, "kim", signal);
    const options = { data: server.data, account: "kim", signal: interruption.signal };
    remote = await connectCoordinator(daemon!, options);
  });
  afterEach(async () => {
    remote.close();
    await server.stop().catch(() => undefined);
  });

  test("when the daemon ends, that is said, with what to do", async () => {
    const { run, ended } = await remote.begin({ sync: "staff", cause: "demand", by });
    await server.stop();
    await expect(ended).rejects.toThrow(UnavailableError);
    await expect(ended).rejects.toThrow(
      `the daemon (process ${process.pid}) ended while run ${run.id} was running. When it is started again, it finds out how the run ended; then see \`rollcall show ${run.id}\``,
    );
    await expect(remote.begin({ sync: "staff", cause: "demand", by })).rejects.toThrow(/nothing listens/);
  });

  test("when another daemon has taken its place meanwhile, that one tells how the run has ended", async () => {
    const { run, ended } = await remote.begin({ sync: "staff", cause: "demand", by });
    const { data } = server;
    const next = await startControl(coordinator);
    await announceDaemon(data, { pid: process.pid, url: next.url, startedAt: run.startedAt, token: next.token });
    await server.end();
    coordinator.end(run.id, { state: "failed", recovery: "found out" });
    expect(await ended).toMatchObject({ id: run.id, state: "failed", recovery: "found out" });
    await next.stop();
  });

  test("a daemon that knows nothing of the run says so", async () => {
    const { run, ended } = await remote.begin({ sync: "staff", cause: "demand", by });
    const { data } = server;
    const next = await startControl(openManualCoordinator());
    await announceDaemon(data, { pid: process.pid, url: next.url, startedAt: run.startedAt, token: next.token });
    await server.end();
    await expect(ended).rejects.toThrow(`there is no run ${run.id}`);
    await next.stop();
  });

  test("until the caller is interrupted; the run goes on", async () => {
    const { run, ended } = await remote.begin({ sync: "staff", cause: "demand", by });
    const reason = new InputError("interrupted");
    interruption.abort(reason);
    await expect(ended).rejects.toBe(reason);
    expect(coordinator.runs().find(({ id }) => id === run.id)?.state).toBe("running");
  });
});

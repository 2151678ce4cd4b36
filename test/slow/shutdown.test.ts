import { connect } from "node:net";
import type { Socket } from "node:net";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { makeCertificate } from "../support/certificates.ts";
import { login, startService } from "../support/rollcall/service.ts";
import type { TestService } from "../support/rollcall/service.ts";
import { list, sync, user } from "../e2e/interface/principals.ts";

/** Opens a connection and sends the beginning of a request that applies a list with one user. */
async function beginSync(service: TestService, session: string): Promise<{ socket: Socket; rest: string }> {
  const body = new URLSearchParams({ applyChanges: "true", principals: JSON.stringify([user("ada")]) }).toString();
  const { host } = new URL(service.url);
  const head = [
    "POST /tspublic/v1/user/sync HTTP/1.1",
    `Host: ${host}`,
    `Cookie: JSESSIONID=${session}`,
    "Content-Type: application/x-www-form-urlencoded",
    `Content-Length: ${body.length}`,
  ].join("\r\n");
  const socket = await open(service);
  socket.write(`${head}\r\n\r\n${body.slice(0, 20)}`);
  // The service has the head when it has answered a later request of another connection.
  await list(service.url, session);
  return { socket, rest: body.slice(20) };
}

async function open(service: TestService): Promise<Socket> {
  const { hostname, port } = new URL(service.url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => undefined);
  await new Promise<void>((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  return socket;
}

async function readAll(socket: Socket): Promise<string> {
  let text = "";
  for await (const piece of socket) text += String(piece);
  return text;
}

async function refusesConnections(service: TestService): Promise<boolean> {
  try {
    (await open(service)).destroy();
    return false;
  } catch {
    return true;
  }
}

describe.each(["SIGTERM", "SIGINT"] as const)("0.9 %s", (signal) => {
  test("lets a request under way end, takes no new ones, and ends with exit code 0", async () => {
    const data = await mkdtemp(join(tmpdir(), "rollcall-data-"));
    const service = await startService({ data });
    const session = await login(service.url);
    const { socket, rest } = await beginSync(service, session);
    service.running.process.kill(signal);
    await expect.poll(() => refusesConnections(service)).toBe(true);
    socket.write(rest);
    const answer = await readAll(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(answer).toMatch(/^connection: close\r$/im);
    expect(answer).toMatch(/"usersAdded":\s*\[\s*"ada"/);
    expect(await service.running.ended).toMatchObject({ code: 0, signal: null });
    const next = await startService({ data });
    expect((await list(next.url, session)).text).toContain('"ada"');
    await next.stop();
    await service.stop();
    await rm(data, { recursive: true });
  });
});

describe("0.9", () => {
  test("connections on which nothing happens hold nothing up", async () => {
    const service = await startService();
    const silent = await open(service);
    const used = await open(service);
    used.write("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    await new Promise((resolve) => used.once("data", resolve));
    const closed = Promise.all([readAll(silent), readAll(used)]);
    const [ended] = await Promise.all([service.stop(), closed]);
    expect(ended).toMatchObject({ code: 0, signal: null });
  });

  test("a request that never ends is cut off: gone within 15 s, exit code 0, nothing changed", async () => {
    const data = await mkdtemp(join(tmpdir(), "rollcall-data-"));
    const service = await startService({ data });
    const session = await login(service.url);
    await sync(service.url, session, [user("ben")]);
    const { socket } = await beginSync(service, session);
    const ended = await Promise.race([service.stop(), delay(15_000, "still there")]);
    expect(ended).toMatchObject({ code: 0, signal: null });
    expect(await readAll(socket)).toBe("");
    const next = await startService({ data });
    const { text } = await list(next.url, session);
    expect(text).toContain('"ben"');
    expect(text).not.toContain('"ada"');
    await next.stop();
    await rm(data, { recursive: true });
  });

  test("a service that has nothing to do is gone at once, also when told twice", async () => {
    const service = await startService();
    service.running.process.kill("SIGINT");
    expect(await service.stop()).toMatchObject({ code: 0, signal: null });
  });
});

test("0.9 connections over which nothing has come do not hold up a stop, also where TLS has not begun", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-tls-"));
  try {
    const { cert, key } = await makeCertificate({ ip: ["127.0.0.1"] });
    const tls = { cert: join(folder, "cert.pem"), key: join(folder, "key.pem") };
    await writeFile(tls.cert, cert);
    await writeFile(tls.key, key);
    await using service = await startService({ service: { tls } });
    await open(service);
    (await open(service)).end();
    const { code } = await service.stop();
    expect(code).toBe(0);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

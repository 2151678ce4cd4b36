import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent } from "undici";
import { describe, expect, test } from "vitest";
import { administrator, call, post, startService } from "../support/rollcall/service.ts";
import type { Answer, TestService } from "../support/rollcall/service.ts";

/** Logs in from one of this machine's loopback addresses. */
function logIn(service: TestService, from: string, name: string, password: string): Promise<Answer> {
  const dispatcher = new Agent({ localAddress: from });
  return post(`${service.url}/tspublic/v1/session/login`, { username: name, password }, { dispatcher });
}

function logInRightly(service: TestService, from: string): Promise<Answer> {
  return logIn(service, from, administrator.name, administrator.password);
}

async function failTimes(service: TestService, from: string, name: string, times: number): Promise<readonly number[]> {
  const statuses: number[] = [];
  for (let time = 0; time < times; time++) statuses.push((await logIn(service, from, name, "wrong")).status);
  return statuses;
}

describe("0.8", () => {
  test("after ten failed logins of a pair even the right password is refused, in both families", async () => {
    await using service = await startService();
    expect(await failTimes(service, "127.0.0.1", "admin", 10)).toEqual(Array.from({ length: 10 }, () => 401));
    const refused = await logInRightly(service, "127.0.0.1");
    expect(refused.status).toBe(429);
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
    expect(Number(refused.headers["retry-after"])).toBeLessThanOrEqual(300);
    expect(JSON.parse(refused.text)).toMatchObject({
      code: 10_000,
      debug: expect.stringContaining("Too many failed logins"),
    });
    const body = JSON.stringify({ username: administrator.name, password: administrator.password });
    const familyA = await call(`${service.url}/ts_dataservice/v1/public/session`, { method: "POST", body });
    expect([familyA.status, familyA.headers["content-type"]]).toEqual([429, "text/plain; charset=utf-8"]);
    expect(familyA.text).toContain("Too many failed logins");
    expect(Number(familyA.headers["retry-after"])).toBeGreaterThan(0);
    // Neither another name from there nor that name from elsewhere.
    expect((await logIn(service, "127.0.0.1", "ben", "wrong")).status).toBe(401);
    expect((await logInRightly(service, "127.0.0.2")).status).toBe(204);
  });

  test("failures of both families count together, and headers do not say whose they are", async () => {
    await using service = await startService({ service: { logins: { attempts: 4 } } });
    const body = JSON.stringify({ username: "admin", password: "wrong" });
    for (const forwarded of ["10.0.0.1", "10.0.0.2"]) {
      const headers = { "x-forwarded-for": forwarded, forwarded: `for=${forwarded}` };
      const options = { method: "POST", body, headers } as const;
      expect((await call(`${service.url}/ts_dataservice/v1/public/session`, options)).status).toBe(401);
      expect((await logIn(service, "127.0.0.1", "admin", "wrong")).status).toBe(401);
    }
    expect((await logInRightly(service, "127.0.0.1")).status).toBe(429);
  });

  test("the refusal ends after the lockout", async () => {
    await using service = await startService({ service: { logins: { attempts: 2, lockout: "1s" } } });
    await failTimes(service, "127.0.0.1", "admin", 2);
    await expect.poll(async () => (await logInRightly(service, "127.0.0.1")).status).toBe(204);
  });

  test("a success resets the count of its pair", async () => {
    await using service = await startService({ service: { logins: { attempts: 3 } } });
    for (let round = 0; round < 3; round++) {
      expect(await failTimes(service, "127.0.0.1", "admin", 2)).toEqual([401, 401]);
      expect((await logInRightly(service, "127.0.0.1")).status).toBe(204);
    }
  });

  test("an unknown user is refused like a known one", async () => {
    await using service = await startService({ service: { logins: { attempts: 2 } } });
    expect(await failTimes(service, "127.0.0.1", "nobody", 3)).toEqual([401, 401, 429]);
    expect(await failTimes(service, "127.0.0.1", "admin", 3)).toEqual([401, 401, 429]);
  });

  test("guesses made at once are no more than guesses made one after the other", async () => {
    await using service = await startService();
    const statuses = await Promise.all(
      Array.from({ length: 25 }, async () => (await logIn(service, "127.0.0.1", "admin", "wrong")).status),
    );
    expect(statuses.filter((status) => status === 401)).toHaveLength(10);
    expect(statuses.filter((status) => status === 429)).toHaveLength(15);
  });

  test("fifty failures from one address refuse it, whatever the names", async () => {
    await using service = await startService();
    for (let index = 0; index < 50; index++) {
      expect((await logIn(service, "127.0.0.1", `user ${index}`, "wrong")).status).toBe(401);
    }
    expect((await logInRightly(service, "127.0.0.1")).status).toBe(429);
    expect((await logInRightly(service, "127.0.0.2")).status).toBe(204);
  });

  test("who has logged in from an address before still can while others are refused there", async () => {
    await using service = await startService();
    expect((await logInRightly(service, "127.0.0.1")).status).toBe(204);
    for (let index = 0; index < 50; index++) await logIn(service, "127.0.0.1", `user ${index}`, "wrong");
    expect((await logIn(service, "127.0.0.1", "ben", "wrong")).status).toBe(429);
    expect((await logInRightly(service, "127.0.0.1")).status).toBe(204);
  });

  test("behind a trusted proxy, each client has an address of its own, which is also that of the log", async () => {
    await using service = await startService({
      service: { trustedProxies: ["127.0.0.1"], logins: { attempts: 2 } },
      verbose: true,
    });
    const from = (address: string, password: string): Promise<Answer> =>
      post(
        `${service.url}/tspublic/v1/session/login`,
        { username: administrator.name, password },
        { headers: { "x-forwarded-for": `203.0.113.9, ${address}` } },
      );
    for (let time = 0; time < 2; time++) expect((await from("198.51.100.1", "wrong")).status).toBe(401);
    expect((await from("198.51.100.1", administrator.password)).status).toBe(429);
    expect((await from("198.51.100.2", administrator.password)).status).toBe(204);
    const { stdout } = await service.stop();
    expect(stdout).toContain('"address":"198.51.100.2"');
    expect(stdout).not.toContain("203.0.113.9");
  });

  test("a hundred failures of one name refuse it everywhere but where it has logged in before, also after a restart", async () => {
    const data = await mkdtemp(join(tmpdir(), "rollcall-data-"));
    const first = await startService({ data });
    expect((await logInRightly(first, "127.0.0.1")).status).toBe(204);
    await first.stop();
    const service = await startService({ data });
    for (let index = 0; index < 20; index++) {
      expect(await failTimes(service, `127.0.1.${index}`, "admin", 5)).toEqual([401, 401, 401, 401, 401]);
    }
    expect((await logInRightly(service, "127.0.0.2")).status).toBe(429);
    expect((await logInRightly(service, "127.0.0.1")).status).toBe(204);
    expect((await logIn(service, "127.0.0.2", "ben", "wrong")).status).toBe(401);
    await service.stop();
    await rm(data, { recursive: true });
  });
});

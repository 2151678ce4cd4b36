import pino from "pino";
import { expect, test } from "vitest";
import { logIn } from "#service/session/login.ts";
import type { Credentials, LoginContext, LoginResult } from "#service/session/login.ts";
import { Throttle } from "#throttle.ts";

function setUp(change: Partial<LoginContext> = {}): {
  login: (credentials: Credentials, address: string) => Promise<LoginResult>;
  checked: string[];
} {
  const checked: string[] = [];
  const context: LoginContext = {
    account: async (name) => (name === "ada" ? { id: "1", name, passwordHash: "ada's hash" } : undefined),
    verify: async (hash, password) => {
      checked.push(hash);
      // Whoever found the password of nobody's hash would still be nobody.
      return password === "right";
    },
    nobodysHash: "nobody's hash",
    throttle: new Throttle({
      attempts: 10,
      window: 60_000,
      lockout: 60_000,
      isKnown: () => false,
      now: () => performance.now(),
    }),
    known: { add: async () => {} },
    sessions: { open: async (user) => `session of ${user.name}` },
    log: pino({ level: "silent" }),
    ...change,
  };
  return { login: (credentials, address) => logIn(context, credentials, address), checked };
}

test("0.8 an unknown user's password is checked like a known one's, and is never right", async () => {
  const { login, checked } = setUp();
  const credentials = { username: "nobody", password: "right", remembered: false };
  expect(await login(credentials, "10.0.0.1")).toEqual({ outcome: "wrong" });
  expect(await login({ ...credentials, username: "ada", password: "wrong" }, "10.0.0.1")).toEqual({ outcome: "wrong" });
  expect(checked).toEqual(["nobody's hash", "ada's hash"]);
});

test("the right password opens a session", async () => {
  const { login } = setUp();
  expect(await login({ username: "ada", password: "right", remembered: false }, "10.0.0.1")).toEqual({
    outcome: "opened",
    token: "session of ada",
  });
});

test("A.25 a failing store is neither a success nor a failed login", async () => {
  let broken = true;
  const { login } = setUp({
    account: async (name) => {
      if (broken) throw new Error("disk");
      return { id: "1", name, passwordHash: "ada's hash" };
    },
  });
  const credentials = { username: "ada", password: "right", remembered: false };
  for (let time = 0; time < 30; time++) await expect(login(credentials, "10.0.0.1")).rejects.toThrow("disk");
  broken = false;
  expect(await login(credentials, "10.0.0.1")).toMatchObject({ outcome: "opened" });
});

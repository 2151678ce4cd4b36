import type { FastifyRequest } from "fastify";
import { expect, test } from "vitest";
import { checkMayManage, targetAccounts } from "#console/accounts.ts";
import { layout } from "#console/layout.ts";
import { html } from "#console/html.ts";

const hour = 3_600_000;

function requestWith(cookies: Readonly<Record<string, string>>): FastifyRequest {
  return { cookies, exchange: { address: "192.0.2.7" } } as unknown as FastifyRequest;
}

test("a session of a daemon alone ends after three hours without a use: what a page asks by itself is none", async () => {
  let now = 0;
  const accounts = targetAccounts({
    targets: () => ["analytics"],
    secure: false,
    viewers: false,
    verify: async () => "administrator",
    now: () => now,
  });
  const signIn = async (): Promise<FastifyRequest> => {
    const opened = await accounts.signIn(requestWith({}), { username: "ada", password: "secret", of: "" });
    return requestWith({ [accounts.cookie]: opened.outcome === "opened" ? opened.token : "" });
  };
  const left = await signIn();
  const used = await signIn();
  for (const hours of [1, 2, 2.9]) {
    now = hours * hour;
    expect(await accounts.find(left, false)).toMatchObject({ name: "ada", address: "192.0.2.7" });
    expect(await accounts.find(used, true)).toMatchObject({ name: "ada" });
  }
  now = 3 * hour;
  expect(await accounts.find(left, false)).toBeUndefined();
  expect(await accounts.find(used, false)).toMatchObject({ name: "ada", role: "administrator", via: "target" });
  // It is gone, whoever asks now.
  expect(await accounts.find(left, true)).toBeUndefined();
});

test("an administrator of one target among several makes no accounts, which would be for all", () => {
  const ada = { name: "ada", address: "192.0.2.7", token: "t", via: "target", role: "administrator" } as const;
  const check = (target: string | undefined) => () => checkMayManage({ ...ada, target }, ["analytics", "reports"]);
  expect(check("analytics")).toThrow("ada is a user of the target analytics, and accounts are for all targets");
  expect(check(undefined)).not.toThrow();
  expect(() => checkMayManage({ ...ada, target: "analytics" }, ["analytics"])).not.toThrow();
  expect(() => checkMayManage({ ...ada, role: "approver" }, [])).toThrow("needs the role administrator");
});

test("a live page says that it asks by itself", () => {
  const page = layout({ title: "t", version: "1", live: "/runs" }, html`<p></p>`).toString();
  expect(page).toContain('hx-headers="{&quot;x-rollcall-by-itself&quot;:&quot;1&quot;}"');
});

test("an account ends no session but its own: of more than a hundred, those not used for the longest", async () => {
  let now = 0;
  const accounts = targetAccounts({
    targets: () => ["analytics"],
    secure: false,
    viewers: false,
    verify: async () => "administrator",
    now: () => (now += 1),
  });
  const signIn = async (username: string): Promise<FastifyRequest> => {
    const opened = await accounts.signIn(requestWith({}), { username, password: "secret", of: "" });
    return requestWith({ [accounts.cookie]: opened.outcome === "opened" ? opened.token : "" });
  };
  const other = await signIn("ada");
  const used = await signIn("eve");
  const unused = await signIn("eve");
  await accounts.find(used, true);
  let last = unused;
  for (let count = 0; count < 99; count++) last = await signIn("eve");
  expect(await accounts.find(unused, false)).toBeUndefined();
  for (const session of [other, used, last]) expect(await accounts.find(session, false)).toBeDefined();
});

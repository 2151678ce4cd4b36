import { stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { companyOfEachTest } from "../../support/rollcall/company.ts";

const company = companyOfEachTest((yaml) => yaml.replace(/syncs:[^]*$/, ""));
const password = "correct horse battery";

async function account(...args: string[]): Promise<unknown> {
  const { code, stdout, stderr } = await company.command("account", ...args, "--json");
  expect(code, stderr + stdout).toBe(0);
  return JSON.parse(stdout) as unknown;
}

test("accounts are added, listed and changed, with a daemon and without one", async () => {
  const file = join(company.folder, "password");
  await writeFile(file, `${password}\n`);
  expect(await account("add", "ada", "--role", "approver", "--password-file", file)).toEqual({
    account: "ada",
    role: "approver",
  });
  const nobody = await company.command("account", "add", "kim", "--role", "viewer");
  expect([nobody.code, nobody.stderr]).toEqual([1, expect.stringContaining("give --password-file FILE")]);
  const twice = await company.command("account", "add", "Ada", "--role", "viewer", "--generate");
  expect([twice.code, twice.stderr]).toEqual([1, expect.stringContaining("there is an account Ada already")]);
  const wrong = await company.command("account", "add", "kim", "--role", "boss", "--generate");
  expect(wrong.stderr).toContain("Allowed choices are viewer, approver, administrator");

  const running = company.begin("start");
  await running.wrote("the service is listening on");
  const url = /listening on (http:\S+?)"/.exec(running.output())?.[1] ?? "";
  // The process announces itself after it listens.
  await expect.poll(async () => (await company.command("status", "--json")).stdout).toContain(url);
  expect(await account("add", "ci", "--role", "viewer", "--generate")).toEqual({
    account: "ci",
    role: "viewer",
    password: expect.stringMatching(/^[\w-]{20}$/),
  });
  expect(await account("disable", "ada")).toEqual({ account: "ada", disabled: true });
  expect(await account("enable", "ada")).toEqual({ account: "ada", disabled: false });
  expect(await account("role", "ada", "administrator")).toEqual({ account: "ada", role: "administrator" });
  const logIn = async (given: string): Promise<number> => {
    const body = JSON.stringify({ name: "ada", password: given, token: "test" });
    const headers = { "content-type": "application/json" };
    return (await fetch(`${url}/control/v1/login`, { method: "POST", headers, body })).status;
  };
  expect(await logIn(password)).toBe(201);
  // A forgotten password takes one command.
  const { password: next } = (await account("password", "ada", "--generate")) as { password: string };
  expect([await logIn(password), await logIn(next)]).toEqual([401, 201]);
  const { tokens } = (await account("tokens")) as { tokens: { id: string; owner: string }[] };
  expect(tokens).toMatchObject([{ owner: "ada" }, { owner: "ada" }]);
  await account("revoke", tokens[0]?.id.slice(0, 8) ?? "");
  await account("remove", "ci");
  expect(running.output()).not.toContain(next);
  running.process.kill();
  await running.ended;

  const { accounts } = (await account("list")) as { accounts: object[] };
  expect(accounts).toMatchObject([{ name: "ada", role: "administrator", tokens: 1 }]);
  expect((await company.command("account", "list")).stdout).toMatch(/ada +administrator +password +enabled/);
  const missing = await company.command("account", "disable", "ci");
  expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining("there is no account ci")]);
  expect((await stat(join(company.folder, "data/daemon/access.json"))).mode & 0o777).toBe(0o600);
  const { stdout: audit } = await company.command("audit", "--json");
  const events = (JSON.parse(audit) as { entries: { event: string; change?: string }[] }).entries;
  expect(events.filter(({ event }) => event === "account").map(({ change }) => change)).toEqual([
    "added",
    "added",
    "disabled",
    "enabled",
    "role",
    "password",
    "removed",
  ]);
  for (const secret of [password, next]) expect(audit).not.toContain(secret);
});

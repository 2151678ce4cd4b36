import { readFile, rename, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { expect, test } from "vitest";
import { digestOf } from "#control/proof.ts";
import { companyOfEachTest } from "../../support/rollcall/company.ts";

const company = companyOfEachTest((yaml) => yaml.replace(/syncs:[^]*$/, ""));
const password = "correct horse battery";

async function account(...args: string[]): Promise<unknown> {
  const { code, stdout, stderr } = await company.command("account", ...args, "--json");
  expect(code, stderr + stdout).toBe(0);
  return JSON.parse(stdout) as unknown;
}

test("somebody who has logged in acts by their name and with their role, until they log out", async () => {
  company.env = { XDG_CONFIG_HOME: join(company.folder, "home") };
  const file = join(company.folder, "password");
  await writeFile(file, password);
  await account("add", "vera", "--role", "viewer", "--password-file", file);
  const login = (...args: string[]) => company.command("login", "--name", "vera", ...args);
  expect((await login()).stderr).toContain("no daemon of this configuration is running here");
  expect((await login("http://rollcall.example.com")).stderr).toContain("in the open; use https://");
  const running = company.begin("start");
  await running.wrote("the service is listening on");
  // The daemon listens a moment after the service.
  const daemon = async () =>
    (JSON.parse((await company.command("status", "--json")).stdout) as { daemon: unknown }).daemon;
  await expect.poll(daemon).not.toBeNull();
  const wrong = await login("--password-file", company.config);
  expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining("the name or the password is wrong")]);
  const right = await login("--password-file", file, "--json");
  const { login: url } = JSON.parse(right.stdout) as { login: string };
  expect([right.code, JSON.parse(right.stdout)]).toEqual([0, { login: url, name: "vera", role: "viewer" }]);
  const stored = join(company.folder, "home/rollcall/tokens.json");
  expect((await stat(stored)).mode & 0o777).toBe(0o600);
  const { token } = (JSON.parse(await readFile(stored, "utf8")) as { logins: { token: string }[] }).logins[0]!;
  // What the data folder would allow, the role does not.
  for (const refused of [["reload"], ["account", "disable", "vera"]])
    expect((await company.command(...refused)).stderr).toContain(
      "needs the role administrator; vera has the role viewer",
    );
  // Whoever cannot read where the daemon is goes by the login.
  await rename(join(company.folder, "data/daemon/control.json"), join(company.folder, "elsewhere.json"));
  expect((await company.command("reload")).stderr).toContain("vera has the role viewer");
  await rename(join(company.folder, "elsewhere.json"), join(company.folder, "data/daemon/control.json"));
  // Again, with the token: as somebody does who has it from the console.
  const tokens = join(company.folder, "token");
  await writeFile(tokens, `${token}\n`);
  expect((await company.command("login", url, "--token-file", tokens)).stdout).toContain("logged in as vera");
  expect((await company.command("logout", "--json")).stdout).toContain(url);
  expect((await company.command("logout")).stderr).toContain("nobody is logged in");
  expect((await company.command("login", "--token-file", tokens)).stderr).toContain("expired or was revoked");
  expect(await company.command("reload")).toMatchObject({ code: 0 });
  for (const text of [running.output(), right.stdout]) expect(text).not.toContain(token);
  // Another program that has the daemon's port while it is down gets no login.
  expect((await login("--password-file", file)).code).toBe(0);
  const known = await readFile(stored, "utf8");
  running.process.kill();
  await running.ended;
  const seen: string[] = [];
  const other = createServer((request, answer) => {
    seen.push(`${request.method} ${request.url} ${JSON.stringify(request.headers)}`);
    request.on("data", (part: Buffer) => seen.push(part.toString()));
    request.on("end", () => answer.writeHead(200, { "content-type": "application/json" }).end('{"proof":"none"}'));
  });
  await new Promise<void>((resolve) => other.listen(Number(new URL(url).port), "127.0.0.1", resolve));
  expect(await company.command("runs")).toMatchObject({ code: 0 });
  await new Promise((resolve) => other.close(resolve));
  expect(seen.join("\n")).toContain("POST /control/v1/prove");
  const { token: second } = (JSON.parse(known) as { logins: { token: string }[] }).logins[0]!;
  for (const secret of [second, digestOf(second), "authorization"]) expect(seen.join("\n")).not.toContain(secret);
});

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

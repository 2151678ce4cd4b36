import { existsSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { request } from "undici";
import { expect, test } from "vitest";
import { companyOfEachTest } from "../../support/rollcall/company.ts";
import { stopRollcall } from "../../support/rollcall/rollcall.ts";
import { atTerminal, keys } from "../../support/rollcall/terminal.ts";

const company = companyOfEachTest((yaml) => yaml.replace(/ *administrator: .*\n(?: {4}.*\n)*/, ""));
const { start } = company;

test("at a terminal, start shows what happened, then the password and what to do next, and no requests of its own", async () => {
  const terminal = atTerminal(["start", "--config", company.config], { cwd: company.folder });
  await terminal.answer("Ctrl-C stops Rollcall.", "");
  const shown = terminal
    .shown()
    .replaceAll(/[^\r\n]*\r(?!\n)/g, "")
    .replaceAll("\r\n", "\n");
  const place = `--config ${company.config}`;
  expect(shown.replaceAll(/^\[[\d:]+\] /gm, "")).toMatch(
    new RegExp(
      String.raw`^INFO: the service is listening on http://127\.0\.0\.1:\d+
INFO: sync staff: applied and verified \([\d.]+ s\): users \+\d+, groups \+\d+; .* show ${place} [\w-]+\` shows them

The password of admin is [\w-]+ \(it is shown only this once; .*\)
The console is at http://127\.0\.0\.1:\d+/\. \`.* runs ${place}\` in another terminal shows what was done\. Ctrl-C stops Rollcall\.

$`,
    ),
  );
  await terminal.answer("", keys.interrupt);
  expect(await terminal.ended).toBe(0);
});

test("a password that was generated is shown even if the first run does not end", async () => {
  const terminal = atTerminal(["start", "--config", company.config], { cwd: company.folder });
  await terminal.answer("listening on", keys.interrupt);
  await terminal.ended;
  expect(terminal.shown()).toContain("The password of admin is ");
});

test("the log is JSON with names of levels and ISO times, and has no requests", async () => {
  const running = start();
  await running.wrote("applied and verified");
  const [, url = ""] = /listening on (http:[^"]*)/.exec(running.output()) ?? [];
  const login = `${url}/tspublic/v1/session/login`;
  const hostile = "ev\u001B[2Jil\u202E";
  for (const username of ["admin", hostile, "x".repeat(5000)]) {
    const body = new URLSearchParams({ username, password: "a wrong password" });
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const answer = await request(login, { method: "POST", headers, body: body.toString() });
    await answer.body.dump();
    expect(answer.statusCode).toBe(401);
  }
  const { stdout } = await stopRollcall(running);
  const lines = stdout
    .trim()
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line));
  for (const { level, time } of lines) {
    expect(["info", "warn", "error"]).toContain(level);
    expect(new Date(time).toISOString()).toBe(time);
  }
  expect(lines.filter(({ level }) => level === "info").map(({ msg }) => msg.replace(/\(.*|on .*/, ""))).toEqual([
    "the service is listening ",
    "sync staff: applied and verified ",
    "stopping ",
    "stopped",
  ]);
  expect(lines.filter(({ level }) => level === "warn")).toMatchObject([
    { msg: 'login of "admin" from 127.0.0.1 failed: wrong name or password', name: "admin", address: "127.0.0.1" },
    { name: hostile },
    { name: "x".repeat(80) },
  ]);
  expect(stdout).not.toContain("a wrong password");
});

test("a quiet day is a screen: runs that find nothing, and requests, are logged only with --verbose", async () => {
  await company.applied();
  const running = start();
  await running.wrote("no change");
  for (let run = 0; run < 3; run++) expect((await company.command("apply", "--yes")).code).toBe(0);
  const { stdout } = await stopRollcall(running);
  const said = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line).msg as string);
  expect(said.filter((each) => each.includes("no change"))).toHaveLength(1);
  // Somebody asked for each.
  expect(said.filter((each) => / begins \(on demand by /.test(each))).toHaveLength(3);
  expect(said).toHaveLength(7);
});

test("a request is broken off only where what was sent did not arrive", async () => {
  const running = start();
  await running.wrote("applied and verified");
  const [, url = ""] = /listening on (http:[^"]*)/.exec(running.output()) ?? [];
  const { hostname, port } = new URL(url);
  const login = "/tspublic/v1/session/login";
  for (const text of [
    "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n",
    `POST ${login} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 99\r\n\r\nusername=a`,
  ]) {
    const socket = connect(Number(port), hostname).on("error", () => undefined);
    await new Promise((resolve) => socket.write(text, resolve));
    await delay(50);
    socket.resetAndDestroy();
  }
  await running.wrote("request broken off");
  const { stdout } = await stopRollcall(running);
  const broken = stdout.split("\n").filter((line) => line.includes("request broken off"));
  expect(broken.map((line) => JSON.parse(line))).toMatchObject([{ level: "warn", method: "POST", path: login }]);
});

test("check makes no data folder and prints no password; `rollcall password` gives the administrator another one", async () => {
  const data = join(company.folder, "data");
  const checked = await company.command("check");
  expect(checked.code, checked.stderr).toBe(0);
  expect(checked.stdout).toMatch(/^target analytics: not running$/m);
  expect(checked.stdout + checked.stderr).not.toContain("The password of");
  expect(existsSync(data)).toBe(false);
  const early = await company.command("password");
  expect(early.code).toBe(1);
  expect(early.stderr).toContain("the service has not started yet");
  expect(existsSync(data)).toBe(false);

  const running = start();
  await running.wrote("applied and verified");
  const [, url = ""] = /listening on (http:[^"]*)/.exec(running.output()) ?? [];
  const login = async (password: string): Promise<number> => {
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const body = new URLSearchParams({ username: "admin", password }).toString();
    const answer = await request(`${url}/tspublic/v1/session/login`, { method: "POST", headers, body });
    await answer.body.dump();
    return answer.statusCode;
  };
  const first = /The password of admin is (\S+)/.exec(running.output())?.[1] ?? "";
  const { stdout } = await company.command("password", "--json");
  const { name, password } = JSON.parse(stdout) as { name: string; password: string };
  expect([name, await login(first), await login(password)]).toEqual(["admin", 401, 204]);
  await stopRollcall(running);

  const asked = await company.command("password");
  expect(asked.stdout).toMatch(/^The password of admin is now \S+ \(it is shown only this once\)\n$/);
  await company.configure((yaml) => yaml.replace("service:", "service:\n  administrator: { password: of-my-own }"));
  expect((await company.command("password")).stderr).toContain("change `service.administrator.password`");
});

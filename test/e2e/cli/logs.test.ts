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

test("the log is JSON with names of levels and ISO times, and leaves out what Rollcall asks itself", async () => {
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
  expect(lines.filter(({ msg }) => msg === "request").map(({ path, status }) => [path, status])).toEqual(
    Array.from({ length: 3 }, () => ["/tspublic/v1/session/login", 401]),
  );
  expect(lines.filter(({ level }) => level === "warn")).toMatchObject([
    { msg: 'login of "admin" from 127.0.0.1 failed: wrong name or password', name: "admin", address: "127.0.0.1" },
    { name: hostile },
    { name: "x".repeat(80) },
  ]);
  expect(stdout).not.toContain("a wrong password");
});

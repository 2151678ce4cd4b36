import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { rollcall } from "../support/rollcall/command.ts";
import { startRollcall, stopRollcall } from "../support/rollcall/rollcall.ts";
import { atTerminal } from "../support/rollcall/terminal.ts";

/** Clears the screen, sets the title (also as one C1 character), and turns the direction of the text round. */
const hostile = "\u001B[2J\u001B]0;owned\u0007\u009B2J\u202E";
// eslint-disable-next-line no-control-regex -- that is what must not arrive
const harmful = /[\u0007\u009B\u202E]|\u001B\[2J|\u001B\]/;

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-hidden-"));
  await writeFile(
    join(folder, "tables.sql"),
    "CREATE DATABASE IF NOT EXISTS d; CREATE TABLE IF NOT EXISTS d.t (id BIGINT, name VARCHAR);",
  );
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const service = `service: { listen: "127.0.0.1:0", data: data, tables: tables.sql, administrator: { password: secret } }\n`;
const configure = (more = ""): Promise<void> => writeFile(join(folder, "rollcall.yaml"), service + more);

test("errors of SQL, values and JSON", async () => {
  await configure();
  const sql = `SELECT '${hostile}' AS v`;
  const shown = [
    await rollcall(["sql", `SELECT error('${hostile}')`], { cwd: folder }),
    await rollcall(["sql", `SELECT * FROM "${hostile}"`, "--json"], { cwd: folder }),
    await rollcall(["sql", sql], { cwd: folder }),
    await rollcall(["sql", sql, "--json"], { cwd: folder }),
  ];
  for (const { stdout, stderr } of shown) expect(stdout + stderr).not.toMatch(harmful);
  expect(JSON.parse(shown[3]?.stdout ?? "")).toMatchObject({ rows: [[hostile]] });
  const csv = await rollcall(["sql", sql, "--csv"], { cwd: folder });
  expect(csv.stdout, "data for a pipe is as it is").toBe(`v\n"${hostile}"\n`.replaceAll('"', ""));
  const terminal = atTerminal(["sql", "SELECT chr(8238) || chr(7) AS v", "--csv"], { cwd: folder });
  await terminal.ended;
  expect(terminal.shown()).toContain("\\u{202e}");
  expect(terminal.shown()).not.toMatch(harmful);
});

test("errors of a load", async () => {
  await configure();
  await writeFile(join(folder, "rows.csv"), `${hostile},a\n`);
  for (const flags of [[], ["--json"], ["--max-ignored-rows", "1"]]) {
    const { stdout, stderr } = await rollcall(["load", "rows.csv", "--table", "d.t", ...flags], { cwd: folder });
    expect(stdout + stderr).toContain("is not a BIGINT");
    expect(stdout + stderr).not.toMatch(harmful);
  }
});

test("the diagnostic message of a directory server, shown by a command and in the log", async () => {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", () => {
      const said = Buffer.from(`no${hostile} entry`);
      const result = Buffer.concat([Buffer.from([0x0a, 1, 49, 4, 0, 4, said.length]), said]);
      const operation = Buffer.concat([Buffer.from([2, 1, 1, 0x61, result.length]), result]);
      socket.write(Buffer.concat([Buffer.from([0x30, operation.length]), operation]));
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  await configure(`targets: { here: embedded }
sources: { corp: { connector: ldap, url: "ldap://127.0.0.1:${port}", bind: { dn: cn=x, password: nope }, users: { base: "dc=x" } } }
syncs: { staff: { from: [corp], to: here, users: { name: entry.uid, displayName: entry.cn } } }
`);
  for (const args of [["check"], ["plan"], ["plan", "--json"]]) {
    const { stdout, stderr } = await rollcall(args, { cwd: folder });
    expect(stdout + stderr).toMatch(/no.*2J.*entry/);
    expect(stdout + stderr).not.toMatch(harmful);
  }
  const running = startRollcall(["start"], { cwd: folder });
  await running.wrote("the service is listening");
  running.process.kill("SIGUSR1");
  await running.wrote(/no.*2J.*entry/);
  const { stdout, stderr } = await stopRollcall(running);
  expect(stdout + stderr).not.toMatch(harmful);
});

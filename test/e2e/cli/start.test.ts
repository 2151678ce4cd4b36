import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { companyOfEachTest, people } from "../../support/rollcall/company.ts";
import { stopRollcall } from "../../support/rollcall/rollcall.ts";

const company = companyOfEachTest();
const { command, start } = company;

test("start syncs at once and stays up; commands work beside it; SIGTERM ends it with 0", async () => {
  const daemon = start();
  await daemon.wrote("applied and verified");
  expect((await command("plan")).code).toBe(0);
  await company.write("people.csv", people.replace("Zoë Ünal,,", "Zoë Ünal,zoe@example.com,"));
  const planned = await command("plan", "--json");
  expect(planned.code, planned.stderr).toBe(2);
  expect(JSON.parse(planned.stdout).runs[0].plan.changes).toMatchObject([
    { name: "zoe", attributes: [{ attribute: "mail", to: "zoe@example.com" }] },
  ]);
  expect((await command("apply")).code).toBe(0);
  expect((await command("plan")).code).toBe(0);
  expect(await stopRollcall(daemon)).toMatchObject({ signal: null });
});

test("beside it, no second one starts on the data folder; the file that lets commands in is its owner's alone, and goes", async () => {
  const daemon = start();
  await daemon.wrote("applied and verified");
  for (const args of [[], ["--only", "service"], ["--only", "daemon"]]) {
    const second = await start(...args).ended;
    expect(second.code).toBe(1);
    expect(second.stderr).toContain(String(daemon.process.pid));
    expect(second.stderr).toContain("data folder");
    expect(second.stderr).toMatch(/http:\/\/127\.0\.0\.1:\d+, started \d{4}-/);
  }
  expect((await command("plan")).code).toBe(0);
  const file = join(company.folder, "data", "service.json");
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  const { session } = JSON.parse(await readFile(file, "utf8"));
  daemon.process.kill("SIGINT");
  const { code, stdout, stderr } = await daemon.ended;
  expect(code).toBe(0);
  expect(stdout + stderr).not.toContain(session);
  await expect(stat(file)).rejects.toMatchObject({ code: "ENOENT" });
});

test("after a kill, the next start needs nobody to clear anything away", async () => {
  const first = start();
  await first.wrote("applied and verified");
  first.process.kill("SIGKILL");
  await first.ended;
  const second = start();
  await second.wrote("its next slot is at");
  expect(await command("apply")).toMatchObject({ code: 0, stdout: expect.stringContaining("no change") });
});

test("--only service and --only daemon are two processes on one data folder; a daemon waits for its service, also for one that is started again", async () => {
  await company.configure((yaml) => yaml.replace('"0 0 1 1 *"', '"* * * * * *"'));
  const daemon = start("--only", "daemon");
  await daemon.wrote("no service is running on the data folder");
  const first = start("--only", "service");
  await daemon.wrote("applied and verified");
  await stopRollcall(first);
  const second = start("--only", "service");
  await second.wrote("listening on");
  await company.write("people.csv", people.replace("Zoë Ünal", "Zoë Ünal-Lovelace"));
  await daemon.wrote("users ~1");
  const { stdout, stderr } = await stopRollcall(daemon);
  await stopRollcall(second);
  expect(stdout + stderr, "what is raised on purpose needs no stack trace").not.toContain(".ts:");
});

test("syncs to one target take turns: neither undoes what the other does", async () => {
  const yaml = await readFile(company.config, "utf8");
  const partner = yaml
    .slice(yaml.indexOf("  staff:"))
    .replace("staff:", "partners:")
    .replace("[company]", "[partner]")
    .replace(/ {4}groups:\n(?: {6}.*\n)*/, "");
  const source = "  partner:\n    connector: csv\n    users: { file: partners.csv, id: id }\nsyncs:";
  await company.write("rollcall.yaml", yaml.replace("syncs:", source) + partner);
  const rows = Array.from({ length: 3000 }, (_, index) => `${index},partner${index},Partner ${index},,active,`);
  await company.write("partners.csv", ["id,login,name,mail,status,groups", ...rows, ""].join("\n"));
  const daemon = start();
  await daemon.wrote("sync staff: applied and verified");
  await daemon.wrote("sync partners: applied and verified");
  const { code, stderr } = await command("plan");
  expect(code, stderr).toBe(0);
});

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { companyOfEachTest, people } from "../../support/rollcall/company.ts";
import { stopRollcall } from "../../support/rollcall/rollcall.ts";
import type { Running } from "../../support/rollcall/rollcall.ts";

const company = companyOfEachTest();
const { start } = company;

/** Ends it as an operator would, and gives everything it wrote. */
async function stop(each: Running): Promise<string> {
  const { stdout, stderr } = await stopRollcall(each);
  return stdout + stderr;
}

test("SIGUSR1 runs the syncs at once, and opens no port for debuggers", async () => {
  const daemon = start();
  await daemon.wrote("applied and verified");
  await company.write("people.csv", people.replace("Zoë Ünal,,", "Zoë Ünal,zoe@example.com,"));
  daemon.process.kill("SIGUSR1");
  await daemon.wrote(/applied and verified.*applied and verified/s);
  expect(await stop(daemon)).not.toMatch(/debugger/i);
});

test("SIGUSR1 to a service alone does no harm", async () => {
  const service = start("--only", "service");
  await service.wrote("listening on");
  service.process.kill("SIGUSR1");
  await service.wrote("this process runs no syncs");
  expect(await stop(service)).not.toMatch(/debugger/i);
});

test("SIGHUP takes another configuration over: from the next run on, its rules hold", async () => {
  const daemon = start();
  await daemon.wrote("applied and verified");
  await company.configure((yaml) => yaml.replace("displayName: entry.name", "displayName: upper(entry.name)"));
  daemon.process.kill("SIGHUP");
  await daemon.wrote("the configuration was reloaded");
  daemon.process.kill("SIGUSR1");
  await daemon.wrote(/applied and verified.*applied and verified/s);
  expect(await stop(daemon)).not.toContain("cannot change");
});

test("SIGHUP refuses a configuration as a whole when anything is wrong with it; the log has every problem", async () => {
  const daemon = start();
  await daemon.wrote("applied and verified");
  await company.configure((yaml) =>
    yaml
      .replace("displayName: entry.name", "displayName: upper(entry.name)")
      .replace('"0 0 1 1 *"', "never")
      .replace("to: analytics", "to: nowhere")
      .replace("initial-user-secret", "another-user-secret"),
  );
  daemon.process.kill("SIGHUP");
  await daemon.wrote("the old configuration stays");
  await daemon.wrote(/rollcall\.yaml:15:\d+: syncs\.staff\.to: /);
  await daemon.wrote(/rollcall\.yaml:16:\d+: syncs\.staff\.schedule: /);
  await company.write("people.csv", people.replace("Zoë Ünal,,", "Zoë Ünal,zoe@example.com,"));
  daemon.process.kill("SIGUSR1");
  await daemon.wrote(/applied and verified.*applied and verified/s);
  const all = await stop(daemon);
  expect(all).not.toContain("ADA LOVELACE");
  expect(all).not.toContain("another-user-secret");
});

test("SIGHUP refuses as a whole what needs a restart, and names it", async () => {
  const daemon = start();
  await daemon.wrote("applied and verified");
  await company.configure((yaml) =>
    yaml
      .replace("administrator-secret", "another-administrator-secret")
      .replace("data: data", "data: data\n  memory: 2GiB\n  sessions: { idle: 1h }")
      .replace("displayName: entry.name", "displayName: upper(entry.name)"),
  );
  daemon.process.kill("SIGHUP");
  await daemon.wrote("needs a restart");
  for (const key of ["administrator.password", "memory", "sessions.idle"])
    await daemon.wrote(`service.${key} cannot change while Rollcall runs`);
  daemon.process.kill("SIGUSR1");
  await daemon.wrote("sync staff: no change (");
  const all = await stop(daemon);
  expect(all).not.toContain("ADA LOVELACE");
  expect(all).not.toContain("administrator-secret");
  const restarted = start();
  await restarted.wrote("its next slot is at");
  restarted.process.kill("SIGUSR1");
  await restarted.wrote("applied and verified");
});

test("secrets of a configuration that was replaced stay concealed", async () => {
  const daemon = start();
  await daemon.wrote("applied and verified");
  await company.configure((yaml) => yaml.replace("initial-user-secret", "Ada Lovelace-secret"));
  daemon.process.kill("SIGHUP");
  await daemon.wrote("the configuration was reloaded");
  // Both are written by a plan only if nobody conceals them.
  await company.write(
    "people.csv",
    people.replace("Ada Lovelace", "initial-user-secret").replace("Grace Hopper", "Ada Lovelace-secret"),
  );
  daemon.process.kill("SIGUSR1");
  await daemon.wrote(/applied and verified.*applied and verified/s);
  const all = await stop(daemon);
  expect(all).not.toContain("initial-user-secret");
  expect(all).not.toContain("Ada Lovelace-secret");
});

test("SIGTERM ends the process also when a thread of it waits for something that never comes", async () => {
  const pipe = join(company.folder, "pipe");
  await promisify(execFile)("mkfifo", [pipe]);
  await company.write(
    "own.ts",
    `import { z } from ${JSON.stringify(import.meta.resolve("zod"))};
    import { open } from "node:fs/promises";
    const read = async function* () {
      console.error("the read has begun");
      await open(${JSON.stringify(pipe)}, "r");
    };
    export default { name: "own", options: z.strictObject({}), open: () => ({ read }) };`,
  );
  await company.configure((yaml) => yaml.replace(/connector: csv[^]*?(?=^syncs)/m, "connector: ./own.ts\n"));
  const daemon = start();
  await daemon.wrote("the read has begun");
  daemon.process.kill("SIGTERM");
  const { signal, stdout, stderr } = await daemon.ended;
  expect(signal).toBe("SIGKILL");
  expect(stdout + stderr).toContain("the work under way did not stop in time");
});

import { rename, stat } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startPostgres } from "../support/postgres.ts";
import type { PostgresServer } from "../support/postgres.ts";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

const company = companyOfEachTest((yaml) => `${yaml}    approval: required\n`);
const { command, run } = company;

const good = async (...args: string[]): Promise<string> => {
  const { code, stdout, stderr } = await command(...args);
  expect(code, `${args.join(" ")}: ${stdout}${stderr}`).toBe(0);
  return stdout;
};
const json = async (...args: string[]): Promise<ReturnType<typeof JSON.parse>> =>
  JSON.parse((await command(...args, "--json")).stdout);

test("a daemon's state moves into PostgreSQL and back, and every command finds it where it is", async () => {
  const url = await server.createDatabase();
  const first = (await run("apply")).run;
  await good("approve", first, "--yes");
  await company.write("people.csv", people.replace("Grace Hopper", "Rear Admiral Hopper"));
  const waiting = (await run("apply")).run;
  const known = await json("runs", "--all");

  // An empty database beside a state is refused, with the way out.
  await company.configure((yaml) => `${yaml}daemon: { state: { postgres: "${url}" }, lease: 3s }\n`);
  const refused = await command("apply");
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain(`state copy --config ${company.config}`);
  expect(refused.stderr).not.toContain("a-secret-of-rollcall");
  expect((await command("state", "copy", "--to", url)).stderr).toContain("leave out --to");

  const { copied } = await json("state", "copy");
  expect(copied).toMatchObject([
    { what: "runs", count: 2 },
    { what: "syncs", count: 1 },
    { what: "audit log" },
    { what: "ledgers", count: 1 },
    { what: "files of stored plans" },
    { what: "files of baselines" },
    { what: "configuration.json", count: 1 },
  ]);
  expect((await command("state", "copy")).stderr).toContain("has the state of daemons already (2 runs");

  // Without a daemon.
  expect(await json("runs", "--all")).toEqual(known);
  expect(await good("show", waiting)).toContain("Rear Admiral Hopper");
  expect((await run("plan")).plan.changes).toMatchObject([{ action: "update", name: "grace" }]);
  expect(await good("explain", "grace")).toContain("Rear Admiral Hopper");
  expect(await good("history", "ada")).toContain(first);
  await good("unmanaged");
  expect(await good("drift")).toContain("no drift");
  expect(await good("audit", "verify")).toContain("everything is as it was written");
  expect(await good("audit", "--run", first)).toContain("approved");
  expect((await json("status")).syncs).toMatchObject([{ sync: "staff", pending: waiting }]);
  expect(await good("check")).toContain("others take over 3 s after a process was last heard of");
  await good("export", "--to", join(company.folder, "exported"));
  await good("reject", waiting);
  const second = (await run("apply")).run;
  await good("approve", second, "--yes");
  const undone = (await run("undo", second)).run;
  expect(await good("show", undone)).toContain("Grace Hopper");
  await good("reject", undone);

  // Beside one.
  const daemon = company.start();
  await daemon.wrote("now runs the schedules");
  expect((await command("state", "copy", "--back")).stderr).toContain("is using the data folder");
  await company.write("people.csv", people);
  const third = (await run("apply")).run;
  expect(await good("runs")).toContain(third);
  expect(await good("show", third)).toContain("Grace Hopper");
  await good("approve", third, "--yes");
  expect(await good("explain", "grace")).toContain("Grace Hopper");
  expect(await good("history", "grace")).toContain(third);
  expect(await good("audit", "verify")).toContain("everything is as it was written");
  expect((await json("status")).daemon).toMatchObject({ pid: daemon.process.pid });
  await good("reload");
  const before = await json("runs", "--all");
  daemon.process.kill("SIGTERM");
  expect((await daemon.ended).code).toBe(0);

  // What was copied was only read, and has to go before the way back.
  const folder = join(company.folder, "data", "daemon");
  expect((await command("state", "copy", "--back")).stderr).toContain("rename the folder, then copy again");
  await rename(folder, `${folder}.before`);
  const { copied: back } = await json("state", "copy", "--back");
  expect(back).toMatchObject([
    { what: "runs", count: before.runs.length },
    { what: "syncs", count: 1 },
    { what: "audit log" },
    { what: "ledgers", count: 1 },
    { what: "files of stored plans" },
    { what: "files of baselines" },
    { what: "files of notifications" },
    { what: "configuration.json", count: 1 },
  ]);
  await company.configure((yaml) => yaml.replace(/^daemon:.*\n/m, ""));
  expect(await json("runs", "--all")).toEqual(before);
  expect(await good("audit", "verify")).toContain("everything is as it was written");
  expect((await run("plan")).plan.changes).toEqual([]);
  expect((await stat(join(folder, "journal.json"))).mode & 0o077).toBe(0);
});

test("check asks the database of a service that does not run", async () => {
  const url = await server.createDatabase();
  await company.configure((yaml) => yaml.replace("service:\n", `service:\n  engine: { postgres: "${url}" }\n`));
  expect(await good("check")).toMatch(/PostgreSQL at .* answers/);
  await company.configure((yaml) => yaml.replace(/:\d+\/(?=test)/, ":9/"));
  const { code, stdout } = await command("check");
  expect([code, stdout]).toEqual([1, expect.stringMatching(/target analytics: PostgreSQL at .* does not answer/)]);
});

test("check says that the user of the state may not make its schema", async () => {
  const url = await server.createDatabase();
  await server.asAdministrator("CREATE ROLE weak LOGIN PASSWORD 'a-weak-secret'");
  const weak = url.replace(/\/\/[^@]*@/, "//weak:a-weak-secret@");
  await company.configure((yaml) => `${yaml}daemon: { state: { postgres: "${weak}" } }\n`);
  const { code, stdout } = await command("check");
  expect([code, stdout]).toEqual([1, expect.stringMatching(/state .*the user weak .* GRANT CREATE ON DATABASE/)]);
});

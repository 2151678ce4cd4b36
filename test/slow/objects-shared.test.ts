import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ObjectStore } from "../support/object-target.ts";
import { startPostgres } from "../support/postgres.ts";
import type { PostgresServer } from "../support/postgres.ts";
import { rollcall } from "../support/rollcall/command.ts";
import { companyOfEachTest } from "../support/rollcall/company.ts";
import { startRollcall } from "../support/rollcall/rollcall.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

const module = fileURLToPath(new URL("../support/object-target.ts", import.meta.url));
const company = companyOfEachTest((yaml) =>
  yaml
    .replace(
      /^service:[^]*?^targets:\n.*\n/m,
      `targets:\n  app: { connector: ${module}, file: objects.json, readsMembers: false }\n`,
    )
    .replace("to: analytics", "to: app")
    .replace("      mail: entry.mail\n", "      phone: entry.phone\n")
    .replace("      name: entry.id\n      displayName: entry.name\n", "      name: entry.id\n")
    .replace(
      / {4}defaultPassword:.*\n/,
      "    deletions: { suspend: never, after: 0 }\n    limits: { deletes: 100% }\n",
    ),
);

const listed = (...lines: string[]): string => ["id,login,name,phone,status,groups", ...lines, ""].join("\n");

test("what one machine has written, another knows: ids, memberships, and what was under way when the first was killed", async () => {
  const url = await server.createDatabase();
  const file = join(company.folder, "objects.json");
  const other = `${company.folder}-other`;
  await company.configure(
    (yaml) => `${yaml.replace("objects.json", file)}daemon: { data: data, state: { postgres: "${url}" }, lease: 3s }\n`,
  );
  await company.write("people.csv", listed("1,ada,Ada,+1 5,active,staff;engines", "2,zoe,Zoe,,active,staff"));
  const first = await company.command("apply");
  expect(first.stdout).toContain("applied and verified");
  try {
    await cp(company.folder, other, { recursive: true, filter: (path) => !path.endsWith("data") });
    const there = (...args: string[]) => rollcall([...args, "--config", join(other, "rollcall.yaml")]);
    expect(await there("plan")).toMatchObject({ code: 0 });
    const people = listed("1,ada,Ada,+1 5,active,staff", "3,joan,Joan,,active,engines", "4,max,Max,,active,staff");
    await company.write("people.csv", people);
    await cp(join(company.folder, "people.csv"), join(other, "people.csv"));
    const env = { ROLLCALL_TEST_KILL: "2 after" };
    expect(await startRollcall(["apply", "--config", company.config], { env }).ended).toMatchObject({
      signal: "SIGKILL",
    });
    const rest = await there("apply");
    expect(rest.stderr + rest.stdout).toContain("applied and verified");
    const store = new ObjectStore(file);
    expect(store.groups()).toEqual({ engines: ["joan"], staff: ["ada", "max"] });
    expect(Object.keys(store.people())).toEqual(["ada", "joan", "max"]);
    expect(store.twice).toEqual([]);
    expect(await company.command("plan")).toMatchObject({ code: 0 });
  } finally {
    await rm(other, { recursive: true, force: true });
  }
});

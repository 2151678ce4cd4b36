import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";
import { startGate } from "../support/proxy.ts";
import { call, login, post, startService } from "../support/rollcall/service.ts";
import type { TestService } from "../support/rollcall/service.ts";

/** A sync to a service that is somebody else's process: nothing is embedded. */
const account = { name: "svc-rollcall", password: "a password of the account" };

/** The account as a service has it. */
const operator = {
  name: account.name,
  displayName: "Rollcall",
  principalTypeEnum: "LOCAL_USER",
  password: account.password,
  groupNames: ["Administrator"],
};
const targetAt = (url: string): string =>
  `analytics: { url: "${url}", username: ${account.name}, password: "\${env:TARGET_PASSWORD}" }`;

let service: TestService;
const company = companyOfEachTest((yaml) => yaml.replace(/^service:[^]*?(?=^targets:)/m, ""), {
  TARGET_PASSWORD: account.password,
});
const { begin, command } = company;
beforeEach(async () => {
  service = await startService();
  await company.configure((yaml) => yaml.replace("analytics: embedded", targetAt(service.url)));
  await submit([
    operator,
    {
      name: "local",
      displayName: "Somebody local",
      principalTypeEnum: "LOCAL_USER",
      password: "x",
      groupNames: ["wine"],
    },
    { name: "wine", displayName: "Wine tasting", principalTypeEnum: "LOCAL_GROUP" },
  ]);
});
afterEach(async () => {
  await service.stop();
});

/** As the administrator, without deleting anything. */
async function submit(principals: readonly object[]): Promise<void> {
  const session = await login(service.url);
  const form = { applyChanges: "true", remoteDeleted: "false", principals: JSON.stringify(principals) };
  const { status, text } = await post(`${service.url}/tspublic/v1/user/sync`, form, { session });
  expect(status, text).toBe(200);
}

interface Listed {
  readonly name: string;
  readonly groupNames: readonly string[];
}

async function list(): Promise<Listed[]> {
  const { text } = await call(`${service.url}/tspublic/v1/user/list`, { session: await login(service.url) });
  return JSON.parse(text) as Listed[];
}

/** As many people as make reading and applying take a while. */
function crowd(size: number): string {
  const rows = Array.from({ length: size }, (_, index) => `${index},user${index},User ${index},,active,staff`);
  return ["id,login,name,mail,status,groups", ...rows, ""].join("\n");
}

/** Lets reading the source take until a file is there. */
async function waitForFile(name: string): Promise<void> {
  await company.write(
    "waiting.ts",
    `import { access } from "node:fs/promises";
    import { join } from "node:path";
    import { setTimeout as delay } from "node:timers/promises";
    import { z } from ${JSON.stringify(import.meta.resolve("zod"))};
    export default {
      name: "waiting",
      options: z.strictObject({}),
      open: (_, { folder }) => ({ async *read({ signal }) {
        while (await access(join(folder, ${JSON.stringify(name)})).then(() => false, () => true)) await delay(20, undefined, { signal });
        const attributes = { login: "zoe", name: "Zoë", status: "active" };
        yield [{ kind: "user", id: "1", origin: "here", attributes, keys: ["1"], memberOf: [], members: [] }];
      } }),
    };`,
  );
  await company.configure((yaml) => yaml.replace(/connector: csv[^]*?(?=^syncs)/m, "connector: ./waiting.ts\n"));
}

test("manage: owned leaves alone what the sync did not create, to the last membership", async () => {
  const before = (await list()).filter(({ name }) => ["local", "wine", account.name].includes(name));
  const { code, stderr } = await command("apply");
  expect(code, stderr).toBe(0);
  const after = await list();
  expect(after.filter(({ name }) => before.some((each) => each.name === name))).toEqual(before);
  expect(after.map(({ name }) => name)).toContain("zoe");
  expect((await command("plan")).code).toBe(0);
});

test("a wrong password is said so, and not shown", async () => {
  company.env = { TARGET_PASSWORD: "wrong-secret" };
  const { code, stderr, stdout } = await command("plan");
  expect(code).toBe(1);
  expect(stderr).toContain("analytics");
  expect(stderr).toContain(account.name);
  expect(stdout + stderr).not.toContain("wrong-secret");
});

test("a service that is not there is said so", async () => {
  await service.stop();
  const { code, stderr } = await command("plan");
  expect(code).toBe(1);
  expect(stderr).toContain("analytics");
});

test("where the service's preview is not what was planned, the run is held and says how", async () => {
  // The service keeps its own administrator, whatever its name. A daemon that does not know the name plans otherwise.
  const other = await startService({ service: { administrator: { name: "root", password: "root password" } } });
  try {
    const session = await login(other.url, { name: "root", password: "root password" });
    const principals = JSON.stringify([operator]);
    await post(
      `${other.url}/tspublic/v1/user/sync`,
      { applyChanges: "true", remoteDeleted: "false", principals },
      { session },
    );
    await company.configure((yaml) =>
      yaml
        .replace(targetAt(service.url), targetAt(other.url))
        .replace("to: analytics", "to: analytics\n    manage: everything"),
    );
    const { code, stderr } = await command("apply");
    expect(code).toBe(3);
    expect(stderr).toContain("the plan is to delete the user root; the service would not");
    const { text } = await call(`${other.url}/tspublic/v1/user/list`, { session });
    expect(text).not.toContain("zoe");
  } finally {
    await other.stop();
  }
});

describe("interrupted", () => {
  test("Ctrl-C while the list is being applied: it is finished and verified, and written down", async () => {
    const gate = await startGate(service.url);
    try {
      await company.configure((yaml) => yaml.replace(targetAt(service.url), targetAt(gate.url)));
      const stopped = gate.stopAt(/applyChanges\W+true/);
      const applying = begin("apply", "--verbose");
      await stopped;
      applying.process.kill("SIGINT");
      await applying.wrote("finishing the changes under way");
      gate.release();
      const { code, stdout, stderr } = await applying.ended;
      expect(code, stderr).toBe(0);
      expect(stdout).toContain("applied and verified");
      expect((await command("plan")).code).toBe(0);
    } finally {
      await gate.close();
    }
  });

  test("Ctrl-C before that: nothing was applied, nothing is left behind", async () => {
    await waitForFile("go");
    const before = await list();
    const planning = begin("plan", "--verbose");
    await planning.wrote("reading the sources");
    planning.process.kill("SIGINT");
    const looked = await planning.ended;
    expect(looked.code).toBe(1);
    expect(looked.stderr).not.toContain("applied");
    const applying = begin("apply", "--verbose");
    await applying.wrote("reading the sources");
    applying.process.kill("SIGINT");
    const { code, stderr } = await applying.ended;
    expect(code).toBe(1);
    expect(stderr).toContain("Cancelled. Nothing was applied.");
    expect(await list()).toEqual(before);
    await company.write("go", "");
    expect((await command("apply")).code).toBe(0);
  });

  test("killed while the list is being applied: the service has all of it or none, and the next run finds its way", async () => {
    await company.write("people.csv", crowd(20_000));
    const applying = begin("apply", "--verbose");
    await applying.wrote("applying");
    await delay(200);
    applying.process.kill("SIGKILL");
    await applying.ended;
    expect((await command("plan")).code).not.toBe(1);
    const { code, stderr } = await command("apply");
    expect(code, stderr).toBe(0);
    expect((await list()).filter(({ name }) => name.startsWith("user"))).toHaveLength(20_000);
    await company.write("people.csv", people);
    const emptied = await command("plan", "--json", "--override", "deletes,shrink");
    const { digest } = JSON.parse(emptied.stdout).runs[0].plan;
    expect((await command("apply", "--override", "deletes,shrink", "--digest", digest)).code).toBe(0);
    expect((await list()).filter(({ name }) => name.startsWith("user"))).toHaveLength(0);
  });
});

test("two applies of one sync do not run at once", async () => {
  await waitForFile("go");
  const first = begin("apply", "--verbose");
  await first.wrote("reading the sources");
  const second = await command("apply");
  await company.write("go", "");
  expect(second.code).toBe(1);
  expect(second.stderr).toMatch(
    new RegExp(
      `another Rollcall \\(process ${first.process.pid}\\) is using the data folder .*: wait until it has ended`,
    ),
  );
  expect((await first.ended).code).toBe(0);
});

import { mkdir, readdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { FolderInboxes } from "#state/folder/inbox.ts";
import { runTool } from "../../support/process.ts";
import { companyOfEachTest } from "../../support/rollcall/company.ts";
import { canMount, mountSmallDisk } from "../../support/small-disk.ts";

const company = companyOfEachTest();

test("what is no backup, or of a newer Rollcall, is refused, and a folder with data is not touched", async () => {
  const { folder, command: run } = company;
  const empty = await run("backup", join(folder, "none"));
  expect([empty.code, empty.stderr]).toEqual([1, expect.stringContaining("there is nothing to back up")]);
  await run("apply", "--yes");
  const file = join(folder, "backup");
  expect((await run("backup", file)).code).toBe(0);
  expect((await run("backup", file)).stderr).toContain("exists already");
  expect((await run("backup", join(folder, "nowhere", "backup"))).stderr).toContain("cannot be written");
  expect((await run("restore", file)).stderr).toContain("has data already (service, daemon)");
  const data = join(folder, "data");
  await rm(data, { recursive: true });
  const whole = await readFile(file);
  await writeFile(join(folder, "half"), whole.subarray(0, whole.length / 2));
  await runTool("mkfifo", [join(folder, "pipe")], "", process.env);
  for (const [name, message] of [
    ["half", "is damaged or no backup"],
    ["people.csv", "is damaged or no backup"],
    ["gone", "does not exist"],
    ["pipe", "is a device or a pipe, not a regular file; save it to a file first"],
  ] as const) {
    const { code, stderr } = await run("restore", join(folder, name));
    expect([code, stderr]).toEqual([1, expect.stringContaining(message)]);
    expect((await readdir(folder)).filter((each) => each === "data" || each.startsWith(".restore"))).toEqual([]);
  }
  const { create } = await import("tar");
  await writeFile(join(folder, "backup.json"), JSON.stringify({ format: 2, rollcall: "9.1.0" }));
  await create({ cwd: folder, file: join(folder, "newer"), zstd: true }, ["backup.json"]);
  expect((await run("restore", join(folder, "newer"))).stderr).toContain("Rollcall 9.1.0 made the backup");
  await symlink("/nowhere/data", data);
  expect((await run("restore", file)).stderr).toContain("is a link to a folder that does not exist");
  await rm(data);
  expect((await run("restore", file)).code).toBe(0);
  expect((await run("plan")).code).toBe(0);
}, 60_000);

test("nothing is started on half a restored folder, and the next restore begins anew", async () => {
  const { folder, command: run } = company;
  const file = join(folder, "backup");
  await run("apply", "--yes");
  expect((await run("backup", file)).code).toBe(0);
  // As a kill between the two moves leaves it; nothing has this process id.
  const data = join(folder, "data");
  const left = join(data, ".restore-4194305");
  await mkdir(left);
  await rename(join(data, "daemon"), join(left, "daemon"));
  for (const command of ["plan", "apply"]) {
    const { code, stderr } = await run(command);
    expect([code, stderr]).toEqual([1, expect.stringContaining("its restore was interrupted (.restore-4194305)")]);
  }
  expect((await run("restore", file)).code).toBe(0);
  expect((await readdir(data)).toSorted()).toEqual(["daemon", "service"]);
  expect((await run("plan")).code).toBe(0);
}, 60_000);

test("a backup has the inboxes as of one moment, while they are pushed to", async () => {
  const { folder, command: run } = company;
  const daemon = join(folder, "data", "daemon");
  await run("apply", "--yes");
  const pushing = new FolderInboxes(daemon);
  let answered = 0;
  const stop = new AbortController();
  const some = Promise.withResolvers<void>();
  const pushes = (async (): Promise<void> => {
    await pushing.change("okta", { at: 1, token: "t" }, (inbox) => inbox.create("group", "g", { displayName: "g" }));
    for (; !stop.signal.aborted; answered++) {
      if (answered === 20) some.resolve();
      await pushing.change("okta", { at: 1, token: "t" }, async (inbox) => {
        await inbox.create("user", `${answered}`, { userName: `user ${answered}`, active: true });
        await inbox.addMembers("g", [{ id: `${answered}` }]);
      });
      await setImmediate();
    }
  })();
  await Promise.race([some.promise, pushes]);
  const before = answered;
  const file = join(folder, "backup");
  const { code, stderr } = await run("backup", file);
  const after = answered;
  stop.abort();
  await pushes;
  await pushing.close();
  expect([code, stderr]).toEqual([0, ""]);
  await rm(join(folder, "data"), { recursive: true });
  expect((await run("restore", file)).code).toBe(0);
  await using restored = new FolderInboxes(daemon);
  await restored.read("okta", async (inbox) => {
    const users = await inbox.count("user");
    expect(users).toBeGreaterThanOrEqual(before);
    expect(users).toBeLessThanOrEqual(after + 1);
    expect(await inbox.members("g", { limit: 1e6 })).toHaveLength(users);
    expect(await inbox.activity()).toMatchObject({ revision: users + 1 });
  });
  await restored.change("okta", { at: 2, token: "t" }, (inbox) => inbox.remove("user", "3"));
  await restored.close();
  expect((await run("plan")).code).toBe(0);
  const okta = join(daemon, "inboxes", "okta.sqlite");
  const whole = await readFile(okta);
  for (const damage of ["not a database".repeat(1_000), whole.fill(7, 8_192, 16_384)]) {
    await writeFile(okta, damage);
    const damaged = await run("backup", join(folder, "damaged"));
    expect([damaged.code, damaged.stderr]).toEqual([1, expect.stringContaining("okta.sqlite is damaged")]);
  }
}, 60_000);

test.skipIf(!canMount)(
  "on a full disk there is no backup, and nothing restored (a tmpfs, mounted by root)",
  async () => {
    const { folder, command: run } = company;
    await run("apply", "--yes");
    await using disk = await mountSmallDisk(join(folder, "small"), "32m");
    await disk.fill(256 * 1024);
    const full = await run("backup", join(disk.folder, "backup"));
    expect([full.code, full.stderr]).toEqual([1, expect.stringContaining("the disk is full")]);
    expect(await readdir(disk.folder)).toEqual(["filler"]);
    const file = join(folder, "backup");
    expect((await run("backup", file)).code).toBe(0);
    await company.configure((yaml) => yaml.replace("data: data", "data: small/data"));
    const restored = await run("restore", file);
    expect([restored.code, restored.stderr]).toEqual([1, expect.stringContaining("the disk is full")]);
    expect(await readdir(disk.folder)).toEqual(["filler"]);
    await disk.empty();
    expect((await run("restore", file)).code).toBe(0);
    expect((await run("plan")).code).toBe(0);
  },
  60_000,
);

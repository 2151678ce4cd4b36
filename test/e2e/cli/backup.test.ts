import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { companyOfEachTest } from "../../support/rollcall/company.ts";

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
  for (const [name, message] of [
    ["half", "is damaged or no backup"],
    ["people.csv", "is damaged or no backup"],
    ["gone", "does not exist"],
  ] as const) {
    const { code, stderr } = await run("restore", join(folder, name));
    expect([code, stderr]).toEqual([1, expect.stringContaining(message)]);
    expect((await readdir(folder)).filter((each) => each === "data" || each.startsWith(".restore"))).toEqual([]);
  }
  const { create } = await import("tar");
  await writeFile(join(folder, "backup.json"), JSON.stringify({ format: 2, rollcall: "9.1.0" }));
  await create({ cwd: folder, file: join(folder, "newer"), zstd: true }, ["backup.json"]);
  expect((await run("restore", join(folder, "newer"))).stderr).toContain("Rollcall 9.1.0 made the backup");
  expect((await run("restore", file)).code).toBe(0);
  expect((await run("plan")).code).toBe(0);
}, 60_000);

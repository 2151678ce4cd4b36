import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { rollcall } from "../../support/rollcall/command.ts";

const shipped = fileURLToPath(new URL("../../../config", import.meta.url));

test("a department of 44 people that vanishes is one cause, not one for each of their titles", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-sample-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await cp(join(shipped, "sample"), join(folder, "sample"), { recursive: true });
  const yaml = await readFile(join(shipped, "rollcall.yaml"), "utf8");
  const config = join(folder, "rollcall.yaml");
  await writeFile(
    config,
    yaml
      .replace("../data", "data")
      .replace(":8442", ":0")
      .replace(/ {4}export: .*\n/, ""),
  );
  const env = { ROLLCALL_ADMIN_PASSWORD: "administrator-secret" };
  const run = (...args: readonly string[]) => rollcall([...args, "--config", config], { cwd: folder, env });
  expect(await run("apply")).toMatchObject({ code: 0 });
  const people = join(folder, "sample/people.csv");
  const rows = (await readFile(people, "utf8")).split("\n");
  const left = rows.filter((row) => !/,1100,(?:[^,]*,){3}[^,]*$/.test(row));
  expect(rows.length - left.length).toBe(44);
  await writeFile(people, left.join("\n"));
  const { stdout } = await run("plan");
  const [, causes = ""] = /\nCauses\n((?: {2}c.*\n)+)/.exec(stdout) ?? [];
  expect(causes).toBe(
    '  c1  44 users  gone from company: all 44 in the group "Terminal Operations", such as aalmansoori\n',
  );
});

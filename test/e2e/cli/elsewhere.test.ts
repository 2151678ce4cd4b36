import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { careful, startDaemon } from "../../support/console.ts";
import { rollcall } from "../../support/rollcall/command.ts";
import { companyOfEachTest } from "../../support/rollcall/company.ts";
import { stopRollcall } from "../../support/rollcall/rollcall.ts";

const company = companyOfEachTest(careful);

test("whoever has logged in, without the daemon's data folder, looks and decides over its API", async () => {
  company.env = { XDG_CONFIG_HOME: join(company.folder, "home") };
  const password = join(company.folder, "password");
  await writeFile(password, "correct horse battery");
  for (const [name, role] of [
    ["ann", "approver"],
    ["root", "administrator"],
  ] as const)
    await company.command("account", "add", name, "--role", role, "--password-file", password);
  const daemon = await startDaemon(company, "waits for approval");
  // The configuration on another machine.
  const laptop = join(company.folder, "laptop");
  await mkdir(laptop);
  await writeFile(join(laptop, "rollcall.yaml"), await readFile(company.config));
  const command = (...args: string[]) =>
    rollcall([...args, "--config", join(laptop, "rollcall.yaml")], { env: company.env });
  const logIn = (name: string) => command("login", daemon.url, "--name", name, "--password-file", password);
  expect((await logIn("ann")).stdout).toContain("logged in as ann, with the role approver");

  const { stdout } = await command("runs", "--json");
  const { runs } = JSON.parse(stdout) as { runs: { id: string; state: string }[] };
  expect(runs).toMatchObject([{ state: "pending" }]);
  const id = runs[0]?.id ?? "";
  const plan = `${daemon.url}/runs/${id}/plan`;
  for (const shown of [
    ["show", "pending"],
    ["show", id, "--quarantined"],
  ])
    expect(await command(...shown)).toMatchObject({ code: 1, stderr: expect.stringContaining(plan) });
  for (const about of ["list", "tokens"])
    expect((await command("account", about)).stderr).toContain("ann has the role approver");
  const approved = await command("approve", "pending");
  expect([approved.code, approved.stderr]).toEqual([0, expect.stringContaining(`the plan: ${plan}`)]);
  expect(await daemon.ended(id)).toMatchObject({
    state: "applied",
    decisions: [{ by: { name: "ann", via: "account" } }],
  });
  expect((await command("history", "ada")).stderr).toContain(daemon.url);

  await logIn("root");
  expect((await command("account", "list")).stdout).toMatch(/ann +approver/);
  expect((await command("account", "tokens", "--json")).stdout).toContain('"owner": "root"');
  await expect(stat(join(laptop, "data"))).rejects.toThrow("ENOENT");
  await stopRollcall(daemon.running);
});

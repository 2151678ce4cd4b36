import { rename } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { companyOfEachTest } from "../../support/rollcall/company.ts";

const company = companyOfEachTest();
const { command } = company;

test("a file that does not exist is named with the line of the configuration, where it was looked for, and what is there", async () => {
  await rename(join(company.folder, "people.csv"), join(company.folder, "peoples.csv"));
  const line = `rollcall.yaml:10: people.csv does not exist (looked in ${company.folder}); there is peoples.csv`;
  for (const name of ["plan", "check", "apply"]) {
    const { stdout, stderr } = await command(name);
    expect((stdout + stderr).replaceAll(`${company.folder}/`, "")).toContain(line);
  }
  await company.configure((yaml) => yaml.replace("people.csv", "'nobody*.csv'"));
  expect((await command("plan")).stderr).toContain(
    `rollcall.yaml:10: no file matches nobody*.csv (looked in ${company.folder}); check the pattern and the export`,
  );
});

test("mistakes in rules are explained in the words of rules", async () => {
  await company.configure((yaml) => yaml.replace("displayName: entry.name", "displayName: lowr(entry.name)"));
  expect((await command("plan")).stderr).toContain(
    "syncs.staff.users.displayName: unknown function `lowr`; did you mean `lower`?",
  );
  await company.configure((yaml) =>
    yaml.replace("lowr(entry.name)", "entry.name").replace(/include: .*/, "include: entry.id > 2"),
  );
  const { stdout, stderr } = await command("plan");
  expect(stdout + stderr).toContain("`entry.id` is text; write `int(entry.id) > 2`");
});

test("there is nothing to decide about a run that changed nothing", async () => {
  await company.applied();
  expect((await command("apply")).code).toBe(0);
  const { runs } = JSON.parse((await command("runs", "--json")).stdout) as { runs: { id: string }[] };
  const id = runs[0]?.id ?? "";
  for (const to of ["reject", "approve", "undo"])
    expect((await command(to, id)).stderr).toContain(`the run ${id} changed nothing, so there is nothing to ${to}`);
});

test("a command that has others shows them, and with --json says that one is missing", async () => {
  for (const group of ["engine", "state", "notify"]) {
    expect((await command(group)).stderr).toContain(`Usage: rollcall ${group}`);
    const { code, stdout } = await command(group, "--json");
    expect([code, JSON.parse(stdout)]).toEqual([
      1,
      { error: expect.objectContaining({ message: "no command (see --help)" }) },
    ]);
  }
});

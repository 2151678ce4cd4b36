import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";

const company = companyOfEachTest();
const { command, run } = company;

test("who is gone from the sources is shown as leaving, and stays until the time has passed", async () => {
  await company.configure((yaml) => `${yaml}    deletions: { after: 7d }\n`);
  await command("apply");
  await company.write("people.csv", people.replace(/^3,.*\n/m, ""));
  const plan = await run("plan");
  expect(plan.plan.changes).toEqual([]);
  expect(plan.departures.leaving.examples).toMatchObject([{ kind: "user", name: "zoe" }]);
  expect(plan.notes.join("\n")).toMatch(/staying for now.*\n {2}user zoe is leaving on \d{4}-\d\d-\d\dT/);
  const { departures } = await run("apply");
  expect((await run("plan")).departures).toEqual(departures);
  const { stdout } = await command("explain", "zoe");
  expect(stdout).toContain(`it leaves on ${departures.leaving.examples[0].on} (deletions.after)`);
  await company.write("people.csv", people);
  expect((await run("apply")).departures.leaving.count).toBe(0);
});

test("an administrator who is gone from the sources is not deleted, and the report says so", async () => {
  await company.configure((yaml) =>
    yaml
      .replace("targets:", "  privileges: { administration: [Administrator, engines] }\ntargets:")
      .concat("    limits: { shrink: none }\n"),
  );
  await command("apply");
  await company.write("people.csv", people.replace(/^[13],.*\n/gm, ""));
  const { plan, departures } = await run("apply");
  expect(plan.changes).toMatchObject([{ action: "delete", name: "zoe" }]);
  expect(departures.kept.examples).toEqual([{ kind: "user", name: "ada", because: "administrator" }]);
});

test("a record with another name is a rename; a name with another record is somebody else, who waits", async () => {
  await command("apply");
  await company.write("people.csv", people.replace("1,ada,", "1,ada.king,").replace("2,grace,", "7,grace,"));
  const { plan, departures, notes } = await run("plan");
  expect(plan.changes).toMatchObject([
    { action: "create", name: "ada.king", groupsAdded: ["engines", "staff"] },
    { action: "delete", name: "ada" },
  ]);
  expect(departures.renames.examples).toMatchObject([{ from: "ada", to: "ada.king", sourceId: "1", held: false }]);
  expect(departures.reused.examples).toMatchObject([{ name: "grace", was: "2", is: "7", held: true }]);
  expect(notes.join("\n")).toMatch(/user ada is now ada\.king \(company 1\)/);
  expect(notes.join("\n")).toMatch(/user grace: company 2 before, 7 now/);
  await run("apply");

  const shown = await run("plan", "--override", "reusedNames");
  expect(shown.departures.reused.examples).toMatchObject([{ held: false }]);
  await command("apply", "--override", "reusedNames", "--digest", shown.plan.digest);
  expect((await run("plan")).departures).toMatchObject({ renames: { count: 0 }, reused: { count: 0 } });
});

test("history knows whom a note is about from the record, and of an older record from the words", async () => {
  await company.configure((yaml) => `${yaml}    deletions: { after: 7d }\n`);
  expect((await command("apply")).code).toBe(0);
  await company.write("people.csv", people.replace(/^3,zoe.*\n/m, "").replace("2,grace,", "2,hopper,"));
  await command("apply");
  const journal = join(company.folder, "data", "daemon", "journal.json");
  const text = await readFile(journal, "utf8");
  const { notes, subjects } = JSON.parse(text).runs.at(-1);
  expect(subjects.map(({ names }: { names: string[] }) => names)).toEqual(
    expect.arrayContaining([["grace", "hopper"], ["zoe"]]),
  );
  const said = async (name: string): Promise<string[]> =>
    JSON.parse((await command("history", name, "--json")).stdout).entries.flatMap(
      (entry: { notes: string[] }) => entry.notes,
    );
  const asRecorded = [await said("zoe"), await said("hopper")];
  expect(asRecorded).toEqual([
    [expect.stringMatching(/^user zoe is leaving on /)],
    [expect.stringMatching(/^user grace is now hopper /)],
  ]);
  expect(notes.map((note: string) => note.trim())).toEqual(expect.arrayContaining(asRecorded.flat()));
  expect(await said("z*")).toEqual(asRecorded[0]);
  const old = JSON.parse(text);
  for (const run of old.runs) delete run.subjects;
  await writeFile(journal, JSON.stringify(old));
  expect([await said("zoe"), await said("hopper")]).toEqual(asRecorded);
});

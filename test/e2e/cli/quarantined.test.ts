import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { companyOfEachTest, people } from "../../support/rollcall/company.ts";

const company = companyOfEachTest((yaml) =>
  yaml.replace("to: analytics", "to: analytics\n    limits: { quarantined: none, shrink: none }"),
);

/** More causes than notes name: fifteen names that two records have. */
const twins = Array.from({ length: 30 }, (_, n) => `${n + 10},twin${n >> 1},"Twin, ""the"" ${n}",,active,\n`).join("");

test("every quarantined record is stored with its run, and of the last run without changes, too", async () => {
  await company.write("people.csv", people + twins);
  const applied = await company.run("apply", "--yes");
  const csv = await company.command("show", "latest", "--quarantined");
  expect(csv.code, csv.stderr).toBe(0);
  const [header, ...rows] = csv.stdout.trimEnd().split("\n");
  expect(header).toBe('\uFEFF"sync","time","kind","name","source","id","origin","cause"');
  expect(rows).toHaveLength(30);
  expect(rows[29]).toMatch(/^"staff","[^"]+","user","twin14","company","39","people\.csv:35","the name ""twin14"" is /);
  expect((await company.command("show", "latest")).stdout).toContain("and 10 more for other reasons");

  const second = await company.run("apply", "--yes");
  expect(second.outcome).toBe("no change");
  const json = await company.command("show", "latest", "--quarantined", "--json");
  const records = JSON.parse(json.stdout) as { readonly id: string }[];
  expect(records).toHaveLength(30);
  expect(records[0]).toEqual({
    kind: "user",
    name: "twin0",
    source: "company",
    id: "10",
    origin: "people.csv:6",
    reason: expect.stringContaining('"twin0"'),
  });
  const folder = join(company.folder, "data/daemon/runs", second.run as string);
  expect(await readdir(folder)).toEqual(["quarantined.parquet"]);
  expect((await stat(join(folder, "quarantined.parquet"))).mode & 0o077).toBe(0);

  // They are stored with plans, and of the last read of each sync.
  await company.write("people.csv", people);
  await company.run("apply", "--yes");
  const none = await company.command("show", "latest", "--quarantined", "--json");
  expect([none.code, JSON.parse(none.stdout)]).toEqual([0, []]);
  const gone = await company.command("show", second.run as string, "--quarantined");
  expect([gone.code, gone.stdout]).toEqual([1, ""]);
  expect(gone.stderr).toContain(
    `the quarantined records of run ${second.run} are not stored: they are with its plan, and of the last run of each sync`,
  );
  const first = await company.command("show", applied.run as string, "--quarantined", "--format", "csv");
  expect(first.stdout).toBe(csv.stdout);
});

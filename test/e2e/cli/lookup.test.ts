import { rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { companyOfEachTest } from "../../support/rollcall/company.ts";

const company = companyOfEachTest((yaml) =>
  yaml.replace("name: entry.login", `name: entry.login\n      description: 'lookup("sites.csv", entry.site).city'`),
);
const { command } = company;

test("a table is checked when the configuration is, read at each run, and named as the cause when it has changed", async () => {
  await company.write(
    "people.csv",
    "id,login,name,mail,status,site,groups\n1,ada,Ada,,active,BER,\n2,zoe,Zoe,,active,ROM,\n",
  );
  await company.write("site.csv", "site,city\nBER,Berlin\n");
  expect(await command("validate")).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /rollcall\.yaml:\d+:\d+: syncs\.staff\.users\.description: sites\.csv does not exist \(looked in .*\); there is site\.csv/,
    ),
  });
  await company.write("sites.csv", "site,city\nBER,Berlin\nBER,Berlin\n");
  expect(await command("validate")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('sites.csv:3: the key "BER" is already used in line 2'),
  });
  await company.write("sites.csv", "site,city\nBER,Berlin\n");
  expect(await command("validate")).toMatchObject({ code: 0 });
  const explained = await command("explain", "ada");
  expect(explained.stdout).toContain("Berlin");
  expect((await command("apply")).code).toBe(0);
  expect(await command("plan")).toMatchObject({ code: 0 });

  await company.write("sites.csv", "site,city\nBER,Potsdam\nROM,Roma\n");
  const { stdout, code } = await command("plan");
  expect(code).toBe(2);
  expect(stdout).toMatch(/configuration.*tables\.sites\.csv/);
  expect(stdout).toMatch(/Berlin.*Potsdam/);

  // Without it nobody's description is known: that is no reason to clear it.
  await rm(join(company.folder, "sites.csv"));
  expect(await command("apply")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("sites.csv does not exist"),
  });
});

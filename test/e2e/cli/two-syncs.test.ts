import { beforeEach, expect, test } from "vitest";
import { companyOfEachTest } from "../../support/rollcall/company.ts";

const company = companyOfEachTest((yaml) =>
  yaml
    .replace("syncs:", "  partner: { connector: csv, users: { file: partner.csv, id: number } }\nsyncs:")
    .concat("  partner: { from: [partner], to: analytics, users: { name: entry.login, displayName: entry.name } }\n"),
);
const partner = "number,login,name\np1,ada,Another Ada\np2,max,Max\n";
beforeEach(() => company.write("partner.csv", partner));

test("a user belongs to the sync that came first: the other leaves them alone and says so", async () => {
  const { stdout } = await company.command("apply");
  expect(stdout).toMatch(
    /1 record withheld: another sync owns the user of that name.*\n {2}user ada \(partner\.csv:2\)/,
  );
  const again = await company.command("plan");
  expect(again).toMatchObject({ code: 0 });
  const told = await company.command("explain", "ada", "--sync", "partner");
  expect(told.stdout).toContain("user ada: nothing to do, it is left alone: another sync owns it");
  await company.write("partner.csv", partner.replace(/^p1.*\n/m, ""));
  expect((await company.command("plan")).code).toBe(0);
});

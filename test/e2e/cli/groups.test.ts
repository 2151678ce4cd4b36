import { expect, test } from "vitest";
import { companyOfEachTest, people } from "../../support/rollcall/company.ts";

const company = companyOfEachTest();
const { command, run } = company;

test("a group that would lose too much, or all, holds the run; it is named, and a person can let it pass", async () => {
  await company.configure(
    (yaml) => `${yaml}    limits: { membershipsLost: { percent: 100, perGroup: 50%, floor: 1 }, emptied: 0 }\n`,
  );
  await command("apply");
  await company.write("people.csv", people.replace("staff;engines", "").replaceAll(",active,staff", ",active,"));
  const plan = await command("plan");
  expect(plan.code).toBe(3);
  expect(plan.stdout).toContain(
    "✗ membershipsLost.perGroup: 1 group, at most 0 (none may lose more than 50% of its members): staff loses 3 of 4: tripped\n" +
      "  ✗ emptied: 1 group, at most 0 (as configured): engines loses all 1: tripped\n",
  );
  expect(plan.stderr).toContain("held by the limits membershipsLost.perGroup, emptied; nothing was applied");
  const next = /--override membershipsLost.perGroup,emptied --digest [0-9a-f]{12}/.exec(plan.stderr)?.[0] ?? "";
  const held = JSON.parse((await command("apply", "--json")).stdout).runs[0];
  expect(held.plan.limits).toContainEqual({
    limit: "emptied",
    of: "groups",
    value: 1,
    earlier: 0,
    bound: 0,
    basis: "as configured",
    groups: [{ name: "engines", lost: 1, members: 1 }],
    tripped: true,
    overridden: false,
  });
  expect((await command("explain", "zoe")).stdout).toContain("held by the limits membershipsLost.perGroup, emptied");
  expect(await command("apply", "staff", ...next.split(" "))).toMatchObject({ code: 0 });
  expect((await run("plan")).plan.changes).toEqual([]);
});

import { expect, test } from "vitest";
import { drilled, numbers, peopleOf } from "../e2e/cli/drilling.ts";
import { companyOfEachTest } from "../support/rollcall/company.ts";

const company = companyOfEachTest();
const { command } = company;

test("where no guard stops an incident, the drill says what would be changed, and ends with code 2", async () => {
  await company.write("people.csv", peopleOf(numbers));
  await company.configure((yaml) =>
    yaml
      .replace("memberOf: { column: groups } }", "memberOf: { column: groups }, optionalColumns: [mail, groups] }")
      .concat(
        "    reusedNames: apply\n    limits: { deletes: 30%, updates: none, membershipsLost: none, shrink: none }\n",
      ),
  );
  await company.applied();
  const { code, found } = await drilled(
    company,
    "--only",
    "column-renamed,stale-export,swapped-ids,memberships-hidden",
  );
  expect(code).toBe(2);
  expect(Object.keys(found)).toHaveLength(4);
  expect(found).toMatchObject({
    "stale-export": {
      verdict: "passed",
      changed: 39,
      because: [],
      advice: "deletes: 39 users, at most 58 (30% of 196): a lower limits.deletes would hold it",
    },
    "swapped-ids": {
      verdict: "passed",
      because: ["reusedNames: apply: 2 names and what was given to them would be somebody else's"],
    },
    "memberships-hidden": {
      verdict: "passed",
      advice: "set limits.membershipsLost: it does this to 293 of 293 memberships",
    },
  });
  const shown = await command("drill", "staff", "--only", "stale-export", "--markdown");
  expect(shown.code).toBe(2);
  expect(shown.stdout).toContain(
    "| the export is an old one | `the last 40 of 200 users of company are not in it yet` | 39 users deleted, 58 memberships removed | **would pass** |",
  );
  // It is what happens when it happens.
  await company.write("people.csv", peopleOf(numbers.slice(0, 160)));
  const real = JSON.parse((await command("apply", "--json")).stdout).runs[0];
  expect(real).toMatchObject({ outcome: "applied", plan: { counts: { users: { delete: 39 } } } });
});

test("approvals and grace periods stop what limits let through; a held sync is rehearsed as if it were not", async () => {
  await company.write("people.csv", peopleOf(numbers));
  const loose = "    limits: { deletes: 100%, shrink: none }\n";
  await company.configure((yaml) => `${yaml}    approval: required\n    deletions: { after: 30d }\n${loose}`);
  // Never applied: the incidents happen after today's plan.
  const { code, found } = await drilled(company, "--only", "stale-export,group-emptied");
  expect(code).toBe(0);
  expect(found["stale-export"]?.because).toEqual([
    expect.stringMatching(/^deletions\.after: 39 users gone from the sources, to be deleted from \d{4}-\d\d-\d\d on$/),
  ]);
  expect(found["group-emptied"]).toMatchObject({ verdict: "stopped" });
  const other = await command("drill", "nobody");
  expect(other).toMatchObject({ code: 1 });
  await company.write("people.csv", "nothing\n");
  const failed = await command("drill", "staff");
  expect(failed).toMatchObject({ code: 1, stdout: "" });
  expect(failed.stderr).toContain('people.csv:1: the header has no column "id"');
});

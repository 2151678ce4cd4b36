import { afterEach, beforeEach, expect, test } from "vitest";
import { makeCompany, people } from "../../servers/company.ts";
import type { CompanyFolder } from "../../servers/company.ts";
import { rollcall } from "../../servers/rollcall.ts";

let company: CompanyFolder;
beforeEach(async () => {
  company = await makeCompany();
});
afterEach(() => company.remove());

const explain = (name: string, ...rest: string[]) => rollcall(["explain", name, "--config", company.config, ...rest]);

async function explained(name: string) {
  const { stdout, stderr } = await explain(name, "--json");
  const [explanation] = JSON.parse(stdout).explanations;
  expect(explanation.error, stderr).toBeUndefined();
  return explanation;
}

test("from the record to the plan: origin, attributes, rules, memberships and the ways to groups", async () => {
  const before = await explained("ADA@example.com");
  expect(before.records).toMatchObject([
    {
      source: "company",
      kind: "user",
      id: "1",
      verdict: "included",
      name: "ada",
      memberships: [
        { group: "engines", by: "member" },
        { group: "staff", by: "member" },
      ],
    },
  ]);
  expect(before.records[0].origin).toMatch(/people\.csv:2$/);
  expect(before.records[0].rules).toContainEqual({
    rule: "users.include",
    expression: 'entry.status == "active"',
    attributes: { status: "active" },
    value: true,
  });
  expect(before.outcomes).toMatchObject([
    { kind: "user", name: "ada", action: "create", groups: [["engines"], ["staff"]], ownedFrom: [] },
  ]);

  await rollcall(["apply", "--config", company.config]);
  await company.write("people.csv", people.replace("active,staff;engines", "active,engines;nowhere"));
  const { code, stdout } = await explain("1");
  expect(code).toBe(0);
  expect(stdout).toMatch(/^record of company: user 1, .*people\.csv:2$/m);
  expect(stdout).toMatch(/member of nowhere: the record says so; left out: the source has no such group/);
  expect(stdout).toMatch(/^user ada: update, a record makes it/m);
  expect(stdout).toMatch(/this sync owns it, from company 1$/m);
  expect(stdout).toMatch(/^ {2}groups: −staff$/m);
  expect(stdout).toMatch(/^ {2}in engines → staff$/m);
});

test("who is not in scope, in doubt, or only in the target is explained too", async () => {
  expect(await explained("left")).toMatchObject({
    records: [{ verdict: "excluded", reason: "the rule users.include gives false" }],
    outcomes: [],
  });

  await rollcall(["apply", "--config", company.config]);
  await company.write("people.csv", `${people.replace(/^2,.*\n/m, "")}5,zoe,Another Zoë,,active,\n`);
  const { records, outcomes } = await explained("zoe");
  expect(records).toMatchObject([
    { id: "3", verdict: "quarantined", reason: expect.stringContaining("people.csv:5") },
    { id: "5", verdict: "quarantined", reason: expect.stringContaining("people.csv:3") },
  ]);
  expect(outcomes).toMatchObject([
    { name: "zoe", action: "nothing", why: expect.stringMatching(/unknown.*the name "zoe"/) },
  ]);

  expect(await explained("grace")).toMatchObject({
    records: [],
    outcomes: [
      {
        action: "delete",
        why: "no record makes it any more, and this sync owns it",
        actual: { displayName: "Grace Hopper" },
        ownedFrom: [{ source: "company", sourceId: "2" }],
      },
    ],
  });
  expect(await explained("admin")).toMatchObject({
    outcomes: [{ action: "nothing", why: "its name is protected: it is never touched" }],
  });
});

test("a name that nothing has gives those that are near, and fails", async () => {
  const { code, stdout } = await explain("gracie");
  expect(code).toBe(1);
  expect(stdout).toContain("staff → analytics: nothing is called gracie; near are: grace");
  const wrong = await explain("ada", "--sync", "stuff");
  expect(wrong.code).toBe(1);
  expect(wrong.stderr).toContain("no sync is called stuff");
});

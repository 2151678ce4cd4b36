import { expect, test } from "vitest";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";

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
  expect(plan.stderr).toContain("held by the limits on groups losing members, groups emptied; nothing was applied");
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
  expect((await command("explain", "zoe")).stdout).toContain(
    "held by the limits on groups losing members, groups emptied",
  );
  expect(await command("apply", "staff", ...next.split(" "))).toMatchObject({ code: 0 });
  expect((await run("plan")).plan.changes).toEqual([]);
});

const staff = (...rows: readonly string[]): string => `id,login,name,mail,status,groups,site\n${rows.join("\n")}\n`;
const ada = "1,ada,Ada Lovelace,ada@example.com,active,staff,Delft";
const grace = "2,grace,Grace Hopper,grace@example.com,active,staff,Essen";
const zoe = "3,zoe,Zoë Ünal,,active,staff,Essen";

test("groups that rules make of values come into being, and go when nobody is in them any more", async () => {
  await company.configure(
    (yaml) =>
      `${yaml.replace("mail: entry.mail\n", `mail: entry.mail\n      groups: '"Site " + entry.site'\n`)}  other:
    from: [company]
    to: analytics
    users: { include: "false", name: entry.login, displayName: entry.name }
    groups: { include: "false", name: entry.id, displayName: entry.name }
    staticGroups: { Site Essen: { displayName: Somebody else's } }
`,
  );
  await company.write("people.csv", staff(ada, grace, zoe));
  const refused = await command("plan", "staff");
  expect(refused.code).toBe(1);
  expect(refused.stderr).toMatch(/group Site Essen: user grace \(people.csv:3\) and 1 more\n/);
  expect(refused.stderr).toMatch(/`staticGroups`.* `groupsFromRules: create`.*create them in the target/s);

  await company.configure((yaml) =>
    yaml.replace(
      /^ {2}staff:\n/m,
      `  staff:\n    groupsFromRules: { displayName: 'replace(value, "Site", "Office in")' }\n`,
    ),
  );
  // A group that is there already, and somebody else's, gets members and stays as it is.
  await company.applyOther();
  const first = await run("apply", "staff");
  expect(first.plan.changes.filter(({ kind }: { kind: string }) => kind === "group")).toMatchObject([
    { action: "create", name: "Site Delft", attributes: [{ attribute: "displayName", to: "Office in Delft" }] },
    { action: "create", name: "engines" },
    { action: "create", name: "staff" },
  ]);
  expect(first.notes.join("\n")).toMatch(
    /^1 group of the target that rules name gets members and nothing else.*\n {2}group "Site Essen"$/m,
  );
  const explained = (await command("explain", "Site Delft", "--sync", "staff")).stdout;
  expect(explained).toMatch(
    /nothing to do, rules make it \(groupsFromRules: the rule users.groups of ada, people.csv:2\)/,
  );

  // Somebody whose record is in doubt stays in it, and so does the group.
  await company.write(
    "people.csv",
    staff(ada.replace("Ada Lovelace", ""), grace.replace("Essen", "Oslo"), zoe.replace("Essen", "Oslo")),
  );
  const moved = await run("apply", "staff");
  expect(moved.plan.changes).toMatchObject([
    { action: "create", kind: "group", name: "Site Oslo" },
    { action: "update", name: "grace", groupsAdded: ["Site Oslo"] },
    { action: "update", name: "zoe", groupsAdded: ["Site Oslo"] },
  ]);
  await company.write(
    "people.csv",
    staff(ada.replace("Delft", "Oslo"), grace.replace("Essen", "Oslo"), zoe.replace("Essen", "Oslo")),
  );
  const left = await command("apply", "staff");
  expect(left.stdout).toContain('− "Site Delft"');
  expect(left.stdout).toContain(
    '1 group  groups made by rules have no members any more (groupsFromRules): "Site Delft"',
  );
  expect((await command("apply", "staff")).stdout).toContain("no change");
});

test("memberships that somebody adds by hand stay where they are to, and those that the sync gave go as before", async () => {
  const other = `  other:
    from: [company]
    to: analytics
    users: { include: 'entry.login in ["zoe"]', name: entry.login, displayName: entry.name, mail: entry.mail, groups: '"engines"' }
`;
  const keep = "    memberships: { keepManual: [eng*] }\n";
  await company.configure((yaml) => `${yaml}${keep}${other}`);
  await command("apply", "staff");
  // Somebody else writes to the target: that is by hand, for this sync.
  await company.applyOther();
  const kept = await run("apply", "staff");
  expect(kept.plan.changes).toEqual([]);
  const note = "1 manual membership kept (memberships.keepManual)";
  expect(kept.notes.join("\n")).toContain(`${note}\n  user zoe in engines`);
  expect((await command("explain", "zoe", "--sync", "staff")).stdout).toContain(
    "in engines: a manual membership, kept (memberships.keepManual)",
  );

  // What the source withdraws goes, and once more after an undo; what is by hand stays through both.
  await company.write("people.csv", people.replace("staff;engines", "staff"));
  const withdrawn = await run("apply", "staff");
  expect(withdrawn.plan.changes).toMatchObject([{ name: "ada", groupsRemoved: ["engines"] }]);
  await command("undo", withdrawn.run);
  expect(await command("approve", "pending", "--yes")).toMatchObject({ code: 0 });
  const again = await run("plan", "staff");
  expect(again.plan.changes).toMatchObject([{ name: "ada", groupsRemoved: ["engines"] }]);
  expect(again.notes.join("\n")).toContain(`${note}\n  user zoe in engines`);
});

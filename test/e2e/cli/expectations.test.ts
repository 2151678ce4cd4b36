import { expect, onTestFinished, test } from "vitest";
import { companyOfEachTest, people } from "../../support/rollcall/company.ts";
import { ldifEntry } from "../../support/ldap/ldif.ts";
import { base, noOpenLdap, reader, startOpenLdap } from "../../support/ldap/openldap.ts";

/** What is expected of the target: from the configuration to reports, approvals and overrides. */

const company = companyOfEachTest();
const { command, run } = company;

async function expecting(...lines: readonly string[]): Promise<void> {
  await company.configure(
    (yaml) =>
      `${yaml.replace(/ {4}expectations:\n(?: {6}-.*\n)*/, "")}    expectations:\n${lines.map((line) => `      - ${line}\n`).join("")}`,
  );
}

const mail = `{ name: engineers have mail, over: users, expect: '!("engines" in nestedGroups) || has(entry.mail)' }`;

test("a plan that breaks an expectation is held, says who and why, and passes when that one is overridden", async () => {
  await expecting(mail, "{ name: enough users, expect: users.size() > 3, otherwise: approve }");
  const first = await run("apply");
  expect(first.expectations).toMatchObject([{ state: "met" }, { state: "met" }]);

  await company.write("people.csv", people.replace("active,staff\n4", "active,staff;engines\n4"));
  const plan = await command("plan");
  expect(plan.code).toBe(3);
  expect(plan.stdout).toContain(
    'Expectations\n  ✗ "engineers have mail": 1 user breaks it: holds the plan\n      zoe: joins engines (c1)\n  ✓ 1 expectation met\n',
  );
  expect(plan.stderr).toContain('held by the expectation "engineers have mail"; nothing was applied');
  const held = await command("apply", "--yes");
  const [, id = ""] =
    /approve --config \S+ (\S+) --override "expectation:engineers have mail"`/.exec(held.stderr) ?? [];
  expect(held).toMatchObject({ code: 3 });
  expect((await command("approve", id, "--yes")).stderr).toContain("is held by limits; approve it despite them");
  expect((await command("approve", id, "--yes", "--override", "engineers have mail")).stderr).toContain(
    "expectation:NAME",
  );
  const shown = await command("show", id, "--format", "markdown");
  expect(shown.stdout).toContain(
    '- **broken by this plan** `"engineers have mail": 1 user breaks it: holds the plan`\n  - `zoe:',
  );
  expect((await command("show", id, "--format", "html")).stdout).toMatch(
    /broken<\/span>\s+&quot;engineers have mail&quot;: 1 user/,
  );
  expect((await command("explain", "zoe")).stdout).toContain('  breaks the expectation "engineers have mail": !(');
  const approved = await command("approve", id, "--yes", "--override", "expectation:engineers have mail");
  expect(approved).toMatchObject({ code: 0, stdout: expect.stringContaining("1 user breaks it: overridden") });

  // It is so in the target now: said where nothing changes, and no reason to hold anything else.
  const same = await command("plan");
  expect(same).toMatchObject({ code: 0, stdout: expect.stringContaining("no change (4 users") });
  expect(same.stdout).toContain('! "engineers have mail": 1 user breaks it, in the target already: not by this plan');
  const checked = await command("check", "--json");
  expect(JSON.parse(checked.stdout).checked).toContainEqual(
    expect.objectContaining({
      what: "sync",
      expectations: [
        expect.objectContaining({ state: "broken", examples: [expect.objectContaining({ name: "zoe" })] }),
        // Without the target's own accounts.
        expect.objectContaining({
          state: "broken",
          numbers: expect.objectContaining({ users: { before: 3, after: 3 } }),
        }),
      ],
    }),
  );

  // Fewer users than expected: a person decides, whatever `approval` says.
  await company.write(
    "people.csv",
    people.replace("2,grace,Grace Hopper,grace@example.com,active", "2,grace,Grace Hopper,,left"),
  );
  const asked = await command("apply");
  expect(asked.code).toBe(3);
  expect(asked.stdout).toContain(
    '✗ "enough users": users.size() > 3 is not true (4 → 3 users): a person must approve the plan',
  );
  const [, pending = ""] = /run (\S+) waits for approval/.exec(asked.stdout) ?? [];
  expect(await command("approve", pending, "--yes")).toMatchObject({ code: 0 });
});

test("mistakes in expectations are found with their line, and a warning holds nothing", async () => {
  await expecting(
    "{ name: alone, over: groups, expect: members.size() }",
    "{ name: alone, over: users, expect: members.size() > 1 }",
    "{ name: 'a, b', expect: 'users.exists(u, true)', most: 1 }",
  );
  const { stderr } = await command("validate");
  for (const line of [
    "rollcall.yaml:27:46: syncs.staff.expectations[0].expect: gives int, but true or false is needed",
    "rollcall.yaml:28:45: syncs.staff.expectations[1].expect: Unknown variable: members",
    "rollcall.yaml:28:17: syncs.staff.expectations[1].name: named twice; give it another name",
    "rollcall.yaml:29:17: syncs.staff.expectations[2].name: expected a name of at most 80 characters, without commas",
    "syncs.staff.expectations[2].most: there is nothing to count without `over`; remove it",
    "for each of them write over: users",
  ])
    expect(stderr).toContain(line);
  await expecting(
    "{ name: teams, over: groups, expect: nestedMembers.size() != 1 || !inSource, otherwise: warn, most: 0 }",
  );
  const applied = await command("apply");
  expect(applied).toMatchObject({ code: 0 });
  expect(applied.stdout).toContain(
    '! "teams": 1 group breaks it: a warning\n      engines: is created, joins staff, ada joins\n',
  );
});

const noLdap = await noOpenLdap();

test.skipIf(noLdap !== undefined)(
  "attributes that only an expectation reads are asked of a real directory, and kept with the plan that is approved",
  async () => {
    const person = (name: string): string => `uid=${name},ou=people,${base}`;
    const dnOf = (name: string): string => `cn=${name},ou=groups,${base}`;
    const groupOf = (name: string, ...members: readonly string[]): string =>
      ldifEntry(dnOf(name), { objectClass: "groupOfNames", cn: name, member: members });
    const directory = await startOpenLdap({
      ldif: [
        ...["people", "groups"].map((ou) => ldifEntry(`ou=${ou},${base}`, { objectClass: "organizationalUnit", ou })),
        ...["ada", "grace", "mallory"].map((uid) =>
          ldifEntry(person(uid), {
            objectClass: "inetOrgPerson",
            uid,
            cn: uid,
            sn: uid,
            employeeType: uid === "mallory" ? "contractor" : "employee",
          }),
        ),
        groupOf("finance", person("ada"), dnOf("controlling")),
        // A cycle.
        groupOf("controlling", person("grace"), dnOf("finance")),
      ],
    });
    onTestFinished(() => directory[Symbol.asyncDispose]());
    await company.configure((yaml) =>
      yaml
        .replace(
          /connector: csv[\s\S]*?syncs:/,
          `connector: ldap
    url: ${directory.url}
    bind: { dn: "${reader.dn}", password: ${reader.password} }
    users: { base: "ou=people,${base}", filter: (objectClass=inetOrgPerson) }
    groups: { base: "ou=groups,${base}", filter: (objectClass=groupOfNames) }
syncs:`,
        )
        .replace(
          / {6}include:[\s\S]*? {4}default/,
          "      name: entry.uid\n      displayName: entry.cn\n    groups: { name: entry.cn, displayName: entry.cn }\n    causes: false\n    default",
        ),
    );
    await expecting(
      `{ name: no contractors in finance, over: users, expect: '!("finance" in nestedGroups) || entry.employeeType != "contractor"' }`,
      `{ name: everybody is known, over: users, expect: 'inSource || name == "admin"' }`,
    );
    const first = await run("apply");
    expect(first.expectations).toMatchObject([{ state: "met" }, { state: "met" }]);

    await directory.modify(
      `dn: ${dnOf("controlling")}\nchangetype: modify\nadd: member\nmember: ${person("mallory")}\n`,
    );
    const held = await command("apply", "--json");
    expect(held.code).toBe(3);
    const [document] = JSON.parse(held.stdout).runs;
    expect(document.expectations).toMatchObject([
      {
        state: "tripped",
        violations: 1,
        already: 0,
        examples: [{ kind: "user", name: "mallory", isNew: true, change: { groupsAdded: ["controlling"] } }],
      },
      { state: "met" },
    ]);
    expect(document.plan.limits).toContainEqual(
      expect.objectContaining({ limit: "expectation:no contractors in finance", tripped: true, value: 1 }),
    );
    // The sources are not read again: what the expectation asks for is in the stored plan.
    await directory.modify(
      `dn: ${person("mallory")}\nchangetype: modify\nreplace: employeeType\nemployeeType: employee\n`,
    );
    const other = await command("approve", document.run, "--override", "deletes", "--json");
    expect(other.code).toBe(1);
    const override = "expectation:no contractors in finance";
    const approved = await command("approve", document.run, "--override", override, "--json");
    expect(JSON.parse(approved.stdout).runs[0]).toMatchObject({
      outcome: "applied",
      expectations: [{ state: "overridden", violations: 1 }, { state: "met" }],
    });
    // An undo does not read them either, and says what it cannot tell.
    const undone = await command("undo", document.run, "--json");
    expect(JSON.parse(undone.stdout).runs[0].expectations).toMatchObject([{ state: "unknown" }, { state: "unknown" }]);
  },
  120_000,
);

import { expect, onTestFinished, test } from "vitest";
import { companyOfEachTest, people } from "../../support/rollcall/company.ts";
import { ldifEntry } from "../../support/ldap/ldif.ts";
import { base, noOpenLdap, reader, startOpenLdap } from "../../support/ldap/openldap.ts";

/** Who is in scope by the groups of a source, from the configuration to the causes of a plan. */

const company = companyOfEachTest();
const { run, command } = company;

/** `create user ada` for each change, sorted. */
const changesOf = ({ plan }: { plan: { changes: { action: string; kind: string; name: string }[] } }): string[] =>
  plan.changes.map(({ action, kind, name }) => `${action} ${kind} ${name}`).sort();

const noLdap = await noOpenLdap();

test.skipIf(noLdap !== undefined)(
  "members of groups of a real directory, joined with a file",
  async () => {
    const person = (name: string): string => `uid=${name},ou=people,${base}`;
    const groupOf = (name: string, ...members: readonly string[]): string =>
      ldifEntry(`cn=${name},ou=groups,${base}`, { objectClass: "groupOfNames", cn: name, member: members });
    const dnOf = (name: string): string => `cn=${name},ou=groups,${base}`;
    const directory = await startOpenLdap({
      ldif: [
        ...["people", "groups"].map((ou) => ldifEntry(`ou=${ou},${base}`, { objectClass: "organizationalUnit", ou })),
        ...["ada", "grace", "zoe"].map((uid) =>
          ldifEntry(person(uid), { objectClass: "inetOrgPerson", uid, cn: uid, sn: uid, mail: `${uid}@example.com` }),
        ),
        groupOf("app-sales", dnOf("europe"), person("grace")),
        // A cycle.
        groupOf("europe", dnOf("app-sales"), person("ada"), person("grace")),
        groupOf("everyone", person("ada"), person("grace"), person("zoe")),
      ],
    });
    onTestFinished(() => directory[Symbol.asyncDispose]());
    await company.write("people.csv", people.replace("Ünal,,", "Ünal,zoe@example.com,"));
    await company.configure((yaml) =>
      yaml
        .replace(/ {4}groups: \{ file.*\n/, "")
        .replace(", memberOf: { column: groups } }", " }")
        .replace(
          "syncs:",
          `  corp:
    connector: ldap
    url: ${directory.url}
    bind: { dn: "${reader.dn}", password: ${reader.password} }
    users: { base: "ou=people,${base}", filter: (objectClass=inetOrgPerson) }
    groups: { base: "ou=groups,${base}", filter: (objectClass=groupOfNames) }
syncs:`,
        )
        .replace("[company]", "[company, corp]\n    join: { users: lower(entry.mail) }")
        .replace("users:\n      include", "users:\n      onlyMembersOf: [app-*]\n      nested: true\n      include")
        .replace("groups:\n      name: entry.id", "groups:\n      onlyBelow: [app-sales]\n      name: entry.cn")
        .replace(/displayName: entry\.name\n {4}defaultPassword/, "displayName: entry.cn\n    defaultPassword"),
    );
    const first = await run("apply");
    expect(changesOf(first)).toEqual([
      "create group app-sales",
      "create group europe",
      "create user ada",
      "create user grace",
    ]);

    expect(first.notes).toContain(
      "2 users and 1 group of the sources not in scope (users.onlyMembersOf, groups.onlyBelow)",
    );

    const out = await command("explain", "zoe");
    expect(out.stdout).toContain("  users.onlyMembersOf: app-* (nested) → not in scope\n");
    expect(out.stdout).toContain(
      "  excluded: users.onlyMembersOf: it is in no group that matches app-*; it is in everyone",
    );
    expect((await command("explain", "ada")).stdout).toContain(
      "  users.onlyMembersOf: app-* (nested) → in scope, in europe → app-sales\n",
    );

    await directory.modify(`dn: ${dnOf("europe")}\nchangetype: modify\ndelete: member\nmember: ${person("ada")}\n`);
    const left = await run("plan");
    expect(changesOf(left)).toEqual(["delete user ada"]);
    expect((await command("plan")).stdout).toContain('left the scope: no longer in the group "app-sales" (corp)');
    expect(changesOf(await run("apply"))).toEqual(["delete user ada"]);

    // A group that was renamed is no reason to delete everybody.
    await directory.modify(`dn: ${dnOf("app-sales")}\nchangetype: modrdn\nnewrdn: cn=sales-app\ndeleteoldrdn: 1\n`);
    const lost = await command("apply");
    expect(lost).toMatchObject({ code: 1 });
    expect(lost.stderr).toContain('users.onlyMembersOf: no group matches "app-*"; there is');
    expect(lost.stderr).toContain('groups.onlyBelow: no group matches "app-sales"; there is "sales-app"');
    expect((await command("check")).stdout).toContain('users.onlyMembersOf: no group matches "app-*"');
  },
  120_000,
);

test("members named in a file, rules that ask for groups, and mistakes", async () => {
  await company.configure((yaml) =>
    yaml
      .replace("users:\n      include", "users:\n      notMembersOf: [engines]\n      include")
      .replace("mail: entry.mail", "mail: entry.mail\n      description: 'join(nestedMemberOf(entry), \", \")'"),
  );
  const first = await run("apply");
  expect(changesOf(first)).toEqual([
    "create group engines",
    "create group staff",
    "create user grace",
    "create user zoe",
  ]);
  expect(first.plan.changes).toContainEqual(
    expect.objectContaining({
      name: "zoe",
      attributes: expect.arrayContaining([expect.objectContaining({ attribute: "description", to: "staff" })]),
    }),
  );
  await company.write(
    "people.csv",
    people
      .replace(",staff;engines", ",staff")
      .replace("Hopper,grace@example.com,active,staff", "Hopper,,active,staff;engines"),
  );
  const { stdout } = await command("plan");
  expect(stdout).toContain('came into scope: no longer in the group "engines" (company)');
  expect(stdout).toContain('left the scope: now in the group "engines" (company)');
  expect((await command("explain", "grace")).stdout).toContain("users.notMembersOf leaves it out: it is in engines");

  await company.configure((yaml) =>
    yaml
      .replace("notMembersOf: [engines]", "nested: true")
      .replace("nestedMemberOf(entry)", "nestedMemberOf(entry.name)")
      .replace("groups:\n      name: entry.id", "groups:\n      onlyBelow: []\n      name: 'memberOf(entry)[0]'"),
  );
  const { code, stderr } = await command("validate");
  expect(code).toBe(1);
  expect(stderr).toMatch(/rollcall\.yaml:\d+:\d+: .*nested.*needs onlyMembersOf or notMembersOf beside it/);
  expect(stderr).toContain("write nestedMemberOf(entry): it gives the groups of the entry");
  expect(stderr).toContain("memberOf(entry) needs the names of groups, which this rule gives");
  expect(stderr).toContain("expected at least one name of a group");
});

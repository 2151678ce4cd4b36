import { expect, test } from "vitest";
import { ldifChange, ldifEntry } from "../../support/ldap/ldif.ts";
import { base, noOpenLdap, reader, startOpenLdap } from "../../support/ldap/openldap.ts";
import { companyOfEachTest } from "../../support/rollcall/company.ts";

const reason = await noOpenLdap();
const company = companyOfEachTest();
const { command, run } = company;

const people = `ou=people,${base}`;
const person = (uid: string, employeeType: string): string =>
  ldifEntry(`uid=${uid},${people}`, { objectClass: "inetOrgPerson", uid, cn: uid, sn: uid, employeeType });

test.skipIf(reason !== undefined)("a second value of an attribute that a rule compares removes nobody", async () => {
  await using server = await startOpenLdap({
    ldif: [
      ldifEntry(people, { objectClass: "organizationalUnit", ou: "people" }),
      ...["ada", "bob", "cyd"].map((uid) => person(uid, "staff")),
      person("dee", "contractor"),
    ].join(""),
  });
  const configured = (rule: string): Promise<unknown> =>
    company.configure(
      (yaml) => `${yaml.slice(0, yaml.indexOf("sources:"))}sources:
  corp:
    connector: ldap
    url: "${server.url}"
    bind: { dn: "${reader.dn}", password: "${reader.password}" }
    users: { base: "${people}" }
syncs:
  staff:
    from: [corp]
    to: analytics
    deletions: { after: 0 }
    users: { ${rule}, name: entry.uid, displayName: entry.cn }
    defaultPassword: initial-user-secret
`,
    );
  await configured(`include: 'entry.employeeType == "staff"'`);
  expect(await command("apply", "staff")).toMatchObject({ code: 0 });
  await server.modify(
    [
      ldifChange(`uid=ada,${people}`, "replace", { employeeType: ["staff", "board"] }),
      ldifChange(`uid=dee,${people}`, "replace", { employeeType: ["contractor", "leased"] }),
    ].join(""),
  );

  const planned = await run("plan", "staff");
  expect(planned.plan.changes).toEqual([]);
  expect(JSON.stringify(planned)).toContain(
    JSON.stringify('`entry.employeeType` has several values; write `"staff" in values(entry.employeeType)`').slice(
      1,
      -1,
    ),
  );
  // Dee is not let in.
  await configured(`exclude: 'entry.employeeType == "contractor"'`);
  expect((await run("plan", "staff")).plan.changes).toEqual([]);
  // What the message says is right.
  await configured(`include: '"staff" in values(entry.employeeType)'`);
  const right = await command("plan", "staff");
  expect(right).toMatchObject({ code: 0 });
  expect(right.stdout).not.toContain("has several values");
});

test("where all sources are CSV, comparing a column with another kind of value is an error of the configuration", async () => {
  await company.configure((yaml) => yaml.replace(/include: .*/, "include: entry.status == true"));
  const found = await command("validate");
  expect(found.code).toBe(1);
  expect(found.stderr).toMatch(/users\.include: `entry\.status` is text; write `lower\(entry\.status\) == "true"`/);
});

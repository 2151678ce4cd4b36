import { rm } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { base, noOpenLdap, reader, startOpenLdap } from "../support/ldap/openldap.ts";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";

const reason = await noOpenLdap();
const company = companyOfEachTest();
const { command, run } = company;

test("what somebody adds by hand while a plan waits for approval stays as well", async () => {
  await company.configure(
    (yaml) => `${yaml}    memberships: { keepManual: true }
  other:
    from: [company]
    to: analytics
    users: { include: 'entry.login in ["zoe"]', name: entry.login, displayName: entry.name, mail: entry.mail, groups: '"engines"' }
`,
  );
  await command("apply", "staff");
  await company.configure((yaml) => yaml.replace("  staff:\n", "  staff:\n    approval: required\n"));
  await company.write("people.csv", people.replace("Grace Hopper", "Rear Admiral Hopper"));
  const { run: id } = await run("apply", "staff");
  await company.applyOther();
  expect(await command("approve", id, "--yes")).toMatchObject({ code: 0 });
  const next = await run("plan", "staff");
  expect(next.plan.changes).toEqual([]);
  await command("apply", "staff");
  expect(next.notes.join("\n")).toContain("\n  user zoe in engines");

  // Without what the last run gave, only what was known stays.
  await company.configure((yaml) => yaml.replace('["zoe"]', '["zoe", "grace"]'));
  await company.applyOther();
  await rm(join(company.folder, "data", "daemon", "baselines"), { recursive: true });
  const unknown = await run("plan", "staff");
  expect(unknown.plan.changes.map(({ name }: { name: string }) => name)).toEqual(["grace"]);
  expect(unknown.notes).toContain(
    "1 membership removed that may be manual: it is not known which ones the last run gave",
  );
  await company.configure((yaml) => yaml.replace(/ {4}memberships:.*\n/, ""));
  expect((await run("plan", "staff")).plan.changes.map(({ name }: { name: string }) => name)).toEqual(["grace", "zoe"]);
});

describe.skipIf(reason !== undefined)("with OpenLDAP", () => {
  test("a group that loses most of its members holds the run; by hand stays, and groups of values come and go", async () => {
    const dn = (n: number): string => `uid=u${n},ou=people,${base}`;
    const person = (n: number, site: string): string =>
      `dn: ${dn(n)}\nobjectClass: inetOrgPerson\nuid: u${n}\ncn: User ${n}\nsn: ${n}\nmail: u${n}@example.com\nl: ${site}\n\n`;
    const unit = (ou: string): string => `dn: ou=${ou},${base}\nobjectClass: organizationalUnit\nou: ${ou}\n\n`;
    const numbers = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, n) => from + n);
    const members = (to: number): string =>
      numbers(1, to)
        .map((n) => `member: ${dn(n)}\n`)
        .join("");
    const team = `cn=team,ou=groups,${base}`;
    await using server = await startOpenLdap({
      ldif: [
        unit("people"),
        unit("groups"),
        person(1, "Delft"),
        ...numbers(2, 80).map((n) => person(n, "Essen")),
        `dn: ${team}\nobjectClass: groupOfNames\ncn: team\n${members(12)}\n`,
        `dn: cn=all,ou=groups,${base}\nobjectClass: groupOfNames\ncn: all\n${members(80)}\n`,
      ].join(""),
    });
    await company.configure((yaml) =>
      yaml
        .replace(/ {4}connector: csv\n.*\n.*\n/, () =>
          [
            "    connector: ldap",
            `    url: "${server.url}"`,
            `    bind: { dn: "${reader.dn}", password: "${reader.password}" }`,
            `    users: { base: "${base}", filter: "(objectClass=inetOrgPerson)" }`,
            `    groups: { base: "${base}", filter: "(objectClass=groupOfNames)" }`,
            "",
          ].join("\n"),
        )
        .replace(/ {6}include.*\n/, "")
        .replace("name: entry.login", "name: entry.uid")
        .replace("displayName: entry.name", "displayName: entry.cn")
        .replace("name: entry.id", "name: entry.cn")
        .replace("displayName: entry.name", "displayName: entry.cn")
        .replace("mail: entry.mail\n", `mail: entry.mail\n      groups: '"Site " + entry.l'\n`)
        .concat(`    groupsFromRules: create
    memberships: { keepManual: [team] }
  other:
    from: [company]
    to: analytics
    users: { include: 'entry.uid == "u70"', name: entry.uid, displayName: entry.cn, mail: entry.mail, groups: '"team"' }
`),
    );
    const applied = await command("apply", "staff");
    expect(applied.code, applied.stderr).toBe(0);
    expect((await company.applyOther()).code).toBe(0);

    await server.modify(`dn: ${team}\nchangetype: modify\nreplace: member\n${members(1)}\n`);
    const held = await command("apply", "staff");
    expect(held.code).toBe(3);
    // Of 92 memberships in groups of the source that is little, and of those of the team almost all.
    expect(held.stdout).toContain(
      "membershipsLost.perGroup: 1 group, at most 0 (none may lose more than 50% of its members): team loses 11 of 13: tripped",
    );
    expect(held.stdout).not.toMatch(/membershipsLost: .*tripped/);

    await server.modify(
      `dn: ${team}\nchangetype: modify\nreplace: member\n${members(11)}\n` +
        `dn: ${dn(1)}\nchangetype: modify\nreplace: l\nl: Essen\n\n`,
    );
    const { plan, notes } = await run("apply", "staff");
    expect(plan.changes).toMatchObject([
      { action: "delete", kind: "group", name: "Site Delft" },
      { action: "update", name: "u1", groupsAdded: ["Site Essen"], groupsRemoved: ["Site Delft"] },
      { action: "update", name: "u12", groupsRemoved: ["team"] },
    ]);
    expect(notes.join("\n")).toContain("1 manual membership kept");
    expect(notes.join("\n")).toContain("\n  user u70 in team");
  });
});

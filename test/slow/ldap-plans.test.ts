import { describe, expect, test } from "vitest";
import { base, noOpenLdap, reader, startOpenLdap } from "../support/ldap/openldap.ts";
import { companyOfEachTest } from "../support/rollcall/company.ts";

const reason = await noOpenLdap();
const company = companyOfEachTest();
const { command, run } = company;

const unit = (ou: string): string => `dn: ou=${ou},${base}\nobjectClass: organizationalUnit\nou: ${ou}\n\n`;
const dn = (n: number, ou: string): string => `uid=u${n},ou=${ou},${base}`;
const person = (n: number, ou: string): string =>
  `dn: ${dn(n, ou)}\nobjectClass: inetOrgPerson\nuid: u${n}\ncn: User ${n}\nsn: ${n}\nmail: u${n}@example.com\nou: ${ou}\n\n`;
/** The configuration without its syncs, and a source of that server. */
const upToSources = (yaml: string, url: string): string => `${yaml.slice(0, yaml.indexOf("sources:"))}sources:
  company:
    connector: ldap
    url: "${url}"
    bind: { dn: "${reader.dn}", password: "${reader.password}" }
    users: { base: "${base}", filter: "(objectClass=inetOrgPerson)" }
    groups: { base: "${base}", filter: "(objectClass=groupOfNames)" }
`;
const numbers = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, n) => from + n);

describe.skipIf(reason !== undefined)("plans from OpenLDAP", () => {
  test("name their causes and drift, and can be for one person; who is in no source is listed", async () => {
    const teamMembers = numbers(1, 6).map((n) => `member: ${dn(n, "works")}\n`);
    await using server = await startOpenLdap({
      ldif: [
        unit("works"),
        unit("sales"),
        ...numbers(1, 40).map((n) => person(n, "works")),
        ...numbers(41, 44).map((n) => person(n, "sales")),
        `dn: cn=team,${base}\nobjectClass: groupOfNames\ncn: team\n${teamMembers.join("")}\n`,
      ].join(""),
    });
    await company.configure(
      (yaml) =>
        `${upToSources(yaml, server.url)}    emptyContainers: allowed
syncs:
  staff:
    from: [company]
    to: analytics
    deletions: { after: 0 }
    users: { name: entry.uid, displayName: entry.cn, mail: entry.mail }
    groups: { name: entry.cn, displayName: entry.cn }
    defaultPassword: initial-user-secret
  other:
    from: [company]
    to: analytics
    users:
      include: entry.uid == "u3"
      name: entry.uid
      displayName: entry.cn
      mail: '"mine@example.net"'
`,
    );
    expect(await command("apply", "staff")).toMatchObject({ code: 0 });
    expect(await company.applyOther()).toMatchObject({ code: 0 });

    await server.modify(
      [
        ...numbers(41, 44).map((n) => `dn: ${dn(n, "sales")}\nchangetype: delete\n\n`),
        ...numbers(1, 2).map(
          (n) => `dn: ${dn(n, "works")}\nchangetype: modify\nreplace: mail\nmail: u${n}@example.org\n\n`,
        ),
        `dn: cn=team,${base}\nchangetype: modify\ndelete: member\nmember: ${dn(6, "works")}\n\n`,
      ].join(""),
    );
    const { causes } = await run("plan", "staff");
    expect(causes).toMatchObject([
      { kind: "gone", attribute: "dn", from: `ou=sales,${base}`, of: 4, users: 4 },
      { kind: "attribute", attribute: "mail", from: "example.com", to: "example.org", users: 2 },
      { kind: "drift", attribute: "mail", users: 1, example: { name: "u3" } },
      { kind: "membership", users: 1, example: { name: "u6" } },
    ]);
    const drift = await command("drift", "staff");
    expect(drift.code).toBe(2);
    expect(drift.stdout).toContain("~ u3  mail: mine@example.net → u3@example.com");

    const one = await run("apply", "staff", "--for", "u1@example.org");
    expect(one.plan.changes).toMatchObject([{ action: "update", name: "u1" }]);
    const unmanaged = await command("unmanaged", "staff");
    expect(unmanaged.code).toBe(2);
    expect(unmanaged.stdout).toContain("4 principals in the target and in no source");

    const rest = await run("apply", "staff");
    expect(rest.plan.changes).toHaveLength(7);
    expect(rest.causes).toHaveLength(4);
    expect(await command("unmanaged", "staff")).toMatchObject({ code: 0 });
    expect(await command("drift", "staff")).toMatchObject({ code: 0 });
  });

  test("are not made again where the server gives what it has given, whatever no rule reads of it", async () => {
    await using server = await startOpenLdap({
      ldif: [
        unit("works"),
        ...numbers(1, 40).map((n) => person(n, "works")),
        `dn: cn=team,${base}\nobjectClass: groupOfNames\ncn: team\nmember: ${dn(1, "works")}\n\n`,
      ].join(""),
    });
    await company.configure(
      (yaml) =>
        `${upToSources(yaml, server.url)}syncs:
  staff:
    from: [company]
    to: analytics
    users: { name: entry.uid, displayName: entry.cn, mail: entry.mail }
    groups: { name: entry.cn, displayName: entry.cn }
`,
    );
    const again = "the sources were read, and nothing was planned again";
    const applied = async (): Promise<string> => {
      const { code, stdout } = await command("apply", "staff");
      expect(code, stdout).toBe(0);
      return stdout;
    };
    const change = (attribute: string, value: string): Promise<void> =>
      server.modify(`dn: ${dn(2, "works")}\nchangetype: modify\nreplace: ${attribute}\n${attribute}: ${value}\n\n`);
    expect(await applied()).toContain("applied and verified");
    expect(await applied()).not.toContain(again);
    expect(await applied()).toContain(again);
    await change("telephoneNumber", "+44 20 7946 0000");
    expect(await applied()).toContain(again);
    await change("mail", "u2@example.org");
    expect(await applied()).toContain("1 user updated");
    await server.modify(`dn: cn=team,${base}\nchangetype: modify\nadd: member\nmember: ${dn(2, "works")}\n\n`);
    expect(await applied()).toContain("1 user updated");
    expect(await applied()).not.toContain(again);
    expect(await applied()).toContain(again);
  });
});

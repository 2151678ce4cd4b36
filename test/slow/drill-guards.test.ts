import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { base, noOpenLdap, reader, startOpenLdap } from "../support/ldap/openldap.ts";
import { startProxy } from "../support/proxy.ts";
import { companyOfEachTest } from "../support/rollcall/company.ts";
import { administrator, startService } from "../support/rollcall/service.ts";
import { drilled, numbers, peopleOf } from "./drilling.ts";

const company = companyOfEachTest();
const { command } = company;

async function bytesBelow(folder: string): Promise<Readonly<Record<string, string>>> {
  const files = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((each) => each.isFile());
  const all = files.map(async ({ parentPath, name }): Promise<[string, string]> => {
    const path = join(parentPath, name);
    return [path, (await readFile(path)).toString("base64")];
  });
  return Object.fromEntries(await Promise.all(all));
}

test("a drill names the guard that stops each incident, writes nothing, and asks the target for its list alone", async () => {
  await using service = await startService();
  const requests: string[] = [];
  const proxy = await startProxy(service.url, {
    before: async (bytes) => {
      requests.push(...Array.from(bytes.toString("latin1").matchAll(/^[A-Z]+ \S+(?= HTTP\/1\.1\r$)/gm), String));
    },
  });
  try {
    await company.write("people.csv", peopleOf(numbers));
    const target = `{ url: "${proxy.url}", username: ${administrator.name}, password: "${administrator.password}" }`;
    await company.configure((yaml) => yaml.replace("analytics: embedded", `analytics: ${target}`));
    expect((await command("apply")).code).toBe(0);
    const data = join(company.folder, "data");
    const [before, list] = [await bytesBelow(data), await command("plan", "--json")];
    requests.length = 0;
    const { code, findings, found } = await drilled(company);
    expect(requests).not.toEqual([]);
    expect(requests.filter((each) => !/\/(?:session\/(?:login|logout)|user\/list)\b/.test(each))).toEqual([]);
    expect(requests.filter((each) => each.includes("user/list"))).toHaveLength(1);
    expect(await bytesBelow(data)).toEqual(before);
    expect((await command("plan", "--json")).stdout).toBe(list.stdout);

    expect(code).toBe(0);
    expect(Object.entries(found).map(([name, { verdict }]) => `${name}: ${verdict}`)).toEqual([
      "half-ou: skipped",
      "column-renamed: stopped",
      "breaks-off: stopped",
      "empty-page: skipped",
      "empty-source: stopped",
      "stale-export: stopped",
      "swapped-ids: stopped",
      "group-emptied: stopped",
      "memberships-hidden: stopped",
      "everybody-renamed: stopped",
      "wrong-tenant: stopped",
      "wrong-filter: stopped",
      "old-list: stopped",
      "lost-write: noticed",
    ]);
    const why = Object.fromEntries(Object.entries(found).map(([name, { because }]) => [name, because.join("\n")]));
    expect(why["column-renamed"]).toContain("no column gives entry.name, which a rule reads");
    expect(why["breaks-off"]).toBe("read: source company: the connection broke off after 100 of 200 users");
    expect(why["stale-export"]).toBe("deletes: 39 users, at most 19 (10% of 196)");
    expect(why["empty-source"]).toContain("too few rows: 0 after the header");
    expect(why["swapped-ids"]).toBe("reusedNames: hold: 2 names would go to other people");
    const emptied = findings.filter(({ incident }) => incident === "group-emptied");
    expect(emptied.map(({ injected }) => injected)).toEqual([
      "the group staff of company has no members, instead of 197",
      "the group engines of company has no members, instead of 96",
    ]);
    expect(emptied[0]?.because).toContain("membershipsLost: 197 memberships, at most 73 (25% of 293)");
    expect(emptied[1]?.because.join()).toContain("membershipsLost.perGroup");
    expect(why["memberships-hidden"]).toContain("no memberships (groups), and 300 at the last good read");
    expect(why["everybody-renamed"]).toContain("deletes: 196 users");
    expect(why["wrong-filter"]).toContain("shrink: 196 users of company fewer than before");
    expect(found["wrong-filter"]?.injected).toBe('users.include says "activx" instead of "active"');
    expect(why["old-list"]).toContain("the plan is to create the user u182; the service would not");
    expect(found["lost-write"]).toMatchObject({ changed: 1 });
    expect(why["lost-write"]).toContain("still to create: user u199");

    // It is what happens when it happens.
    await company.write("people.csv", peopleOf(numbers.slice(0, 160)));
    const real = JSON.parse((await command("apply", "--json")).stdout).runs[0].error;
    expect(real.problems).toEqual(expect.arrayContaining([...(found["stale-export"]?.because ?? [])]));
  } finally {
    await proxy.close();
  }
});

const reason = await noOpenLdap();
describe.skipIf(reason !== undefined)("with OpenLDAP", () => {
  test("look-ups, counts and limits stop what happens to a directory", async () => {
    const person = (n: number, ou: string): string =>
      `dn: uid=u${n},ou=${ou},${base}\nobjectClass: inetOrgPerson\nuid: u${n}\ncn: User ${n}\nsn: ${n}\nmail: u${n}@example.com\n\n`;
    const unit = (ou: string): string => `dn: ou=${ou},${base}\nobjectClass: organizationalUnit\nou: ${ou}\n\n`;
    const sales = Array.from({ length: 60 }, (_, index) => index + 100);
    const others = Array.from({ length: 20 }, (_, index) => index + 200);
    const members = [
      ...sales.map((n) => `uid=u${n},ou=sales,${base}`),
      ...others.map((n) => `uid=u${n},ou=it,${base}`),
    ];
    await using server = await startOpenLdap({
      ldif: [
        unit("sales"),
        unit("it"),
        unit("groups"),
        ...sales.map((n) => person(n, "sales")),
        ...others.map((n) => person(n, "it")),
        `dn: cn=all,ou=groups,${base}\nobjectClass: groupOfNames\ncn: all\n${members.map((dn) => `member: ${dn}\n`).join("")}\n`,
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
        .replace("displayName: entry.name", "displayName: entry.cn"),
    );
    const applied = await command("apply");
    expect(applied.code, applied.stderr).toBe(0);
    const some = "half-ou,column-renamed,empty-page,empty-source,memberships-hidden,wrong-filter";
    const { code, findings, found } = await drilled(company, "--only", some);
    expect(code).toBe(0);
    const why = Object.fromEntries(Object.entries(found).map(([name, { because }]) => [name, because.join("\n")]));
    expect(found["half-ou"]?.injected).toBe(`30 of 60 users below ou=sales,${base} left out`);
    expect(why["half-ou"]).toContain("deletes: 30 users, at most 10 (10% of 80 is less than the floor)");
    const renamed = findings.find(({ injected }) => injected === "mail of 80 users has another name now");
    expect(renamed?.because.join()).toContain("no users with mail, where the last good read found 80");
    expect(why["column-renamed"]).toBe("quarantine: 1 record in doubt; the principals stay unchanged");
    expect(why["empty-page"]).toMatch(
      /^look-up of who was not read: source company: the user "u\d+" was not read but is there/,
    );
    expect(why["empty-source"]).toContain("0 users found, expected at least 1 (users.minEntries)");
    expect(why["memberships-hidden"]).toContain("no memberships, where the last good read found 80");
    expect(why["wrong-filter"]).toContain("0 users found");

    // It is what happens when it happens.
    await server.modify(
      sales
        .filter((_, index) => index % 2 === 0)
        .map((n) => `dn: uid=u${n},ou=sales,${base}\nchangetype: delete\n\n`)
        .join(""),
    );
    const real = JSON.parse((await command("apply", "--json")).stdout).runs[0].error;
    expect(real.problems).toEqual(expect.arrayContaining([...(found["half-ou"]?.because ?? [])]));
  });
});

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { SourceRecord } from "#connector.ts";
import { debianPackages, missing } from "../../support/ldap/debian.ts";
import { ldifEntry } from "../../support/ldap/ldif.ts";
import { base, noOpenLdap, type OpenLdap, reader, startOpenLdap } from "../../support/ldap/openldap.ts";
import { runTool } from "../../support/process.ts";
import { companyLdif, groupDn, groups, people, schema } from "./ldap-medium.ts";
import { company } from "./company.ts";
import { failureOf, memberships, readAll } from "./ldap-reading.ts";

const reason = await noOpenLdap();
const photo = Buffer.from(Array.from({ length: 3_000 }, (_, index) => (index * 7) % 256));

describe.skipIf(reason !== undefined)(
  `files that OpenLDAP's programs write${reason === undefined ? "" : ` (${reason})`}`,
  () => {
    let server: OpenLdap;
    let folder: string;
    const attributes = {
      users: ["uid", "cn", "cn;lang-de", "displayName", "mail", "jpegPhoto", "userPassword", "dn"],
      groups: ["cn"],
    };
    const options = {
      users: { base: people, filter: "(objectClass=inetOrgPerson)", minEntries: 9 },
      groups: { base: groups, filter: "(objectClass=groupOfMembers)", minEntries: 7 },
    };

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "rollcall-makers-"));
      const photographed = ldifEntry(`uid=photo,${people}`, {
        objectClass: "inetOrgPerson",
        cn: ["Photo  Graph", "O'Neil, Pat"],
        "cn;lang-de": "Foto Graf",
        sn: " leading space",
        employeeNumber: "0042",
        departmentNumber: ["7", "12"],
        title: "*Star* (main)",
        manager: `UID=Ada, OU=People,${base}`,
        jpegPhoto: photo,
        userPassword: "hunter2-is-secret",
        description: `a very long line ${"that is folded ".repeat(20)}`,
      });
      server = await startOpenLdap({ ldif: [...companyLdif(company, "member"), photographed], schema });
    });

    afterAll(async () => {
      await server?.[Symbol.asyncDispose]();
      await rm(folder, { recursive: true, force: true });
    });

    const login = (): string[] => ["-x", "-H", server.url, "-D", reader.dn, "-w", reader.password, "-b", base];
    const ldapsearch = (...args: readonly string[]): Promise<string> =>
      server.tool("/usr/bin/ldapsearch", [...login(), ...args]);
    const slapcat = (): Promise<string> =>
      server.tool("/usr/sbin/slapcat", ["-F", join(server.folder, "config"), "-b", base]);
    const file = async (text: string): Promise<{ readonly file: string }> => {
      await writeFile(join(folder, "export.ldif"), text);
      return { file: "export.ldif" };
    };
    const atServer = (more: object = options) => readAll({ url: server.url, bind: reader, ...more }, { attributes });
    const inFile = (text: Promise<string>, more: object = options) =>
      text.then(file).then((source) => readAll({ ...source, ...more }, { attributes, folder }));
    const everything = ["(objectClass=*)", "*", "+"];

    test.each([
      ["ldapsearch", () => ldapsearch(...everything)],
      ["ldapsearch in pages", () => ldapsearch("-E", "pr=3/noprompt", ...everything)],
      ["ldapsearch -L", () => ldapsearch("-L", "-E", "pr=3/noprompt", ...everything)],
      ["ldapsearch -LLL, unfolded", () => ldapsearch("-LLL", "-o", "ldif-wrap=no", ...everything)],
      ["slapcat", slapcat],
    ])("%s gives what the server gives", async (_, print) => {
      const [expected, found] = [await atServer(), await inFile(print())];
      expect(sorted(found)).toEqual(sorted(expected));
      expect(found.users).toHaveLength(10);
      expect(found.users.find(({ attributes }) => attributes["uid"] === "photo")?.attributes).toMatchObject({
        jpegPhoto: photo.toString("base64"),
        "cn;lang-de": "Foto Graf",
      });
      expect(JSON.stringify(found)).not.toContain(Buffer.from("hunter2-is-secret").toString("base64"));
    });

    test("nested groups are resolved as at the server", async () => {
      const flat = { ...options, flatten: true };
      const found = await inFile(slapcat(), flat);
      expect(memberships(found)).toEqual(memberships(await atServer(flat)));
      expect(memberships(found)).toContain("Everybody: ada");
    });

    test.each([
      "(objectClass=*)",
      "(objectClass=person)",
      "(objectClass=top)",
      "(uid=ADA)",
      "(uid=j\\c3\\b6rg)",
      "(uid=JÖRG)",
      "(cn=photo graph)",
      "(cn=o'neil, pat)",
      "(cn=Foto Graf)",
      "(cn;lang-de=*)",
      "(commonName=Foto*)",
      "(2.5.4.3=*graf)",
      "(cn=*o*g*)",
      "(cn=*raph*)",
      "(mail=*@EXAMPLE.com)",
      "(!(mail=*))",
      "(!(mail=ada@example.com))",
      "(&(uid=*a*)(|(mail=*)(uid=zo*))(!(uid=grace)))",
      "(title=\\2aStar\\2a \\28main\\29)",
      `(manager=uid=ada,ou=people,${base})`,
      "(createTimestamp>=20200101000000Z)",
      "(createTimestamp<=20200101000000Z)",
      "(uid~=ada)",
      "(cn:=Photo Graph)",
      "(description=*folded that is*)",
      "(|(uid=nobody)(nothing=x))",
      "(&)",
      "(|)",
    ])("the filter %s finds in a file what it finds at the server", async (filter) => {
      const users = { base: people, filter, minEntries: 0 };
      const names = (found: Awaited<ReturnType<typeof readAll>>) => found.users.map(({ origin }) => origin).sort();
      expect(names(await inFile(ldapsearch(...everything), { users }))).toEqual(names(await atServer({ users })));
    });

    test.each([
      ["sub", 11],
      ["one", 10],
      ["base", 1],
    ] as const)("the scope %s finds in a file what it finds at the server", async (scope, count) => {
      const users = { base: people.toUpperCase(), filter: "(objectClass=*)", scope };
      const found = await inFile(ldapsearch(...everything), { users });
      expect(found.users).toHaveLength(count);
      expect((await atServer({ users })).users).toHaveLength(count);
    });

    test("a search that reached a limit is refused, however it is printed", async () => {
      const cut = (...args: readonly string[]): string => {
        const { path, env } = { path: server.packages.path("/usr/bin/ldapsearch"), env: server.packages.env };
        const { stdout, stderr, status } = spawnSync(path, [...login(), "-z", "5", ...args, ...everything], { env });
        expect(status).toBe(4);
        return stdout.toString() + (args.includes("-L") ? stderr.toString() : "");
      };
      const failure = async (text: string, more: object) => failureOf(inFile(Promise.resolve(text), more));
      expect((await failure(cut(), options)).message).toMatch(
        /^export\.ldif:\d+: the search ended with 4 Size limit exceeded/,
      );
      expect((await failure(cut("-L"), options)).message).toMatch(/reached a limit of the server/);
      expect((await failure(cut("-L").replace(/^Size limit.*$/m, ""), { users: {}, groups: {} })).message).toMatch(
        /does not say how many entries it has, .* or set users\.minEntries and groups\.minEntries/,
      );
    });

    test("without counts, a minimum is needed", async () => {
      const failure = await failureOf(inFile(slapcat(), { users: { minEntries: 9 }, groups: { base: groups } }));
      expect(failure.message).toMatch(
        /^export\.ldif:\d+: the file does not say .* or set groups\.minEntries to the fewest there can be, at least 2$/,
      );
      expect(failure.advice).toBe("fix");
    });

    test("several files are one directory", async () => {
      await writeFile(join(folder, "part-1.ldif"), await ldapsearch("(objectClass=inetOrgPerson)", "*", "+"));
      await writeFile(join(folder, "part-2.ldif"), await ldapsearch("-b", groups, "*", "+"));
      const source = { file: "part-*.ldif", users: {}, groups: { filter: "(objectClass=groupOfMembers)" } };
      const found = await readAll(source, { attributes, folder });
      expect(memberships(found)).toEqual(memberships(await atServer()));
      expect(found.groups.map(({ origin }) => origin)).toContain(groupDn("Everybody"));
    });
  },
);

/** A server gives entries in any order. */
function sorted({ records }: Awaited<ReturnType<typeof readAll>>): readonly SourceRecord[] {
  return records.toSorted((a, b) => (a.origin < b.origin ? -1 : 1));
}

const packages = debianPackages("ldb-tools", "/usr/bin/ldbsearch", ["ldb-tools"]);
const noLdb = await missing(packages);

describe.skipIf(noLdb !== undefined)(`files that ldbsearch writes${noLdb === undefined ? "" : ` (${noLdb})`}`, () => {
  const guid = Buffer.from("33221100554477668899aabbccddeeff", "hex");
  const domain = "DC=corp,DC=example,DC=com";
  const category = `CN=Person,CN=Schema,CN=Configuration,${domain}`;
  const entries = [
    ldifEntry(`CN=Ada,CN=Users,${domain}`, {
      objectClass: ["top", "person", "organizationalPerson", "user"],
      objectCategory: category,
      sAMAccountName: "ada",
      objectGUID: guid,
      userAccountControl: "514",
    }),
    ldifEntry(`CN=Staff,CN=Users,${domain}`, {
      objectClass: ["top", "group"],
      objectGUID: "00112233-4455-6677-8899-aabbccddee00",
      objectSid: "S-1-5-21-1-2-3-513",
      member: `CN=Ada,CN=Users,${domain}`,
    }),
  ];

  test("they are read with their count", async () => {
    const { path, env: own } = await packages;
    const libraries = (own["LD_LIBRARY_PATH"] ?? "").split(delimiter).flatMap((each) => [each, join(each, "samba")]);
    const modules = libraries.map((each) => join(each, "samba/ldb")).find((each) => existsSync(each));
    const unpacked = { LD_LIBRARY_PATH: libraries.join(delimiter), LDB_MODULES_PATH: modules };
    const env = own === process.env ? own : { ...own, ...unpacked };
    const folder = await mkdtemp(join(tmpdir(), "rollcall-ldb-"));
    try {
      const url = `tdb://${join(folder, "sam.ldb")}`;
      await runTool(path("/usr/bin/ldbadd"), ["-H", url], entries.join(""), env);
      const text = await runTool(path("/usr/bin/ldbsearch"), ["-H", url, "(objectClass=*)"], "", env);
      const file = join(folder, "export.ldif");
      await writeFile(file, text);
      const source = {
        file,
        users: { filter: "(&(objectCategory=person)(userAccountControl:1.2.840.113556.1.4.803:=2))" },
        groups: {},
      };
      const found = await readAll(source, { attributes: { users: ["disabled"], groups: ["objectSid"] } });
      expect(found.users).toMatchObject([
        { id: "00112233-4455-6677-8899-aabbccddeeff", attributes: { disabled: true } },
      ]);
      expect(found.groups).toMatchObject([
        { id: "00112233-4455-6677-8899-aabbccddee00", attributes: { objectSid: "S-1-5-21-1-2-3-513" } },
      ]);
      await writeFile(file, text.replace(/^# record 1\n(?:.+\n)*\n/m, ""));
      expect((await failureOf(readAll(source))).message).toMatch(/says that it has 2 records here, and 1 were read/);
      await writeFile(file, text.slice(0, text.indexOf("# returned")));
      expect((await failureOf(readAll(source))).message).toMatch(
        /ends without the count that ldapsearch .* or ldbsearch/,
      );
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

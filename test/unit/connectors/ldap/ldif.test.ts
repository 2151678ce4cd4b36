import { expect, test } from "vitest";
import ldap from "#connectors/ldap/index.ts";
import { LdifReader } from "#connectors/ldap/ldif.ts";
import { matcherOf } from "#connectors/ldap/matching.ts";

const none = { binary: [] };

/** The names and messages of the entries in a text that comes in pieces of `size` bytes. */
function read(text: string | Buffer, size = 1e6): { dn: string; message: string }[] {
  const bytes = Buffer.from(text);
  const reader = new LdifReader("a.ldif", () => false);
  const found = [];
  for (let at = 0; at < bytes.length; at += size)
    found.push(...reader.read(Buffer.from(bytes.subarray(at, at + size))));
  reader.end();
  return found.map((entry) => ({ dn: entry.dn, message: entry.message().toString("latin1") }));
}

const example = `# a comment
  that goes on
version: 1

dn: cn=a,
 dc=example
cn: a
description:   spaces before are not of it, after they are${"  "}
description;lang-de:: SsO2
 cmc=
jpegPhoto;binary:: ${Buffer.alloc(1_000, 7).toString("base64")}

# another


dn:: Y249YixkYz1leGFtcGxl
cn: b
empty:
`;

test("entries are the same however the bytes arrive, and with whichever line ends", () => {
  const whole = read(`${example}\n`);
  expect(whole.map(({ dn }) => dn)).toEqual(["cn=a,dc=example", "cn=b,dc=example"]);
  expect(whole[0]?.message).toContain("description;lang-de1");
  expect(whole[0]?.message).toContain("JÃ¶rg");
  expect(whole[0]?.message).toContain("spaces before are not of it, after they are  ");
  for (const size of [1, 2, 3, 7, 64]) expect(read(`${example}\n`, size)).toEqual(whole);
  expect(read(`${example}\n`.replaceAll("\n", "\r\n"), 5)).toEqual(whole);
});

test.each([
  ["dn: cn=a\ncn: a\n", "a.ldif:3: ends within an entry"],
  [" a\n", "a.ldif:1: begins with a space"],
  ["version: 2\n", "a.ldif:1: expected version: 1"],
  ["version: 1\rdn: cn=a\rcn: a\r\r", "a.ldif:1: lines end with a carriage return alone"],
  ["cn: a\n\n", "a.ldif:1: expected dn: … where an entry begins, found cn"],
  ["dn: cn=a\n\n", "a.ldif:2: the entry cn=a has no attributes"],
  ["dn: cn=a\ncn: a\ndn: cn=b\n\n", "a.ldif:3: another entry begins"],
  ["dn: cn=a\nno colon\n\n", "a.ldif:2: expected NAME: VALUE"],
  ["dn: cn=a\ncontrol: 1.2.3 true\nchangetype: delete\n\n", "a.ldif:2: control: the file holds changes"],
  ["dn: cn=a\ncn:: YQ\n\n", "a.ldif:2: cn:: is followed by something that is not base64"],
  ["Size limit exceeded (4)\n", "a.ldif:1: the search reached a limit"],
  ["dn: cn=a\ncn: a\n\n# numEntries: 2\n", "a.ldif:4: the file says that it has 2 records here"],
  ["# record 1\ndn: cn=a\ncn: a\n\n# returned 2 records\n", "a.ldif:5: the file says that it has 2"],
  ["# record 1\ndn: cn=a\ncn: a\n\n", "the file ends without the count"],
])("%j is refused", (text, message) => {
  expect(() => read(text)).toThrow(message);
});

test("a search filter that needs a server is refused where a file is read", () => {
  const problems = (filter: string, more: object = {}) =>
    ldap.options
      .safeParse({ file: "a.ldif", users: { filter }, ...more })
      .error?.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
  expect(problems("(memberOf:1.2.840.113556.1.4.1941:=cn=a)")).toEqual([
    expect.stringMatching(
      /^users\.filter: memberOf:1\.2\.840\.113556\.1\.4\.1941: only a server has this matching rule/,
    ),
  ]);
  expect(problems("(ou:dn:=people)")).toEqual([expect.stringMatching(/^users\.filter: ou:dn: .*use base instead/)]);
  expect(problems("(jpegPhoto=*a)")).toEqual([expect.stringMatching(/^users\.filter: jpegPhoto holds bytes/)]);
  expect(problems("(cn=a)", { url: "ldap://a", bind: { sasl: "EXTERNAL" }, tls: { ca: "ca.pem" } })).toEqual(
    expect.arrayContaining([
      "file: expected one of url and file, not both",
      "bind: is for servers; a file needs no login",
      "tls: is for servers",
    ]),
  );
  expect(ldap.options.safeParse({ users: {} }).error?.issues[0]?.message).toBe(
    "expected url (a server) or file (LDIF)",
  );
  expect(ldap.options.safeParse({ url: "ldap://a", users: {} }).error?.issues[0]).toMatchObject({
    path: ["users", "base"],
    message: expect.stringMatching(/^expected a distinguished name/),
  });
});

test("the options of a server are as before there were files: what it counted is stored under their digest", () => {
  const options = ldap.options.parse({ url: "ldap://a", users: { base: "dc=x" } });
  expect(Object.keys(options as object).join()).toBe(
    "url,tls,users,membership,flatten,emptyContainers,limits,keepAlive,pageSize,referrals,binary,invalidUtf8",
  );
  expect(options.users).toMatchObject({ base: [{ dn: "dc=x", minEntries: 0 }], minEntries: 1 });
});

test("Active Directory's categories, bits and numbers are compared as it does", () => {
  const reader = new LdifReader("a.ldif", () => false);
  const [entry] = reader.read(
    Buffer.from(
      "dn: cn=a\nobjectCategory: CN=Person,CN=Schema,DC=x\nuserAccountControl: 514\nuSNChanged: 1234567890123456789\nobjectSid: S-1-5-21-1-2-3-513\n\n",
    ),
  );
  const matches = (filter: string): boolean => entry !== undefined && matcherOf(filter, none)(entry);
  expect(matches("(objectCategory=person)")).toBe(true);
  expect(matches("(objectCategory=computer)")).toBe(false);
  expect(matches("(objectCategory=cn=person,cn=schema,dc=x)")).toBe(true);
  expect(matches("(userAccountControl:1.2.840.113556.1.4.803:=2)")).toBe(true);
  expect(matches("(userAccountControl:1.2.840.113556.1.4.803:=6)")).toBe(false);
  expect(matches("(userAccountControl:1.2.840.113556.1.4.804:=6)")).toBe(true);
  expect(matches("(uSNChanged>=1234567890123456788)")).toBe(true);
  expect(matches("(uSNChanged<=99)")).toBe(false);
  expect(matches("(objectSid=S-1-5-21-1-2-3-513)")).toBe(true);
  expect(matches("(objectSid=S-1-5-21-1-2-3-514)")).toBe(false);
});

test.each([
  ["(title=senior  d*)", true],
  ["(title= Senior*dev )", true],
  ["(title=*ior  d*)", true],
  ["(title=senior*  dev)", true],
  ["(title=seniord*)", false],
])("repeated spaces count once on either side: %s", (filter, isFound) => {
  const [entry] = new LdifReader("a.ldif", () => false).read(Buffer.from("dn: cn=a\ntitle: Senior   Dev\n\n"));
  expect(entry !== undefined && matcherOf(filter, none)(entry)).toBe(isFound);
});

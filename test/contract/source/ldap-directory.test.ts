import { expect, onTestFinished, test } from "vitest";
import { ldifChange, ldifDelete, ldifEntry, ldifRename } from "../../support/ldap/ldif.ts";
import {
  admin,
  base,
  noOpenLdap,
  type OpenLdap,
  type OpenLdapOptions,
  reader,
  startOpenLdap,
} from "../../support/ldap/openldap.ts";
import { groupDn, groups, organizationalUnit, people, schema, userDn } from "./ldap-medium.ts";
import { failureOf, memberships, openSource, readAll } from "./ldap-reading.ts";

const skip = (await noOpenLdap()) !== undefined;

/** A server with these entries below people and groups. */
async function serve(entries: Iterable<string>, options: Omit<OpenLdapOptions, "ldif"> = {}): Promise<OpenLdap> {
  const ldif = [organizationalUnit(people), organizationalUnit(groups), ...entries];
  const server = await startOpenLdap({ schema, ...options, ldif });
  onTestFinished(() => server[Symbol.asyncDispose]());
  return server;
}

function options(server: OpenLdap, more: object = {}): object {
  return {
    url: server.url,
    bind: reader,
    users: { base: people },
    groups: { base: groups, filter: anyGroup },
    ...more,
  };
}

const anyGroup = "(|(objectClass=groupOfMembers)(objectClass=groupOfUniqueNames)(objectClass=posixGroup))";

function person(name: string, attributes: Parameters<typeof ldifEntry>[1] = {}): string {
  return ldifEntry(userDn(name), { objectClass: "inetOrgPerson", cn: name, sn: name, ...attributes });
}

function group(name: string, member: readonly string[] = []): string {
  return ldifEntry(groupDn(name), { objectClass: "groupOfMembers", member });
}

const names = [
  ["a comma", "Hopper, Grace"],
  ["a plus", "a+b"],
  ["quotation marks", '"Amazing" Grace'],
  ["a backslash", String.raw`back\slash`],
  ["a backslash at its end", "back\\"],
  ["angle brackets", "<ada>"],
  ["a semicolon", "one;two"],
  ["an equals sign", "cn=ada"],
  ["a number sign at its start", "#1"],
  ["a space at its start", " lead"],
  ["a space at its end", "trail "],
  ["spaces inside", "two  spaces"],
  ["all of them", ' #,+"\\<>;= '],
  ["other scripts", "Jörg Ålesund 李雷 🦉"],
  ["a line break", "one\ntwo"],
] as const;

test.for(names)("reads names with %s, and finds them in their groups", { skip }, async ([, name]) => {
  const server = await serve([
    person(name),
    person("somebody else"),
    group(name, [userDn(name)]),
    group("outer", [groupDn(name), userDn("somebody else")]),
  ]);
  const reading = await readAll(options(server));
  const [asIs, asText] = [name, name.normalize("NFC")];
  expect(reading.users.map(({ attributes }) => attributes["uid"])).toEqual(expect.arrayContaining([asIs]));
  expect(memberships(reading)).toEqual([`${asText}: ${asText}`, `outer: ${asText}`, "outer: somebody else"].sort());
});

test("compares names as directories do, not as texts", { skip }, async () => {
  const server = await serve([
    ldifEntry(`cn=Ada Lovelace+uid=ada,${people}`, { objectClass: "inetOrgPerson", sn: "L" }),
    ldifEntry(`cn=Grace\\2C Hopper,${people}`, { objectClass: "inetOrgPerson", sn: "H", uid: "grace" }),
    group("staff", [
      "UID=ADA + CN=ada  lovelace , OU=People,DC=Example,DC=com",
      "2.5.4.3=grace\\, HOPPER,ou=people,dc=example,dc=com",
    ]),
  ]);
  expect(memberships(await readAll(options(server)))).toEqual(["staff: ada", "staff: grace"]);
});

test("reads values that are long, and entries with thousands of values", { skip }, async () => {
  const long = "ä".repeat(2 ** 19);
  const values = Array.from({ length: 5_000 }, (_, index) => `value ${index}`);
  const server = await serve([person("ada", { description: [long] }), person("grace", { description: values })]);
  const { users } = await readAll(options(server, { groups: undefined }));
  const of = (uid: string): unknown =>
    users.find(({ attributes }) => attributes["uid"] === uid)?.attributes["description"];
  expect(of("ada")).toBe(long);
  expect(new Set(of("grace") as string[])).toEqual(new Set(values));
});

test("reads a group with a hundred thousand members", { skip }, async () => {
  const count = 100_000;
  const member = Array.from({ length: count }, (_, index) => userDn(`user${index}`));
  const server = await serve([person("user7"), group("everybody", member)]);
  const { records } = await readAll(options(server));
  const members = records.flatMap((record) => (record.kind === "membership" ? [record.member] : record.members));
  expect(new Set(members.map(({ key }) => key)).size).toBe(count);
});

const legacy = [
  ...schema,
  `attributetype ( 1.3.6.1.4.1.4203.666.11.9 NAME 'legacyName' SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )`,
  `objectclass ( 1.3.6.1.4.1.4203.666.11.10 NAME 'legacyObject' SUP top AUXILIARY MAY legacyName )`,
];
const latin1 = Buffer.from("J\u{f6}rg", "latin1");

test("fails for a text that is not UTF-8, and names the entry and the attribute", { skip }, async () => {
  const entry = person("ada", { objectClass: ["inetOrgPerson", "legacyObject"], legacyName: latin1 });
  const server = await serve([entry], { schema: legacy });
  const failure = await failureOf(readAll(options(server, { groups: undefined })));
  expect(failure.message).toMatch(/uid=ada,ou=people,dc=example,dc=com.*legacyName.*not UTF-8/);
  // Nobody asks for it: it does no harm.
  const attributes = { users: ["uid"], groups: [] };
  expect((await readAll(options(server, { groups: undefined }), { attributes })).users).toHaveLength(1);
});

test("reads a text that is not UTF-8 as Windows-1252 where that is asked for, and says so", { skip }, async () => {
  const entry = person("ada", { objectClass: ["inetOrgPerson", "legacyObject"], legacyName: latin1 });
  const server = await serve([entry], { schema: legacy });
  const { users, warnings } = await readAll(options(server, { groups: undefined, invalidUtf8: "latin1" }));
  expect(users[0]?.attributes["legacyName"]).toBe("Jörg");
  expect(warnings.join("\n")).toMatch(/uid=ada,.*legacyName/);
});

test("reads bytes in base64, and passwords not at all", { skip }, async () => {
  const photo = Buffer.from([0xff, 0xd8, 0xff, 0xe0, 0, 0x10, 0x4a, 0x46, 0x49, 0x46, 0x80]);
  const secret = "hers-is-secret";
  const server = await serve(
    [
      person("ada", {
        objectClass: ["inetOrgPerson", "legacyObject"],
        jpegPhoto: photo,
        legacyName: latin1,
        userPassword: secret,
      }),
    ],
    { schema: legacy },
  );
  // Whoever configures a source with too powerful an account.
  await server.configure(ldifChange("olcDatabase={1}mdb,cn=config", "replace", { olcAccess: "{0}to * by * read" }));
  const { users } = await readAll(options(server, { bind: admin, groups: undefined, binary: ["legacyName"] }));
  expect(users[0]?.attributes).toMatchObject({
    jpegPhoto: photo.toString("base64"),
    legacyName: latin1.toString("base64"),
  });
  expect(JSON.stringify(users)).not.toMatch(/userPassword/i);
  expect(JSON.stringify(users)).not.toContain(Buffer.from(secret).toString("base64"));
});

test("keeps the options of attributes apart", { skip }, async () => {
  const server = await serve([
    person("ada", { "cn;lang-de": "Ada von Lovelace", "description;lang-fr": "la première" }),
  ]);
  const { users } = await readAll(options(server, { groups: undefined }));
  expect(users[0]?.attributes).toMatchObject({
    cn: "ada",
    "cn;lang-de": "Ada von Lovelace",
    "description;lang-fr": "la première",
  });
  const attributes = { users: ["cn;lang-de"], groups: [] };
  const asked = await readAll(options(server, { groups: undefined }), { attributes });
  expect(asked.users[0]?.attributes).toEqual({ "cn;lang-de": "Ada von Lovelace" });
});

test("reads no more than rules use, and knows the other names of attributes", { skip }, async () => {
  const server = await serve([person("ada", { mail: "ada@example.com", description: "x" })]);
  const attributes = { users: ["commonName", "rfc822Mailbox", "createTimestamp", "missing"], groups: [] };
  const { users } = await readAll(options(server, { groups: undefined }), { attributes });
  expect(users[0]?.attributes).toEqual({
    commonName: "ada",
    rfc822Mailbox: "ada@example.com",
    createTimestamp: expect.stringMatching(/^\d{14}Z$/),
  });
});

test(
  "finds the members of POSIX groups by their login, and of unique names without their number",
  { skip },
  async () => {
    const posix = (uid: string, uidNumber: number): string =>
      ldifEntry(userDn(uid), {
        objectClass: ["account", "posixAccount"],
        cn: uid,
        uidNumber: String(uidNumber),
        gidNumber: "100",
        homeDirectory: "/",
      });
    const server = await serve([
      posix("ada", 1),
      posix("grace", 2),
      ldifEntry(groupDn("unix"), {
        objectClass: "posixGroup",
        gidNumber: "200",
        memberUid: ["ada", "nobody", "grace"],
      }),
      ldifEntry(groupDn("unique"), {
        objectClass: "groupOfUniqueNames",
        uniqueMember: [`${userDn("ada")}#'0101'B`, userDn("grace")],
      }),
      group("plain", [userDn("ada")]),
    ]);
    const reading = await readAll(options(server, { users: { base: people, filter: "(objectClass=posixAccount)" } }));
    expect(memberships(reading)).toEqual([
      "plain: ada",
      "unique: ada",
      "unique: grace",
      "unix: ?nobody",
      "unix: ada",
      "unix: grace",
    ]);
  },
);

test("reads memberships from the members, as the server keeps them", { skip }, async () => {
  const server = await serve([person("ada"), person("grace")], { schema: [], overlays: ["memberof"] });
  const groupOfNames = (name: string, member: readonly string[]): string =>
    ldifEntry(groupDn(name), { objectClass: "groupOfNames", member });
  await server.modify(groupOfNames("inner", [userDn("ada")]));
  await server.modify(groupOfNames("outer", [groupDn("inner"), userDn("grace")]));
  const filter = "(objectClass=groupOfNames)";
  const reading = await readAll(options(server, { groups: { base: groups, filter }, membership: ["memberOf"] }));
  expect(memberships(reading)).toEqual(["inner: ada", "outer: grace", "outer: inner"]);
  // Both ways at once say nothing twice.
  const both = await readAll(options(server, { groups: { base: groups, filter }, membership: ["member", "memberOf"] }));
  expect(memberships(both)).toEqual(memberships(reading));
});

/** Ada through two ways, and once more directly; a circle of two; one in itself. */
const nested = [
  person("ada"),
  person("grace"),
  person("zoë"),
  group("left", [userDn("ada"), userDn("grace")]),
  group("right", [userDn("ada")]),
  group("top", [groupDn("left"), groupDn("right"), userDn("grace")]),
  group("one", [groupDn("two"), userDn("zoë")]),
  group("two", [groupDn("one")]),
  group("self", [groupDn("self"), userDn("ada")]),
  group("empty"),
];

test("keeps nested groups nested, with circles", { skip }, async () => {
  const reading = await readAll(options(await serve(nested)));
  expect(memberships(reading)).toEqual(
    "left: ada, left: grace, one: two, one: zoë, right: ada, self: ada, top: grace, top: left, top: right, two: one".split(
      ", ",
    ),
  );
  expect(reading.warnings.join("\n")).toMatch(/cn=self,.* has itself as a member/);
});

const flat = "left: ada, left: grace, one: zoë, right: ada, self: ada, top: ada, top: grace, two: zoë".split(", ");

test(
  "puts users directly into every group they are in through others, and says where circles are",
  { skip },
  async () => {
    const reading = await readAll(options(await serve(nested), { flatten: true }));
    expect(memberships(reading)).toEqual(flat);
    expect(reading.warnings.join("\n")).toMatch(/cn=self,.* contains itself/);
    expect(reading.warnings.join("\n")).toMatch(/cn=(one|two),.* contains itself/);
  },
);

test("puts users into groups through others also where the members say it", { skip }, async () => {
  const said = (entry: string, memberOf: readonly string[]): string =>
    `${entry.trimEnd()}\n${memberOf.map((name) => `memberOf: ${groupDn(name)}\n`).join("")}\n`;
  const member = (name: string, memberOf: readonly string[]): string =>
    said(person(name, { objectClass: ["inetOrgPerson", "memberObject"] }), memberOf);
  const server = await serve([
    member("ada", ["left", "right"]),
    member("zoe", ["one"]),
    said(group("left"), ["top"]),
    said(group("right"), ["top"]),
    group("top"),
    said(group("one"), ["two"]),
    said(group("two"), ["one"]),
  ]);
  const reading = await readAll(options(server, { flatten: true, membership: ["memberOf"] }));
  expect(memberships(reading)).toEqual(["left: ada", "one: zoe", "right: ada", "top: ada", "two: zoe"]);
});

test("reads several places, each with its scope, and fails when one is missing", { skip }, async () => {
  const [north, south] = [`ou=north,${base}`, `ou=south,${base}`];
  const at = (dn: string, uid: string): string =>
    ldifEntry(`uid=${uid},${dn}`, { objectClass: "inetOrgPerson", cn: uid, sn: uid });
  const server = await serve([
    organizationalUnit(north),
    organizationalUnit(south),
    organizationalUnit(`ou=deep,${south}`),
    at(north, "ada"),
    at(south, "grace"),
    at(`ou=deep,${south}`, "zoe"),
  ]);
  const read = async (users: object): Promise<string[]> => {
    const reading = await readAll(options(server, { groups: undefined, users }));
    return reading.users.map(({ attributes }) => String(attributes["uid"])).sort();
  };
  expect(await read({ base: [north, south] })).toEqual(["ada", "grace", "zoe"]);
  expect(await read({ base: [north, south], scope: "one" })).toEqual(["ada", "grace"]);
  expect(await read({ base: `uid=ada,${north}`, scope: "base" })).toEqual(["ada"]);
  const failure = await failureOf(readAll(options(server, { users: { base: [north, `ou=west,${base}`] } })));
  expect(failure.message).toMatch(/ou=west,dc=example,dc=com does not exist/);
  expect(failure.advice).toBe("fix");
});

test("does not follow aliases, and fails where a base is one, as after a move", { skip }, async () => {
  const alias = (dn: string, aliasedObjectName: string): string =>
    ldifEntry(dn, { objectClass: ["alias", "extensibleObject"], aliasedObjectName });
  const moved = `ou=staff,${base}`;
  const server = await serve([
    person("ada"),
    alias(`uid=lovelace,${people}`, userDn("ada")),
    alias(moved, people),
    group("all", [userDn("ada"), `uid=lovelace,${people}`]),
  ]);
  const reading = await readAll(options(server));
  expect(reading.users.map(({ attributes }) => attributes["uid"])).toEqual(["ada"]);
  const users = { base: [people, { dn: moved, minEntries: 0 }] };
  const failure = await failureOf(readAll(options(server, { users })));
  expect(failure.message).toMatch(
    /: ou=staff,dc=example,dc=com is an alias, and aliases aren't followed; write the name/,
  );
  expect(failure.advice).toBe("fix");
});

test("says why an account that must change its password may not read", { skip }, async () => {
  const dn = `cn=new,${base}`;
  const account = { objectClass: "person", sn: "new", userPassword: reader.password, pwdReset: "TRUE" };
  const policy = `cn=policy,${base}`;
  const server = await serve(
    [
      ldifEntry(policy, { objectClass: ["device", "pwdPolicy"], pwdAttribute: "userPassword", pwdMustChange: "TRUE" }),
      ldifEntry(dn, { ...account, pwdPolicySubentry: policy }),
    ],
    { overlays: ["ppolicy"] },
  );
  const failure = await failureOf(readAll(options(server, { bind: { dn, password: reader.password } })));
  expect(failure.message).toMatch(/Operations are restricted .*; if it must change its password first, change it$/);
});

const filters = [
  ["(cn=J\u{f6}rg)", "as it is"],
  [String.raw`(cn=J\c3\b6rg)`, "in bytes"],
  [String.raw`(description=\28round\29 \2a star \5c slash)`, "what has to be escaped"],
  [String.raw`(cn=*\c3\b6*)`, "a part, in bytes"],
  ["(2.5.4.3=J\u{f6}rg)", "an attribute by its number"],
  ["(cn;lang-de=Georg)", "an option of an attribute"],
  ["(cn:caseExactMatch:=J\u{f6}rg)", "a rule of comparison"],
  ["(&(objectClass=inetOrgPerson)(!(cn=grace)))", "not"],
  ["(& (objectClass=inetOrgPerson) (!(cn=grace)) )", "spaces"],
] as const;

test.for(filters)("sends a filter as it is meant: %s (%s)", { skip }, async ([filter]) => {
  const server = await serve([
    person("jo", { cn: "J\u{f6}rg", description: "(round) * star \\ slash", "cn;lang-de": "Georg" }),
    person("grace"),
  ]);
  const { users } = await readAll(options(server, { groups: undefined, users: { base: people, filter } }));
  expect(users.map(({ attributes }) => attributes["uid"])).toEqual(["jo"]);
});

test("follows references to the servers that are listed, and fails for others", { skip }, async () => {
  const there = await serve([person("grace"), group("there", [userDn("grace")])]);
  const here = await serve([
    person("ada"),
    ldifEntry(`ou=more,${people}`, {
      objectClass: ["referral", "extensibleObject"],
      ou: "more",
      ref: `${there.url}/${people}`,
    }),
  ]);
  const failure = await failureOf(readAll(options(here, { groups: undefined })));
  expect(failure.message).toContain(there.url);
  const ignored = await readAll(options(here, { groups: undefined, referrals: { ignore: ["127.0.0.1"] } }));
  expect(ignored.users.map(({ attributes }) => attributes["uid"])).toEqual(["ada"]);
  const followed = await readAll(options(here, { groups: undefined, referrals: { follow: [there.url] } }));
  expect(followed.users.map(({ attributes }) => String(attributes["uid"])).sort()).toEqual(["ada", "grace"]);
  expect(await there.connections()).toBe(0);
  await there.kill();
  const gone = await failureOf(readAll(options(here, { groups: undefined, referrals: { follow: [there.url] } })));
  expect(gone.message).toContain(there.url);
});

test("tells another version after every kind of change, and the same after none", { skip }, async () => {
  const server = await serve([person("ada"), person("grace"), group("staff", [userDn("ada")])], {
    overlays: ["syncprov"],
  });
  const source = openSource(options(server));
  const context = { signal: new AbortController().signal, warn: () => {} };
  const seen: unknown[] = [await source.version?.(context)];
  for (const change of [
    person("zoe"),
    ldifChange(userDn("zoe"), "replace", { mail: "zoe@example.com" }),
    ldifRename(userDn("zoe"), "uid=zoë"),
    ldifChange(groupDn("staff"), "add", { member: userDn("grace") }),
    ldifDelete(userDn("zoë")),
  ]) {
    await server.modify(change);
    const version = await source.version?.(context);
    expect(version).toBeTypeOf("string");
    expect(seen).not.toContain(version);
    expect(await source.version?.(context)).toBe(version);
    seen.push(version);
  }
  await server.kill();
  await server.start();
  // After an end without warning it may be another one, but none from before.
  expect(seen.slice(0, -1)).not.toContain(await source.version?.(context));
});

test("tells no version where the server does not keep one", { skip }, async () => {
  const server = await serve([person("ada")]);
  const context = { signal: new AbortController().signal, warn: () => {} };
  expect(await openSource(options(server)).version?.(context)).toBeUndefined();
  // What was left by an overlay that is no longer there does not change any more.
  const stale = "20200101000000.000000Z#000000#000#000000";
  await server.kill();
  const other = await startOpenLdap({
    ldif: [organizationalUnit(people), organizationalUnit(groups), person("ada")],
    baseAttributes: { contextCSN: stale },
  });
  onTestFinished(() => other[Symbol.asyncDispose]());
  const source = openSource(options(other, { groups: undefined }));
  const before = await source.version?.(context);
  await other.modify(person("grace"));
  const after = await source.version?.(context);
  if (before !== undefined) expect(after).not.toBe(before);
});

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type DirectoryEntry, groupOf, person, unit } from "../../support/ldap/directory.ts";
import { ldifChange, ldifEntry } from "../../support/ldap/ldif.ts";
import { resultCode } from "../../support/ldap/message.ts";
import { admin, noOpenLdap, reader, startOpenLdap } from "../../support/ldap/openldap.ts";
import { organizationalUnit } from "./ldap-medium.ts";
import {
  base,
  failureOf,
  groups,
  north,
  openSource,
  optionsOfBranches as options,
  readAll,
  type ReadOptions,
  serveBranches as serve,
  south,
} from "./ldap-reading.ts";

/** What a server answers with success, although there is less than there was. */

const people = (count: number, container: string, prefix = "u"): DirectoryEntry[] =>
  Array.from({ length: count }, (_, index) => person(`${prefix}${index}`, container));

const company = (): DirectoryEntry[] => [
  ...people(5, north, "n"),
  ...people(100, south, "s"),
  groupOf("staff", groups, [`uid=n0,${north}`, `uid=s0,${south}`]),
];

/** A read, and what it counted. */
async function count(of: object, context: ReadOptions = {}): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  await readAll(of, {
    ...context,
    count: (name, amount) => {
      counts[name] = amount;
    },
  });
  return counts;
}

test.each([
  ["of users", { users: { base: [north, `ou=gone,${base}`] } }],
  ["of groups", { groups: { base: `ou=gone,${base}`, minEntries: 0 } }],
  ["of groups that are resolved", { flatten: true, groups: { base: `ou=gone,${base}`, minEntries: 0 } }],
])("a base %s that is not there fails the read, also where the server says success", async (_, more) => {
  const directory = await serve(company());
  const failure = await failureOf(readAll(options(directory, more)));
  expect(failure).toMatchObject({ name: "IncompleteReadError", advice: "fix" });
  expect(failure.message).toMatch(/ou=gone,dc=example,dc=com does not exist, or may not be seen by this login/);
});

test("the check and the look-up of single records say so, too", async () => {
  const directory = await serve(company());
  const source = openSource(options(directory, { users: { base: [north, `ou=gone,${base}`] } }));
  const context = { signal: new AbortController().signal, warn: () => {} };
  const gone = /ou=gone,dc=example,dc=com does not exist/;
  expect((await failureOf(Promise.resolve(source.describe?.(context)))).message).toMatch(gone);
  const finding = Array.fromAsync(source.find?.([{ kind: "user", id: "nobody" }], context) ?? []);
  expect((await failureOf(finding)).message).toMatch(gone);
});

test("a base that is renamed while it is searched fails the read", async () => {
  const directory = await serve(company());
  directory.answer = ({ scope, base: asked }, found) => {
    if (scope === "base" || asked !== south) return found;
    directory.entries = directory.entries.filter(({ dn }) => !dn.endsWith(south));
    return { entries: [] };
  };
  expect((await failureOf(readAll(options(directory)))).message).toMatch(/ou=south,dc=example,dc=com does not exist/);
});

test("a base that is at another server is there when the search says so, too", async () => {
  const elsewhere = await serve([person("grace", south)]);
  const directory = await serve([person("ada", north)]);
  const references = [`${elsewhere.url}/${south}`];
  const more = { groups: undefined, referrals: { follow: [elsewhere.url] } };
  directory.answer = ({ base: asked }, found) =>
    asked === south ? { entries: [], references, code: resultCode.referral } : found;
  expect((await readAll(options(directory, more))).users.map(({ origin }) => origin)).toEqual([
    `uid=ada,${north}`,
    `uid=grace,${south}`,
  ]);
  directory.answer = ({ base: asked, scope }, found) =>
    asked === south && scope === "base" ? { entries: [], references, code: resultCode.referral } : found;
  directory.offline = [south];
  expect((await failureOf(readAll(options(directory, more)))).message).toMatch(/ou=south,.* does not exist/);
  directory.answer = ({ base: asked }, found) =>
    asked === south ? { entries: [], references, code: resultCode.referral } : found;
  elsewhere.offline = [south];
  expect((await failureOf(readAll(options(directory, more)))).message).toMatch(/ou=south,.* does not exist/);
});

const whole = { users: { base } };
const counted = {
  [`users below ${base}`]: 105,
  [`users below ${north}`]: 5,
  [`users below ${south}`]: 100,
  [`groups below ${groups}`]: 1,
  memberships: 2,
};

test("a read counts what is below each base, and each container directly below one", async () => {
  const directory = await serve(company());
  expect(await count(options(directory, whole))).toEqual(counted);
});

test("a part of the tree that had entries and has none fails the read, unless that is allowed", async () => {
  const directory = await serve(company());
  directory.offline = [south];
  const lastCounts = counted;
  const failure = await failureOf(readAll(options(directory, whole), { lastCounts }));
  expect(failure).toMatchObject({ name: "IncompleteReadError", advice: "fix" });
  expect(failure.message).toContain(`no users below ${south}, where the last good read found 100: is a part`);
  expect(failure.message).toContain("set emptyContainers: allowed");
  const allowed = options(directory, { ...whole, emptyContainers: "allowed" });
  expect(await count(allowed, { lastCounts })).toMatchObject({ [`users below ${base}`]: 5 });
  // Nothing to compare with.
  expect((await readAll(options(directory, whole))).users).toHaveLength(5);
  directory.offline = [];
  expect((await readAll(options(directory, whole), { lastCounts })).users).toHaveLength(105);
});

test("a container that a few people have left is empty, if a search finds it; one that many have left may be hidden", async () => {
  const [small, big] = [`ou=small,${south}`, `ou=big,${south}`];
  const named = (dn: string, ou: string): DirectoryEntry => ({ dn, attributes: { ...unit(dn).attributes, ou: [ou] } });
  const directory = await serve([
    ...company(),
    named(small, "small"),
    named(big, "big"),
    ...people(2, small, "few"),
    ...people(3, big, "many"),
  ]);
  const lastCounts = await count(options(directory));
  const leave = (container: string): void => {
    directory.entries = directory.entries.filter(({ dn }) => !dn.endsWith(`,${container}`));
  };
  leave(small);
  expect(await count(options(directory), { lastCounts })).toMatchObject({ [`users below ${south}`]: 103 });
  directory.entries = directory.entries.filter(({ dn }) => dn !== small);
  const of = async () => (await failureOf(readAll(options(directory), { lastCounts }))).message;
  expect(await of()).toContain(`no users below ${small}, where the last good read found 2`);
  directory.entries.push(named(small, "small"));
  leave(big);
  expect(await of()).toContain("no users below");
});

test("a base that had entries and has none fails the read, although the others have enough", async () => {
  const directory = await serve(company());
  const lastCounts = await count(options(directory));
  directory.entries = directory.entries.filter(({ dn }) => !dn.endsWith(`,${south}`));
  const failure = await failureOf(readAll(options(directory), { lastCounts }));
  expect(failure.message).toContain(`no users below ${south}, where the last good read found 100`);
});

test("groups without any member, where they had some, fail the read", async () => {
  const directory = await serve(company());
  const lastCounts = await count(options(directory));
  directory.entries = directory.entries.map(({ dn, attributes }) => ({
    dn,
    attributes: { ...attributes, member: [] },
  }));
  const failure = await failureOf(readAll(options(directory), { lastCounts }));
  expect(failure.message).toContain("no memberships, where the last good read found 2");
});

test("an attribute that many had and nobody has fails the read, unless that may be", async () => {
  const mails = people(12, north).map(({ dn, attributes }) => ({ dn, attributes: { ...attributes, mail: [dn] } }));
  const directory = await serve(mails);
  const of = (more: object = {}): object => ({ url: directory.url, users: { base: north, ...more } });
  const attributes = { users: ["Mail", "uid", "disabled", "memberOf"], groups: [] };
  const lastCounts = await count(of(), { attributes });
  expect(lastCounts).toMatchObject({ "users with Mail": 12, "users with uid": 12, "users with disabled": 0 });
  expect(lastCounts).not.toHaveProperty(["users with memberOf"]);
  directory.entries = directory.entries.map(({ dn, attributes: { mail: _mail, ...rest } }) => ({
    dn,
    attributes: rest,
  }));
  const failure = await failureOf(readAll(of(), { attributes, lastCounts }));
  expect(failure.message).toContain("no users with Mail, where the last good read found 12: may this login still");
  expect(failure.message).toContain("users.optionalAttributes");
  expect((await readAll(of({ optionalAttributes: ["mail"] }), { attributes, lastCounts })).users).toHaveLength(12);
  const few = { ...lastCounts, "users with Mail": 9 };
  expect((await readAll(of(), { attributes, lastCounts: few })).users).toHaveLength(12);
});

test("a base inside another is searched by itself, and its entries are delivered once", async () => {
  const deep = `ou=deep,${south}`;
  const directory = await serve([...company(), unit(deep), ...people(3, deep, "d")]);
  const bases = { users: { base: [base, south] } };
  const reading = await readAll(options(directory, bases));
  expect(new Set(reading.users.map(({ id }) => id)).size).toBe(108);
  expect(reading.users).toHaveLength(108);
  const counts = await count(options(directory, bases));
  expect(counts).toEqual({
    ...counted,
    [`users below ${base}`]: 5,
    [`users below ${south}`]: 103,
    [`users below ${deep}`]: 3,
  });
  directory.offline = [deep];
  const failure = await failureOf(readAll(options(directory, bases), { lastCounts: counts }));
  expect(failure.message).toContain(`no users below ${deep}`);
  // The part that is offline is a base: it is missed without anything to compare with.
  directory.offline = [south];
  expect((await failureOf(readAll(options(directory, bases)))).message).toContain(`${south} does not exist`);
});

test("two bases that refer to one place read it once", async () => {
  const elsewhere = await serve([person("grace", south)]);
  const directory = await serve([person("ada", north)]);
  const references = [`${elsewhere.url}/${south}`];
  directory.answer = ({ base: asked, scope }, found) =>
    (asked === base || asked === south) && scope === "sub" ? { ...found, references } : found;
  const more = { groups: undefined, users: { base: [base, south] }, referrals: { follow: [elsewhere.url] } };
  const { users } = await readAll(options(directory, more));
  expect(users.map(({ attributes }) => String(attributes["uid"])).sort()).toEqual(["ada", "grace"]);
});

test("of several servers that hold the same part, one is read: the first that answers", async () => {
  const elsewhere = await serve([person("grace", south)]);
  const replica = await serve([person("grace", south)]);
  const directory = await serve([person("ada", north)]);
  const alternatives = (...urls: string[]): void => {
    directory.answer = ({ base: asked }, found) =>
      asked === south
        ? { entries: [], references: urls.map((url) => `${url}/${south}`), code: resultCode.referral }
        : found;
  };
  const read = async (more: object): Promise<string[]> => {
    const { users } = await readAll(options(directory, { groups: undefined, referrals: more }));
    return users.map(({ attributes }) => String(attributes["uid"]));
  };
  const follow = [elsewhere.url, replica.url];
  alternatives(elsewhere.url, replica.url);
  expect(await read({ follow })).toEqual(["ada", "grace"]);
  expect(replica.searches).toEqual([]);
  expect(await read({ follow: [replica.url] })).toEqual(["ada", "grace"]);
  alternatives("ldap://127.0.0.1:1", replica.url);
  expect(await read({ follow: ["ldap://127.0.0.1:1", replica.url] })).toEqual(["ada", "grace"]);
  alternatives("ldap://old.example.com", "ldap://other.example.com");
  expect(await read({ ignore: ["old.example.com"] })).toEqual(["ada"]);
  const failure = await failureOf(read({}));
  expect(failure.message).toContain(`ldap://old.example.com/${south} or ldap://other.example.com/${south}`);
});

test("each base can have its own least number of entries", async () => {
  const directory = await serve(company());
  const bases = (minEntries: number): object => ({ users: { base: [north, { dn: south, minEntries }] } });
  expect((await readAll(options(directory, bases(100)))).users).toHaveLength(105);
  const failure = await failureOf(readAll(options(directory, bases(101))));
  expect(failure.message).toContain(`${south}: 100 users found, expected at least 101 (minEntries of this base)`);
});

test("containers are not counted where there are thousands: each may be an entry with entries below", async () => {
  const directory = await serve([]);
  const many = Array.from({ length: 2_001 }, (_, index) => `ou=${index},${south}`);
  directory.entries.push(...many.flatMap((dn) => [unit(dn), person("x", dn, { entryUUID: [dn] })]));
  const users = { users: { base: [north, south] }, groups: undefined };
  const counts = await count(options(directory, users));
  expect(counts).toEqual({ [`users below ${north}`]: 0, [`users below ${south}`]: 2_001, memberships: 0 });
  const lastCounts = { ...counts, [`users below ou=5000,${south}`]: 7 };
  expect((await readAll(options(directory, users), { lastCounts })).users).toHaveLength(2_001);
});

test("asks for attributes in lower case, and never for none", async () => {
  const directory = await serve(company());
  const context = { signal: new AbortController().signal, warn: () => {} };
  const attributes = { users: ["Mail", "conflict", "disabled", "uid"], groups: ["cn"] };
  const { users } = await readAll(options(directory, { flatten: true }), { attributes });
  expect(users[0]?.attributes).toEqual({ uid: "n0", conflict: false });
  await openSource(options(directory)).describe?.(context);
  for (const { attributes: asked } of directory.searches) {
    expect(asked).toEqual(asked.map((name) => name.toLowerCase()));
    expect(asked).not.toContain("1.1");
    expect(asked).not.toEqual([]);
  }
});

test("an entry that leaves between pages shifts the others: whoever was skipped is found by the id", async () => {
  const directory = await serve(company());
  const context = { signal: new AbortController().signal, warn: () => {} };
  let isFirst = true;
  directory.answer = ({ base: asked, scope }, found) => {
    if (asked !== south || scope === "base" || !isFirst) return found;
    isFirst = false;
    directory.entries = directory.entries.filter(({ dn }) => dn !== `uid=s0,${south}`);
    return found;
  };
  const source = openSource(options(directory, { pageSize: 10 }));
  const read = (await Array.fromAsync(source.read(context))).flat();
  const ids = new Set(read.flatMap((record) => (record.kind === "user" ? [record.id] : [])));
  const missed = people(100, south, "s")
    .map(({ attributes }) => String(attributes["entryUUID"]?.[0]))
    .filter((id) => !ids.has(id));
  expect(missed).toHaveLength(1);
  const records = missed.map((id) => ({ kind: "user" as const, id }));
  const found = (await Array.fromAsync(source.find?.(records, context) ?? [])).flat();
  expect(found.map(({ origin }) => origin)).toEqual([`uid=s10,${south}`]);
});

const skip = (await noOpenLdap()) !== undefined;

test(
  "OpenLDAP leaves out a database that is not joined to the outer one: a base of its own reads it",
  { skip },
  async () => {
    const partners = `ou=partners,${base}`;
    const entry = (uid: string, container: string): string =>
      ldifEntry(`uid=${uid},${container}`, { objectClass: "inetOrgPerson", cn: uid, sn: uid });
    const server = await startOpenLdap({ ldif: [organizationalUnit(north), entry("ada", north)] });
    onTestFinished(() => server[Symbol.asyncDispose]());
    const folder = join(server.folder, "partners");
    await mkdir(folder);
    const database = "olcDatabase={1}mdb,cn=config";
    await server.configure(
      ldifEntry(database, {
        objectClass: ["olcDatabaseConfig", "olcMdbConfig"],
        olcSuffix: partners,
        olcDbDirectory: folder,
        olcRootDN: admin.dn,
        olcSubordinate: "TRUE",
        olcAccess: "to * by users read by anonymous auth",
      }),
    );
    await server.modify(organizationalUnit(partners));
    await server.modify(entry("zoe", partners));
    const of = (users: object): object => ({ url: server.url, bind: reader, users });
    const names = async (users: object): Promise<string[]> =>
      (await readAll(of(users))).users.map(({ attributes }) => String(attributes["uid"])).sort();
    const lastCounts = await count(of({ base }));
    expect(lastCounts).toMatchObject({ [`users below ${partners}`]: 1 });
    expect(await names({ base: [base, partners] })).toEqual(["ada", "zoe"]);
    await server.configure(ldifChange(database, "delete", { olcSubordinate: [] }));
    await server.kill();
    await server.start();
    expect(await names({ base })).toEqual(["ada"]);
    expect((await failureOf(readAll(of({ base }), { lastCounts }))).message).toContain(`no users below ${partners}`);
    expect(await names({ base: [base, partners] })).toEqual(["ada", "zoe"]);
  },
);

test(
  "OpenLDAP hides the members of one group from the login: its schema wants members, so the read fails",
  { skip },
  async () => {
    const entry = (name: string, kind: string, more: object): string =>
      ldifEntry(`cn=${name},${groups}`, { objectClass: kind, cn: name, ...more });
    const ada = ldifEntry(`uid=ada,${north}`, { objectClass: "inetOrgPerson", uid: "ada", cn: "ada", sn: "ada" });
    await using server = await startOpenLdap({
      ldif: [
        organizationalUnit(north),
        organizationalUnit(groups),
        ada,
        entry("open", "groupOfNames", { member: `uid=ada,${north}` }),
        entry("empty", "groupOfNames", { member: "" }),
        entry("board", "groupOfUniqueNames", { uniqueMember: `uid=ada,${north}` }),
      ],
      access: [
        `access to dn.exact="cn=board,${groups}" attrs=uniqueMember by * none`,
        "access to * by users read by anonymous auth",
      ],
    });
    const of = (more: object): object => ({
      url: server.url,
      bind: reader,
      users: { base: north },
      groups: { base: groups },
      ...more,
    });
    const failure = await failureOf(readAll(of({})));
    expect(failure).toMatchObject({ name: "IncompleteReadError", advice: "fix" });
    expect(failure.message).toContain(
      `cn=board,${groups} shows no uniqueMember, which every groupOfUniqueNames has on this server`,
    );
    expect((await readAll(of({ membership: ["member"] }))).groups).toHaveLength(3);
  },
);

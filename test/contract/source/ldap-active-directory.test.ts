import { expect, onTestFinished, test } from "vitest";
import {
  type ActiveDirectory,
  type ActiveDirectoryOptions,
  adReader,
  adReferences,
  domain,
  startActiveDirectory,
} from "../../support/ldap/active-directory.ts";
import {
  accountFlags,
  adContainers,
  adGroup,
  adUser,
  domainUsers,
  guidOf,
  inConflict,
  sidOf,
} from "../../support/ldap/active-directory-entries.ts";
import { failureOf, memberships, openSource, readAll } from "./ldap-reading.ts";

async function serve(entries: ActiveDirectoryOptions["entries"], more: object = {}): Promise<ActiveDirectory> {
  const directory = await startActiveDirectory({
    entries: [...adContainers(), ...entries],
    references: adReferences,
    ...more,
  });
  onTestFinished(() => directory[Symbol.asyncDispose]());
  return directory;
}

function options({ url }: ActiveDirectory, more: object = {}): object {
  return {
    url,
    bind: { dn: adReader.upn, password: adReader.password },
    users: { base: domain, filter: "(&(objectCategory=person)(objectClass=user))" },
    groups: { base: domain, filter: "(objectClass=group)", minEntries: 0 },
    ...more,
  };
}

const context = { signal: new AbortController().signal, warn: () => {} };

test.for([0, 1, 1499, 1500, 1501, 3000, 3001, 4501])("reads a group of %i members to its end", async (count) => {
  const users = Array.from({ length: count }, (_, index) => adUser({ name: `User ${index}`, rid: 10_000 + index }));
  const directory = await serve([
    adUser({ name: "Nobody", rid: 5_000 }),
    ...users,
    adGroup("Domain Users", domainUsers, []),
    adGroup(
      "Everybody",
      6_000,
      users.map(({ dn }) => dn),
    ),
  ]);
  const reading = await readAll(options(directory));
  const lines = memberships(reading, "cn").filter((line) => line.startsWith("Everybody"));
  expect(lines).toEqual(users.map((_, index) => `Everybody: User ${index}`).sort());
});

test("reads a group to its end in the ranges that the server allows", async () => {
  const users = Array.from({ length: 25 }, (_, index) => adUser({ name: `User ${index}`, rid: 10_000 + index }));
  const group = adGroup(
    "Everybody",
    6_000,
    users.map(({ dn }) => dn),
  );
  const directory = await serve([...users, group], { maxValRange: 10, maxPageSize: 7 });
  const reading = await readAll(options(directory));
  expect(memberships(reading, "cn").filter((line) => line.startsWith("Everybody"))).toHaveLength(25);
  const flat = await readAll(options(directory, { flatten: true }));
  expect(memberships(flat, "cn").filter((line) => line.startsWith("Everybody"))).toHaveLength(25);
});

test("fails when a group changes between its ranges", async () => {
  const users = Array.from({ length: 25 }, (_, index) => adUser({ name: `User ${index}`, rid: 10_000 + index }));
  const group = adGroup(
    "Everybody",
    6_000,
    users.map(({ dn }) => dn),
  );
  const directory = await serve([...users, group], { maxValRange: 10 });
  // The first member leaves: every other one moves up, and one would be seen in no range.
  directory.before = ({ attributes }) => {
    if (!attributes.some((name) => name.startsWith("member;range=10-"))) return;
    directory.before = undefined;
    group.attributes["member"] = group.attributes["member"]?.slice(1) ?? [];
    group.attributes["uSNChanged"] = [String(++directory.usn)];
  };
  const failure = await failureOf(readAll(options(directory)));
  expect(failure.message).toMatch(/member of CN=Everybody,.*: the entry changed while it was read/);
});

test("takes objectGUID as the id, and shows identifiers as people know them", async () => {
  const directory = await serve([adUser({ name: "Ada", rid: 0xabcd, attributes: { title: ["Countess"] } })]);
  const { users } = await readAll(options(directory, { groups: undefined }));
  expect(users).toMatchObject([
    {
      id: guidOf(0xabcd),
      attributes: { objectGUID: guidOf(0xabcd), objectSid: sidOf(0xabcd), sAMAccountName: "Ada", title: "Countess" },
    },
  ]);
});

test("finds the primary group of users, which lists nobody", async () => {
  const directory = await serve([
    adUser({ name: "Ada", rid: 5_001 }),
    adUser({ name: "Grace", rid: 5_002, primaryGroup: 0x9c40 }),
    adGroup("Domain Users", domainUsers, []),
    adGroup("Guests", 0x9c40, []),
    adGroup("Staff", 6_000, [adUser({ name: "Ada", rid: 5_001 }).dn]),
  ]);
  const expected = ["Domain Users: Ada", "Guests: Grace", "Staff: Ada"];
  expect(memberships(await readAll(options(directory)), "cn")).toEqual(expected);
  expect(memberships(await readAll(options(directory, { flatten: true })), "cn")).toEqual(expected);
  const attributes = { users: ["cn"], groups: ["cn"] };
  expect(memberships(await readAll(options(directory), { attributes }), "cn")).toEqual(expected);
});

test("puts primary groups into the groups they are in", async () => {
  const directory = await serve([
    adUser({ name: "Ada", rid: 5_001 }),
    adGroup("Domain Users", domainUsers, []),
    adGroup("Users", 545, [adGroup("Domain Users", domainUsers, []).dn]),
  ]);
  const flat = await readAll(options(directory, { flatten: true }));
  expect(memberships(flat, "cn")).toEqual(["Domain Users: Ada", "Users: Ada"]);
});

test("fails when a primary group that was not there for its users is there after all", async () => {
  const group = adGroup("Domain Users", domainUsers, []);
  const directory = await serve([adUser({ name: "Ada", rid: 5_001 }), group]);
  directory.before = ({ scope, matches }) => {
    // The group is looked for by its identifier: a group with another one does not match.
    const isLookedFor = scope === "sub" && !matches({ objectClass: ["group", "user"], objectCategory: ["person"] });
    if (isLookedFor) directory.entries.splice(directory.entries.indexOf(group), 1);
    else if (!directory.entries.includes(group)) directory.entries.push(group);
  };
  const failure = await failureOf(readAll(options(directory)));
  expect(failure).toMatchObject({ torn: true, message: expect.stringContaining("CN=Domain Users,") });
});

test("says which primary group is not among the groups", async () => {
  const directory = await serve([adUser({ name: "Ada", rid: 5_001 }), adGroup("Staff", 6_000, [])]);
  const reading = await readAll(options(directory));
  expect(memberships(reading, "cn")).toEqual([]);
  expect(reading.warnings.join("\n")).toContain(sidOf(domainUsers));
});

test("shows rules who is disabled, and which objects are in conflict", async () => {
  const ada = adUser({ name: "Ada, L", rid: 5_001 });
  const lost = inConflict(adUser({ name: "Ada, L", rid: 5_002 }), "8e2a0c1f-1111-2222-3333-444455556666");
  const off = adUser({ name: "Grace", rid: 5_003, flags: accountFlags.normal | accountFlags.disabled });
  const directory = await serve([
    ada,
    lost,
    off,
    adGroup("Domain Users", domainUsers, []),
    adGroup("Staff", 6_000, [lost.dn, ada.dn, off.dn]),
  ]);
  const attributes = { users: ["sAMAccountName", "disabled", "conflict", "dn", "cn"], groups: ["cn"] };
  const reading = await readAll(options(directory), { attributes });
  expect(reading.users.map((user) => user.attributes)).toMatchObject([
    { disabled: false, conflict: false, dn: ada.dn },
    { disabled: false, conflict: true, dn: lost.dn, cn: "Ada, L\nCNF:8e2a0c1f-1111-2222-3333-444455556666" },
    { disabled: true, conflict: false, sAMAccountName: "Grace" },
  ]);
  expect(reading.users[1]?.id).toBe("8e2a0c1f-1111-2222-3333-444455556666");
  const staff = memberships(reading, "dn").filter((line) => line.startsWith("Staff"));
  expect(staff).toEqual([lost.dn, ada.dn, off.dn].map((dn) => `Staff: ${dn}`).sort());
});

test("filters by bits", async () => {
  const directory = await serve([
    adUser({ name: "Ada", rid: 5_001 }),
    adUser({ name: "Grace", rid: 5_003, flags: accountFlags.normal | accountFlags.disabled }),
  ]);
  const filter = "(&(objectClass=user)(!(userAccountControl:1.2.840.113556.1.4.803:=2)))";
  const { users } = await readAll(options(directory, { groups: undefined, users: { base: domain, filter } }));
  expect(users.map(({ attributes }) => attributes["cn"])).toEqual(["Ada"]);
});

test("reads more entries than a page may have", async () => {
  const users = Array.from({ length: 2_345 }, (_, index) => adUser({ name: `User ${index}`, rid: 10_000 + index }));
  const directory = await serve(users);
  const read = await readAll(options(directory, { groups: undefined, pageSize: 5_000 }));
  expect(new Set(read.users.map(({ id }) => id)).size).toBe(2_345);
});

test("leaves out the parts of a domain that hold nobody, and fails for a domain that it is not told about", async () => {
  const child = `ldap://child.example.com/DC=child,${domain}`;
  const directory = await serve([adUser({ name: "Ada", rid: 5_001 })], { references: [...adReferences, child] });
  expect((await failureOf(readAll(options(directory, { groups: undefined })))).message).toContain("child.example.com");
  const ignoring = options(directory, { groups: undefined, referrals: { ignore: ["child.example.com"] } });
  expect((await readAll(ignoring)).users).toHaveLength(1);
});

test("says why a login is refused, and that one is needed", async () => {
  const directory = await serve([adUser({ name: "Ada", rid: 5_001 })]);
  const bind = { dn: adReader.dn, password: "wrong-is-secret" };
  const refused = await failureOf(readAll(options(directory, { bind })));
  expect(refused.message).toMatch(/invalidCredentials.*data 52e/);
  expect(refused.message).not.toMatch(/\0|wrong-is-secret/);
  const anonymous = await failureOf(readAll({ url: directory.url, users: { base: domain } }));
  expect(anonymous.message).toMatch(/operationsError.*set bind/s);
  const elsewhere = await failureOf(readAll(options(directory, { users: { base: "OU=Nowhere,DC=example,DC=com" } })));
  expect(elsewhere.message).toMatch(/OU=Nowhere,DC=example,DC=com does not exist/);
});

test("tells the version, which is of one server only", async () => {
  const directory = await serve([adUser({ name: "Ada", rid: 5_001 })]);
  const source = openSource(options(directory));
  const version = await source.version?.(context);
  expect(version).toContain(String(directory.usn));
  expect(await source.version?.(context)).toBe(version);
  directory.usn++;
  expect(await source.version?.(context)).not.toBe(version);
  expect((await source.describe?.(context))?.join("\n")).toMatch(/Active Directory/);
});

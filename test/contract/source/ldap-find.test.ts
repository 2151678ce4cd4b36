import { expect, onTestFinished, test } from "vitest";
import type { Entry, RecordId } from "#connector.ts";
import { adReader, adReferences, domain, startActiveDirectory } from "../../support/ldap/active-directory.ts";
import { adContainers, adGroup, adUser, guidOf } from "../../support/ldap/active-directory-entries.ts";
import {
  type Directory,
  type DirectoryEntry,
  groupOf,
  person,
  startDirectory,
  uuid,
} from "../../support/ldap/directory.ts";
import { resultCode } from "../../support/ldap/message.ts";
import { ldifEntry, ldifRename } from "../../support/ldap/ldif.ts";
import { noOpenLdap, reader, startOpenLdap } from "../../support/ldap/openldap.ts";
import { organizationalUnit } from "./ldap-medium.ts";
import {
  base,
  groups,
  north,
  openSource,
  optionsOfBranches as options,
  readAll,
  serveBranches,
  south,
} from "./ldap-reading.ts";

/** Looking up records by their ids, wherever they are now. */

const serve = (...entries: readonly DirectoryEntry[]): Promise<Directory> => serveBranches(entries);

const user = (id: string): RecordId => ({ kind: "user", id });

async function find(of: object, records: readonly RecordId[]): Promise<Entry[]> {
  const found = openSource(of).find?.(records, { signal: new AbortController().signal, warn: () => {} });
  return (await Array.fromAsync(found ?? [])).flat();
}

test("finds who is there, under every base, with their present keys, and nobody else", async () => {
  const directory = await serve(
    person("ada", north, { uid: ["ada", "lovelace"] }),
    person("grace", south),
    person("other", south),
    person("outside", `ou=elsewhere,${base}`),
    person("robot", north, { objectClass: ["account"] }),
    groupOf("staff", groups, [`uid=ada,${north}`]),
  );
  const ids = ["ada", "grace", "nobody", "outside", "robot", "group staff"].map((name) => user(uuid(name)));
  const found = await find(options(directory), [...ids, { kind: "group", id: uuid("group staff") }]);
  expect(found.map(({ kind, id, keys, members }) => ({ kind, id, keys, members }))).toEqual([
    { kind: "user", id: uuid("ada"), keys: [`uid=ada,${north}`, "ada", "lovelace"], members: [] },
    { kind: "user", id: uuid("grace"), keys: [`uid=grace,${south}`, "grace"], members: [] },
    { kind: "group", id: uuid("group staff"), keys: [`cn=staff,${groups}`], members: [] },
  ]);
  expect(directory.searches.flatMap(({ attributes }) => attributes)).not.toContain("member");
});

test("asks for many ids in few searches, and finds a record in two bases once", async () => {
  const many = Array.from({ length: 250 }, (_, index) => person(`u${index}`, index % 2 === 0 ? north : south));
  const directory = await serve(...many);
  const ids = many.map(({ attributes }) => user(String(attributes["entryUUID"]?.[0])));
  expect(await find(options(directory, { users: { base: [base, south] } }), ids)).toHaveLength(250);
  // Of each base: three searches of a hundred ids at most, and what looks at the base.
  expect(directory.searches.filter(({ scope }) => scope === "sub")).toHaveLength(6);
});

test.each([
  ["a text with everything that a filter reserves", "employeeNumber", String.raw`(a*b)\,é`, {}],
  ["an id of 389 Directory Server", "nsUniqueId", "8a1c2d3e-1dd211b2-80b5c4a1-5f6e0000", { id: undefined }],
  ["bytes", "badge", Buffer.from([0, 0x28, 0x2a, 0x5c, 0xff]), {}],
  ["bytes of a GUID that is none", "objectGUID", Buffer.from([1, 2, 3]), {}],
  ["the GUID of eDirectory", "GUID", Buffer.from("90395f191ab51b4a9e9686c66cb18d11", "hex"), { id: undefined }],
])("finds by %s", async (_, name, value, more) => {
  const entry = person("ada", north, { entryUUID: [], [name]: [value] });
  const container = { dn: north, attributes: { objectClass: ["organizationalUnit"], [name]: ["other"] } };
  const directory = await startDirectory([container, entry]);
  onTestFinished(() => directory[Symbol.asyncDispose]());
  const one = { url: directory.url, users: { base: north, id: name, ...more }, binary: ["badge"] };
  const context = { signal: new AbortController().signal, warn: () => {} };
  const [read] = (await Array.fromAsync(openSource(one).read(context))).flat();
  const id = read?.kind === "user" ? read.id : "";
  expect(await find(one, [user(id), user("another")])).toMatchObject([{ id, origin: `uid=ada,${north}` }]);
});

test("asks only for the id attribute that the server has, since others may have no index", async () => {
  const directory = await serve(person("ada", north));
  const bytes = Buffer.from("90395f191ab51b4a9e9686c66cb18d11", "hex");
  const id = "195f3990-b51a-4a1b-9e96-86c66cb18d11";
  let unindexed = 0;
  directory.answer = ({ scope, matches }, found) => {
    // Says whether the filter asks for the attribute.
    if (scope === "sub" && matches({ objectClass: ["inetOrgPerson"], objectGUID: [bytes] })) unindexed++;
    return found;
  };
  directory.entries.push({
    dn: `uid=ad,${north}`,
    attributes: { objectClass: ["inetOrgPerson"], objectGUID: [bytes] },
  });
  expect(await find(options(directory), [user(id)])).toEqual([]);
  expect(unindexed).toBe(0);
});

test("says that nobody can be looked up where the server finds nothing by an id that it shows", async () => {
  const directory = await serve(person("ada", north), person("grace", south));
  directory.answer = ({ matches }, found) => (matches({ objectClass: ["inetOrgPerson"] }) ? found : { entries: [] });
  const warnings: string[] = [];
  const context = { signal: new AbortController().signal, warn: (message: string) => void warnings.push(message) };
  const ids = Array.from({ length: 150 }, (_, index) => user(uuid(`u${index}`)));
  const found = openSource(options(directory)).find?.([...ids, user(uuid("ada"))], context);
  expect((await Array.fromAsync(found ?? [])).flat()).toEqual([]);
  expect(warnings).toEqual(
    [north, south].map((dn) => expect.stringContaining(`${dn} is not found by its own id: records that a read misses`)),
  );
});

test("finds by objectGUID in Active Directory, whatever bytes it has", async () => {
  const rids = [0x28, 0x29, 0x2a, 0x5c, 0x2a28, 0xabcd];
  const directory = await startActiveDirectory({
    entries: [...adContainers(), ...rids.map((rid) => adUser({ name: `User ${rid}`, rid })), adGroup("Staff", 600, [])],
    references: adReferences,
  });
  onTestFinished(() => directory[Symbol.asyncDispose]());
  const of = {
    url: directory.url,
    bind: { dn: adReader.upn, password: adReader.password },
    users: { base: domain, filter: "(&(objectCategory=person)(objectClass=user))" },
    groups: { base: domain, filter: "(objectClass=group)" },
  };
  const ids = [...rids, 600].map((rid) => user(guidOf(rid)));
  const found = await find(of, [...ids, { kind: "group", id: guidOf(600) }]);
  expect(found.map(({ kind, id }) => `${kind} ${id}`)).toEqual([
    ...rids.map((rid) => `user ${guidOf(rid)}`),
    `group ${guidOf(600)}`,
  ]);
});

test("finds who is at a server that is referred to", async () => {
  const there = await serve(person("grace", south));
  const here = await serve(person("ada", north));
  here.answer = ({ base: asked }, found) =>
    asked === south ? { entries: [], references: [`${there.url}/${south}`], code: resultCode.referral } : found;
  const following = options(here, { groups: undefined, referrals: { follow: [there.url] } });
  const found = await find(
    following,
    ["grace", "ada"].map((name) => user(uuid(name))),
  );
  expect(found.map(({ origin }) => origin)).toEqual([`uid=ada,${north}`, `uid=grace,${south}`]);
});

test("vouches for ids that the server gives, and for no others", () => {
  const of = (users: object, more: object = {}): object => ({ url: "ldap://x", users: { base, ...users }, ...more });
  expect(openSource(of({})).uniqueIds).toBe(true);
  expect(openSource(of({ id: "objectguid" }, { groups: { base, id: "entryUUID" } })).uniqueIds).toBe(true);
  expect(openSource(of({ id: "employeeNumber" })).uniqueIds).toBeUndefined();
  expect(openSource(of({}, { groups: { base, id: "cn" } })).uniqueIds).toBeUndefined();
});

const skip = (await noOpenLdap()) !== undefined;

test("finds in OpenLDAP who has moved and was renamed, and nobody who has left the scope", { skip }, async () => {
  const entry = (uid: string): string =>
    ldifEntry(`uid=${uid},${north}`, { objectClass: "inetOrgPerson", cn: uid, sn: uid });
  const server = await startOpenLdap({
    ldif: [...[north, south, groups].map(organizationalUnit), ...["ada", "grace", "zoe"].map(entry)],
  });
  onTestFinished(() => server[Symbol.asyncDispose]());
  const of = { url: server.url, bind: reader, users: { base: [north, south] } };
  const ids = (await readAll(of)).users.map(({ id }) => user(id));
  await server.modify(ldifRename(`uid=ada,${north}`, String.raw`uid=Ada\, L`, south));
  await server.modify(ldifRename(`uid=zoe,${north}`, "uid=zoe", groups));
  const found = await find(of, ids);
  expect(found.map(({ keys }) => String(keys[0])).toSorted()).toEqual([`uid=ada\\2c l,${south}`, `uid=grace,${north}`]);
  expect(await server.connections()).toBe(0);
});

import { expect, onTestFinished, test } from "vitest";
import { type DirectoryEntry, groupOf, person, startDirectory, unit } from "../../support/ldap/directory.ts";
import { resultCode } from "../../support/ldap/message.ts";
import { failureOf, memberships, openSource, readAll } from "./ldap-reading.ts";

/** What one kind of server does and others do not. */

const people = "ou=people,dc=example,dc=com";
const groups = "ou=groups,dc=example,dc=com";

async function serve(entries: readonly DirectoryEntry[], rootDse: DirectoryEntry["attributes"] = {}) {
  const directory = await startDirectory([unit(people), unit(groups), ...entries], rootDse);
  onTestFinished(() => directory[Symbol.asyncDispose]());
  return directory;
}

const named = (rdn: string, attributes: DirectoryEntry["attributes"] = {}): DirectoryEntry => ({
  ...person("ada", people, attributes),
  dn: `${rdn},${people}`,
});

test.each<[string, DirectoryEntry, boolean]>([
  ["somebody", person("ada", people), false],
  ["somebody with several parts of a name", named("cn=Ada+uid=ada"), false],
  ["a name that speaks of another", named(String.raw`cn=ada\+entryUUID=1`), false],
  ["a container that speaks of another", { ...person("ada", "x"), dn: `uid=ada,ou=nsuniqueid=1,${people}` }, false],
  ["Active Directory's loser", named(String.raw`CN=Ada\0ACNF:8e2a0c1f-1111-2222-3333-444455556666`), true],
  ["the same with its line feed as it is", named("CN=Ada\nCNF:8e2a0c1f-1111-2222-3333-444455556666"), true],
  ["389 Directory Server's loser", named("nsuniqueid=66446001-1dd211b2+uid=ada"), true],
  ["the same where the id comes last", named("uid=ada + nsUniqueId = 66446001-1dd211b2"), true],
  ["what 389 Directory Server marks", person("ada", people, { nsds5ReplConflict: ["namingConflict uid=ada"] }), true],
  ["OpenDJ's loser", named("entryuuid=69807e3d-ab27-43a3-8759-ec0d8d6b3107+uid=ada"), true],
  ["what OpenDJ marks", person("ada", people, { "ds-sync-conflict": [`uid=ada,${people}`] }), true],
  [
    "what PingDirectory marks",
    person("ada", people, { objectClass: ["inetOrgPerson", "ds-sync-conflict-entry"] }),
    true,
  ],
  ["glue", person("ada", people, { objectClass: ["inetOrgPerson", "extensibleObject", "glue"] }), true],
  ["eDirectory's Unknown", person("ada", people, { objectClass: ["Unknown", "inetOrgPerson"] }), true],
])("shows rules that %s is in conflict: %#", async (_, entry, conflict) => {
  const { url } = await serve([entry]);
  const attributes = { users: ["uid", "conflict"], groups: [] };
  const { users } = await readAll({ url, users: { base: people } }, { attributes });
  expect(users.map((user) => user.attributes)).toEqual([{ uid: "ada", conflict }]);
  // Nobody asks for it.
  const plain = await readAll({ url, users: { base: people } }, { attributes: { users: ["uid"], groups: [] } });
  expect(plain.users.map((user) => user.attributes)).toEqual([{ uid: "ada" }]);
});

test.each(["memberURL", "memberQueryURL"])("warns of groups whose members are a search (%s)", async (name) => {
  const dynamic = groupOf("everybody", groups, []);
  const search = { [name]: [`ldap:///${people}??sub?(uid=*)`] };
  const { url } = await serve([
    person("ada", people),
    groupOf("staff", groups, [`uid=ada,${people}`]),
    { ...dynamic, attributes: { ...dynamic.attributes, ...search } },
  ]);
  const reading = await readAll({ url, users: { base: people }, groups: { base: groups } });
  expect(memberships(reading)).toEqual(["staff: ada"]);
  expect(reading.warnings).toEqual([expect.stringMatching(/^cn=everybody,.*: its members are a search/)]);
  const byMembers = { url, users: { base: people }, groups: { base: groups }, membership: ["memberOf"] };
  expect((await readAll(byMembers)).warnings).toEqual([]);
});

test("warns of an id that has several values, which have no order", async () => {
  const { url } = await serve([person("ada", people, { uid: ["ada", "lovelace"] }), person("grace", people)]);
  const reading = await readAll({ url, users: { base: people, id: "uid" } });
  expect(reading.users.map(({ id }) => id)).toEqual(["ada", "grace"]);
  expect(reading.warnings).toEqual([expect.stringMatching(/^uid=ada,.*: uid has several values.* as users\.id$/)]);
});

test.each([
  [
    resultCode.sizeLimitExceeded,
    ["size.prtotal", "nsPagedSizeLimit", "MaxPageSize", "ds-rlim-size-limit", "Search Entry"],
  ],
  [resultCode.timeLimitExceeded, ["time=unlimited", "nsTimeLimit", "MaxQueryDuration", "ds-rlim-time-limit"]],
  [resultCode.adminLimitExceeded, ["size.unchecked", "nsLookThroughLimit", "MaxResultSetSize", "ds-rlim-lookthrough"]],
])("names the settings of each server when a limit ends a search (%i)", async (code, settings) => {
  const directory = await serve([person("ada", people)]);
  directory.answer = ({ scope }, found) => (scope === "base" ? found : { ...found, code });
  const { message } = await failureOf(readAll({ url: directory.url, users: { base: people } }));
  expect(settings.filter((name) => !message.includes(name))).toEqual([]);
});

test("says where memberOf names indirect groups, too", async () => {
  const { url } = await serve([person("ada", people)], {
    vendorName: ["389 Project"],
    vendorVersion: ["389-Directory/3"],
  });
  const context = { signal: new AbortController().signal, warn: () => {} };
  const describe = async (more: object): Promise<string> =>
    ((await openSource({ url, users: { base: people }, ...more }).describe?.(context)) ?? []).join("\n");
  expect(await describe({ membership: ["memberOf"] })).toMatch(
    /this server's memberOf usually includes indirect memberships/,
  );
  expect(await describe({})).not.toMatch(/memberOf/);
});

test("a group that is gone when its members are read tears a read that resolves nested groups", async () => {
  const directory = await serve([person("ada", people), ...["inner", "outer"].map((cn) => groupOf(cn, groups, []))]);
  directory.answer = ({ attributes, base }, found) =>
    base === groups && attributes.includes("member")
      ? { entries: found.entries.filter(({ dn }) => !dn.startsWith("cn=inner")) }
      : found;
  const failure = await failureOf(
    readAll({ url: directory.url, flatten: true, users: { base: people }, groups: { base: groups } }),
  );
  expect(failure).toMatchObject({
    torn: true,
    message: expect.stringContaining(`cn=inner,${groups} disappeared before`),
  });
});

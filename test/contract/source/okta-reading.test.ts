import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import sdk from "@okta/okta-sdk-nodejs";
import { exportJWK, exportPKCS8, generateKeyPair } from "jose";
import { afterAll, expect, onTestFinished, test } from "vitest";
import okta from "#connectors/okta/index.ts";
import { originsOf } from "#connectors/okta/service.ts";
import type { Entry, ReadContext, RecordId, SourceRecord } from "#connector.ts";
import { messageOf } from "#errors.ts";
import { type OktaFaults, type OktaOptions, OktaServer, type OktaUser } from "../../support/okta-directory.ts";
import { company, flat, largeCompany } from "./company.ts";
import { oktaDirectoryOf } from "./okta-medium.ts";

/** What the connector asks of Okta, and what it makes of the oddities of its answers. */

const folder = await mkdtemp(join(tmpdir(), "rollcall-okta-"));
afterAll(() => rm(folder, { recursive: true }));
const keys = await generateKeyPair("RS256", { extractable: true });
await writeFile(join(folder, "key.pem"), await exportPKCS8(keys.privateKey));
await writeFile(
  join(folder, "other.pem"),
  await exportPKCS8((await generateKeyPair("RS256", { extractable: true })).privateKey),
);
const scopes = ["okta.users.read", "okta.groups.read"];
const app = { clientId: "0oa1", key: await exportJWK(keys.publicKey), scopes };
const ofApp = { clientId: "0oa1", privateKey: { file: "key.pem" } };

async function start(options: OktaOptions = { token: "00token" }, faults: OktaFaults = {}) {
  const directory = oktaDirectoryOf(flat(company));
  const server = await OktaServer.start(directory, options);
  Object.assign(server.faults, faults);
  onTestFinished(() => server.close());
  return { server, directory };
}

function open(server: OktaServer, options: object = { token: "00token" }) {
  const parsed = okta.options.parse({ url: server.url, pageSize: 4, ...options });
  const source = okta.open(parsed, { name: "tenant", folder });
  const warnings: string[] = [];
  const context = { signal: new AbortController().signal, warn: (message: string) => void warnings.push(message) };
  return {
    warnings,
    read: async (more: Partial<ReadContext> = {}): Promise<readonly SourceRecord[]> =>
      (await Array.fromAsync(source.read({ ...context, ...more }))).flat(),
    find: async (records: readonly RecordId[]): Promise<readonly Entry[]> =>
      (await Array.fromAsync(source.find?.(records, context) ?? [])).flat(),
    version: () => source.version?.(context),
    describe: () => source.describe?.(context),
  };
}

const logins = (records: readonly SourceRecord[]): readonly unknown[] =>
  records.flatMap((record) => (record.kind === "user" ? [record.attributes["login"]] : []));
const everybody = company.users.map(({ login }) => login);
const attributes = { users: ["login", "department", "type.id"], groups: ["name"] };

test("is never faster than Okta allows", async () => {
  const { server } = await start({ token: "00token", rate: { limit: 6, seconds: 1 } });
  const { read } = open(server);
  const refused: number[] = [];
  server.faults.churn = () => void refused.push(0);
  expect(logins(await read())).toEqual(everybody);
  // What was refused did not get that far.
  expect(refused).toHaveLength(server.requests.length);
});

test("waits for the next window when another program has used up this one", async () => {
  const { server } = await start();
  const reset = `${Math.floor(Date.now() / 1000) + 2}`;
  const headers = { "x-rate-limit-limit": "0", "x-rate-limit-remaining": "0", "x-rate-limit-reset": reset };
  server.faults.fails = { path: /users$/, status: 429, times: 1, headers };
  const { read, warnings } = open(server);
  expect(logins(await read())).toEqual(everybody);
  expect(warnings.join("\n")).toMatch(/answered 429 \(E0000047: .*\); attempt 2 of 4 follows/);
  expect(Date.now()).toBeGreaterThanOrEqual(Number(reset) * 1000);
});

test("asks for less at a time where Okta takes too long for a page", async () => {
  const { server } = await start({ token: "00token" }, { slow: { path: /users$/, limit: 50 } });
  const { read } = open(server, { token: "00token", pageSize: 200 });
  expect(logins(await read())).toEqual(everybody);
  expect(server.requests.filter((request) => request.includes("limit=50"))).not.toEqual([]);
});

test("goes on after a page without anybody", async () => {
  const { server } = await start({ token: "00token" }, { emptyPage: /users$/ });
  expect(logins(await open(server).read())).toEqual(everybody);
});

test("follows links to the organization's other address, if that is one that it knows", async () => {
  const { server } = await start();
  server.faults.linkOrigin = server.url.replace("127.0.0.1", "localhost");
  const known = open(server, { token: "00token", origins: [server.faults.linkOrigin] });
  expect(logins(await known.read())).toEqual(everybody);
  await expect(open(server).read()).rejects.toThrow("the next page is at http://localhost:");
  expect(originsOf("https://acme-admin.oktapreview.com/")).toEqual([
    "https://acme-admin.oktapreview.com",
    "https://acme.oktapreview.com",
  ]);
  expect(originsOf("https://acme.okta.com")).toEqual(["https://acme.okta.com", "https://acme-admin.okta.com"]);
  expect(originsOf("https://login.example.com")).toEqual(["https://login.example.com"]);
});

test("reads users again who changed meanwhile, and delivers nobody twice", async () => {
  const { server, directory } = await start();
  let requests = 0;
  server.faults.churn = ({ pathname }) => {
    if (pathname !== "/api/v1/users" || ++requests !== 3) return;
    directory.users = [...directory.users, { ...(directory.users[0] as OktaUser), id: "00zzz" }];
    const [everyone, ...others] = directory.groups;
    const members = [...directory.users.keys()];
    if (everyone !== undefined) directory.groups = [{ ...everyone, members }, ...others];
  };
  const { read, warnings } = open(server);
  const found = logins(await read());
  expect(found).toHaveLength(everybody.length + 1);
  expect(warnings).toEqual([
    expect.stringMatching(/the count of the group Everyone was 11 and is now 12.*reading it again \(2 of 2\)/),
  ]);
});

test("deactivated users stay in Everyone, or do not", async () => {
  const { server } = await start({ token: "00token" }, { deactivatedLeaveGroups: true });
  expect(logins(await open(server).read())).toEqual(everybody);
  const all = { token: "00token", users: { statuses: ["ACTIVE", "DEPROVISIONED"] } };
  await expect(open(server, all).read()).rejects.toThrow(/does not count deactivated users.*proof: twoEqualReads/);
  const proven = { token: "00token", users: { ...all.users, proof: "twoEqualReads" } };
  expect(logins(await open(server, proven).read())).toEqual([...everybody, "left-1", "left-2"]);
  server.faults.deactivatedLeaveGroups = false;
  expect(logins(await open(server, all).read())).toEqual([...everybody, "left-1", "left-2"]);
});

test("a search is proven by another one in reverse order, and others are no members", async () => {
  const { server } = await start();
  const options = {
    token: "00token",
    users: { search: 'profile.login sw "g"' },
    groups: { search: 'profile.name sw "Eng"' },
  };
  const { read, find } = open(server, options);
  const records = await read();
  expect(logins(records)).toEqual(["grace"]);
  expect(records.filter(({ kind }) => kind !== "user")).toMatchObject([
    { kind: "group", attributes: { name: "Engineering" } },
    { kind: "membership", member: { kind: "user" } },
  ]);
  expect(server.requests.some((request) => request.includes("sortOrder=desc"))).toBe(true);
  const ids = records.flatMap((record) => (record.kind === "membership" ? [] : [{ kind: record.kind, id: record.id }]));
  const outside = { kind: "user", id: server.directory.users.at(0)?.id ?? "" } as const;
  expect((await find([...ids, outside])).map(({ id }) => id)).toEqual(ids.map(({ id }) => id));
  server.faults.churn = ({ searchParams }) => {
    server.faults.sees = searchParams.has("sortOrder") ? undefined : ({ profile }) => profile["login"] !== "grace";
  };
  await expect(read()).rejects.toThrow("two reads differ: 0 records, then 1");
});

test("asks only for the attributes that rules read", async () => {
  const { server } = await start();
  const { read } = open(server);
  const records = await read({ attributes });
  const list = server.requests.find(
    (request) => request.includes("/users?search=") && request.includes("sortBy=id&fields=id%2Cs"),
  );
  expect(new URL(list?.replace("GET ", "") ?? "", server.url).searchParams.get("fields")).toBe(
    "id,status,type,profile:(login,department)",
  );
  expect(records.find(({ kind }) => kind === "user")).toMatchObject({
    attributes: { login: "ada", "type.id": "oty1" },
  });
  await open(server, { token: "00token", attributes: "all" }).read({ attributes });
  expect(server.requests.at(-1)).not.toContain("fields=");
});

test("fails when the role sees an attribute no more that rules read", async () => {
  const server = await OktaServer.start(oktaDirectoryOf(largeCompany(20)), { token: "00token" });
  onTestFinished(() => server.close());
  const { read } = open(server, { token: "00token", pageSize: 200 });
  const lastCounts: Record<string, number> = {};
  const wanted = { attributes: { users: ["login", "email"], groups: ["name"] } };
  await read({ ...wanted, count: (name, amount) => void (lastCounts[name] = amount) });
  server.faults.hides = /^email$/;
  await expect(read({ ...wanted, lastCounts })).rejects.toThrow(/no record has entry\.email, and 20 had it/);
});

test("shows Okta's own attributes, and the profile's; of the same name the former", async () => {
  const { server, directory } = await start();
  const profile = {
    login: "ada",
    status: "guest",
    tags: ["a", "", "b"],
    level: 3,
    vip: false,
    manager: null,
    note: "",
  };
  directory.users = [{ ...(directory.users[0] as OktaUser), profile }, ...directory.users.slice(1)];
  const [ada] = await open(server).read();
  expect(ada).toMatchObject({
    origin: `${server.url}/api/v1/users/${directory.users[0]?.id}`,
    attributes: { login: "ada", status: "ACTIVE", "profile.status": "guest", tags: ["a", "b"], level: 3, vip: false },
  });
  expect(ada).not.toHaveProperty("attributes.manager");
  expect(ada).not.toHaveProperty("attributes.note");
});

test("Okta's own groups are read when they are asked for", async () => {
  const { server } = await start();
  const records = await open(server, { token: "00token", groups: { types: ["BUILT_IN"] } }).read();
  expect(records.filter(({ kind }) => kind === "group")).toMatchObject([{ attributes: { name: "Everyone" } }]);
  expect(records.filter(({ kind }) => kind === "membership")).toHaveLength(everybody.length);
  const none = await open(server, { token: "00token", groups: false }).read();
  expect(none.filter(({ kind }) => kind !== "user")).toEqual([]);
});

test("gets another token when one is refused", async () => {
  const { server } = await start({ app });
  let requests = 0;
  server.faults.churn = () => {
    if (++requests === 5) server.forgetTokens();
  };
  expect(logins(await open(server, ofApp).read())).toEqual(everybody);
  expect(server.requests.filter((request) => request.startsWith("POST"))).toHaveLength(2);
});

test.each([
  [
    "the key is another one",
    { app },
    { privateKey: { file: "other.pem" } },
    /token answered 401 \(invalid_client: .*check clientId, privateKey and its kid/,
  ],
  ["there is no key", { app }, { privateKey: { file: "none.pem" } }, /privateKey\.file: none\.pem/],
  [
    "a scope is not granted",
    { app: { ...app, scopes: scopes.slice(1) } },
    {},
    /invalid_scope: .*grant the app the scopes okta\.users\.read and okta\.groups\.read/,
  ],
  ["the app requires a proof", { app: { ...app, dpop: true } }, {}, /invalid_dpop_proof: .*set dpop: true/],
] as const)("says what to do when %s", async (_, server, options, message) => {
  const { server: started } = await start(server);
  const failure = await open(started, { ...ofApp, ...options })
    .read()
    .then(() => "", messageOf);
  expect(failure).toMatch(message);
});

test("says what to do about a search that Okta does not understand", async () => {
  const { server } = await start();
  const { read, describe } = open(server, { token: "00token", users: { search: "status is new" } });
  await expect(read()).rejects.toThrow(/answered 400 \(E0000031: .*check users: \{ search \}/);
  await expect(describe()).rejects.toThrow(/answered 400 \(E0000031/);
});

test("its version tells what changed: a user, a group's members, the credentials", async () => {
  const { server, directory } = await start();
  const { version } = open(server);
  const versions = [await version()];
  directory.groups = directory.groups.toReversed();
  expect(await version()).toBe(versions[0]);
  directory.users = [
    { ...(directory.users[0] as OktaUser), lastUpdated: "2026-11-03T08:00:00.000Z" },
    ...directory.users.slice(1),
  ];
  versions.push(await version());
  directory.groups = directory.groups.map((group) => ({ ...group, lastMembershipUpdated: "2026-11-03T08:00:00.000Z" }));
  versions.push(await version(), await open(server, { token: "00token", groups: false }).version());
  expect(new Set(versions).size).toBe(versions.length);
});

test("Okta's own client reads the same", async () => {
  const { server } = await start();
  const client = new sdk.Client({
    orgUrl: server.url,
    token: "00token",
    testing: { disableHttpsCheck: true },
  } as never);
  const seen: string[] = [];
  for await (const user of await client.userApi.listUsers({ search: 'status eq "ACTIVE"', sortBy: "id" }))
    seen.push(`user ${user?.id}`);
  for await (const group of await client.groupApi.listGroups({})) {
    if (group === null || String(group.type) === "BUILT_IN") continue;
    seen.push(`group ${group.id}`);
    const { id: groupId = "" } = group;
    for await (const user of await client.groupApi.listGroupUsers({ groupId }))
      if (String(user?.status) !== "DEPROVISIONED") seen.push(`membership ${groupId} ${user?.id}`);
  }
  const read = await open(server).read();
  const own = read.map((record) =>
    record.kind === "membership" ? `membership ${record.group} ${record.member.key}` : `${record.kind} ${record.id}`,
  );
  expect(own.toSorted()).toEqual(seen.toSorted());
});

test.each([
  [{}, "expected either token, or clientId and privateKey"],
  [{ token: "x", clientId: "y" }, "expected either token"],
  [{ clientId: "y" }, "expected the key of the service app"],
  [{ token: "x", dpop: true }, "is for a service app"],
  [{ token: "x", url: "acme.okta.com" }, "expected a URL like https://example.okta.com"],
  [{ token: "x", url: "https://acme.okta.com/admin/users" }, "without a path, like https://example.okta.com"],
  [{ token: "x", url: "http://acme.okta.com" }, "http:// would send the credentials unencrypted"],
  [{ token: "x", pageSize: 500 }, "expected 200 or less"],
  [{ token: "x", users: { statuses: ["active"] } }, "expected STAGED, PROVISIONED, ACTIVE"],
  [{ token: "x", users: { search: "a", proof: "everyone" } }, "use twoEqualReads"],
])("refuses the options %j", (more, message) => {
  const result = okta.options.safeParse({ url: "https://acme.okta.com", ...more });
  expect(result.error?.issues.map((issue) => issue.message).join()).toContain(message);
});

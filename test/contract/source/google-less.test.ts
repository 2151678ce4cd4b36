import { admin, auth } from "@googleapis/admin";
import { expect, onTestFinished, test } from "vitest";
import type { Entry, ReadContext, SourceRecord } from "#connector.ts";
import { IncompleteReadError } from "#errors.ts";
import google from "#connectors/google/index.ts";
import { refusals } from "../../support/google/directory.ts";
import type {
  GoogleDirectory,
  GoogleFaults,
  GoogleMember,
  GoogleUser,
  Requested,
} from "../../support/google/directory.ts";
import { largeGoogle } from "../../support/google/large.ts";
import { scopes } from "../../support/google/server.ts";
import { provideGoogle } from "./google-medium.ts";

async function provided(directory: GoogleDirectory, faults: GoogleFaults = {}, further: object = {}) {
  const { server, folder, options, dispose } = await provideGoogle(directory, faults);
  onTestFinished(dispose);
  const source = google.open(google.options.parse({ ...options, ...further }), { name: "corp", folder });
  const warnings: string[] = [];
  const context = (reading: Partial<ReadContext> = {}): ReadContext => ({
    signal: new AbortController().signal,
    warn: (message) => void warnings.push(message),
    ...reading,
  });
  const records = async (reading?: Partial<ReadContext>): Promise<readonly SourceRecord[]> =>
    (await Array.fromAsync(source.read(context(reading)))).flat();
  return { server, source, warnings, context, records };
}

/** 1,500 users and 250 groups: several pages of each. */
const large = (): GoogleDirectory => largeGoogle(1_500, 250);

/** Where one page of each is enough. */
const tiny = (): GoogleDirectory => largeGoogle(40, 10);

const user = (name: string, further: object = {}): GoogleUser => ({
  id: `1-${name}`,
  primaryEmail: `${name}@example.com`,
  suspended: false,
  ...further,
});

/** A directory with one group. */
function small(users: readonly GoogleUser[], members: readonly GoogleMember[] = []): GoogleDirectory {
  return { users, groups: [{ id: "g-staff", email: "staff@example.com", name: "Staff" }], members: () => members };
}

const usersOf = (records: readonly SourceRecord[]): readonly Entry[] =>
  records.filter((record): record is Entry => record.kind === "user");
const membersOf = (records: readonly SourceRecord[], group: string): readonly string[] =>
  records.flatMap((record) => {
    if (record.kind === "membership") return record.group === group ? [record.member.key] : [];
    return record.kind === "group" && record.id === group ? record.members.map(({ key }) => key) : [];
  });

test.each<[string, GoogleFaults, RegExp]>([
  [
    "a mask that loses the token of the next page",
    { maskDropsToken: true },
    /two reads had 200 records each, and not the same ones/,
  ],
  [
    "a full first page of users without a token",
    { endsAfterFirstPage: "users" },
    /two reads had 500 records each, and not the same ones/,
  ],
  ["a full first page of groups without a token", { endsAfterFirstPage: "groups" }, /two reads had 200 records each/],
  [
    "a token that stays the same",
    { sameToken: "users" },
    /a page leads to one that came before|only records that came before/,
  ],
  ["pages that overlap", { repeatsItems: "users" }, /a record came twice/],
  ["counts that are too high", { countOff: 3 }, /directMembersCount is 15, and there are 12 members/],
  ["counts that are too low", { countOff: -3 }, /directMembersCount is 9, and there are 12 members/],
])("%s: the read fails", async (_, faults, message) => {
  const { records } = await provided(large(), faults);
  const failure = await records().catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(IncompleteReadError);
  expect((failure as Error).message).toMatch(message);
});

test("more members than a page: a full first page without a token fails the read", async () => {
  const { records } = await provided(largeGoogle(3_000, 10), { endsAfterFirstPage: "members" });
  await expect(records()).rejects.toThrow(/directMembersCount is 600, and there are 200 members/);
});

test("an empty page with a token is not the end", async () => {
  const { records } = await provided(large(), { emptyFirstPage: "users" });
  expect(usersOf(await records())).toHaveLength(1_500);
});

test("derived memberships and roles are never asked for, so what is wrong with them does not matter", async () => {
  const { records, server } = await provided(tiny(), { derivedFewer: true, rolesMixed: true });
  expect(await records()).toHaveLength(50);
  const asked = server.requests.join("\n");
  expect(asked).not.toMatch(/includeDerivedMembership|roles|status/);
  // Every mask names the token.
  expect(server.requests.filter((each) => /fields=/.test(each) && !/nextPageToken/.test(each))).toEqual([]);
});

test.each([
  ["userRateLimit", refusals.userRateLimit],
  ["quotaExceeded", refusals.quotaExceeded],
  ["rateLimit", refusals.rateLimit],
  ["backendError", refusals.backendError],
])("%s now and then: the read waits, says so and is complete", async (name, refusal) => {
  let refused = 0;
  const answers = ({ what }: Requested) => (what === "members" && refused++ === 2 ? refusal : undefined);
  const { records, warnings } = await provided(tiny(), { answers }, { timeouts: { pause: "2s" } });
  const read = await records();
  expect(usersOf(read)).toHaveLength(40);
  expect(read.filter(({ kind }) => kind === "group")).toHaveLength(10);
  // A limit without Retry-After is waited out.
  const pause = name === "backendError" || name === "rateLimit" ? "" : " follows in 2 s";
  expect(warnings.join("\n")).toMatch(new RegExp(`answered ${refusal.status} .*attempt 2 of 2${pause}`));
});

test("a 403 that says nothing of limits is never tried again", async () => {
  const { records, server } = await provided(tiny(), {
    answers: ({ what }) => (what === "groups" ? refusals.scopes : undefined),
  });
  await expect(records()).rejects.toThrow(/insufficientPermissions.*Domain-wide delegation/);
  expect(server.requests.filter((each) => each.includes("/groups?"))).toHaveLength(1);
});

test("a token that ends during the read is renewed once", async () => {
  let wasRevoked = false;
  const answers = ({ what }: Requested) => {
    if (what !== "members" || wasRevoked) return undefined;
    wasRevoked = true;
    return refusals.credentials;
  };
  const { records, server } = await provided(tiny(), { answers });
  expect(usersOf(await records())).toHaveLength(40);
  expect(server.requests.filter((each) => each === "/token")).toHaveLength(2);
});

test("somebody who joins while users are read: they are read again, and nobody comes twice", async () => {
  const users = Array.from({ length: 600 }, (_, index) => user(`user${String(index).padStart(3, "0")}`));
  const directory = small(users);
  const { records, warnings } = await provided(
    directory,
    {
      answers: ({ url }) => {
        if (url.searchParams.has("pageToken")) directory.users = [user("a-newcomer"), ...users];
        return undefined;
      },
    },
    { minMemberships: 0 },
  );
  const ids = usersOf(await records()).map(({ id }) => id);
  expect(ids).toHaveLength(601);
  expect(new Set(ids).size).toBe(601);
  expect(warnings.join("\n")).toMatch(/two reads differ: 600 records, then 601; reading it again \(2 of 3\)/);
});

test("a role that covers fewer than before fails the read, by the last good one", async () => {
  const { records, server } = await provided(large());
  const lastCounts: Record<string, number> = {};
  await records({ count: (name, amount) => (lastCounts[name] = amount) });
  Object.assign(server.faults, {
    covers: (user: GoogleUser) => user["orgUnitPath"] === "/Unit 3",
  } satisfies GoogleFaults);
  await expect(records({ lastCounts })).rejects.toThrow(/75 users, and 1,500 at the last good read/);
});

test("a group that is deleted while groups are read: the source is read again", async () => {
  const { records } = await provided(tiny(), {
    answers: ({ what }) => (what === "members" ? refusals.notFound("groupKey") : undefined),
  });
  await expect(records()).rejects.toMatchObject({ torn: true, message: /the group was deleted while it was read/ });
});

test("a group that grows while groups are read is counted again", async () => {
  const members: GoogleMember[] = [{ id: "1-ada", email: "ada@example.com", type: "USER" }];
  const directory = small([user("ada"), user("grace")], members);
  const { records } = await provided(directory, {
    answers: ({ what }) => {
      if (what === "members" && members.length === 1) members.push({ id: "1-grace", type: "USER" });
      return undefined;
    },
  });
  expect(membersOf(await records(), "g-staff")).toEqual(["1-ada", "1-grace"]);
});

test("a count that is wrong for good is no proof where the options say so", async () => {
  const { records } = await provided(tiny(), { countOff: 2 }, { groups: { proof: "twoEqualReads" } });
  expect(await records()).toHaveLength(50);
});

test("one member of type CUSTOMER is everybody; others keep their kinds, owners and strangers too", async () => {
  const members: GoogleMember[] = [
    { id: "0-nested", email: "nested@example.com", type: "GROUP" },
    { id: "1-ada", email: "ada@example.com", type: "USER", role: "OWNER" },
    { id: "C03az79cb", type: "CUSTOMER" },
    { id: "9-stranger", email: "stranger@elsewhere.org", type: "USER" },
  ];
  const { records } = await provided(small([user("ada"), user("grace")], members));
  const read = await records();
  expect(read.find(({ kind }) => kind === "group")).toMatchObject({
    members: [
      { kind: "group", key: "0-nested" },
      { kind: "user", key: "1-ada" },
      { kind: "user", key: "9-stranger" },
    ],
  });
  expect(usersOf(read).map(({ memberOf }) => memberOf)).toEqual([["g-staff"], ["g-staff"]]);
});

test("large groups come page by page", async () => {
  const { records } = await provided(largeGoogle(3_000, 10));
  expect(membersOf(await records(), "0g000000003")).toHaveLength(600);
});

test("attributes are flat, and only what rules read is asked for", async () => {
  const ada = user("ada", {
    name: { givenName: "Ada", familyName: "Lovelace", fullName: "Ada Lovelace" },
    emails: [
      { address: "ada@work.example.com", type: "work" },
      { address: "ada@example.com", primary: true },
    ],
    organizations: [{ title: "Guest" }, { primary: true, title: "Analyst", department: "Research" }],
    externalIds: [
      { type: "organization", value: "1001" },
      { type: "custom", customType: "badge", value: "B7" },
    ],
    relations: [{ type: "manager", value: "grace@example.com" }],
    aliases: ["countess@example.com"],
    customSchemas: {
      HR: {
        level: 7,
        teams: [
          { type: "work", value: "red" },
          { type: "work", value: "blue" },
        ],
      },
    },
    suspended: true,
    notes: { value: "", contentType: "text_plain" },
  });
  const { records, server } = await provided(small([ada]), {}, { minMemberships: 0 });
  const [everything] = usersOf(await records());
  expect(everything?.attributes).toEqual({
    id: "1-ada",
    primaryEmail: "ada@example.com",
    mail: "ada@example.com",
    customerId: "C03az79cb",
    "name.givenName": "Ada",
    "name.familyName": "Lovelace",
    "name.fullName": "Ada Lovelace",
    givenName: "Ada",
    familyName: "Lovelace",
    displayName: "Ada Lovelace",
    emails: ["ada@work.example.com", "ada@example.com"],
    "emails.work": "ada@work.example.com",
    "emails.primary": "ada@example.com",
    "organizations.primary.title": "Analyst",
    "organizations.primary.department": "Research",
    title: "Analyst",
    department: "Research",
    externalIds: ["1001", "B7"],
    "externalIds.primary": "1001",
    "externalIds.organization": "1001",
    "externalIds.badge": "B7",
    employeeId: "1001",
    relations: ["grace@example.com"],
    "relations.primary": "grace@example.com",
    "relations.manager": "grace@example.com",
    manager: "grace@example.com",
    aliases: ["countess@example.com"],
    "customSchemas.HR.level": 7,
    "customSchemas.HR.teams": ["red", "blue"],
    "customSchemas.HR.teams.primary": "red",
    "customSchemas.HR.teams.work": "red",
    suspended: true,
    "notes.contentType": "text_plain",
  });
  // What no Google user has is another source's, and no reason for a refusal.
  const attributes = { users: ["department", "mail", "shoeSize"], groups: ["name"] };
  const [some] = usersOf(await records({ attributes }));
  expect(some?.attributes).toEqual({ department: "Research", mail: "ada@example.com" });
  const asked = server.requests.findLast((each) => each.includes("/users?") && !each.includes("DESCENDING")) ?? "";
  expect(new URL(asked, server.url).searchParams.get("fields")).toBe(
    "kind,nextPageToken,users(id,primaryEmail,suspended,organizations)",
  );
  expect(new URL(asked, server.url).searchParams.get("projection")).toBe("basic");
});

test("without groups, the scope for them is not needed", async () => {
  const { records, server } = await provided(tiny(), {}, { groups: false });
  server.delegated.delete(scopes.groups);
  const read = await records();
  expect(read).toHaveLength(40);
  expect(server.requests.join("\n")).not.toContain("/groups");
});

test("a check names the scope that is missing, and says how far a delegated administrator sees", async () => {
  const { source, server, context } = await provided(small([user("admin", { isAdmin: true })]));
  expect((await source.describe?.(context()))?.join("\n")).toMatch(/a super administrator/);
  server.directory.users = [user("admin", { isAdmin: false, isDelegatedAdmin: true })];
  expect((await source.describe?.(context()))?.join("\n")).toMatch(/the role must cover all organizational units/);
  server.revoke();
  server.delegated.delete(scopes.groups);
  await expect(source.describe?.(context())).rejects.toThrow(
    /may not ask for \S+group\.readonly: in the Admin console.*give the client ID 104857600000000000001 these scopes/,
  );
});

test("a lookup by id: a user who was deleted is gone, and a refusal is no absence", async () => {
  const { source, server, context } = await provided(
    small([user("ada"), user("bob", { deletionTime: "2026-11-01T00:00:00Z" })]),
  );
  const records = ["1-ada", "1-bob", "1-carol"].map((id) => ({ kind: "user", id }) as const);
  const found = async () => (await Array.fromAsync(source.find?.(records, context()) ?? [])).flat();
  expect((await found()).map(({ id, keys }) => ({ id, keys }))).toEqual([{ id: "1-ada", keys: ["1-ada"] }]);
  Object.assign(server.faults, {
    answers: ({ what }) => (what === "user" ? refusals.forbidden : undefined),
  } satisfies GoogleFaults);
  await expect(found()).rejects.toThrow(/must be an administrator/);
});

test("Google's own client reads the same", async () => {
  const { records, server } = await provided(large());
  const { client_email, private_key } = server.key;
  const jwt = new auth.JWT({
    email: client_email,
    key: private_key,
    scopes: [scopes.users, scopes.groups],
    subject: "admin@example.com",
  });
  jwt.transporter.interceptors.request.add({
    resolved: async (options) => {
      if (options.url.href === "https://oauth2.googleapis.com/token") options.url = new URL(server.endpoints.token);
      return options;
    },
  });
  const client = admin({ version: "directory_v1", auth: jwt, rootUrl: `${server.url}/` });
  const all = async <Page extends { nextPageToken?: string | null }>(
    ask: (pageToken: string | undefined) => Promise<{ data: Page }>,
  ): Promise<Page[]> => {
    const pages: Page[] = [];
    for (let token: string | undefined; ;) {
      const { data } = await ask(token);
      pages.push(data);
      if (typeof data.nextPageToken !== "string") return pages;
      token = data.nextPageToken;
    }
  };
  const users = (await all((pageToken) => client.users.list({ customer: "my_customer", pageToken }))).flatMap(
    ({ users = [] }) =>
      users.map(({ id, primaryEmail, name, suspended }) => ({ id, primaryEmail, fullName: name?.fullName, suspended })),
  );
  const read = await records();
  expect(
    usersOf(read).map(({ id, attributes }) => ({
      id,
      primaryEmail: attributes["primaryEmail"],
      fullName: attributes["name.fullName"],
      suspended: attributes["suspended"],
    })),
  ).toEqual(users);
  const groups = (await all((pageToken) => client.groups.list({ customer: "my_customer", pageToken }))).flatMap(
    ({ groups = [] }) => groups,
  );
  expect(read.filter(({ kind }) => kind === "group")).toHaveLength(groups.length);
  for (const { id } of groups.slice(0, 20)) {
    const key = id ?? "";
    const members = (
      await all((pageToken) => client.members.list({ groupKey: key, pageToken, maxResults: 5 }))
    ).flatMap(({ members = [] }) => members.map((member) => member.id));
    expect(membersOf(read, key)).toEqual(members);
  }
});

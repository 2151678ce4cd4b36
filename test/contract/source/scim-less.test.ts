import { describe, expect, test } from "vitest";
import { IncompleteReadError } from "#errors.ts";
import type { ScimDirectory, ScimServer } from "../../support/scim.ts";
import { largeCompany } from "./company.ts";
import { directoryOf } from "./scim-medium.ts";
import { answer, ids, numbers, paged, records, small } from "./scim-reading.ts";

// Servers that answer with success, and with less than there is.

const errorSchema = "urn:ietf:params:scim:api:messages:2.0:Error";
const groupSchema = "urn:ietf:params:scim:schemas:core:2.0:Group";

async function failure(options: object, reading?: Parameters<typeof records>[1]): Promise<string> {
  const error: unknown = await records(options, reading).catch((error: unknown) => error);
  expect(error).toBeInstanceOf(IncompleteReadError);
  return String(error);
}

describe("members: each", () => {
  const each = (server: ScimServer) => ({ url: server.url, groups: { members: "each" } });
  const group = (id: string, rest: object) => ({
    schemas: [groupSchema],
    id,
    meta: { resourceType: "Group" },
    ...rest,
  });

  test.each([
    [
      "an error",
      { schemas: [errorSchema], status: "500", detail: "try later" },
      /the answer is an error \(500: try later\)/,
    ],
    ["an error with the right id", { schemas: [errorSchema], id: "g0" }, /the answer is an error; the records/],
    ["an empty object", {}, /the answer has no id, so it is not known to be this group/],
    ["another group", group("g1", { members: [] }), /another resource, with the id g1/],
    ["the id in another case", group("G0", { members: [] }), /another resource, with the id G0/],
    ["a user", { ...group("g0", {}), meta: { resourceType: "User" } }, /is a user, not a group/],
    ["something without a type", { id: "g0", members: [] }, /does not say what it is, not a group/],
    ["a list", { totalResults: 1, Resources: [group("g0", { members: [] })] }, /the answer is not a group/],
    ["an empty list", { totalResults: 0, Resources: [] }, /the answer is not a group/],
    ["nothing but an array", [group("g0", {}), group("g1", {})], /the answer is not one group/],
    ["null", [null], /the answer is not a group/],
  ])("fails when the answer for a group is %s", async (_, body, message) => {
    const server = await paged(small());
    server.intercept(
      (request, response) => request.url?.includes("/Groups/g0") === true && answer(response, 200, body),
    );
    expect(await failure(each(server))).toMatch(message);
  });

  test("asks a group without members for everything before it is believed", async () => {
    const server = await paged(small());
    server.directory.groups = server.directory.groups.map(({ members, ...rest }) =>
      rest.id === "g0" ? rest : { ...rest, members },
    );
    const all = await records(each(server));
    expect(all.filter((record) => record.kind === "membership" && record.group === "g0")).toEqual([]);
    expect(server.requests.filter((path) => path.includes("/Groups/g0"))).toEqual([
      "/scim/v2/Groups/g0?attributes=members",
      "/scim/v2/Groups/g0",
    ]);
    // A server that understands the parameter wrongly.
    const whole = await paged(small());
    whole.intercept(
      (request, response) =>
        request.url?.endsWith("/Groups/g0?attributes=members") === true && answer(response, 200, group("g0", {})),
    );
    const found = await records(each(whole));
    expect(found.filter((record) => record.kind === "membership" && record.group === "g0")).toHaveLength(10);
  });

  test("a group that is gone since it was listed asks for another read", async () => {
    const server = await paged(small());
    server.intercept((request, response) => request.url?.includes("/Groups/g0") === true && answer(response, 404, {}));
    await expect(records(each(server))).rejects.toMatchObject({
      message: expect.stringMatching(/Groups\/g0: it is in the list, and gone now; the list changed$/),
      torn: true,
    });
  });

  test("fails when pages of members end before what the list held", async () => {
    const { users, groups } = directoryOf(largeCompany(150));
    const server = await paged({ users, groups }, { memberLimit: 70, memberPages: true });
    server.intercept(
      (request, response) =>
        request.url?.includes("/Groups/g0") === true && answer(response, 200, group("g0", { members: [] })),
    );
    const options = { url: server.url, groups: { memberLimit: 70, memberPages: {} } };
    expect(await failure(options)).toMatch(/Groups\/g0: 0 members, and the list of groups holds 70 of them/);
  });
});

describe("a total that counts only part of the list", () => {
  /** Counts after slicing: the total is how many are on the page. */
  const slicing = (server: ScimServer, capped: (sliced: number) => number = (sliced) => sliced): void =>
    server.intercept((request, response) => {
      if (request.url?.includes("/Users?") !== true) return false;
      const { searchParams } = new URL(request.url, server.url);
      const start = Number(searchParams.get("startIndex"));
      const page = server.directory.users.slice(start - 1, start - 1 + Number(searchParams.get("count")));
      return answer(response, 200, { totalResults: capped(page.length), startIndex: start, Resources: page });
    });

  test.each([true, false])("fails the read (overlap: %s)", async (overlap) => {
    const server = await paged(directoryOf(largeCompany(300)));
    slicing(server);
    const options = { url: server.url, groups: false, paging: { count: 50, overlap } };
    expect(await failure(options)).toMatch(
      /Users: totalResults is 50, and there is a resource after these; .*server counts only part of it \(read 3 times\)/,
    );
    // All on one page: then it is right.
    expect(await ids({ ...options, paging: { count: 500, overlap } })).toEqual(numbers(300));
  });

  test("fails the read after several pages, too", async () => {
    const server = await paged(directoryOf(largeCompany(300)));
    slicing(server, () => 100);
    const options = { url: server.url, groups: false, paging: { count: 40 } };
    expect(await failure(options)).toMatch(/totalResults is 100, and there (is a resource after these|are \d+)/);
  });

  test("is not what a server that refuses to go on after the last one has", async () => {
    const server = await paged(small());
    server.intercept(
      (request, response) =>
        request.url?.includes("startIndex=11") === true && answer(response, 404, { detail: "no such page" }),
    );
    const options = { url: server.url, groups: false, paging: { overlap: false } };
    expect(await ids(options)).toEqual(numbers(10));
  });

  test("cannot be known of a server that does not page: that is said, unless minUsers is written", async () => {
    const server = await paged(directoryOf(largeCompany(300)));
    server.intercept((request, response) => {
      if (request.url?.includes("/Users?") !== true) return false;
      return answer(response, 200, { totalResults: 100, Resources: server.directory.users.slice(0, 100) });
    });
    const options = { url: server.url, groups: false };
    const warnings: string[] = [];
    expect(await ids(options, { warnings })).toHaveLength(100);
    expect(warnings).toEqual([
      "source corp: Users: the server ignores startIndex (startIndex=100 returned another resource), so nothing proves that these 100 are all; set minUsers to the fewest there can be",
    ]);
    expect(await ids({ ...options, minUsers: 90 }, { warnings })).toHaveLength(100);
    expect(warnings).toHaveLength(1);
  });

  test("is read again when somebody has come in the meantime", async () => {
    const server = await paged(small());
    const warnings: string[] = [];
    let requests = 0;
    server.intercept((request) => {
      if (request.url?.includes("/Users?") === true && ++requests === 2)
        server.directory.users = [...server.directory.users, { id: "11", userName: "new" }];
      return false;
    });
    expect(await ids({ url: server.url, groups: false }, { warnings })).toEqual(numbers(11));
    expect(warnings).toEqual([expect.stringMatching(/there is a resource after these; the list grew/)]);
  });
});

test.each([{ noTotals: true }, { totals: "estimated" }])(
  "a resource that comes twice by cursor proves that pages overlap ($noTotals $totals)",
  async ({ noTotals, totals }) => {
    const server = await paged(small(), { cursors: true, largestPage: 4, noTotals: noTotals === true });
    server.intercept((request, response) => {
      if (request.url?.includes("cursor=after-4") !== true) return false;
      const Resources = server.directory.users.slice(3, 7);
      return answer(response, 200, {
        ...(noTotals !== true && { totalResults: 10 }),
        nextCursor: "after-8",
        Resources,
      });
    });
    const options = { url: server.url, groups: false, paging: { totals } };
    expect(await failure(options)).toMatch(/Users: a resource came twice, and no total says .* \(read 3 times\)/);
  },
);

test("somebody who slips through between two cursors that are offsets is noticed by the total", async () => {
  const server = await paged(small(), { cursors: true, largestPage: 4 });
  const warnings: string[] = [];
  let requests = 0;
  server.intercept((request) => {
    // Number 5 moves to where number 4 was read.
    if (request.url?.includes("/Users?") === true && ++requests === 2)
      server.directory.users = server.directory.users.filter(({ id }) => id !== "2");
    return false;
  });
  const found = await ids({ url: server.url, groups: false }, { warnings });
  expect(found).toContain("user 5");
  expect(warnings).toEqual([expect.stringMatching(/the total was 10 and is now 9: it changed .*; reading it again/)]);
});

describe("what the last good read counted", () => {
  async function counted(directory: ScimDirectory): Promise<Record<string, number>> {
    const server = await paged(directory);
    const counts: Record<string, number> = {};
    await records({ url: server.url }, { count: (name, amount) => void (counts[name] = amount) });
    return counts;
  }

  test("is reported after a read, and only then", async () => {
    expect(await counted(small())).toEqual({ users: 10, groups: 2, memberships: 20 });
    const server = await paged({ users: [], groups: [] });
    const count = (): never => expect.fail("a failed read counts nothing");
    await expect(records({ url: server.url }, { count })).rejects.toThrow(/0 users, expected at least 1/);
  });

  test("fails a read without groups, unless minGroups: 0 is written", async () => {
    const lastCounts = await counted(small());
    const server = await paged({ ...small(), groups: [] });
    expect(await failure({ url: server.url }, { lastCounts })).toMatch(
      /source corp: 0 groups, and 2 at the last good read; if that is right, set minGroups: 0$/,
    );
    expect(await ids({ url: server.url, minGroups: 0 }, { lastCounts })).toEqual(numbers(10));
    expect(await ids({ url: server.url })).toEqual(numbers(10));
  });

  test("fails a read of fewer than half", async () => {
    const lastCounts = await counted(directoryOf(largeCompany(300)));
    const server = await paged(directoryOf(largeCompany(140)));
    expect(await failure({ url: server.url }, { lastCounts })).toMatch(
      /140 users, and 300 at the last good read; if that is right, set minUsers: 140$/,
    );
    const options = { url: server.url, minUsers: 140, minMemberships: 1 };
    expect(await ids(options, { lastCounts })).toHaveLength(142);
  });
});

test.each([202, 204, 206])("a success that is not 200 (%i) fails the read", async (status) => {
  const server = await paged(small());
  server.intercept(
    (request, response) =>
      request.url?.includes("/Groups") === true && answer(response, status, { totalResults: 0, Resources: [] }),
  );
  await expect(records({ url: server.url })).rejects.toThrow(
    new RegExp(`/Groups\\S+ answered ${status}: expected 200; anything else is not known to be the whole answer`),
  );
});

test("an attribute that everybody has lost fails the read, unless it is listed", async () => {
  const attributes = { users: ["userName", "mail", "nickName"], groups: ["displayName"] };
  const server = await paged(small());
  const lastCounts: Record<string, number> = {};
  await records({ url: server.url }, { attributes, count: (name, amount) => void (lastCounts[name] = amount) });
  expect(lastCounts).toMatchObject({ "users with mail": 10, "groups with displayName": 2 });
  server.directory.users = server.directory.users.map((user) => ({ ...user, emails: [] }));
  server.directory.groups = server.directory.groups.map((group) => ({ ...group, displayName: "" }));
  expect(await failure({ url: server.url }, { attributes, lastCounts })).toMatch(
    /source corp: no record has entry\.mail, and 10 had it at the last good read; if no record has it, list it under optionalAttributes$/,
  );
  expect(
    await ids({ url: server.url, users: { optionalAttributes: ["mail"] } }, { attributes, lastCounts }),
  ).toHaveLength(12);
});

test.each([
  ["absent", {}],
  ["null", { members: null }],
  ["empty", { members: [] }],
])("members that are %s in every group fail the read, unless minMemberships: 0 is written", async (_, none) => {
  const { users, groups } = small();
  const server = await paged({ users, groups: groups.map((group) => ({ ...group, members: undefined, ...none })) });
  for (const members of ["list", "each"]) {
    const options = { url: server.url, groups: { members } };
    expect(await failure(options)).toMatch(/no group has a member, and no user is in a group; .*minMemberships: 0$/);
    expect(await ids({ ...options, minMemberships: 0 })).toHaveLength(12);
  }
});

import { expect, test } from "vitest";
import type { Entry, Source } from "#connector.ts";
import { startScim } from "../../support/scim.ts";
import { largeCompany } from "./company.ts";
import { directoryOf } from "./scim-medium.ts";
import { answer, contextOf, open, paged, small, started } from "./scim-reading.ts";
import type { Reading } from "./scim-reading.ts";

type Records = Parameters<NonNullable<Source["find"]>>[0];

async function found(options: object, records: Records, reading: Reading = {}): Promise<readonly Entry[]> {
  const source = open(options);
  expect(source.uniqueIds).toBe(true);
  return (await Array.fromAsync(source.find?.(records, contextOf(reading)) ?? [])).flat();
}

const user = (id: string) => ({ kind: "user", id }) as const;
const group = (id: string) => ({ kind: "group", id }) as const;
const idsOf = (entries: readonly Entry[]) => entries.map(({ kind, id }) => `${kind} ${id}`);

test("looks records up by id, and gives those that exist as they are now", async () => {
  const server = await started(startScim(small()));
  const entries = await found({ url: server.url }, [user("3"), user("gone"), group("g1"), group("3"), user("g1")]);
  expect(idsOf(entries)).toEqual(["user 3", "group g1"]);
  expect(entries[0]).toMatchObject({ keys: ["3"], attributes: { userName: "user3" } });
  expect(entries[0]?.origin).toBe(`${server.url}/Users/3`);
  expect(entries[1]?.members).toHaveLength(10);
  expect(server.requests.filter((path) => !/\/(Users|Groups)\/[^/?]+$/.test(path))).toEqual([]);
});

test("finds as many as are asked for, and holds nothing afterwards", async () => {
  const server = await paged(directoryOf(largeCompany(250)));
  const records = server.directory.users.map(({ id }) => user(id));
  expect(await found({ url: server.url }, records)).toHaveLength(250);
  await expect.poll(() => server.open.size).toBe(0);
  const reason = new Error("enough");
  await expect(found({ url: server.url }, records, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
});

test("honours the filter", async () => {
  const server = await started(startScim(small()));
  const users = { filter: 'userName eq "user3" or userName eq "user4"' };
  expect(idsOf(await found({ url: server.url, users }, [user("3"), user("5"), user("none")]))).toEqual(["user 3"]);
  expect(server.requests.map(decodeURIComponent)).toContain(
    '/scim/v2/Users?filter=(userName+eq+"user3"+or+userName+eq+"user4")+and+id+eq+"3"&count=2',
  );
  // Groups that are not read are not looked up.
  expect(await found({ url: server.url, groups: false }, [group("g1")])).toEqual([]);
});

test("says when the server cannot say", async () => {
  const warnings: string[] = [];
  const server = await paged(small());
  // Filters of two parts are refused, or match nothing.
  let status = 400;
  server.intercept(
    (request, response) =>
      request.url?.includes("+and+id") === true && answer(response, status, { totalResults: 0, Resources: [] }),
  );
  const users = { filter: "active eq true" };
  expect(await found({ url: server.url, users }, [user("3"), user("4")], { warnings })).toEqual([]);
  status = 200;
  expect(await found({ url: server.url, users }, [user("3"), user("4")], { warnings })).toEqual([]);
  server.intercept((_, response) => answer(response, 501, {}));
  expect(await found({ url: server.url }, [user("3"), user("4")], { warnings })).toEqual([]);
  expect(warnings).toEqual([
    "source corp: Users: the server does not take the filter together with an id",
    "source corp: Users: the server does not take the filter together with an id",
    "source corp: Users: the server does not return single users, so no user is looked up",
  ]);
});

test.each([
  ["an error", 200, { schemas: ["urn:ietf:params:scim:api:messages:2.0:Error"] }, /the answer is an error/],
  ["somebody else", 200, { id: "4" }, /the answer is another resource, with the id 4/],
  ["a refusal", 403, { detail: "no" }, /answered 403 \(no\)/],
])("does not take %s for absence", async (_, status, body, message) => {
  const server = await paged(small());
  server.intercept((_, response) => answer(response, status, body));
  await expect(found({ url: server.url }, [user("3")])).rejects.toThrow(message);
});

test("is not there for files, which do not change during a read", () => {
  const source = open({ files: { users: "users.json" } });
  expect(source.find).toBeUndefined();
  expect(source.uniqueIds).toBeUndefined();
});

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  type LdapMessage,
  operation,
  page,
  pageOf,
  reference,
  result,
  resultCode,
  encode,
} from "../support/ldap/message.ts";
import { hasMore, type LdapFault, type LdapProxy, type Place, refuse, startLdapProxy } from "../support/ldap/proxy.ts";
import { ldifEntry } from "../support/ldap/ldif.ts";
import { noOpenLdap, type OpenLdap, reader, startOpenLdap } from "../support/ldap/openldap.ts";
import { groups, organizationalUnit, people } from "../contract/source/ldap-medium.ts";
import { failureOf, openSource, readAll, type Reading } from "../contract/source/ldap-reading.ts";

const skip = (await noOpenLdap()) !== undefined;

const size = { users: 2_000, groups: 40, memberships: 4_000 };
const pageSize = 500;
/** The search that asks for the second page of users, and the one for the groups. */
const secondPage = 2;
const groupPage = size.users / pageSize + 1;

let server: OpenLdap;
let proxy: LdapProxy;

beforeAll(async () => {
  if (skip) return;
  server = await startOpenLdap({ ldif: directory(), overlays: ["syncprov"] });
  proxy = await startLdapProxy(server.port);
});

afterEach(() => proxy?.set(undefined));

afterAll(async () => {
  await proxy?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

function* directory(): Generator<string> {
  yield organizationalUnit(people);
  yield organizationalUnit(groups);
  const dn = (index: number): string => `uid=user${index},${people}`;
  for (let index = 0; index < size.users; index++) {
    yield ldifEntry(dn(index), { objectClass: "inetOrgPerson", cn: `User ${index}`, sn: `${index}` });
  }
  const each = size.memberships / size.groups;
  for (let index = 0; index < size.groups; index++) {
    const member = Array.from({ length: each }, (_, offset) => dn((index * each + offset) % size.users));
    yield ldifEntry(`cn=group${index},${groups}`, { objectClass: "groupOfNames", member });
  }
}

function options(more: object = {}): object {
  return {
    url: proxy.url,
    bind: reader,
    users: { base: people },
    groups: { base: groups },
    membership: ["member"],
    pageSize,
    ...more,
  };
}

/** For a server that does not go on. */
const impatient = { limits: { connect: "2s", read: "1s" } };

/** How many there are, however often they came. */
function sizeOf({ users, groups: found }: Reading): typeof size {
  return {
    users: new Set(users.map(({ id }) => id)).size,
    groups: new Set(found.map(({ id }) => id)).size,
    memberships: new Set(found.flatMap(({ id, members }) => members.map(({ key }) => `${id} ${key}`))).size,
  };
}

const isEntry = (message: LdapMessage): boolean => message.operation === operation.searchResultEntry;
const isDone = (message: LdapMessage): boolean => message.operation === operation.searchResultDone;

/** In the middle of the answer to this search. */
const midway = (search: number, strike: "close" | "reset" | "stall" | "cut"): LdapFault => ({
  response: (message, place) =>
    isEntry(message) && place.search === search && place.entry === 20 ? strike : undefined,
});
/** Instead of the message that ends the answer to this search. */
const atEnd = (
  search: number,
  strike: (message: LdapMessage) => ReturnType<NonNullable<LdapFault["response"]>>,
): LdapFault => ({
  response: (message, place) => (isDone(message) && place.search === search ? strike(message) : undefined),
});
/** In the place of the whole answer to this search. */
const instead = (search: number, answers: (message: LdapMessage) => readonly Buffer[]): LdapFault => ({
  request: (message, place) =>
    message.operation === operation.searchRequest && place.search === search ? answers(message) : undefined,
});

const searches = [
  { where: "the users", search: secondPage },
  { where: "the groups", search: groupPage },
];

test("nothing is missing through a proxy that only passes on", { skip }, async () => {
  expect(sizeOf(await readAll(options()))).toEqual(size);
  expect(proxy.searches).toBe(groupPage);
});

const breaks = [
  { strike: "close", message: /the server closed the connection|the connection was lost/ },
  { strike: "reset", message: /the server closed the connection|the connection was lost/ },
  { strike: "cut", message: /the server closed the connection|the connection was lost/ },
  { strike: "stall", message: /no answer for 1 s/ },
] as const;

for (const { where, search } of searches) {
  for (const { strike, message } of breaks) {
    test(`a ${strike} in the middle of ${where} fails the read`, { skip }, async () => {
      proxy.set(midway(search, strike));
      const failure = await failureOf(readAll(options(strike === "stall" ? impatient : {})));
      expect(failure.message).toMatch(message);
      expect(failure.advice).toBe("retry");
      await expect.poll(() => server.connections()).toBe(0);
    });

    test(`a ${strike} at the end of a page of ${where} fails the read`, { skip }, async () => {
      proxy.set(atEnd(search, () => strike));
      expect((await failureOf(readAll(options(strike === "stall" ? impatient : {})))).message).toMatch(message);
    });
  }

  const codes = [
    { code: resultCode.operationsError, message: /operationsError/ },
    { code: resultCode.timeLimitExceeded, message: /timeLimitExceeded/, advice: "fix" },
    { code: resultCode.sizeLimitExceeded, message: /sizeLimitExceeded/, advice: "fix" },
    { code: resultCode.adminLimitExceeded, message: /adminLimitExceeded/, advice: "fix" },
    { code: resultCode.unavailableCriticalExtension, message: /unavailableCriticalExtension/ },
    { code: resultCode.noSuchObject, message: /does not exist, or may not be seen/ },
    { code: resultCode.insufficientAccessRights, message: /insufficientAccessRights/ },
    { code: resultCode.busy, message: /busy/, advice: "retry" },
    { code: resultCode.unavailable, message: /unavailable/, advice: "retry" },
    { code: resultCode.unwillingToPerform, message: /unwillingToPerform/ },
    { code: resultCode.other, message: /result 80/ },
    { code: 4096, message: /result 4096/ },
  ];
  for (const { code, message, advice } of codes) {
    test(`result ${code} in the place of a page of ${where} fails the read`, { skip }, async () => {
      proxy.set(instead(search, (request) => [refuse(request, code, "because")]));
      const failure = await failureOf(readAll(options()));
      expect(failure.message).toMatch(message);
      if (code !== resultCode.noSuchObject) expect(failure.message).toContain("because");
      if (advice !== undefined) expect(failure.advice).toBe(advice);
    });

    test(`result ${code} after a page of ${where} fails the read`, { skip }, async () => {
      proxy.set(atEnd(search, (done) => [refuse(done, code)]));
      expect((await failureOf(readAll(options()))).message).toMatch(message);
    });
  }

  test(`a referral in the place of a page of ${where} fails the read`, { skip }, async () => {
    const url = "ldap://elsewhere.example.com/dc=example,dc=com";
    proxy.set(instead(search, (request) => [refuse(request, resultCode.referral, "", [url])]));
    const failure = await failureOf(readAll(options()));
    expect(failure.message).toMatch(/elsewhere\.example\.com|stopped paging/);
    expect(failure.advice).toBe("fix");
  });

  test(`a reference among ${where} fails the read, unless its host is to be left out`, { skip }, async () => {
    const url = "ldap://elsewhere.example.com/ou=more,dc=example,dc=com";
    proxy.set({
      response: (message, place) =>
        isDone(message) && place.search === search
          ? [encode(message.id, operation.searchResultReference, reference([url])), message.bytes]
          : undefined,
    });
    expect((await failureOf(readAll(options()))).message).toMatch(/elsewhere\.example\.com/);
    expect(sizeOf(await readAll(options({ referrals: { ignore: ["elsewhere.example.com"] } })))).toEqual(size);
  });

  test(`an empty page in the middle of ${where} is not their end`, { skip }, async () => {
    let once = true;
    // The server never sees this request: its cookie stays good.
    proxy.set({
      request: (message, place) => {
        if (message.operation !== operation.searchRequest || place.search !== search || !once) return undefined;
        once = false;
        const cookie = pageOf(message)?.cookie ?? Buffer.alloc(0);
        return [encode(message.id, operation.searchResultDone, result(0), [page(0, cookie.length > 0 ? cookie : "x")])];
      },
    });
    const reading = readAll(options());
    // A cookie of the proxy's own is unknown to the server: it refuses it, and the read fails.
    if (search === groupPage) expect((await failureOf(reading)).message).toMatch(/search for groups/);
    else expect(sizeOf(await reading)).toEqual(size);
  });

  test(`empty pages without end in ${where} fail the read`, { skip }, async () => {
    proxy.set({
      request: (message, place) =>
        message.operation === operation.searchRequest && place.search >= search
          ? [encode(message.id, operation.searchResultDone, result(0), [page(0, "again")])]
          : undefined,
    });
    expect((await failureOf(readAll(options()))).message).toMatch(/empty pages without end/);
  });
}

test("a page of users that comes twice does not hide another one", { skip }, async () => {
  const seen: LdapMessage[] = [];
  proxy.set({
    request: (message, { search }) =>
      message.operation === operation.searchRequest && search === secondPage + 1
        ? seen.map((old) => encode(message.id, old.operation, old.body, old.controls))
        : undefined,
    response: (message, { search }) => {
      if (search === secondPage) seen.push(message);
      return undefined;
    },
  });
  expect((await failureOf(readAll(options()))).message).toMatch(/sent the page that begins with .* twice/);
});

test("the same page for ever fails the read", { skip }, async () => {
  const seen: LdapMessage[] = [];
  proxy.set({
    request: (message, { search }) =>
      message.operation === operation.searchRequest && search > 1
        ? seen.map((old) => encode(message.id, old.operation, old.body, old.controls))
        : undefined,
    response: (message, { search }) => {
      if (search === 1) seen.push(message);
      return undefined;
    },
  });
  expect((await failureOf(readAll(options()))).message).toMatch(/twice/);
});

test("entries that come twice do not hide others", { skip }, async () => {
  proxy.set({
    response: (message, { search }) => (isEntry(message) && search > 0 ? [message.bytes, message.bytes] : undefined),
  });
  expect(sizeOf(await readAll(options()))).toEqual(size);
});

test("a server that forgets its paging after the first page fails the read", { skip }, async () => {
  proxy.set(atEnd(secondPage, ({ id, body }) => [encode(id, operation.searchResultDone, body)]));
  expect((await failureOf(readAll(options()))).message).toMatch(/stopped paging after 1000 entries/);
});

test("a server that says it pages and does not fails the read", { skip }, async () => {
  proxy.set({
    response: (message) =>
      hasMore(message) ? [encode(message.id, operation.searchResultDone, message.body)] : undefined,
  });
  expect((await failureOf(readAll(options()))).message).toMatch(/pag/);
});

test("a server that says goodbye fails the read, with what it says", { skip }, async () => {
  const name = Buffer.from("\x8a\x161.3.6.1.4.1.1466.20036", "latin1");
  proxy.set({
    response: (message, place) =>
      isEntry(message) && place.search === secondPage && place.entry === 5
        ? [encode(0, operation.extendedResponse, Buffer.concat([result(resultCode.unavailable, "going down"), name]))]
        : undefined,
  });
  const failure = await failureOf(readAll(options()));
  expect(failure.message).toMatch(/the server ended the connection \(it says: going down\)/);
  expect(failure.advice).toBe("retry");
});

const rubbish = [
  { what: "another protocol", bytes: Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n") },
  { what: "zero bytes", bytes: Buffer.alloc(100) },
  { what: "a length without end", bytes: Buffer.from([0x30, 0x80, 0, 0]) },
  { what: "a message of two gigabytes", bytes: Buffer.from([0x30, 0x84, 0x7f, 0xff, 0xff, 0xff, 2, 1, 2]) },
  {
    what: "an entry without its parts",
    bytes: (id: number) => encode(id, operation.searchResultEntry, Buffer.from([4, 100, 1])),
  },
  { what: "an end without a result", bytes: (id: number) => encode(id, operation.searchResultDone, Buffer.alloc(0)) },
];
for (const { what, bytes } of rubbish) {
  for (const [where, strikes] of [
    ["the login", (message: LdapMessage) => message.operation === operation.bindResponse],
    ["the users", (message: LdapMessage, { search, entry }: Place) => isEntry(message) && search > 0 && entry === 3],
  ] as const) {
    test(`${what} in the middle of ${where} fails the read`, { skip }, async () => {
      proxy.set({
        response: (message, place) =>
          strikes(message, place)
            ? [typeof bytes === "function" ? bytes(message.id) : bytes, message.bytes]
            : undefined,
      });
      const failure = await failureOf(readAll(options(impatient)));
      expect(failure.message).toMatch(/the server sent|closed the connection|no answer/);
      await expect.poll(() => server.connections()).toBe(0);
    });
  }
}

test("bytes that come one by one are put together", { skip }, async () => {
  proxy.set({
    response: ({ bytes }, { search }) =>
      search === 1 ? Array.from(bytes, (_, at) => bytes.subarray(at, at + 1)) : undefined,
  });
  expect(sizeOf(await readAll(options()))).toEqual(size);
});

test("answers to nothing that was asked are no entries", { skip }, async () => {
  proxy.set({
    response: (message, place) =>
      isEntry(message) && place.search > 0
        ? [encode(9_999, message.operation, message.body), message.bytes]
        : undefined,
  });
  const reading = await readAll(options());
  expect(sizeOf(reading)).toEqual(size);
  expect(reading.users).toHaveLength(size.users);
});

for (const { strike, message } of breaks) {
  test(`a ${strike} at the login fails the read`, { skip }, async () => {
    proxy.set({ response: ({ operation: tag }) => (tag === operation.bindResponse ? strike : undefined) });
    expect((await failureOf(readAll(options(strike === "stall" ? impatient : {})))).message).toMatch(message);
  });
}

for (const [code, message] of [
  [resultCode.busy, /busy/],
  [resultCode.unavailable, /unavailable/],
  [resultCode.invalidCredentials, /invalidCredentials/],
] as const) {
  test(`result ${code} at the login fails the read`, { skip }, async () => {
    proxy.set({
      request: (request) => (request.operation === operation.bindRequest ? [refuse(request, code)] : undefined),
    });
    expect((await failureOf(readAll(options()))).message).toMatch(message);
  });
}

test("a signal ends a read that stalls, with its reason, long before any limit", { skip }, async () => {
  proxy.set(midway(secondPage, "stall"));
  const abort = new AbortController();
  const reason = new Error("enough");
  const reading = readAll(options({ limits: { connect: "1h", read: "1h", search: "1h" } }), { signal: abort.signal });
  await expect.poll(() => proxy.searches).toBe(secondPage);
  abort.abort(reason);
  await expect(reading).rejects.toBe(reason);
  await expect.poll(() => server.connections()).toBe(0);
});

test("a server that gives entries slowly is given up after the time for a search", { skip }, async () => {
  proxy.set({
    request: (message, { search }) =>
      message.operation === operation.searchRequest && search > 1
        ? [encode(message.id, operation.searchResultDone, result(0), [page(0, `${search}`)])]
        : undefined,
  });
  expect((await failureOf(readAll(options({ limits: { search: "1s" } })))).message).toMatch(/empty pages|1 s/);
});

test("describe and version say what is wrong as a read does", { skip }, async () => {
  proxy.set({ response: () => "stall" });
  const context = { signal: new AbortController().signal, warn: () => {} };
  const source = openSource(options(impatient));
  expect((await failureOf(Promise.resolve(source.describe?.(context)))).advice).toBe("retry");
  expect((await failureOf(Promise.resolve(source.version?.(context)))).advice).toBe("retry");
  await expect.poll(() => server.connections()).toBe(0);
});

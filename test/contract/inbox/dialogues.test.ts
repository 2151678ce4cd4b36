import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { inbox } from "#connectors/scim/inbox/options.ts";
import { addInboxRoutes } from "#connectors/scim/inbox/routes.ts";
import { beginExchange } from "#http/exchange.ts";
import { startControlListener } from "#control/listener.ts";
import type { ControlListener } from "#control/listener.ts";
import { FolderInboxes } from "#state/folder/inbox.ts";

/** What identity providers send to an inbox, request by request, over HTTP. */

const settings = inbox.parse({});
let folder = "";
let inboxes: FolderInboxes;
let listener: ControlListener;
const warnings: string[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-inbox-"));
  inboxes = new FolderInboxes(folder);
  const log = pino({ level: "silent" });
  listener = await startControlListener({
    listen: { host: "127.0.0.1", port: 0 },
    allowPlainHttp: false,
    probes: [],
    isStopping: () => false,
    log,
    routes: (app) => {
      addInboxRoutes(app, {
        settingsOf: (source) => (["entra", "okta", "rfc", "large"].includes(source) ? settings : undefined),
        inboxes,
        admit: async (source, token) => (token === `secret-${source}` ? { token: "t1" } : { status: 401 }),
        url: () => undefined,
        now: () => Date.now(),
        warn: (message, error) => warnings.push(`${message}: ${String(error)}`),
      });
    },
  });
});
afterAll(async () => {
  await listener.stop();
  await inboxes.close();
  await rm(folder, { recursive: true, force: true });
});

interface Answered {
  readonly status: number;
  readonly headers: Headers;
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any;
}

function clientOf(source: string) {
  return async (
    method: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Answered> => {
    const response = await fetch(`${listener.url}/scim/v2/${source}${path}`, {
      method,
      headers: {
        authorization: `Bearer secret-${source}`,
        ...(body !== undefined && { "content-type": "application/scim+json" }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text === "" ? undefined : JSON.parse(text) };
  };
}

const filter = (text: string): string => `filter=${encodeURIComponent(text)}`;
const patchOp = (...Operations: readonly object[]) => ({
  schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
  Operations,
});
const user = "urn:ietf:params:scim:schemas:core:2.0:User";
const group = "urn:ietf:params:scim:schemas:core:2.0:Group";
const enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";

test("Entra ID: a cycle", async () => {
  const entra = clientOf("entra");
  const probe = await entra("GET", `/Users?${filter('userName eq "f2f7ba6e-0b1d-4e5e-9d6e-7b1c4f6b7f10"')}`);
  expect(probe).toMatchObject({ status: 200, body: { totalResults: 0, Resources: [] } });
  expect(probe.headers.get("content-type")).toBe("application/scim+json");
  const created = await entra("POST", "/Users", {
    schemas: [user, enterprise],
    externalId: "0a21f0f2",
    userName: "ada@contoso.example",
    active: true,
    emails: [{ primary: true, type: "work", value: "ada@contoso.example" }],
    meta: { resourceType: "User" },
    name: { formatted: "Ada Lovelace", familyName: "Lovelace", givenName: "Ada" },
    roles: [],
  });
  expect(created.status).toBe(201);
  const { id } = created.body as { id: string };
  expect(created.headers.get("location")).toMatch(new RegExp(`/scim/v2/entra/Users/${id}$`));
  for (const match of [
    'userName eq "ADA@contoso.example"',
    'externalId eq "0a21f0f2"',
    'emails[type eq "work"].value eq "ada@contoso.example"',
  ])
    expect((await entra("GET", `/Users?${filter(match)}`)).body.Resources).toEqual([created.body]);
  const updated = await entra(
    "PATCH",
    `/Users/${id}`,
    patchOp(
      { op: "Replace", path: 'emails[type eq "work"].value', value: "countess@contoso.example" },
      { op: "Replace", path: "name.familyName", value: "King" },
      { op: "Add", path: `${enterprise}:department`, value: "Engines" },
      { op: "Add", path: `${enterprise}:manager`, value: "42" },
    ),
  );
  expect(updated).toMatchObject({
    status: 200,
    body: {
      emails: [{ value: "countess@contoso.example", type: "work", primary: true }],
      name: { familyName: "King", givenName: "Ada" },
      [enterprise]: { department: "Engines", manager: { value: "42" } },
    },
  });
  await entra("PATCH", `/Users/${id}`, patchOp({ op: "Replace", path: "active", value: "False" }));
  // Who is disabled is still found.
  expect((await entra("GET", `/Users?${filter('userName eq "ada@contoso.example"')}`)).body.Resources).toMatchObject([
    { id, active: false },
  ]);
  await entra(
    "PATCH",
    `/Users/${id}`,
    patchOp({ op: "replace", value: { active: true, "name.givenName": "Augusta" } }),
  );
  expect((await entra("GET", `/Users/${id}`)).body).toMatchObject({ active: true, name: { givenName: "Augusta" } });

  const staff = await entra("POST", "/Groups", {
    schemas: [group, "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"],
    externalId: "8aa1a0c0",
    displayName: "staff",
    meta: { resourceType: "Group" },
  });
  expect(staff).toMatchObject({ status: 201, body: { displayName: "staff" } });
  const groupId = staff.body.id as string;
  const add = patchOp({ op: "Add", path: "members", value: [{ $ref: null, value: id }] });
  expect(await entra("PATCH", `/Groups/${groupId}`, add)).toMatchObject({ status: 204, body: undefined });
  const isMember = `/Groups?excludedAttributes=members&${filter(`id eq "${groupId}" and members eq "${id}"`)}`;
  expect((await entra("GET", isMember)).body).toMatchObject({ totalResults: 1, Resources: [{ id: groupId }] });
  expect((await entra("GET", isMember)).body.Resources[0]).not.toHaveProperty("members");
  expect((await entra("GET", `/Groups/${groupId}`)).body.members).toEqual([{ value: id }]);
  expect((await entra("GET", `/Users/${id}`)).body.groups).toMatchObject([{ value: groupId, display: "staff" }]);
  const leave = patchOp({ op: "Remove", path: "members", value: [{ value: id }] });
  expect(await entra("PATCH", `/Groups/${groupId}`, leave)).toMatchObject({ status: 204 });
  expect((await entra("GET", isMember)).body.totalResults).toBe(0);
  expect((await entra("DELETE", `/Users/${id}`)).status).toBe(204);
  expect(await entra("GET", `/Users/${id}`)).toMatchObject({ status: 404, body: { status: "404" } });
  expect((await entra("DELETE", `/Users/${id}`)).status).toBe(404);
});

test("Okta: a user and a pushed group", async () => {
  const okta = clientOf("okta");
  const query = `/Users?${filter('userName eq "ada"')}&startIndex=1&count=100`;
  expect(await okta("GET", query)).toMatchObject({ status: 200, body: { totalResults: 0, startIndex: 1 } });
  const sent = {
    schemas: [user],
    userName: "ada",
    name: { givenName: "Ada", familyName: "Lovelace" },
    emails: [{ primary: true, value: "ada@example.com", type: "work" }],
    displayName: "Ada Lovelace",
    locale: "en-US",
    externalId: "00ujl29u0le5T6Aj10h7",
    groups: [],
    password: "1mz050nq",
    active: true,
  };
  const created = await okta("POST", "/Users", sent);
  expect(created.status).toBe(201);
  expect(JSON.stringify(created.body)).not.toContain("1mz050nq");
  const { id } = created.body as { id: string };
  expect(await okta("POST", "/Users", { ...sent, userName: "ADA" })).toMatchObject({
    status: 409,
    body: { scimType: "uniqueness", status: "409" },
  });
  const put = await okta("PUT", `/Users/${id}`, { ...created.body, active: false, password: "other" });
  expect(put).toMatchObject({ status: 200, body: { id, active: false } });
  await okta("PATCH", `/Users/${id}`, patchOp({ op: "replace", value: { active: true } }));
  const grace = await okta("POST", "/Users", { ...sent, userName: "grace", externalId: "x" });
  const staff = await okta("POST", "/Groups", { schemas: [group], displayName: "staff", members: [] });
  const path = `/Groups/${staff.body.id as string}`;
  await okta("PATCH", path, patchOp({ op: "replace", path: "members", value: [{ value: id, display: "ada" }] }));
  const mixed = patchOp(
    { op: "remove", path: `members[value eq "${id}"]` },
    { op: "add", path: "members", value: [{ value: grace.body.id, display: "grace" }] },
  );
  expect((await okta("PATCH", path, mixed)).status).toBe(204);
  await okta("PATCH", path, patchOp({ op: "replace", value: { id: staff.body.id, displayName: "people" } }));
  expect((await okta("GET", path)).body).toMatchObject({
    displayName: "people",
    members: [{ value: grace.body.id, display: "grace" }],
  });
  expect((await okta("GET", `/Groups?${filter('displayName eq "people"')}`)).body.totalResults).toBe(1);
  await okta("PUT", path, { displayName: "people", members: [{ value: id }, { value: grace.body.id }] });
  expect((await okta("GET", path)).body.members).toHaveLength(2);
  expect((await okta("DELETE", path)).status).toBe(204);
});

describe("RFC 7644", () => {
  const rfc = clientOf("rfc");
  const ids: string[] = [];
  beforeAll(async () => {
    for (const userName of ["a", "b", "c", "d", "e"]) ids.push((await rfc("POST", "/Users", { userName })).body.id);
  });

  test("pages by index and by cursor", async () => {
    const names = ({ body }: Answered): string[] =>
      body.Resources.map(({ userName }: { userName: string }) => userName);
    const second = await rfc("GET", "/Users?startIndex=3&count=2");
    expect(names(second)).toEqual(["c", "d"]);
    expect(second.body).toMatchObject({ totalResults: 5, itemsPerPage: 2, startIndex: 3 });
    expect(names(await rfc("GET", "/Users?startIndex=-1&count=1"))).toEqual(["a"]);
    expect((await rfc("GET", "/Users?count=0")).body).toMatchObject({ totalResults: 5, Resources: [] });
    const found: string[] = [];
    for (let cursor: string | undefined = ""; cursor !== undefined;) {
      const page: Answered = await rfc("GET", `/Users?cursor=${cursor}&count=2&${filter('userName ne "b"')}`);
      found.push(...names(page));
      cursor = page.body.nextCursor as string | undefined;
    }
    expect(found).toEqual(["a", "c", "d", "e"]);
    for (const path of ["/Users/", "/users"])
      expect(names(await rfc("GET", `${path}?${filter('userName eq "b"')}`))).toEqual(["b"]);
    expect(await rfc("GET", "/Users?cursor=x")).toMatchObject({ status: 400, body: { scimType: "invalidCursor" } });
  });

  test("versions", async () => {
    const path = `/Users/${ids[0]}`;
    const etag = (await rfc("GET", path)).headers.get("etag") ?? "";
    expect((await rfc("GET", path, undefined, { "if-none-match": etag })).status).toBe(304);
    const patched = patchOp({ op: "add", path: "title", value: "x" });
    expect((await rfc("PATCH", path, patched, { "if-match": 'W/"99"' })).status).toBe(412);
    const { headers } = await rfc("PATCH", path, patched, { "if-match": etag });
    expect(headers.get("etag")).not.toBe(etag);
    // What changes nothing is no new version.
    expect((await rfc("PATCH", path, patched)).headers.get("etag")).toBe(headers.get("etag"));
  });

  test("parts of resources", async () => {
    const { body } = await rfc("GET", `/Users/${ids[1]}?attributes=userName`);
    expect(Object.keys(body as object).toSorted()).toEqual(["id", "meta", "schemas", "userName"]);
    expect((await rfc("GET", `/Users?excludedAttributes=userName&count=1`)).body.Resources[0]).not.toHaveProperty(
      "userName",
    );
  });

  test("what the inbox says of itself", async () => {
    expect((await rfc("GET", "/ServiceProviderConfig")).body).toMatchObject({ bulk: { supported: false } });
    expect((await rfc("GET", "/ResourceTypes")).body.totalResults).toBe(2);
    expect((await rfc("GET", `/Schemas/${user}`)).body).toMatchObject({ id: user, name: "User" });
    expect((await rfc("GET", "/Schemas/none")).status).toBe(404);
    expect((await rfc("POST", "/Bulk", {})).status).toBe(404);
  });

  test("groups with very many members are read whole, and make a page shorter", async () => {
    const members = Array.from({ length: 120_000 }, (_, index) => ({ id: `member ${index}` }));
    await inboxes.change("large", { at: 1, token: "t" }, async (inbox) => {
      await inbox.create("user", "u", { userName: "u" });
      for (const id of ["a", "b", "c"]) {
        await inbox.create("group", id, { displayName: id });
        await inbox.addMembers(id, [...members, { id: "u", document: { display: "U" } }]);
      }
    });
    const large = clientOf("large");
    const one = await large("GET", "/Groups/b");
    expect(one.headers.get("content-type")).toBe("application/scim+json");
    expect(one.body).toMatchObject({ id: "b", displayName: "b", meta: { resourceType: "Group" } });
    expect(one.body.members).toHaveLength(120_001);
    expect(one.body.members.at(-1)).toEqual({ value: "u", display: "U" });
    const sizes = ({ body }: Answered): unknown[] =>
      body.Resources.map(({ id, members: found }: { id: string; members: object[] }) => [id, found.length]);
    const first = await large("GET", "/Groups?startIndex=1&count=3");
    expect(first.body).toMatchObject({ totalResults: 3, itemsPerPage: 2, startIndex: 1 });
    expect(sizes(first)).toEqual([
      ["a", 120_001],
      ["b", 120_001],
    ]);
    expect(sizes(await large("GET", "/Groups?startIndex=3&count=3"))).toEqual([["c", 120_001]]);
    const { body } = await large("GET", "/Groups?cursor=");
    const rest = await large("GET", `/Groups?cursor=${body.nextCursor}`);
    expect(sizes(rest)).toEqual([["c", 120_001]]);
    expect(rest.body).not.toHaveProperty("nextCursor");
    const users = await large("GET", "/Users");
    expect(users.body.Resources[0].groups.map(({ display }: { display: string }) => display)).toEqual(["a", "b", "c"]);
  });

  test("people are found by their addresses", async () => {
    const found = async (...texts: readonly string[]): Promise<unknown> => {
      const all = await Promise.all(texts.map((text) => rfc("GET", `/Users?${filter(text)}`)));
      return all.map(({ body }) => body.Resources.map(({ userName }: { userName: string }) => userName));
    };
    const addresses = [
      { value: "M1@x.example", type: "work" },
      { value: "m1@home.example", type: "home" },
    ];
    const { body: first } = await rfc("POST", "/Users", { userName: "mail1", emails: addresses });
    await rfc("POST", "/Users", { userName: "mail2", emails: [{ value: "m1@x.example", type: "home" }] });
    expect(
      await found(
        'emails.value eq "m1@X.example"',
        'emails[type eq "work"].value eq "m1@x.example"',
        'emails[value eq "m1@x.example" and type eq "home"]',
        'userName eq "mail2" or emails.value eq "m1@home.example"',
        'active eq true and emails eq "m1@x.example"',
        'not (emails.value eq "m1@x.example") and userName sw "mail"',
        `${user}:emails.value eq "m1@x.example"`,
      ),
    ).toEqual([
      ["mail1", "mail2"],
      ["mail1"],
      ["mail2"],
      ["mail1", "mail2"],
      ["mail1", "mail2"],
      [],
      ["mail1", "mail2"],
    ]);
    await rfc(
      "PATCH",
      `/Users/${first.id}`,
      patchOp({ op: "Replace", path: 'emails[type eq "work"].value', value: "m3@x.example" }),
    );
    expect(await found('emails.value eq "m1@x.example"', 'emails.value eq "m3@x.example"')).toEqual([
      ["mail2"],
      ["mail1"],
    ]);
    for (const name of ["mail1", "mail2"]) {
      const { body } = await rfc("GET", `/Users?${filter(`userName eq "${name}"`)}`);
      await rfc("DELETE", `/Users/${body.Resources[0].id}`);
    }
  });

  test("one user is the same in lower case, or with a slash at the end", async () => {
    const { body: odd } = await rfc("POST", "/users", { userName: "ada+odd@x.example" });
    for (const [path, active, stored] of [
      [`/users/${odd.id}`, "0", false],
      [`/Users/${odd.id}/`, { value: "True" }, true],
      [`/users/${odd.id}`, 0, false],
    ] as const)
      expect(await rfc("PATCH", path, patchOp({ op: "Replace", path: "active", value: active }))).toMatchObject({
        status: 200,
        body: { active: stored },
      });
    // A blank is %20 or a plus, and never both.
    for (const [at, count] of [
      [`/Users?count=9&filter=userName%20eq%20%22ada+odd@x.example%22`, 1],
      [`/Users?filter=userName+eq+%22ada%2Bodd@x.example%22`, 1],
      [`/Users?filter=userName+eq+%22ada+odd@x.example%22`, 0],
    ] as const)
      expect((await rfc("GET", at)).body.totalResults, at).toBe(count);
    expect((await rfc("DELETE", `/users/${odd.id}`)).status).toBe(204);
    expect((await rfc("GET", `/Users/${odd.id}/`)).status).toBe(404);
  });

  test("refused, with nothing changed", async () => {
    const before = await rfc("GET", "/Users");
    const path = `/Users/${ids[2]}`;
    const many = Array.from({ length: 8_001 }, (_, index) => ({ value: `${index}` }));
    const { body: staff } = await rfc("POST", "/Groups", { displayName: "staff" });
    for (const [method, at, body, status, scimType] of [
      ["POST", "/Users", "{", 400, "invalidSyntax"],
      ["POST", "/Users", {}, 400, "invalidValue"],
      ["PATCH", path, {}, 400, "invalidSyntax"],
      ["PATCH", path, patchOp({ op: "remove", path: "userName" }), 400, "invalidValue"],
      ["PATCH", path, patchOp({ op: "add", path: "members", value: [{ value: "1" }] }), 400, "invalidPath"],
      ["PATCH", path, patchOp({ op: "add", path: "title", value: 1 }, { op: "move" }), 400, "invalidSyntax"],
      ["PATCH", path, patchOp({ op: "replace", path: "userName", value: "A" }), 409, "uniqueness"],
      ["PUT", path, { userName: "b" }, 409, "uniqueness"],
      ["PATCH", `/Groups/${staff.id}`, patchOp({ op: "add", path: "members", value: many }), 413, undefined],
      ["POST", "/Users", { userName: "x".repeat(2 ** 20) }, 413, undefined],
      ["GET", `/Users?${filter("userName is x")}`, undefined, 400, "invalidFilter"],
      ["GET", "/Users?count=many", undefined, 400, "invalidValue"],
      ["GET", `/Groups/${ids[0]}`, undefined, 404, undefined],
    ] as const) {
      const answered = await rfc(method, at, body);
      expect({ status: answered.status, scimType: answered.body.scimType }, `${method} ${at}`).toEqual({
        status,
        scimType,
      });
      expect(answered.body.status).toBe(String(status));
    }
    expect((await rfc("GET", "/Users")).body).toEqual(before.body);
    expect(warnings).toEqual([]);
  });

  test("from other machines only over TLS, unless that is allowed", async () => {
    const { fastify } = await import("fastify");
    const app = fastify();
    app.addHook("onRequest", (request, _, done) => {
      beginExchange(request, () => "192.0.2.7");
      done();
    });
    addInboxRoutes(app, {
      settingsOf: (source) => ({ ...settings, allowPlainHttp: source === "open" }),
      inboxes,
      admit: async () => ({ token: "t1" }),
      url: () => "https://rollcall.example.com/behind",
      now: () => Date.now(),
      warn: () => undefined,
    });
    const statusOf = async (source: string, remoteAddress: string): Promise<number> =>
      (await app.inject({ url: `/scim/v2/${source}/Users`, remoteAddress })).statusCode;
    expect(await statusOf("strict", "192.0.2.7")).toBe(403);
    for (const local of ["127.0.0.1", "::1", "::ffff:127.0.0.1"]) expect(await statusOf("strict", local)).toBe(200);
    expect(await statusOf("open", "192.0.2.7")).toBe(200);
    const config = await app.inject({ url: "/scim/v2/strict/ServiceProviderConfig" });
    expect(config.json()).toMatchObject({
      meta: { location: "https://rollcall.example.com/behind/scim/v2/strict/ServiceProviderConfig" },
    });
    await app.close();
  });

  test("a token is of one inbox", async () => {
    for (const authorization of ["Bearer secret-okta", "Bearer", "Basic c2VjcmV0", ""]) {
      const answered = await rfc("GET", "/Users", undefined, { authorization });
      expect(answered).toMatchObject({ status: 401, body: { status: "401" } });
      expect(answered.headers.get("www-authenticate")).toContain("Bearer");
    }
  });
});

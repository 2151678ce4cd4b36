import okta from "@okta/okta-sdk-nodejs";
import { exportJWK, exportPKCS8, generateKeyPair } from "jose";
import * as oauth from "openid-client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { OktaServer } from "../../support/okta-directory.ts";
import { company } from "./company.ts";
import { oktaDirectoryOf } from "./okta-medium.ts";

/** The simulator, as clients that others wrote read it. */

const scopes = ["okta.users.read", "okta.groups.read"];
const keys = await generateKeyPair("RS256", { extractable: true });
const key = await exportJWK(keys.publicKey);
let plain: OktaServer;
let bound: OktaServer;

beforeAll(async () => {
  plain = await OktaServer.start(oktaDirectoryOf(company), {
    token: "00token",
    app: { clientId: "0oa1", key, scopes },
  });
  bound = await OktaServer.start(oktaDirectoryOf(company), { app: { clientId: "0oa1", key, scopes, dpop: true } });
});
afterAll(() => Promise.all([plain.close(), bound.close()]));

const logins = company.users.map(({ login }) => login);

async function clientOf(credentials: "token" | "key", token = "00token"): Promise<okta.Client> {
  const common = { orgUrl: plain.url, testing: { disableHttpsCheck: true } };
  if (credentials === "token") return new okta.Client({ ...common, token });
  const privateKey = await exportPKCS8(keys.privateKey);
  return new okta.Client({ ...common, authorizationMode: "PrivateKey", clientId: "0oa1", scopes, privateKey });
}

test.each(["token", "key"] as const)("Okta's own client reads users, page by page, with a %s", async (credentials) => {
  const client = await clientOf(credentials);
  const search = 'status eq "ACTIVE"';
  const found: unknown[] = [];
  for await (const user of await client.userApi.listUsers({ search, sortBy: "id", limit: 4 }))
    found.push(user?.profile?.login);
  expect(found).toEqual(logins);
  const reversed: unknown[] = [];
  const query = { search, sortBy: "id", sortOrder: "desc", limit: 2 };
  for await (const user of await client.userApi.listUsers(query)) reversed.push(user?.profile?.login);
  expect(reversed).toEqual(logins.toReversed());
});

test("Okta's own client reads groups, their counts and their members", async () => {
  const client = await clientOf("token");
  const { users, groups } = plain.directory;
  const seen: Record<string, unknown> = {};
  for await (const group of await client.groupApi.listGroups({ expand: "stats", limit: 3 })) {
    const members: unknown[] = [];
    const { id = "" } = group ?? {};
    for await (const user of await client.groupApi.listGroupUsers({ groupId: id, limit: 3 })) members.push(user?.id);
    seen[id] = { count: group?._embedded?.["stats"]?.usersCount, members };
  }
  const expected = Array.from({ length: groups.length }, (_, index) => {
    const { id = "", members } = groups.at(index) ?? {};
    const ids = Array.from({ length: members?.length ?? 0 }, (_, place) => users.at(members?.at(place) ?? -1)?.id);
    return [id, { count: ids.length, members: ids }];
  });
  expect(seen).toEqual(Object.fromEntries(expected));
});

test("lists leave out deactivated users, and searches do not", async () => {
  const client = await clientOf("token");
  const count = async (query: object): Promise<number> =>
    (await Array.fromAsync(await client.userApi.listUsers(query))).length;
  expect(await count({})).toBe(logins.length);
  expect(await count({ search: 'status eq "ACTIVE" or status eq "DEPROVISIONED"' })).toBe(logins.length + 2);
  expect(await count({ search: '(profile.login sw "a") and status eq "ACTIVE"' })).toBe(1);
});

test("errors have Okta's form", async () => {
  const client = await clientOf("token");
  await expect(client.userApi.getUser({ userId: "nobody" })).rejects.toMatchObject({
    status: 404,
    errorCode: "E0000007",
  });
  await expect(client.userApi.listUsers({ search: "status is new" }).then((list) => list.next())).rejects.toMatchObject(
    {
      status: 400,
      errorCode: "E0000031",
    },
  );
  const stranger = await clientOf("token", "00other");
  await expect(stranger.userApi.getUser({ userId: "me" })).rejects.toMatchObject({
    status: 401,
    errorCode: "E0000011",
  });
});

test("a general OAuth client gets a token bound to a key (DPoP), and reads with it", async () => {
  const server = { issuer: bound.url, token_endpoint: `${bound.url}/oauth2/v1/token` };
  const client = new oauth.Configuration(
    server,
    "0oa1",
    {},
    oauth.PrivateKeyJwt(keys.privateKey, {
      // By itself, the client names the issuer, which Okta does not take.
      [oauth.modifyAssertion]: (_, payload) => {
        payload["aud"] = server.token_endpoint;
      },
    }),
  );
  oauth.allowInsecureRequests(client);
  const DPoP = oauth.getDPoPHandle(client, await oauth.randomDPoPKeyPair("RS256"));
  const { access_token, token_type } = await oauth.clientCredentialsGrant(
    client,
    { scope: scopes.join(" ") },
    { DPoP },
  );
  expect(token_type.toLowerCase()).toBe("dpop");
  const url = new URL("/api/v1/users?limit=2", bound.url);
  const answer = await oauth.fetchProtectedResource(client, access_token, url, "GET", null, undefined, { DPoP });
  expect(await answer.json()).toHaveLength(2);
  const unbound = await fetch(url, { headers: { authorization: `Bearer ${access_token}` } });
  expect(unbound.status).toBe(400);
});

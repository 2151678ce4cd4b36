import { admin, auth } from "@googleapis/admin";
import type { admin_directory_v1 } from "@googleapis/admin";
import { expect, onTestFinished, test } from "vitest";
import { largeGoogle } from "../../support/google/large.ts";
import { scopes, startGoogle, subject } from "../../support/google/server.ts";
import type { GoogleServer } from "../../support/google/server.ts";

/** Google's own client. */
function clientOf(server: GoogleServer, asked: readonly string[] = Object.values(scopes)) {
  const { client_email, private_key, private_key_id } = server.key;
  const jwt = new auth.JWT({
    email: client_email,
    key: private_key,
    keyId: private_key_id,
    scopes: [...asked],
    subject,
  });
  // The client knows one token endpoint only.
  jwt.transporter.interceptors.request.add({
    resolved: async (options) => {
      if (options.url.href === "https://oauth2.googleapis.com/token") options.url = new URL(server.endpoints.token);
      return options;
    },
  });
  return admin({ version: "directory_v1", auth: jwt, rootUrl: `${server.url}/`, retry: false });
}

async function started(faults = {}): Promise<GoogleServer> {
  const server = await startGoogle(largeGoogle(2_000, 250), faults);
  onTestFinished(() => server.close());
  return server;
}

type Client = admin_directory_v1.Admin;

async function everyUser(client: Client, parameters: admin_directory_v1.Params$Resource$Users$List) {
  const users: admin_directory_v1.Schema$User[] = [];
  for (let pageToken: string | undefined; ;) {
    const { data } = await client.users.list({ customer: "my_customer", ...parameters, pageToken });
    users.push(...(data.users ?? []));
    if (data.nextPageToken === undefined || data.nextPageToken === null) return users;
    pageToken = data.nextPageToken;
  }
}

test("Google's client reads users in both orders, groups and members", async () => {
  const server = await started();
  const client = clientOf(server);
  const expected = Array.from({ length: 2_000 }, (_, index) => server.directory.users.at(index)?.id);
  const users = await everyUser(client, { maxResults: 500, orderBy: "email" });
  expect(users.map(({ id }) => id)).toEqual(expected);
  expect(users[0]).toMatchObject({ primaryEmail: "user000000000@example.com", name: { givenName: "Jörg" } });
  const ids = await everyUser(client, { orderBy: "email", sortOrder: "DESCENDING", fields: "nextPageToken,users(id)" });
  expect(ids).toEqual(expected.map((id) => ({ id })).reverse());

  const { data } = await client.groups.list({ customer: "my_customer" });
  expect(data.groups).toHaveLength(200);
  expect(data.nextPageToken).toBeTypeOf("string");
  const [group] = data.groups ?? [];
  expect(group).toMatchObject({ name: "Group 0", directMembersCount: "16" });
  const members = await client.members.list({ groupKey: group?.id ?? "" });
  expect(members.data.members).toHaveLength(16);
  expect(members.data.members?.[0]).toMatchObject({ type: "USER", role: "MEMBER", email: "user000000000@example.com" });
  await expect(client.groups.get({ groupKey: "nobody@example.com" })).rejects.toMatchObject({ status: 404 });
});

test("the token endpoint refuses scopes that are not delegated, other keys and who is not an administrator", async () => {
  const server = await started();
  server.delegated.delete(scopes.groups);
  await expect(clientOf(server).users.list({ customer: "my_customer" })).rejects.toThrow(/unauthorized_client/);
  const client = clientOf(server, [scopes.users]);
  await expect(client.users.list({ customer: "my_customer" })).resolves.toMatchObject({ status: 200 });
  await expect(client.groups.list({ customer: "my_customer" })).rejects.toThrow(/insufficient authentication scopes/);
  server.admins.clear();
  await expect(client.users.list({ customer: "my_customer" })).rejects.toThrow(/Not Authorized/);
  const forged = { ...server, key: { ...server.key, client_email: "somebody@else.iam.gserviceaccount.com" } };
  await expect(clientOf(forged).users.list({ customer: "my_customer" })).rejects.toThrow(/invalid_grant/);
});

test("a mask that leaves out the token ends Google's client early, as it does at Google", async () => {
  const client = clientOf(await started());
  expect(await everyUser(client, { maxResults: 500, fields: "users(id)" })).toHaveLength(500);
  await expect(everyUser(client, { fields: "users(id,shoeSize)" })).rejects.toThrow(/Invalid field selection shoeSize/);
});

import { createHash, X509Certificate } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ConfidentialClientApplication } from "@azure/msal-node";
import { Client, PageIterator } from "@microsoft/microsoft-graph-client";
import type { PageCollection } from "@microsoft/microsoft-graph-client";
import { generateKeyPair, SignJWT } from "jose";
import { Agent, fetch } from "undici";
import { expect, onTestFinished, test } from "vitest";
import type { SourceRecord } from "#connector.ts";
import entra from "#connectors/entra/index.ts";
import { makeCertificate } from "../../support/certificates.ts";
import { startEntra } from "../../support/entra/directory.ts";
import type { EntraDirectory, EntraOptions } from "../../support/entra/directory.ts";
import { app, idOf, largeTenant } from "../../support/entra/tenant.ts";
import type { Tenant } from "../../support/entra/tenant.ts";
import { optionsOf } from "./entra-medium.ts";

/* What Microsoft's own clients make of the server that stands in for Entra ID. */

const certificate = await makeCertificate({ ip: ["127.0.0.1"] });
const agent = new Agent({ connect: { ca: certificate.cert } });

async function started(tenant: Tenant = largeTenant(250, 3), options: EntraOptions = {}): Promise<EntraDirectory> {
  const directory = await startEntra(tenant, { tls: certificate, ...options });
  onTestFinished(() => directory.close());
  return directory;
}

type Credential = Pick<
  ConstructorParameters<typeof ConfidentialClientApplication>[0]["auth"],
  "clientSecret" | "clientCertificate" | "clientAssertion"
>;

/** A token, as MSAL gets it. */
async function tokenOf({ login, graph }: EntraDirectory, credential: Credential = { clientSecret: app.clientSecret }) {
  const sent = async (
    url: string,
    method: string,
    options: { headers?: Record<string, string>; body?: string } = {},
  ) => {
    const answer = await fetch(url, { method, dispatcher: agent, ...options });
    return { headers: {}, status: answer.status, body: (await answer.json()) as never };
  };
  const client = new ConfidentialClientApplication({
    auth: {
      clientId: app.clientId,
      authority: `${login}/${app.tenant}`,
      knownAuthorities: [new URL(login).host],
      ...credential,
    },
    system: {
      networkClient: {
        sendGetRequestAsync: (url, options) => sent(url, "GET", options),
        sendPostRequestAsync: (url, options) => sent(url, "POST", options),
      },
    },
  });
  const result = await client.acquireTokenByClientCredential({ scopes: [`${graph}/.default`] });
  return result?.accessToken ?? "";
}

/** Graph's own client, with a token of MSAL's. */
function clientOf(directory: EntraDirectory, credential?: Credential): Client {
  return Client.initWithMiddleware({
    baseUrl: directory.graph,
    customHosts: new Set(["127.0.0.1"]),
    fetchOptions: { dispatcher: agent },
    authProvider: { getAccessToken: () => tokenOf(directory, credential) },
  });
}

interface GraphItem {
  readonly id: string;
  readonly "@odata.type"?: string;
}

interface GraphUser extends GraphItem {
  readonly userPrincipalName: string;
  readonly mail: string;
  readonly accountEnabled: boolean;
}

interface GraphGroup extends GraphItem {
  readonly displayName: string;
}

async function all<Item extends GraphItem = GraphItem>(client: Client, path: string): Promise<readonly Item[]> {
  const found: Item[] = [];
  const first = (await client.api(path).get()) as PageCollection;
  await new PageIterator(client, first, (item: Item) => found.push(item) > 0).iterate();
  return found;
}

test("gives MSAL a token for a secret, a certificate and another provider's token", async () => {
  const signing = await makeCertificate({ dns: ["rollcall"] }, { keyType: "rsa" });
  const directory = await started(undefined, { certificate: signing.cert });
  expect(await tokenOf(directory)).toMatch(/^ey/);
  const { raw } = new X509Certificate(signing.cert);
  const thumbprintSha256 = createHash("sha256").update(raw).digest("hex");
  const clientCertificate = { privateKey: signing.key, thumbprintSha256 };
  expect(await tokenOf(directory, { clientCertificate })).toMatch(/^ey/);
  await expect(
    tokenOf(directory, {
      clientCertificate: { ...clientCertificate, privateKey: (await makeCertificate({}, { keyType: "rsa" })).key },
    }),
  ).rejects.toThrow("AADSTS700027");
  await expect(tokenOf(directory, { clientSecret: "wrong" })).rejects.toThrow("AADSTS7000215");

  const { publicKey, privateKey } = await generateKeyPair("RS256");
  const federated = await started(undefined, {
    federated: { issuer: "https://k8s.example", subject: "sa:rollcall", key: publicKey },
  });
  const assertion = (subject: string) =>
    new SignJWT()
      .setProtectedHeader({ alg: "RS256" })
      .setIssuer("https://k8s.example")
      .setSubject(subject)
      .setAudience("api://AzureADTokenExchange")
      .setExpirationTime("5m")
      .sign(privateKey);
  expect(await tokenOf(federated, { clientAssertion: await assertion("sa:rollcall") })).toMatch(/^ey/);
  await expect(tokenOf(federated, { clientAssertion: await assertion("sa:other") })).rejects.toThrow("AADSTS700213");
});

test("lists users, groups and members to Graph's own client, page by page", async () => {
  const directory = await started();
  const client = clientOf(directory);
  const users = await all(client, "/users?$select=id,userPrincipalName,accountEnabled&$top=60");
  expect(users.map(({ id }) => id)).toEqual(Array.from({ length: 250 }, (_, index) => idOf("user", index)));
  expect(users[7]).toEqual({
    id: idOf("user", 7),
    userPrincipalName: "user7@contoso.onmicrosoft.com",
    accountEnabled: true,
  });
  expect(await all(client, "/groups")).toHaveLength(3);
  expect(await all(client, `/groups/${idOf("group", 0)}/members?$select=id`)).toHaveLength(85);
  expect(await client.api("/users/$count").header("ConsistencyLevel", "eventual").get()).toBe("250");
  expect(
    await client
      .api(`/users/${idOf("user", 3)}`)
      .select("displayName")
      .get(),
  ).toMatchObject({ displayName: 'Jörg 3, the "3th"' });
});

test("refuses to Graph's own client what Graph refuses", async () => {
  const directory = await started();
  const client = clientOf(directory);
  await expect(client.api("/users/$count").get()).rejects.toThrow("$count is not currently supported");
  await expect(client.api("/users").filter("userType ne 'Guest'").get()).rejects.toMatchObject({
    code: "Request_UnsupportedQuery",
  });
  await expect(client.api("/users").select("nonsense").get()).rejects.toThrow(
    "Could not find a property named 'nonsense'",
  );
  await expect(client.api(`/users/${idOf("user", 999)}`).get()).rejects.toMatchObject({
    statusCode: 404,
    code: "Request_ResourceNotFound",
  });
  directory.permissions = ["GroupMember.Read.All"];
  await expect(client.api("/users").get()).rejects.toMatchObject({
    statusCode: 403,
    code: "Authorization_RequestDenied",
  });
  // It has the members, and what they are, and nothing more of them.
  const [member] = await all(client, `/groups/${idOf("group", 1)}/members?$select=id,displayName`);
  expect(member).toEqual({ "@odata.type": "#microsoft.graph.user", id: idOf("user", 84), displayName: null });
});

test("has Graph's own client wait when it throttles", async () => {
  const directory = await started();
  directory.faults.refuse = { of: /users/, status: 429, times: 1, retryAfter: "0" };
  expect(await all(clientOf(directory), "/users?$top=200")).toHaveLength(250);
  expect(directory.requests).toHaveLength(3);
});

test("has Graph's own client read what the connector reads", async () => {
  const directory = await started(largeTenant(2_300, 12));
  const client = clientOf(directory);
  const theirs: string[] = [];
  for (const user of await all<GraphUser>(client, "/users?$select=id,userPrincipalName,mail,accountEnabled"))
    theirs.push(["user", user.id, user.userPrincipalName, user.mail, user.accountEnabled].join(" "));
  for (const group of await all<GraphGroup>(client, "/groups?$select=id,displayName")) {
    theirs.push(["group", group.id, group.displayName].join(" "));
    for (const member of await all(client, `/groups/${group.id}/members?$select=id`))
      theirs.push(`${group.id} > ${String(member["@odata.type"]).replace("#microsoft.graph.", "")} ${member.id}`);
  }

  const folder = await mkdtemp(join(tmpdir(), "rollcall-entra-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, "ca.pem"), certificate.cert);
  const options = entra.options.parse({
    ...optionsOf(directory),
    ca: "ca.pem",
    groups: { attributes: ["displayName"] },
  });
  const source = entra.open(options, { name: "tenant", folder });
  const ours: string[] = [];
  for await (const batch of source.read({ signal: new AbortController().signal, warn: () => {} }))
    for (const record of batch) ours.push(...linesOf(record));
  expect(ours.sort()).toEqual(theirs.sort());
});

function linesOf(record: SourceRecord): readonly string[] {
  if (record.kind === "membership") return [`${record.group} > ${record.member.kind} ${record.member.key}`];
  const { userPrincipalName, mail, accountEnabled, displayName } = record.attributes;
  const shown = record.kind === "user" ? [userPrincipalName, mail, accountEnabled] : [displayName];
  return [
    [record.kind, record.id, ...shown].join(" "),
    ...record.members.map(({ kind, key }) => `${record.id} > ${kind} ${key}`),
  ];
}

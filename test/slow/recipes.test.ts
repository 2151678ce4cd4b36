import { execFileSync } from "node:child_process";
import { copyFile, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { exportJWK, exportPKCS8, generateKeyPair } from "jose";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { loadConfiguration } from "#config/load.ts";
import { connectors, targetConnectors } from "#connectors/index.ts";
import { adContainers, adGroup, adUser, domainUsers } from "../support/ldap/active-directory-entries.ts";
import { adReader, startActiveDirectory } from "../support/ldap/active-directory.ts";
import type { ActiveDirectory } from "../support/ldap/active-directory.ts";
import { ldifEntry } from "../support/ldap/ldif.ts";
import { startEntra } from "../support/entra/directory.ts";
import type { EntraDirectory } from "../support/entra/directory.ts";
import { app, largeTenant } from "../support/entra/tenant.ts";
import { base, noOpenLdap, reader, startOpenLdap } from "../support/ldap/openldap.ts";
import type { OpenLdap } from "../support/ldap/openldap.ts";
import { startPostgres } from "../support/postgres.ts";
import type { PostgresServer } from "../support/postgres.ts";
import { rollcall } from "../support/rollcall/command.ts";
import { FolderInboxes } from "#state/folder/inbox.ts";
import { OktaServer } from "../support/okta-directory.ts";
import { startGoogle } from "../support/google/server.ts";
import type { GoogleServer } from "../support/google/server.ts";
import { credentials, startHttpDirectory } from "../support/http-directory.ts";
import type { HttpDirectory } from "../support/http-directory.ts";
import { startScim } from "../support/scim.ts";
import type { ScimServer } from "../support/scim.ts";
import { servers } from "../support/scim-target/limits.ts";
import { ScimApplication } from "../support/scim-target/server.ts";
import { largeCompany } from "../contract/source/company.ts";
import { oktaDirectoryOf } from "../contract/source/okta-medium.ts";
import { administrator, startService } from "../support/rollcall/service.ts";
import type { TestService } from "../support/rollcall/service.ts";

const recipes = fileURLToPath(new URL("../../docs/guide/recipes/", import.meta.url));
const names = (await readdir(recipes)).filter((name) => name !== "README.md");
const withoutOpenLdap = await noOpenLdap();

/** What the sources of the recipes call their servers, and the servers that answer in their place. */
let directory: ActiveDirectory;
let openLdap: OpenLdap | undefined;
let scim: ScimServer;
let http: HttpDirectory;
let oktaServer: OktaServer;
let oktaKey: string;
let google: GoogleServer;
let entra: EntraDirectory;
let remote: TestService;
let postgres: PostgresServer;

beforeAll(async () => {
  const ada = adUser({ name: "Ada Lovelace", rid: 2_001, attributes: { mail: ["ada@example.com"] } });
  directory = await startActiveDirectory({
    entries: [...adContainers(), ada, adGroup("Domain Users", domainUsers, []), adGroup("Research", 3_001, [ada.dn])],
  });
  openLdap = withoutOpenLdap === undefined ? await startOpenLdap({ ldif: people }) : undefined;
  scim = await startScim(
    {
      users: ["ada", "grace"].map((id) => ({
        id,
        userName: id,
        displayName: id,
        active: true,
        emails: [{ value: `${id}@example.com`, primary: true }],
      })),
      groups: [{ id: "research", displayName: "Research", members: [{ value: "ada" }] }],
    },
    { authorization: () => "Bearer token-of-the-recipe" },
  );
  const keys = await generateKeyPair("RS256", { extractable: true });
  oktaKey = await exportPKCS8(keys.privateKey);
  const key = await exportJWK(keys.publicKey);
  const app = { clientId: "0oa1b2c3d4e5f6g7h8i9", key, scopes: ["okta.users.read", "okta.groups.read"], dpop: true };
  oktaServer = await OktaServer.start(oktaDirectoryOf(largeCompany(10)), { app });
  google = await startGoogle({
    users: ["ada", "rollcall"].map((name) => ({
      id: `1-${name}`,
      primaryEmail: `${name}@example.com`,
      name: { fullName: name },
      suspended: false,
      archived: false,
    })),
    groups: [{ id: "g-research", email: "research@example.com", name: "Research", description: "Engines" }],
    members: () => [{ id: "1-ada", email: "ada@example.com", type: "USER" as const }],
  });
  google.admins.add("rollcall@example.com");
  entra = await startEntra(largeTenant(20, 2));
  http = await startHttpDirectory({
    people: ["ada", "grace", "linus"].map((login, index) => ({
      id: `${index + 1}`,
      login,
      name: login,
      mail: `${login}@example.com`,
      department: "Research",
    })),
    teams: [
      { id: "research", name: "Research", members: [{ id: "1", kind: "user" }] },
      { id: "engines", name: "Engines", parent: "research", members: [{ id: "2", kind: "user" }] },
    ],
  });
  remote = await startService();
  postgres = await startPostgres();
});

afterAll(async () => {
  await Promise.all([
    directory[Symbol.asyncDispose](),
    openLdap?.[Symbol.asyncDispose](),
    scim.close(),
    oktaServer.close(),
    google.close(),
    entra.close(),
    remote.stop(),
    postgres.stop(),
  ]);
});

const environment = {
  ROLLCALL_ADMIN_PASSWORD: "administrator-secret",
  AD_PASSWORD: adReader.password,
  LDAP_PASSWORD: reader.password,
  HR_PASSWORD: "change-this-password",
  SCIM_TOKEN: "token-of-the-recipe",
  ENTRA_SECRET: app.clientSecret,
  WORKDAY_PASSWORD: credentials.basic.password,
  BAMBOOHR_KEY: credentials.key,
  PERSONIO_CLIENT_ID: credentials.client.clientId,
  PERSONIO_CLIENT_SECRET: credentials.client.clientSecret,
  HIBOB_USER: credentials.basic.username,
  HIBOB_TOKEN: credentials.basic.password,
  KEYCLOAK_SECRET: credentials.client.clientSecret,
  ANALYTICS_PASSWORD: administrator.password,
  APP_TOKEN: "token-of-the-application",
  APP_SECRET: "secret-of-the-application",
};

const people = [
  ldifEntry(`ou=people,${base}`, { objectClass: "organizationalUnit", ou: "people" }),
  ldifEntry(`ou=groups,${base}`, { objectClass: "organizationalUnit", ou: "groups" }),
  ldifEntry(`uid=grace,ou=people,${base}`, {
    objectClass: "inetOrgPerson",
    uid: "grace",
    cn: "Grace Hopper",
    sn: "Hopper",
    mail: "grace@example.com",
    title: "Admiral",
    departmentNumber: "research",
  }),
  ldifEntry(`cn=engines,ou=groups,${base}`, {
    objectClass: "groupOfNames",
    cn: "engines",
    description: "Those who build engines",
    member: `uid=grace,ou=people,${base}`,
  }),
].join("");

describe.each(names)("%s", (name) => {
  test("is a valid configuration", async () => {
    const folder = await folderOf(name);
    const configuration = await loadConfiguration(join(folder, "rollcall.yaml"), {
      connectors,
      targetConnectors,
      environment,
    });
    expect(Object.keys(configuration.syncs)).not.toEqual([]);
  });

  test("its dry run finds users, and is sure of every record", async ({ skip }) => {
    const folder = await folderOf(name);
    const text = await readFile(join(folder, "rollcall.yaml"), "utf8");
    skip(openLdap === undefined && text.includes("ldap.example.com"), withoutOpenLdap);
    await writeFile(join(folder, "okta-key.pem"), oktaKey);
    if (openLdap !== undefined) await copyFile(openLdap.caFile, join(folder, "company-ca.pem"));
    await writeFile(join(folder, "google-key.json"), JSON.stringify(google.key));
    const here = (await withApplication(text))
      .replaceAll("127.0.0.1:8442", "127.0.0.1:0")
      .replaceAll("ldaps://dc1.example.com", directory.url)
      .replaceAll("ldaps://ldap.example.com", openLdap?.ldapsUrl ?? "")
      .replaceAll("hr.example.com:5432", `127.0.0.1:${postgres.port}`)
      .replaceAll("https://idp.example.com/scim/v2", scim.url)
      .replaceAll(
        /https:\/\/(?:wd2-impl-services1\.workday|api\.bamboohr|api\.hibob|sso\.example)\.com|https:\/\/api\.personio\.de/g,
        http.url,
      )
      .replaceAll("https://acme.okta.com", oktaServer.url)
      .replaceAll("connector: google", `connector: google\n    endpoints: ${JSON.stringify(google.endpoints)}`)
      .replaceAll("cloud: global", `cloud: { login: "${entra.login}", graph: "${entra.graph}" }`)
      .replaceAll("https://analytics.example.com", remote.url);
    await writeFile(join(folder, "rollcall.yaml"), here);
    if (text.includes("hr.example.com")) await fillDatabase(await readFile(join(folder, "account.sql"), "utf8"));
    const [, inbox] = /^ {2}(\w+):\n {4}connector: scim\n {4}inbox:/m.exec(text) ?? [];
    if (inbox !== undefined) await push(folder, inbox);
    const { syncs } = await loadConfiguration(join(folder, "rollcall.yaml"), {
      connectors,
      targetConnectors,
      environment,
    });
    for (const sync of Object.keys(syncs)) {
      const { code, stdout, stderr } = await rollcall(["plan", sync, "--json"], { cwd: folder, env: environment });
      expect(code, stdout + stderr).toBe(2);
      const { runs } = JSON.parse(stdout) as {
        runs: { plan: { counts: { users: { create: number } } }; notes: object[] }[];
      };
      expect(runs[0]?.plan.counts.users.create, stdout).toBeGreaterThan(0);
      // Applications get a few of the groups, and some never show who is in one.
      const isChosen = (note: unknown): boolean =>
        /left out, since the rules exclude the group|does not say who is in a group/.test(String(note));
      expect(
        runs[0]?.notes.filter((note) => !isChosen(note)),
        stdout,
      ).toEqual([]);
    }
  });
});

test("the certificate that the recipe for Entra ID makes signs the app in", async () => {
  const folder = await folderOf("entra-id.md");
  const text = await readFile(join(recipes, "entra-id.md"), "utf8");
  execFileSync("sh", ["-c", /^openssl .*$/m.exec(text)?.[0] ?? ""], { cwd: folder, stdio: "ignore" });
  const certificate = await readFile(join(folder, "rollcall.pem"), "utf8");
  const tenant = await startEntra(largeTenant(20, 2), { certificate });
  onTestFinished(() => tenant.close());
  const file = join(folder, "rollcall.yaml");
  const instead = /^certificate: .*$/m.exec(text)?.[0] ?? "";
  const yaml = (await readFile(file, "utf8"))
    .replace(/clientSecret: .*/, instead)
    .replace("cloud: global", `cloud: { login: "${tenant.login}", graph: "${tenant.graph}" }`)
    .replace("127.0.0.1:8442", "127.0.0.1:0");
  await writeFile(file, yaml);
  const { stdout } = await rollcall(["check"], { cwd: folder, env: environment });
  expect(stdout).toContain("as the client 1b6d2f0a-58c1-4a5e-8f39-c1d2e3f4a5b6 of the tenant contoso.onmicrosoft.com");
});

test("the configuration of the page Getting started is valid", async () => {
  const text = await readFile(join(recipes, "../getting-started.md"), "utf8");
  const folder = await mkdtemp(join(tmpdir(), "rollcall-recipe-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "rollcall.yaml");
  await writeFile(file, /^```yaml\n(service:[\s\S]*?)^```$/m.exec(text)?.[1] ?? "");
  expect(await loadConfiguration(file, { connectors, targetConnectors, environment })).toMatchObject({
    syncs: { staff: { to: "analytics" } },
  });
});

/** Somebody in a group was pushed a while ago. */
async function push(folder: string, source: string): Promise<void> {
  const inboxes = new FolderInboxes(join(folder, "data/daemon"));
  await inboxes.change(source, { at: Date.now() - 3_600_000, token: "t1" }, async (inbox) => {
    const emails = [{ value: "grace@example.com", type: "work", primary: true }];
    await inbox.create("user", "u1", { userName: "Grace", displayName: "Grace Hopper", active: true, emails });
    await inbox.create("group", "g1", { displayName: "engines" });
    await inbox.addMembers("g1", [{ id: "u1" }]);
  });
  await inboxes.close();
}

/** A recipe's target, where it is an application, becomes a server with its limits. */
async function withApplication(text: string): Promise<string> {
  const profile = /^    profile: (\w+)$/m.exec(text)?.[1];
  if (profile === undefined) return text;
  const limits = servers[profile];
  if (limits === undefined) throw new Error(`no server for ${profile}`);
  const application = await ScimApplication.start({ ...limits, burst: 0 });
  application.token = environment.APP_TOKEN;
  onTestFinished(() => application.close());
  return text
    .replace(/^ {4}connector: scim\n {4}url: .*$/m, `    connector: scim\n    url: ${application.url}`)
    .replace(/^ {4}auth:\n {6}oauth:\n(?: {8}.*\n)+/m, '    token: "${env:APP_TOKEN}"\n');
}

/** What the recipe of a database reads. @param account the recipe's own statements */
async function fillDatabase(account: string): Promise<void> {
  await postgres.createDatabase("hr");
  const client = await postgres.connect("hr");
  await client.query(`
    CREATE TABLE employees (number bigint, login text, full_name text, mail text, title text, leaves date);
    CREATE TABLE teams (id int, name text, purpose text);
    CREATE TABLE assignments (team int, employee bigint);
    INSERT INTO employees VALUES (7, 'Ada', 'Ada Lovelace', 'ada@example.com', 'Countess', NULL),
      (8, 'grace', 'Grace Hopper', 'grace@example.com', 'Admiral', '1986-08-14');
    INSERT INTO teams VALUES (1, 'Engines', 'Those who build engines');
    INSERT INTO assignments VALUES (1, 7);
    ${account}`);
  await client.end();
}

/** A folder with the files that a recipe shows: its blocks with a name. */
async function folderOf(name: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-recipe-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const text = await readFile(join(recipes, name), "utf8");
  for (const { groups } of text.matchAll(/^```\w+ (?<file>\S+)\n(?<content>[\s\S]*?)^```$/gm)) {
    await writeFile(join(folder, groups?.["file"] ?? ""), groups?.["content"] ?? "");
  }
  return folder;
}

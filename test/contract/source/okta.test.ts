import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exportJWK, exportPKCS8, generateKeyPair } from "jose";
import { afterAll } from "vitest";
import type { OktaFaults } from "../../support/okta-directory.ts";
import { oktaMedium, type OktaProvision } from "./okta-medium.ts";
import { type Fault, sourceSuite } from "./suite.ts";

const set =
  (faults: OktaFaults) =>
  async ({ server }: OktaProvision): Promise<void> =>
    void Object.assign(server.faults, faults);

const users = /\/users$/;
const allUsers = /^\/api\/v1\/users$/;
const members = /\/groups\/\w+\/users$/;
const groups = /\/groups$/;

const before: readonly Fault<OktaProvision>[] = [
  {
    name: "nothing answers",
    inject: ({ server }) => server.close(),
    message: /^source source: GET http\S+: nothing listens at 127.*tried 4 times/,
  },
  {
    name: "the token was revoked",
    inject: set({ revoked: true }),
    message:
      /answered 401 \(E0000011: Invalid token provided\): the API token is not accepted: it may be revoked, unused/,
  },
  {
    name: "the role may not list users",
    inject: set({ fails: { path: allUsers, status: 403, times: 1 } }),
    message:
      /users\S* answered 403 \(E0000006: You do not.*\): the token must be one of a person with a role that sees all users/,
  },
  {
    name: "the role may not list members",
    inject: set({ fails: { path: members, status: 403, times: 1 } }),
    message: /groups\/\w+\/users\S* answered 403.*a role that sees all users and groups/,
  },
  {
    name: "the role does not see Everyone",
    inject: set({ hideEveryone: true }),
    message: /the group Everyone is not visible, so the credentials see only a part.*Read-Only Administrator/,
  },
  {
    name: "the role sees a part of the users",
    inject: set({ sees: ({ id }) => !id.endsWith("4") }),
    message: /the group Everyone counts 11, and there are 10; if this stays so.*users: \{ proof \} \(read 2 times\)/,
  },
  {
    name: "the search lags behind",
    inject: set({ lag: 3 }),
    message: /the group Everyone counts 11, and there are 8/,
    advice: "retry",
  },
  {
    name: "profiles are hidden",
    inject: set({ hides: /./ }),
    message: /has no profile\.login.*grant okta\.users\.read/,
  },
  {
    name: "groups do not say how many they have",
    inject: set({ noStats: true }),
    message: /does not say how many users the group has/,
  },
  {
    name: "links lead to another server",
    inject: set({ linkOrigin: "https://evil.example.com" }),
    message: /the next page is at https:\/\/evil\.example\.com, where no credentials may go/,
  },
  {
    name: "pages of users go in circles",
    inject: set({ circles: allUsers }),
    message: /in circles/,
  },
  {
    name: "a page of members has no link, though there are more",
    inject: set({ endsAfter: { path: members, page: 1 } }),
    message:
      /the group's usersCount is \d+, and there are \d+; if this stays so, the credentials may not see all its members/,
  },
  {
    name: "a page of users has no link, though there are more",
    inject: set({ endsAfter: { path: allUsers, page: 1 } }),
    message: /the group Everyone counts 11, and there are 4/,
  },
  {
    name: "a page of groups has no link in one of two reads",
    inject: async ({ server }) => {
      server.faults.churn = ({ searchParams }) => {
        server.faults.endsAfter = searchParams.has("expand") ? { path: groups, page: 1 } : undefined;
      };
    },
    message: /groups\?limit=4: two reads differ/,
  },
  {
    name: "a group is gone when its members are asked for",
    inject: set({ fails: { path: members, status: 404, times: 1 } }),
    message: /the group is in the list, and gone now/,
  },
];

const during: readonly Fault<OktaProvision>[] = [
  { name: "the server goes away", inject: ({ server }) => server.close(), message: /nothing listens at|lost/ },
  {
    name: "Okta is not available",
    inject: set({ fails: { path: users, status: 503, times: Infinity } }),
    message: /answered 503 .*\(tried 4 times\)/,
    advice: "retry",
  },
  { name: "the token is revoked", inject: set({ revoked: true }), message: /answered 401/ },
];

const keys = await generateKeyPair("RS256", { extractable: true });
const folder = await mkdtemp(join(tmpdir(), "rollcall-okta-"));
const file = join(folder, "key.pem");
await writeFile(file, await exportPKCS8(keys.privateKey));
afterAll(() => rm(folder, { recursive: true }));
const app = { clientId: "0oa1", key: await exportJWK(keys.publicKey), scopes: ["okta.users.read", "okta.groups.read"] };

sourceSuite(
  oktaMedium("Okta, with a token", {
    options: { token: "00a-token-that-nobody-may-see", pageSize: 4 },
    describes: [
      /^http:\/\/127\.0\.0\.1:\d+, not encrypted \(http\)$/m,
      /^as the holder of an API token$/m,
      /^an organization in which the group Everyone has 11 members$/m,
      /^read 4 at a time$/m,
    ],
    faults: { before, during: [] },
    many: 300,
  }),
);

sourceSuite(
  oktaMedium("Okta, with a service app and proof of possession", {
    server: { app: { ...app, dpop: true } },
    options: { clientId: "0oa1", privateKey: { file }, dpop: true },
    describes: [/^as the client 0oa1, with proof of possession \(DPoP\)$/m],
    faults: { before: [], during },
  }),
);

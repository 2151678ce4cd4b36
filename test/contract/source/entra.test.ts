import type { Faults } from "../../support/entra/graph.ts";
import { entraMedium } from "./entra-medium.ts";
import type { EntraProvision } from "./entra-medium.ts";
import { sourceSuite } from "./suite.ts";
import type { Fault } from "./suite.ts";

const set =
  (faults: Faults) =>
  async ({ directory }: EntraProvision) =>
    void Object.assign(directory.faults, faults);

/** Every further answer of Graph for this path is a success with this body. */
const answers =
  (path: RegExp, body: string, type = "application/json") =>
  async ({ directory }: EntraProvision) =>
    directory.intercept((request, response) => {
      if (!path.test(request.url ?? "")) return false;
      response.writeHead(200, { "content-type": type }).end(body);
      return true;
    });

const users = /\/users$/;
const members = /\/members$/;

const before: readonly Fault<EntraProvision>[] = [
  {
    name: "nothing answers",
    inject: ({ directory }) => directory.close(),
    message: /^source source: POST http\S+\/oauth2\/v2\.0\/token: nothing listens at 127.*tried 4 times/,
  },
  {
    name: "the app may not read users",
    inject: async ({ directory }) => void (directory.permissions = ["GroupMember.Read.All"]),
    message:
      /users\/\$count answered 403 \(Authorization_RequestDenied: Insufficient.*\): the app needs the application permissions User\.Read\.All and GroupMember\.Read\.All, with an administrator's consent$/,
  },
  {
    name: "the app may not read groups",
    inject: async ({ directory }) => void (directory.permissions = ["User.Read.All"]),
    message: /groups\/\$count answered 403 .*GroupMember\.Read\.All/,
  },
  {
    name: "the app may not read groups in groups",
    inject: set({ limited: ["group"] }),
    message:
      /group 9a7b3c11-\S+, a member of the group 9a7b3c11-\S+: Graph shows its id and nothing else: .* permission GroupMember\.Read\.All/,
  },
  {
    name: "the app may not read users in groups",
    inject: set({ limited: ["user"] }),
    message: /user 5d1c1d3e-\S+, a member of the group \S+: Graph shows its id .* permission User\.Read\.All/,
  },
  {
    name: "users have ids and nothing else",
    inject: set({ blank: users }),
    message: /user 5d1c1d3e-0000-4000-8000-000000000000: Graph shows its id and nothing else/,
  },
  {
    name: "groups have ids and nothing else",
    inject: set({ blank: /\/groups$/ }),
    message: /group 9a7b3c11-\S+: Graph shows its id and nothing else/,
  },
  {
    name: "the app may see names alone",
    inject: set({ withheld: "accountEnabled" }),
    message: /does not say of any user whether the account is enabled; grant the app .* User\.Read\.All/,
  },
  {
    name: "Graph counts more users than it lists",
    inject: set({ countsOff: { of: /\/users\/\$count/, by: 1 } }),
    message: /GET \S+\/users\?\S*: the service counts 10, and there are 9 \(read 3 times\)/,
  },
  {
    name: "Graph counts fewer users than it lists",
    inject: set({ countsOff: { of: /\/users\/\$count/, by: -1 } }),
    message: /the service counts 8, and there are 9/,
  },
  {
    name: "Graph counts more members than it lists",
    inject: set({ countsOff: { of: /\/members\/(?:microsoft\.graph\.user\/)?\$count/, by: 1 } }),
    message: /\/members\?\S*: Graph counts \d members, and there are \d \(of users \d, and \d\) \(read 3 times\)/,
  },
  {
    name: "Graph counts more groups in a group than it lists",
    inject: set({ countsOff: { of: /\/members\/(?:microsoft\.graph\.group\/)?\$count/, by: 1 } }),
    message: /Graph counts \d members, and there are \d \(of groups \d, and \d\)/,
  },
  {
    name: "it goes on throttling",
    inject: set({ refuse: { of: users, status: 429, times: 99, retryAfter: "0" } }),
    message: /\/users\?\S* answered 429 \(TooManyRequests: .*\) \(tried 4 times\)/,
  },
  {
    name: "it asks for a pause of an hour",
    inject: set({ refuse: { of: users, status: 429, times: 99, retryAfter: "3600" } }),
    message: /answered 429 .* asks not to be called again for 60 min/,
  },
  {
    name: "it is not available",
    inject: set({ refuse: { of: members, status: 503, times: 99, retryAfter: "0" } }),
    message: /\/members\?\S* answered 503 .*\(tried 4 times\)/,
  },
  {
    name: "the answer is a page for people",
    inject: answers(/\/users\?/, "<html>Sign in", "text/html"),
    message: /\/users\?\S*: the answer is not JSON/,
  },
  {
    name: "the answer is an error, and its status success",
    inject: answers(/\/users\?/, '{"error":{"code":"InternalServerError"}}'),
    message: /\/users\?\S*: the answer is not a list of Graph/,
  },
  {
    name: "a user has no id",
    inject: answers(/\/users\?/, '{"value":[{"displayName":"Nobody"}]}'),
    message: /an object without an id/,
  },
  {
    name: "the count is not a number",
    inject: answers(/\/users\/\$count/, "many", "text/plain"),
    message: /users\/\$count: the answer is not a number/,
  },
];

const during: readonly Fault<EntraProvision>[] = [
  { name: "the server goes away", inject: ({ directory }) => directory.close(), message: /nothing listens at|lost/ },
  {
    name: "the list ends after a full page",
    inject: set({ lostLink: users }),
    message: /the service counts 2,500, and there are [\d,]+ \(read 3 times\)/,
    advice: "retry",
  },
  {
    name: "a link leads to its own page",
    inject: set({ sameLink: users }),
    message: /(goes in circles|only records that came before).*\(read 3 times\)/,
  },
  {
    name: "a link leads to another host",
    inject: set({ foreignLink: users }),
    message: /the next page is at https:\/\/graph\.example\.net, where no credentials may go/,
  },
  {
    name: "links end again and again",
    inject: set({ expiredLinks: 99 }),
    message: /Graph no longer knows the link to the next page \(read 3 times\)/,
  },
  {
    name: "somebody is left out of each page",
    inject: set({ less: users }),
    message: /the service counts 2,500, and there are 2,49\d/,
  },
  {
    name: "members are left out",
    inject: set({ less: members }),
    message: /Graph counts \d+ members, and there are \d+/,
  },
  {
    name: "the app loses its permissions",
    inject: async ({ directory }) => void (directory.permissions = []),
    message: /answered 403/,
    advice: "fix",
  },
];

sourceSuite(entraMedium({}, { before, during }));

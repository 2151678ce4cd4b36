import { appendFile, readFile, rename, rm, truncate, writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { gunzipSync, gzipSync } from "node:zlib";
import { startPagedScim, startScim } from "../../support/scim.ts";
import { linesPacked, list, scimFilesMedium, scimMedium, twoLists } from "./scim-medium.ts";
import type { ScimFilesProvision, ScimProvision } from "./scim-medium.ts";
import { sourceSuite } from "./suite.ts";
import type { Fault } from "./suite.ts";

function answer(response: ServerResponse, status: number, body: string): boolean {
  response.writeHead(status, { "content-type": "application/scim+json" }).end(body);
  return true;
}

/** Every further request for users is answered so. */
const users =
  (status: number, body: string) =>
  async ({ server }: ScimProvision) => {
    server.intercept((request, response) => request.url?.includes("/Users") === true && answer(response, status, body));
  };

const before: readonly Fault<ScimProvision>[] = [
  {
    name: "nothing answers",
    inject: ({ server }) => server.close(),
    message: /^source source: GET http\S+ServiceProviderConfig: nothing listens at 127.*tried 4 times/,
  },
  {
    name: "the token is refused",
    inject: async ({ server }) =>
      server.intercept((_, response) => answer(response, 401, '{"detail": "Who are you?"}')),
    message: /^source source: GET \S+ answered 401 \(Who are you\?\): the server rejects the credentials: check auth$/,
  },
  {
    name: "the account may not read",
    inject: users(403, '{"schemas": [], "status": "403", "detail": "Not your a-token-that-nobody-may-see"}'),
    message: /answered 403 \(Not your \*\*\*\): the credentials are not sufficient/,
  },
  {
    name: "there is nothing",
    inject: users(404, "<html>"),
    message: /\/Users\?\S* answered 404: not found: check the url/,
  },
  {
    name: "the server is broken",
    inject: users(500, '{"detail": "oops"}'),
    message: /answered 500 \(oops\) \(tried 4 times\)/,
  },
  {
    name: "the answer is a page for people",
    inject: users(200, "<html>Sign in"),
    message: /the answer is not JSON, at its line 1; is the url/,
  },
  {
    name: "the answer is another list",
    inject: users(200, '{"people": []}'),
    message: /is JSON but not a ListResponse/,
  },
  { name: "there is no total", inject: users(200, '{"Resources": []}'), message: /the list has no totalResults/ },
  {
    name: "a resource has no id",
    inject: users(200, '{"totalResults": 1, "Resources": [{"userName": "x"}]}'),
    message: /Users: a resource without an id/,
  },
  {
    name: "groups are among the users",
    inject: users(200, '{"totalResults": 1, "Resources": [{"id": "x", "meta": {"resourceType": "Group"}}]}'),
    message: /Users\/x: is a group, in the list of users; check the path/,
  },
  {
    name: "there are no users",
    inject: users(200, '{"totalResults": 0, "Resources": []}'),
    message: /0 users, expected at least 1 \(minUsers\)/,
  },
  {
    name: "it points elsewhere",
    inject: async ({ server }) =>
      server.intercept((_, response) => {
        response.writeHead(301, { location: "https://user:pass@new.example.com/scim?token=x" }).end();
        return true;
      }),
    message: /answered 301: it points to https:\/\/new\.example\.com\/scim, which is not followed/,
  },
];

const during: readonly Fault<ScimProvision>[] = [
  {
    name: "a page is empty",
    inject: users(200, '{"totalResults": 1500, "startIndex": 500, "Resources": []}'),
    message: /Users: it ends after \d+ of 1500.*\(read 3 times\)|there are \d+ \(read 2 times\)/,
  },
  { name: "the server goes away", inject: ({ server }) => server.close(), message: /nothing listens at|lost/ },
  {
    name: "an answer is cut off",
    inject: async ({ server }) =>
      server.intercept((_, response) => {
        response.writeHead(200, { "content-length": 1_000 }).write('{"totalResults": 1500, "Resources": [{"id": "1"');
        setImmediate(() => response.destroy());
        return true;
      }),
    message: /the answer (broke off|ends here)/,
  },
  {
    name: "an answer ends early, and seems to be whole",
    inject: users(200, '{"totalResults": 1500, "Resources": [{"id": "1"'),
    message: /the answer ends here, before its end \(tried 4 times\)/,
  },
];

sourceSuite(
  scimMedium("a SCIM server, by startIndex", {
    start: startScim,
    describes: [
      /^http:\/\/127\.0\.0\.1:\d+\/scim\/v2\/, not encrypted \(http\)$/m,
      /^as the holder of a token$/m,
      /^a SCIM server with 9 users and 7 groups$/m,
      /^read by startIndex, 200 at a time$/m,
    ],
    faults: { before, during },
    // Three pages and more; the servers take their time for each user.
    many: 1_500,
  }),
);

sourceSuite(
  scimMedium("a SCIM server, by cursor, members of each group apart", {
    start: (directory, options) =>
      startPagedScim(directory, { cursors: true, largestPage: 700, memberLimit: 40, memberPages: true }, options),
    describes: [/with 9 users and 7 groups$/m, /^read by cursor, 500 at a time$/m],
    options: { groups: { members: "each", memberPages: {} }, paging: { attempts: 2 } },
    faults: {
      // The other faults are those of any request and of any list.
      before: before.filter(({ name }) => ["nothing answers", "there are no users"].includes(name)),
      during,
    },
    // Three pages and more; the servers take their time for each user.
    many: 1_500,
  }),
);

const missing = (file: string): Fault<ScimFilesProvision> => ({
  name: `${file} is missing`,
  inject: ({ path }) => rm(path(file)),
  message: new RegExp(`^${file} does not exist`),
});

const changing = (file: string): readonly Fault<ScimFilesProvision>[] => [
  {
    name: `${file} grows`,
    inject: ({ path }) => appendFile(path(file), " "),
    message: /changed while it was being read/,
    advice: "retry",
  },
  {
    name: `${file} is cut off`,
    inject: ({ path }) => truncate(path(file), 200),
    message: /changed while it was being read/,
    advice: "retry",
  },
  {
    name: `${file} is replaced`,
    inject: async ({ path }) => {
      await writeFile(path("new"), await readFile(path(file)));
      await rename(path("new"), path(file));
    },
    message: /changed while it was being read/,
    advice: "retry",
  },
];

const edit =
  (file: string, change: (text: string) => string) =>
  async ({ path }: ScimFilesProvision) =>
    writeFile(path(file), change(await readFile(path(file), "utf8")));

sourceSuite(
  scimFilesMedium(twoLists, {
    before: [
      missing("users.json"),
      missing("groups.json"),
      { name: "a file is empty", inject: edit("users.json", () => ""), message: /^users\.json is empty/ },
      {
        name: "a file ends early",
        inject: edit("groups.json", (text) => text.slice(0, text.indexOf("Empty"))),
        message: /^groups\.json:\d\d+: ends here, before its end; write the file again/,
      },
      {
        name: "there are fewer than the total says",
        inject: edit("users.json", (text) => text.replace(/"totalResults":\d+/, '"totalResults":12')),
        message: /^users\.json:1: totalResults is 12, and there are 9; write the whole list/,
      },
      {
        name: "a comma is too many",
        inject: edit("groups.json", (text) => text.replace(/,(\s*"displayName": "Cross")/, ",,$1")),
        message: /^groups\.json:\d\d+: is not JSON; expected a ListResponse/,
      },
      {
        name: "users are in the file of groups",
        inject: edit("groups.json", (text) => text.replaceAll('"Group"', '"User"')),
        message: /^groups\.json:\d+: is a user, in a file of groups; name files of both/,
      },
      {
        name: "a user has no id",
        inject: edit("users.json", (text) => text.replace('"id":"4",', "")),
        message: /^users\.json:1: a user without an id/,
      },
      {
        name: "a member does not say who it is",
        inject: edit("groups.json", (text) => text.replace(/"value": "2",\s*"type": "User",\s*"\$ref": "[^"]+"/, "")),
        message: /^groups\.json:\d+, id 2: a member has neither value nor \$ref/,
      },
      {
        name: "there are no users",
        inject: edit("users.json", () => "[]"),
        message: /^source source: 0 users, expected at least 9/,
      },
    ],
    during: [...changing("users.json"), ...changing("groups.json").slice(0, 1)],
  }),
);

sourceSuite(
  scimFilesMedium(linesPacked, {
    before: [
      {
        name: "packed data is cut off",
        inject: async ({ path }) => truncate(path("2.ndjson.gz"), (await readFile(path("2.ndjson.gz"))).length - 9),
        message: /^2\.ndjson\.gz:\d+: the compressed data ends here/,
      },
      {
        name: "the last lines are missing",
        inject: async ({ path }) => {
          const text = gunzipSync(await readFile(path("2.ndjson.gz"))).toString();
          await writeFile(path("2.ndjson.gz"), gzipSync(text.split("\n").slice(0, 5).join("\n")));
        },
        message: /^source source: 5 users, expected at least 9 \(minUsers\)/,
      },
      {
        name: "a line is none",
        inject: ({ path }) =>
          writeFile(path("2.ndjson.gz"), gzipSync('{"id": "1", "meta": {"resourceType": "User"}}\nnone\n')),
        message: /^2\.ndjson\.gz:2: is not JSON/,
      },
      {
        name: "a resource does not say what it is",
        inject: ({ path }) => writeFile(path("1.ndjson.gz"), gzipSync('\n{"id": "1"}\n')),
        message: /^1\.ndjson\.gz:2: says neither in meta\.resourceType nor in schemas/,
      },
      {
        name: "all are missing",
        inject: async ({ path }) => {
          await rm(path("1.ndjson.gz"));
          await rm(path("2.ndjson.gz"));
        },
        message: /^no file matches \*\.ndjson\.gz/,
      },
    ],
    during: changing("1.ndjson.gz").slice(0, 2),
  }),
);

sourceSuite(
  scimFilesMedium(
    {
      name: "SCIM files, arrays and pages of lists",
      options: { users: ["users-*.json"], groups: "groups.json" },
      describes: [/^users in users-1\.json$/m],
      write: ({ users, groups }) => ({
        "users-1.json": `${JSON.stringify(list(users.slice(0, 5), 1, users.length))}\n${JSON.stringify(list(users.slice(5), 6, users.length))}`,
        "groups.json": JSON.stringify(groups),
      }),
    },
    {
      before: [
        {
          name: "a page is missing",
          inject: edit("users-1.json", (text) => text.slice(0, text.indexOf("\n"))),
          message: /^users-1\.json:1: totalResults is 9, and there are 5/,
        },
        {
          name: "a page comes twice",
          inject: edit("users-1.json", (text) => `${text}${text.slice(text.indexOf("\n"))}`),
          message: /^users-1\.json:3: expected a page that starts at 10 of 9/,
        },
      ],
      during: changing("users-1.json").slice(0, 1),
    },
  ),
);

import { expect, test } from "vitest";
import {
  dataRoutes,
  administrationRoutes,
  familyA,
  familyB,
  loadRoutes,
  localRoutes,
  pinboardRoutes,
} from "#wire/routes.ts";
import { call, login, post } from "../../support/rollcall/service.ts";
import { list, user } from "./principals.ts";
import { serviceOfFile } from "./service-of-file.ts";

const service = serviceOfFile();

const foreign: readonly Readonly<Record<string, string>>[] = [
  { "sec-fetch-site": "cross-site" },
  { "sec-fetch-site": "same-site", origin: "https://other.example" },
  { origin: "https://evil.example" },
  { origin: "null" },
  { origin: "http://127.0.0.1:1" },
];

test("0.4 what a page of another site makes a browser send changes nothing, with whatever session", async () => {
  const before = (await list(service.url, service.session)).text;
  const families = [
    [familyA, { ...dataRoutes, ...loadRoutes }],
    ...["", "/callosum/v1"].map(
      (prefix) => [prefix + familyB, { ...administrationRoutes, ...pinboardRoutes }] as const,
    ),
    ["", localRoutes],
  ] as const;
  for (const [root, routes] of families) {
    for (const { method, path } of Object.values(routes)) {
      if (method === "GET") continue;
      for (const headers of foreign) {
        const answer = await post(
          service.url + root + path,
          { principals: JSON.stringify([user("eve")]), applyChanges: "true", ...service.administrator },
          { session: service.session, headers },
        );
        const where = `${path} ${JSON.stringify(headers)}`;
        expect([answer.status, answer.headers["set-cookie"]], where).toEqual([403, undefined]);
        expect(answer.text, where).toContain("the request comes from a page of another site");
      }
    }
  }
  // The session has not ended either.
  expect((await list(service.url, service.session)).text).toBe(before);
});

test("0.4 a page of this server, a person, and a client that is no browser are served; reading is as it was", async () => {
  const own = new URL(service.url);
  for (const headers of [
    { "sec-fetch-site": "same-origin", origin: service.url },
    { "sec-fetch-site": "none" },
    { origin: service.url },
    { origin: service.url, host: own.host.toUpperCase() },
    // Behind a proxy that ends TLS; the default port need not be named.
    { origin: "https://rollcall.example", host: "rollcall.example:443" },
    {},
  ] as Readonly<Record<string, string>>[]) {
    const answer = await post(
      `${service.url}${familyB}/user/sync`,
      { principals: "[]" },
      { session: service.session, headers },
    );
    expect(answer.status, JSON.stringify(headers)).toBe(200);
  }
  expect(await login(service.url)).toBeDefined();
  for (const headers of foreign) {
    expect((await call(`${service.url}${familyA}/public/ping`, { headers })).status).toBe(200);
    expect((await call(`${service.url}${familyB}/user/list`, { session: service.session, headers })).status).toBe(200);
  }
});

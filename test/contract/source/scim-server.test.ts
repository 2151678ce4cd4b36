import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, onTestFinished, test } from "vitest";
import scim from "#connectors/scim/index.ts";
import { IncompleteReadError, RefusedError, UnavailableError } from "#errors.ts";
import { makeAuthority, makeCertificate } from "../../support/certificates.ts";
import { startScim } from "../../support/scim.ts";
import type { ScimDirectory, ScimServer } from "../../support/scim.ts";
import { largeCompany } from "./company.ts";
import { directoryOf } from "./scim-medium.ts";
import { answer, contextOf, entries, ids, numbers, open, paged, records, small, started } from "./scim-reading.ts";

/** Does something before the request with this number, from 1, for such a path. */
function atRequest(
  server: ScimServer,
  path: string,
  number: number,
  action: (response: ServerResponse, request: IncomingMessage) => boolean | void,
): void {
  let count = 0;
  server.intercept((request, response) => {
    if (request.url?.includes(path) !== true || ++count !== number) return false;
    return action(response, request) === true;
  });
}

describe("credentials", () => {
  test.each([
    [
      "basic",
      { basic: { username: "ada", password: "s3cret-wörd" } },
      `Basic ${Buffer.from("ada:s3cret-wörd").toString("base64")}`,
    ],
    ["a token", { bearer: "t0ken" }, "Bearer t0ken"],
    ["a header", { headers: { Authorization: "SSWS-key" } }, "SSWS-key"],
  ])("of %s", async (_, auth, authorization) => {
    const server = await started(startScim(small(), { authorization: () => authorization }));
    expect(await ids({ url: `${server.url}/`, auth, groups: false })).toEqual(numbers(10));
  });

  /** A server of tokens, which are `token-1`, `token-2` … */
  async function tokens(server: ScimServer, life: number) {
    const asked: { readonly body: string; readonly authorization: string | undefined }[] = [];
    server.intercept(async (request, response) => {
      if (request.url !== "/scim/v2/token") return false;
      const body = await text(request);
      asked.push({ body, authorization: request.headers.authorization });
      return answer(response, 200, { access_token: `token-${asked.length}`, token_type: "bearer", expires_in: life });
    });
    const oauth = { tokenUrl: `${server.url}/token`, clientId: "roll:call", clientSecret: "client s3cret/" };
    return { asked, oauth };
  }

  test("of a client, whose token is kept for as long as it is good", async () => {
    const server = await paged(small(), {}, () => "Bearer token-1");
    const { asked, oauth } = await tokens(server, 3_600);
    const source = open({ url: server.url, auth: { oauth: { ...oauth, scope: "a b" } } });
    for (let read = 0; read < 2; read++) {
      const all = await Array.fromAsync(source.read({ signal: new AbortController().signal, warn: () => {} }));
      expect(all.flat()).toHaveLength(12);
    }
    // As a form has it (RFC 6749, 2.3.1).
    const basic = Buffer.from("roll%3Acall:client+s3cret%2F").toString("base64");
    expect(asked).toEqual([{ body: "grant_type=client_credentials&scope=a+b", authorization: `Basic ${basic}` }]);
  });

  test("of a client, in the body", async () => {
    const server = await paged(small(), {}, () => "Bearer token-1");
    const { asked, oauth } = await tokens(server, 3_600);
    await records({ url: server.url, auth: { oauth: { ...oauth, send: "body", audience: "x" } } });
    const body = "grant_type=client_credentials&audience=x&client_id=roll%3Acall&client_secret=client+s3cret%2F";
    expect(asked).toEqual([{ body, authorization: undefined }]);
  });

  test("of a client, whose token is refused before its time", async () => {
    let valid = "Bearer token-1";
    const server = await paged(small(), { largestPage: 4 }, () => valid);
    const { asked, oauth } = await tokens(server, 3_600);
    const source = open({ url: server.url, auth: { oauth }, groups: false });
    const found: string[] = [];
    for await (const batch of source.read({ signal: new AbortController().signal, warn: () => {} })) {
      for (const record of batch) if (record.kind === "user") found.push(`user ${record.id}`);
      if (asked.length === 1) valid = "Bearer token-2";
    }
    expect(found).toEqual(numbers(10));
    expect(asked).toHaveLength(2);
    // No token is any good now, of however many.
    valid = "Bearer none";
    const failure: unknown = await records({ url: server.url, auth: { oauth } }).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(RefusedError);
    expect(String(failure)).toMatch(/answered 401 \(Not with Bearer \*\*\*\): the server rejects the credentials/);
    expect(asked).toHaveLength(4);
  });

  test("of a client, whose token is about to expire", async () => {
    const server = await paged(small(), { largestPage: 4 });
    const { asked, oauth } = await tokens(server, 0.001);
    await records({ url: server.url, auth: { oauth }, groups: false });
    expect(asked.length).toBeGreaterThan(2);
  });

  test("of a client that is refused", async () => {
    const server = await paged(small());
    server.intercept((_, response) =>
      answer(response, 401, { error: "invalid_client", error_description: "Not client s3cret/" }),
    );
    const oauth = { tokenUrl: `${server.url}/token`, clientId: "rollcall", clientSecret: "client s3cret/" };
    await expect(records({ url: server.url, auth: { oauth } })).rejects.toThrow(
      /^source corp: POST \S+\/token answered 401 \(invalid_client: Not \*\*\*\): the server rejects the credentials/,
    );
    server.intercept((_, response) => answer(response, 200, { token: "x" }));
    await expect(records({ url: server.url, auth: { oauth } })).rejects.toThrow(
      /not one with a bearer token \(access_token\)/,
    );
  });
});

test("trusts the authority that is configured, and no other", async () => {
  const authority = await makeAuthority();
  const tls = await makeCertificate({ ip: ["127.0.0.1"] }, { issuer: authority });
  const server = await started(startScim(small(), { tls }));
  const folder = await mkdtemp(join(tmpdir(), "rollcall-scim-ca-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, "ca.pem"), authority.cert);
  const options = { url: server.url, ca: "ca.pem", groups: false };
  expect(await ids(options, { folder })).toEqual(numbers(10));
  const lines = await open(options, folder).describe?.({ signal: new AbortController().signal, warn: () => {} });
  expect(lines?.[0]).toMatch(/^https:\S+, TLSv1\.\d, certificate of /);
  await expect(records({ url: server.url })).rejects.toThrow(
    /^source corp: GET \S+: the certificate of .* give its issuer's certificate as the source's `ca`/,
  );
  await expect(records({ ...options, ca: "none.pem" }, { folder })).rejects.toThrow("ca: none.pem does not exist");
});

describe("by startIndex", () => {
  const index = { by: "index", count: 4 };

  test("tolerates short pages", async () => {
    for (const largestPage of [3, 2]) {
      const server = await paged(small(), { largestPage });
      expect(await ids({ url: server.url, groups: false, paging: { by: "index", count: 500 } })).toEqual(numbers(10));
    }
    const server = await paged(small(), { largestPage: 1 });
    const options = { url: server.url, groups: false };
    await expect(records(options)).rejects.toThrow(
      /it ends after 1 of 10; a server that gives one at a time needs .*overlap: false/,
    );
    expect(await ids({ ...options, paging: { overlap: false } })).toEqual(numbers(10));
  });

  test("takes a list that comes at once, whatever was asked for", async () => {
    const server = await paged(directoryOf(largeCompany(3_000)));
    server.intercept((request, response) => {
      if (request.url?.includes("/Users") !== true) return false;
      return answer(response, 200, { totalResults: 3_000, Resources: server.directory.users });
    });
    expect(await ids({ url: server.url, groups: false })).toEqual(numbers(3_000));
    expect(server.requests.filter((path) => path.includes("/Users"))).toHaveLength(1);
  });

  test("loses nobody when somebody else is deleted between two pages", async () => {
    const server = await paged(small());
    const warnings: string[] = [];
    atRequest(server, "/Users", 2, () => {
      server.directory.users = server.directory.users.filter(({ id }) => id !== "2");
    });
    // Number 5, which moved to where number 4 was read, would be missing, and the total would be right.
    const found = await ids({ url: server.url, groups: false, paging: index }, { warnings });
    expect([...found].sort()).toEqual(numbers(10).sort());
    expect(warnings).toEqual([
      expect.stringMatching(
        /Users: at 4 there is another resource than before, so the list changed .*; reading it again \(2 of 3\)$/,
      ),
    ]);
  });

  test("loses nobody when somebody goes and somebody comes", async () => {
    const server = await paged(small());
    atRequest(server, "/Users", 3, () => {
      const [first, ...rest] = server.directory.users;
      server.directory.users = [...rest, { ...first, id: "new" }];
    });
    const found = await ids({ url: server.url, groups: false, paging: index });
    expect([...found].sort()).toEqual([...numbers(10), "user new"].sort());
  });

  test("delivers nobody twice when somebody comes in front", async () => {
    const server = await paged(small());
    atRequest(server, "/Users", 2, () => {
      server.directory.users = [{ id: "new", userName: "new" }, ...server.directory.users];
    });
    const found = await ids({ url: server.url, groups: false, paging: index });
    expect([...found].sort()).toEqual([...numbers(10), "user new"].sort());
  });

  test("fails when the list keeps changing", async () => {
    const server = await paged(small());
    server.intercept((request) => {
      if (request.url?.includes("startIndex=4") === true) server.directory.users = server.directory.users.slice(1);
      return false;
    });
    const reading = records({ url: server.url, groups: false, paging: { ...index, attempts: 2 } });
    await expect(reading).rejects.toBeInstanceOf(IncompleteReadError);
  });

  test.each([
    ["too many", 12, /Users: it ends after 10 of 12.*\(read 2 times\)/],
    ["too few", 9, /Users: totalResults is 9, and there are 10 \(read 2 times\)/],
  ])("fails when the total says %s", async (_, totalResults, message) => {
    const server = await paged(small());
    server.intercept((request, response) => {
      const start = Number(/startIndex=(\d+)/.exec(request.url ?? "")?.[1]);
      if (request.url?.includes("/Users") !== true) return false;
      return answer(response, 200, { totalResults, Resources: server.directory.users.slice(start - 1, start + 3) });
    });
    await expect(records({ url: server.url, paging: { ...index, attempts: 2 } })).rejects.toThrow(message);
  });

  test("reads on after a page that was left in its midst", async () => {
    const server = await paged(directoryOf(largeCompany(5_000)));
    const others = server.directory.users.toReversed();
    atRequest(server, "/Users", 2, (response) => answer(response, 200, { totalResults: 5_000, Resources: others }));
    const found = await ids({ url: server.url, groups: false });
    expect(new Set(found).size).toBe(5_000);
    expect(found).toHaveLength(5_000);
  });

  test("fails when the server does not keep an order", async () => {
    const server = await paged(small());
    // The last page holds somebody for the second time, and nobody says so.
    server.intercept((request, response) => {
      if (request.url?.includes("startIndex=9") !== true) return false;
      return answer(response, 200, { totalResults: 10, Resources: server.directory.users.slice(0, 2) });
    });
    const reading = records({ url: server.url, groups: false, paging: { ...index, overlap: false } });
    await expect(reading).rejects.toThrow(/totalResults is 10, and there are 8 \(read 3 times\)/);
  });

  test("fails when the server pages in its own way, and says how to go on", async () => {
    const server = await paged(small());
    // Pages by number: what is asked for is rounded down.
    server.intercept((request, response) => {
      if (request.url?.includes("/Users") !== true) return false;
      const start = Math.floor((Number(/startIndex=(\d+)/.exec(request.url)?.[1]) - 1) / 4) * 4;
      return answer(response, 200, { totalResults: 10, Resources: server.directory.users.slice(start, start + 4) });
    });
    const options = { url: server.url, groups: false };
    await expect(records({ ...options, paging: index })).rejects.toThrow(/paging: \{ overlap: false \}/);
    expect(await ids({ ...options, paging: { ...index, overlap: false } })).toEqual(numbers(10));
  });
});

describe("by cursor", () => {
  test("is chosen when the server announces it, and begins again when the cursor is lost", async () => {
    const server = await paged(small(), { cursors: true, largestPage: 4 });
    const warnings: string[] = [];
    atRequest(server, "/Users", 3, (response) =>
      answer(response, 400, { status: "400", scimType: "expiredCursor", detail: "too slow" }),
    );
    expect(await ids({ url: server.url, groups: false }, { warnings })).toEqual(numbers(10));
    expect(warnings).toEqual([expect.stringMatching(/the server no longer knows the cursor; reading it again/)]);
    expect(server.requests.filter((path) => path.includes("/Users"))).toHaveLength(6);
  });

  test("does without totals, and compares them where there are any", async () => {
    const silent = await paged(small(), { cursors: true, largestPage: 4, noTotals: true });
    expect(await ids({ url: silent.url, groups: false })).toEqual(numbers(10));
    const server = await paged(small(), { cursors: true });
    server.intercept((request, response) => {
      if (request.url?.includes("/Users") !== true) return false;
      return answer(response, 200, { totalResults: 1_000, Resources: server.directory.users });
    });
    const options = { url: server.url, groups: false };
    const paging = { totals: "estimated" };
    // A part of the list is not taken for an estimate of it.
    await expect(records(options)).rejects.toThrow(/totalResults is 1000, and there are 10 \(read 3 times\)/);
    await expect(records({ ...options, paging })).rejects.toThrow(/there are 10: too few .* set minUsers/);
    expect(await ids({ ...options, paging, minUsers: 10 })).toEqual(numbers(10));
    server.intercept((request, response) => {
      if (request.url?.includes("/Users") !== true) return false;
      return answer(response, 200, { totalResults: 9, Resources: server.directory.users });
    });
    await expect(records(options)).rejects.toThrow(/there are 10 \(where .* estimated \}\)/);
    expect(await ids({ ...options, paging })).toEqual(numbers(10));
  });

  test("takes a number for a cursor, and nothing else", async () => {
    const server = await paged(small(), { cursors: true });
    const following = (cursor: unknown): void => {
      server.intercept((request, response) => {
        if (request.url?.includes("/Users") !== true) return false;
        const start = Number(/cursor=(\d+)/.exec(request.url)?.[1] ?? 0);
        const rest = start + 4 < 10 ? { nextCursor: cursor ?? start + 4 } : { nextCursor: null };
        const Resources = server.directory.users.slice(start, start + 4);
        return answer(response, 200, { totalResults: 10, ...rest, Resources });
      });
    };
    following(undefined);
    expect(await ids({ url: server.url, groups: false })).toEqual(numbers(10));
    for (const cursor of [true, { next: 4 }, [4]]) {
      following(cursor);
      await expect(records({ url: server.url, groups: false })).rejects.toThrow(/nextCursor is neither a text nor/);
    }
  });

  test("without totals, reads the ids again, unless a minimum is written", async () => {
    const server = await paged(small(), { cursors: true, largestPage: 4, noTotals: true });
    const lists = () => server.requests.filter((path) => path.includes("/Users?"));
    expect(await ids({ url: server.url, groups: false })).toEqual(numbers(10));
    expect(lists()).toHaveLength(6);
    expect(lists().filter((path) => path.includes("attributes=id"))).toHaveLength(3);
    expect(await ids({ url: server.url, groups: false, minUsers: 10 })).toEqual(numbers(10));
    expect(lists()).toHaveLength(9);
    // A page that lost its cursor looks like the last one.
    const warnings: string[] = [];
    atRequest(server, "/Users?", 2, (response) =>
      answer(response, 200, { Resources: server.directory.users.slice(4, 8) }),
    );
    expect(await ids({ url: server.url, groups: false }, { warnings })).toEqual(numbers(10));
    expect(warnings).toEqual([expect.stringMatching(/two reads differ: 8 resources, then 10; reading it again/)]);
    server.intercept((request, response) => {
      if (request.url?.includes("/Users?") !== true) return false;
      const from = request.url.includes("attributes=id") ? 0 : 1;
      return answer(response, 200, { Resources: server.directory.users.slice(from, from + 9) });
    });
    await expect(records({ url: server.url, groups: false })).rejects.toThrow(
      /two reads had 9 resources each, and not the same ones: it changed while it was read \(read 3 times\)/,
    );
  });

  test("tells that a full page without total and cursor proves nothing", async () => {
    const server = await paged(small(), { cursors: true, noTotals: true });
    const warnings: string[] = [];
    const options = { url: server.url, groups: false, paging: { count: 10 } };
    expect(await ids(options, { warnings })).toEqual(numbers(10));
    expect(warnings).toEqual([
      expect.stringMatching(/Users: 10 resources, as many as were asked for, .* set minUsers to/),
    ]);
  });

  test("lets a server choose the size of pages that refuses ours", async () => {
    const server = await paged(small(), { cursors: true, largestCount: 4 });
    const warnings: string[] = [];
    expect(await ids({ url: server.url, groups: false }, { warnings })).toEqual(numbers(10));
    expect(warnings).toEqual([
      expect.stringMatching(
        /Users: the server refuses the size of pages \(count=500\), so it chooses itself; reading it again/,
      ),
    ]);
  });

  test("an invalid first cursor is an error, not a lost one", async () => {
    const server = await paged(small(), { cursors: true, entra: true });
    server.intercept((request, response) =>
      request.url?.includes("/Users?") === true
        ? answer(response, 400, { status: "400", scimType: "invalidCursor", detail: "no cursors today" })
        : false,
    );
    await expect(records({ url: server.url, groups: false })).rejects.toThrow(
      /answered 400 \(invalidCursor: no cursors today\)/,
    );
  });

  test("fails when a cursor comes again, however many pages later", async () => {
    const server = await paged(small(), { cursors: true });
    const next: Record<string, string> = { "": "a", a: "b", b: "c", c: "a" };
    let requests = 0;
    server.intercept((request, response) => {
      if (request.url?.includes("/Users?") !== true) return false;
      const nextCursor = next[new URL(request.url, "http://a").searchParams.get("cursor") ?? ""];
      requests += 1;
      return answer(response, 200, { nextCursor, Resources: [{ id: `${requests}`, userName: `u${requests}` }] });
    });
    const options = { url: server.url, groups: false, paging: { attempts: 1 } };
    await expect(records(options)).rejects.toThrow("its pages go in circles");
    expect(requests).toBe(4);
  });

  test("fails when its pages go in circles", async () => {
    const server = await paged(small(), { cursors: true });
    server.intercept((request, response) => {
      if (request.url?.includes("/Users") !== true) return false;
      const nextCursor = request.url.includes("cursor=a") ? "b" : "a";
      return answer(response, 200, { totalResults: 10, nextCursor, Resources: server.directory.users.slice(0, 3) });
    });
    await expect(records({ url: server.url, paging: { attempts: 1 } })).rejects.toThrow("its pages go in circles");
  });
});

describe("Entra ID's own SCIM API", () => {
  const tenant = () => paged(directoryOf(largeCompany(250)), { entra: true });

  test("is read for users, though it has no totals, no first cursor, and names in lower case", async () => {
    const server = await tenant();
    const options = { url: server.url, users: { path: "users" }, groups: false };
    expect(await ids(options)).toEqual(numbers(250));
    const lists = server.requests.filter((path) => path.includes("/users?"));
    expect(lists).toHaveLength(6);
    expect(lists[0]).not.toContain("cursor");
    const description = await open(options).describe?.(contextOf());
    expect(description?.join("\n")).toContain("read by cursor, 500 at a time");
    const found = open(options).find?.([{ kind: "user", id: "7" }], contextOf());
    expect((await Array.fromAsync(found ?? [])).flat()).toMatchObject([{ id: "7" }]);
  });

  test("its groups have no members, and are refused before anybody is asked", async () => {
    const server = await tenant();
    await expect(records({ url: server.url, users: { path: "users" }, groups: { path: "groups" } })).rejects.toThrow(
      /no group has a member, and no user is in a group/,
    );
    for (const host of [
      "graph.microsoft.com",
      "graph.microsoft.us",
      "dod-graph.microsoft.us",
      "microsoftgraph.chinacloudapi.cn",
    ]) {
      const url = `https://${host}/rp/scim`;
      expect(scim.options.safeParse({ url }).error?.issues).toMatchObject([
        {
          path: ["groups"],
          message: expect.stringMatching(/has no members in its groups.* groups: false, .*connector: entra/),
        },
      ]);
      expect(scim.options.safeParse({ url, groups: false }).success).toBe(true);
    }
  });
});

test("a list may have its names in any case, and numbers as texts", async () => {
  const server = await paged(small());
  for (const name of ["Resources", "resources", "RESOURCES"]) {
    server.intercept((request, response) => {
      if (request.url?.includes("/Users?") !== true) return false;
      const query = new URL(request.url, "http://a").searchParams;
      const start = Number(query.get("startIndex")) - 1;
      const users = server.directory.users.map((user) => ({ ...user, active: "True", id: Number(user.id) }));
      const end = start + Number(query.get("count"));
      return answer(response, 200, { TOTALRESULTS: "10", startindex: `${start + 1}`, [name]: users.slice(start, end) });
    });
    const found = await entries({ url: server.url, groups: false, paging: { count: 4 } });
    expect(found.map(({ kind, id }) => `${kind} ${id}`)).toEqual(numbers(10));
    expect(found.every(({ attributes }) => attributes["active"] === true)).toBe(true);
  }
});

test("a server that leads whoever asks what it supports to its sign-in page is read, by index", async () => {
  const server = await paged(small());
  server.intercept((request, response) => {
    if (request.url?.includes("/ServiceProviderConfig") !== true) return false;
    return answer(response, 302, {}, { location: "/sign-in" });
  });
  expect(await entries({ url: server.url, groups: false })).toHaveLength(10);
});

describe("a busy server", () => {
  test.each([
    ["seconds", () => "1"],
    ["a date", () => new Date(Date.now() + 2_000).toUTCString()],
  ])("is given the %s it asks for", async (_, after) => {
    const server = await paged(small());
    const warnings: string[] = [];
    let refusedAt = 0;
    let waited = 0;
    server.intercept((request, response) => {
      if (request.url?.includes("/Users") !== true) return false;
      if (refusedAt > 0) waited = performance.now() - refusedAt;
      else {
        refusedAt = performance.now();
        return answer(response, 429, { detail: "slower" }, { "retry-after": after() });
      }
      return false;
    });
    expect(await ids({ url: server.url, groups: false }, { warnings })).toEqual(numbers(10));
    // Timers may be a little early.
    expect(waited).toBeGreaterThan(950);
    expect(warnings).toEqual([expect.stringMatching(/answered 429 \(slower\); attempt 2 of 4 follows in/)]);
  });

  test("is not waited for beyond the configured pause", async () => {
    const server = await paged(small());
    server.intercept((_, response) => answer(response, 503, {}, { "retry-after": "3600" }));
    const failure: unknown = await records({ url: server.url, timeouts: { pause: "5s" } }).catch(
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(UnavailableError);
    expect(String(failure)).toContain("It asks not to be called again for 60 min");
  });

  test("does not hold up who gives up", async () => {
    for (const stall of ["before the answer", "within it", "in a pause"] as const) {
      const server = await paged(small());
      const arrived = Promise.withResolvers<void>();
      server.intercept((_, response) => {
        if (stall === "within it") response.writeHead(200).write('{"totalResults": 10, ');
        if (stall === "in a pause") answer(response, 429, {}, { "retry-after": "50" });
        setTimeout(arrived.resolve, 50);
        return true;
      });
      const abort = new AbortController();
      const reading = records({ url: server.url }, { signal: abort.signal });
      const reason = new Error("enough");
      void arrived.promise.then(() => abort.abort(reason));
      await expect(reading).rejects.toBe(reason);
      await expect.poll(() => server.open.size).toBe(0);
    }
  });
});

describe("members", () => {
  const groups = async (options: object): Promise<Readonly<Record<string, readonly string[]>>> => {
    const all = await records(options);
    const of = (group: string) =>
      all.flatMap((record) =>
        record.kind === "membership"
          ? record.group === group
            ? [record.member.key]
            : []
          : record.kind === "group" && record.id === group
            ? record.members.map(({ key }) => key)
            : [],
      );
    return { g0: of("g0"), g1: of("g1") };
  };
  const everybody = numbers(250).map((user) => user.slice(5));
  const directory = (): ScimDirectory => {
    const { users, groups } = directoryOf(largeCompany(250));
    const members = users.map(({ id }) => ({ value: id, type: "User" }));
    return { users, groups: groups.map((group) => (group.id === "g0" ? { ...group, members } : group)) };
  };

  test("that are in no list fail the read, unless every group is asked", async () => {
    const server = await paged(directory(), { noMembersInLists: true });
    await expect(records({ url: server.url })).rejects.toThrow(
      /no group has a member, and no user is in a group; .* members: each .*minMemberships: 0$/,
    );
    const connections = new Set<unknown>();
    server.intercept((request) => {
      connections.add(request.socket);
      return false;
    });
    expect((await groups({ url: server.url, groups: { members: "each" } }))["g0"]).toEqual(everybody);
    expect(connections.size).toBe(1);
    expect(await ids({ url: server.url, groups: false })).toHaveLength(250);
  });

  test("are asked for while a list of groups that comes at once still arrives", async () => {
    const groups = Array.from({ length: 2_500 }, (_, index) => ({ id: `g${index}`, displayName: "x".repeat(2_000) }));
    const server = await paged({ users: [], groups: groups.map((group) => ({ ...group, members: [{ value: "u" }] })) });
    server.intercept((request, response) => {
      if (request.url?.includes("/Groups?") !== true) return false;
      return answer(response, 200, { totalResults: groups.length, Resources: groups });
    });
    const all = await records({ url: server.url, minUsers: 0, groups: { members: "each" } });
    expect(all.filter(({ kind }) => kind === "membership")).toHaveLength(groups.length);
  });

  test("that are cut off in lists are asked for by themselves", async () => {
    const server = await paged(directory(), { memberLimit: 100, memberPages: true });
    const whole = { memberLimit: 100, memberPages: { size: 80 } };
    expect((await groups({ url: server.url, groups: whole }))["g0"]).toEqual(everybody);
    expect(server.requests.filter((path) => path.includes("/Groups/g0"))).toHaveLength(5);
    await expect(records({ url: server.url, groups: { memberLimit: 100 } })).rejects.toThrow(
      /Groups\/g0: 100 members, no more than in the list of groups \(memberLimit: 100\), so they may be cut off; set groups: \{ memberPages \}/,
    );
  });

  test("that only lists cut off are asked for by themselves, unasked", async () => {
    const all = directory();
    const server = await paged(all);
    const cut = all.groups.map((group) => ({ ...group, members: [group["members"] ?? []].flat().slice(0, 100) }));
    const refusals = [503];
    server.intercept((request, response) => {
      const { pathname, searchParams: at } = new URL(request.url ?? "", "http://localhost");
      if (pathname.includes("/Groups/")) {
        const status = refusals.shift();
        return status !== undefined && answer(response, status, {});
      }
      if (!pathname.endsWith("/Groups")) return false;
      return answer(response, 200, {
        totalResults: cut.length,
        Resources: cut.slice(Number(at.get("startIndex")) - 1),
      });
    });
    // It is busy for a moment, and asked again.
    expect((await groups({ url: server.url }))["g0"]).toEqual(everybody);
    refusals.push(500, 500, 500, 500);
    await expect(groups({ url: server.url })).rejects.toThrow(/answered 500 .*set groups: \{ memberLimit \}/);
    // A server without single groups is believed.
    refusals.push(403, 403, 403, 403);
    expect((await groups({ url: server.url }))["g0"]).toHaveLength(100);
  });

  test("that a server does not page fail the read", async () => {
    const server = await paged(directory(), { memberLimit: 100 });
    const whole = { memberLimit: 100, memberPages: {} };
    await expect(records({ url: server.url, groups: whole })).rejects.toThrow(
      /Groups\/g0: the members from 101 on repeat earlier ones; does the server page members with startIndex and count\?/,
    );
  });

  test("are those of groups, and users' direct groups", async () => {
    const users = [
      {
        id: "1",
        userName: "ada",
        groups: [
          { value: "a", type: "direct" },
          { value: "b", type: "indirect" },
          { value: "c" },
          { $ref: "https://x/Groups/d%20d", type: "Direct" },
        ],
      },
    ];
    const members = [
      { value: "1" },
      { value: "2", type: "group" },
      { $ref: "../Users/3" },
      { value: 4, $ref: "/Groups/4" },
    ];
    const server = await paged({ users, groups: [{ id: "a", displayName: "A", members }] });
    const links = async (memberships: string) =>
      (await entries({ url: server.url, memberships })).map(({ memberOf, members }) => ({ memberOf, members }));
    const all = [{ key: "1" }, { kind: "group", key: "2" }, { kind: "user", key: "3" }, { kind: "group", key: "4" }];
    const none = { memberOf: [], members: [] };
    expect(await links("both")).toEqual([
      { memberOf: ["a", "d d"], members: [] },
      { memberOf: [], members: all },
    ]);
    expect(await links("members")).toEqual([none, { memberOf: [], members: all }]);
    expect(await links("groups")).toEqual([{ memberOf: ["a", "c", "d d"], members: [] }, none]);
  });
});

describe("what is asked for", () => {
  const asked = (server: ScimServer, path: string): string =>
    decodeURIComponent(server.requests.find((request) => request.includes(path))?.replace(/^.*\?/, "") ?? "");

  test("is what rules use, as far as that is certain", async () => {
    const server = await started(startScim(small()));
    const attributes = { users: ["userName", "mail", "addresses.work.locality"], groups: ["displayName"] };
    const found = await entries({ url: server.url, memberships: "members" }, { attributes });
    expect(asked(server, "/Users")).toBe(
      "excludedAttributes=photos,x509Certificates,ims,entitlements,roles,phoneNumbers,groups&startIndex=1&count=200",
    );
    expect(asked(server, "/Groups")).toBe("startIndex=1&count=200");
    expect(found[0]?.attributes).toEqual({ userName: "user1", mail: "user1@example.com" });
    expect(found.at(-1)?.attributes).toEqual({ displayName: "group1" });
  });

  test("is what the configuration says", async () => {
    const server = await started(startScim(small()));
    const options = { url: server.url, attributes: ["userName"], users: { filter: 'userName eq "user7"' } };
    const found = await entries(options, { attributes: { users: ["userName", "displayName"], groups: [] } });
    expect(asked(server, "/Users")).toContain("attributes=id,meta,userName,groups&");
    expect(asked(server, "/Groups")).toContain("attributes=id,meta,userName,members&");
    expect(found[0]).toMatchObject({ id: "7", attributes: { userName: "user7" } });
    expect(found).toHaveLength(3);
    await expect(records({ url: server.url, users: { filter: "((" } })).rejects.toThrow(
      /answered 400 \(invalidFilter: .*check the filter/,
    );
  });
});

test.each([
  ["http:// to another machine", { url: "http://idp.example.com/scim" }, /http:\/\/ would send tokens/],
  ["a password in the url", { url: "https://a:b@idp.example.com/scim" }, /they have a key of their own: auth/],
  ["a query in the url", { url: "https://idp.example.com/scim?tenant=1" }, /with a query/],
  ["neither url nor files", {}, /expected one of url, files and inbox/],
  ["both", { url: "https://a/", files: { users: "x" } }, /expected one of url, files and inbox/],
  ["a server and an inbox", { url: "https://a/", inbox: {} }, /expected one of url, files and inbox/],
  ["a login for an inbox", { inbox: {}, auth: { bearer: "token" } }, /is for a server, not for an inbox/],
  ["a filter of an inbox", { inbox: {}, users: { filter: "active eq true" } }, /leave records out by a rule/],
  ["a token with a space", { inbox: { tokens: ["a b"] } }, /expected a token, or where it is/],
  ["a brake of more than all", { inbox: { brakes: { deletions: "200%" } } }, /expected a percentage like 10%/],
  ["a token with a line end", { url: "https://a/", auth: { bearer: "token\n" } }, /expected/],
  ["no file", { files: {} }, /expected users, groups or mixed/],
])("refuses %s", (_, options, message) => {
  expect(scim.options.safeParse(options).error?.message).toMatch(message);
});

test("does no work before it is read", () => {
  expect(() => open({ url: "https://nowhere.invalid/", ca: "none.pem" })).not.toThrow();
});

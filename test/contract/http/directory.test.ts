import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import { buffer } from "node:stream/consumers";
import { generateKeyPairSync } from "node:crypto";
import { decodeProtectedHeader, jwtVerify, importX509 } from "jose";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { IncompleteReadError, InputError, RefusedError, UnavailableError } from "#errors.ts";
import { DirectoryApi } from "#http/directory/api.ts";
import type { ApiOptions } from "#http/directory/api.ts";
import {
  assertionGrant,
  basic,
  bearer,
  federatedGrant,
  fixedHeaders,
  secretGrant,
  subjectGrant,
  TokenAuthorization,
} from "#http/directory/credentials.ts";
import { inParallel, linkIn, merged } from "#http/directory/pages.ts";
import { readList } from "#http/directory/proof.ts";
import type { ProvenList } from "#http/directory/proof.ts";
import { makeAuthority, makeCertificate } from "../../support/certificates.ts";
import { listen, stop, track } from "../../support/scripted-server.ts";

type Handler = (request: IncomingMessage & { readonly path: URL }, response: ServerResponse) => void | Promise<void>;

/** A server that answers as `handler` does. */
async function serve(handler: Handler, tls?: object): Promise<{ readonly url: string; readonly requests: string[] }> {
  const requests: string[] = [];
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    requests.push(`${request.method} ${request.url}`);
    const path = new URL(request.url ?? "/", "http://localhost");
    void handler(Object.assign(request, { path }), response);
  };
  const server = tls === undefined ? createServer(listener) : createHttpsServer(tls, listener);
  const open = track(server);
  const port = await listen(server);
  onTestFinished(() => stop(server, open));
  return { url: `${tls === undefined ? "http" : "https"}://127.0.0.1:${port}`, requests };
}

const timeouts = { connect: 5_000, answer: 5_000, request: 10_000, read: 20_000, pause: 2_000 };

function apiOf(
  url: string,
  options: Partial<ApiOptions> = {},
): { readonly api: DirectoryApi; readonly warnings: string[] } {
  const warnings: string[] = [];
  const signal = new AbortController().signal;
  const api = new DirectoryApi(
    { subject: "source corp", origins: [url], authorization: fixedHeaders({}, [], "nobody"), timeouts, ...options },
    { signal, warn: (message) => warnings.push(message) },
  );
  onTestFinished(() => api.close());
  return { api, warnings };
}

const json = (response: ServerResponse, value: unknown, headers: Record<string, string | string[]> = {}): void => {
  response.writeHead(200, { "content-type": "application/json", ...headers }).end(JSON.stringify(value));
};

const people = (count: number): readonly { readonly id: string }[] =>
  Array.from({ length: count }, (_, index) => ({ id: `${index}` }));

interface Answer {
  readonly items: readonly { readonly id: string }[];
  readonly next?: string;
  readonly total?: number;
}

/** A list in pages of 10 by link. `change` sees every answer before it is sent. */
function listServer(
  size: number,
  change: (answer: Answer, skip: number, asked: number) => Answer = (answer) => answer,
) {
  let asked = 0;
  return serve(({ path }, response) => {
    asked++;
    if (path.pathname === "/count") {
      response.end(`${size}`);
      return;
    }
    const skip = Number(path.searchParams.get("skip"));
    const items = people(size).slice(skip, skip + 10);
    const next = skip + 10 < size ? { next: `/people?skip=${skip + 10}` } : {};
    json(response, change({ items, total: size, ...next }, skip, asked));
  });
}

function listAt(
  api: DirectoryApi,
  url: string,
  more: Partial<ProvenList<{ id: string }>> = {},
): ProvenList<{ id: string }> {
  return {
    url: new URL("/people", url),
    paging: { by: "link", size: 10 },
    get: async (place) => (await api.json(place)).value as Answer,
    idOf: ({ id }) => id,
    proof: { by: "total", name: "total" },
    ...more,
  };
}

async function idsOf(api: DirectoryApi, list: ProvenList<{ id: string }>): Promise<readonly string[]> {
  return (await Array.fromAsync(readList(api, list))).flat().map(({ id }) => id);
}

const all = (count: number): readonly string[] => people(count).map(({ id }) => id);

describe("a list", () => {
  test("is read to its end by links, cursors, offsets and page numbers", async () => {
    const { url } = await serve(({ path: { searchParams: at } }, response) => {
      const [skip, page] = [Number(at.get("skip") ?? at.get("at") ?? 0), at.get("page")];
      const start = page === null ? skip : (Number(page) - 1) * 10;
      json(response, { items: people(25).slice(start, start + 10), ...(start + 10 < 25 && { next: `${start + 10}` }) });
    });
    const { api } = apiOf(url);
    const proof = { by: "expected", count: 25, name: "the group's count" } as const;
    for (const paging of [
      { by: "cursor", parameter: "at" },
      { by: "offset", parameter: "skip" },
      { by: "page", parameter: "page" },
    ] as const)
      expect(await idsOf(api, listAt(api, url, { paging, proof }))).toEqual(all(25));
    const links = await listServer(25);
    const linked = apiOf(links.url).api;
    expect(await idsOf(linked, listAt(linked, links.url))).toEqual(all(25));
  });

  test("does not end at an empty page that has a link", async () => {
    const { url } = await listServer(30, (answer, skip) =>
      skip === 10 ? { ...answer, items: [], total: 20 } : { ...answer, total: 20 },
    );
    const { api } = apiOf(url);
    expect(await idsOf(api, listAt(api, url))).toHaveLength(20);
  });

  test("goes on after a full page that had no link only once", async () => {
    const { url } = await listServer(30, (answer, skip, asked) =>
      skip === 10 && asked === 2 ? { items: answer.items, total: 30 } : answer,
    );
    const { api, warnings } = apiOf(url);
    expect(await idsOf(api, listAt(api, url))).toEqual(all(30));
    expect(warnings).toEqual([expect.stringMatching(/a full page had no link/)]);
  });

  test.each<[fault: string, change: Parameters<typeof listServer>[1], message: RegExp]>([
    [
      "ends early",
      (answer, skip) => (skip === 10 ? { items: answer.items, total: 30 } : answer),
      /total is 30, and there are 20 \(read 2 times\)/,
    ],
    [
      "has a total that changes",
      (answer, _, asked) => ({ ...answer, total: 30 + asked }),
      /total was \d+ and is now \d+: it changed while it was read \(read 2 times\)/,
    ],
    [
      "leads to an earlier page",
      (answer, skip) => (skip === 20 ? { ...answer, next: "/people?skip=10" } : answer),
      /a page leads to one that came before/,
    ],
    [
      "gives a page twice",
      (answer, skip) => ({ ...answer, items: skip === 0 ? answer.items : people(10) }),
      /a page holds only records that came before/,
    ],
    [
      "goes on without anything",
      (_, skip) => ({ items: [], next: `/people?skip=${skip + 1}`, total: 30 }),
      /100 pages in a row are empty/,
    ],
  ])("that %s fails the read", async (_, change, message) => {
    const { url } = await listServer(30, change);
    const { api } = apiOf(url);
    const reading = idsOf(api, listAt(api, url));
    await expect(reading).rejects.toThrow(IncompleteReadError);
    await expect(reading).rejects.toThrow(message);
  });

  test.each([
    { by: "offset", parameter: "first" },
    { by: "page", parameter: "page" },
  ] as const)("that ignores the $by fails the read instead of going on for ever", async (paging) => {
    const { url } = await listServer(30);
    const { api } = apiOf(url);
    const reading = idsOf(api, listAt(api, url, { paging, proof: { by: "twoEqualReads" } }));
    await expect(reading).rejects.toThrow(/a page holds only records that came before/);
  });

  test.each([
    ["the total", { by: "total", name: "total" }],
    ["a count", { by: "count", count: async () => 25 }],
    ["what is expected", { by: "expected", count: 25, name: "the group's count" }],
  ] as const)("whose last page comes again after the end is complete, if %s says so", async (_, proof) => {
    const { url } = await serve(({ path: { searchParams } }, response) => {
      const start = Math.min(Number(searchParams.get("page")) - 1, 2) * 10;
      json(response, { items: people(25).slice(start, start + 10), total: 25 });
    });
    const { api } = apiOf(url);
    const paging = { by: "page", parameter: "page" } as const;
    expect(await idsOf(api, listAt(api, url, { paging, proof }))).toEqual(all(25));
    // It may be the only page. Its total may be its size, where it is as large as pages are.
    const get = async () => ({ items: people(25), total: 25 });
    const only = (size?: number) => ({ ...listAt(api, url, { paging: { ...paging, size }, proof }), get });
    expect(await idsOf(api, only(26))).toEqual(all(25));
    if (proof.by !== "total") expect(await idsOf(api, only())).toEqual(all(25));
    else
      for (const size of [undefined, 25])
        await expect(idsOf(api, only(size))).rejects.toThrow(/a page holds only records that came before/);
  });

  test("whose total is missing is no proof", async () => {
    const { url } = await listServer(30, ({ items, next }) => ({ items, ...(next !== undefined && { next }) }));
    const { api } = apiOf(url);
    await expect(idsOf(api, listAt(api, url))).rejects.toThrow(/the first page has no total/);
  });

  test("is counted before and after, and read again when that differs", async () => {
    const { url, requests } = await listServer(30);
    const { api, warnings } = apiOf(url);
    const counts = [29, 30, 30, 30];
    const proof = {
      by: "count",
      count: async () => Number(await api.text(new URL("/count", url))) && (counts.shift() ?? 0),
    } as const;
    expect(await idsOf(api, listAt(api, url, { proof }))).toEqual(all(30));
    expect(warnings).toEqual([expect.stringMatching(/count was 29 and is now 30: .*; reading it again \(2 of 2\)/)]);
    expect(requests.filter((each) => each === "GET /count")).toHaveLength(4);
    counts.push(31, 31, 31, 31);
    await expect(idsOf(api, listAt(api, url, { proof }))).rejects.toThrow(/the service counts 31, and there are 30/);
  });

  test("is read twice where nothing else proves it, in any order", async () => {
    const { url } = await listServer(30, (answer, _, asked) =>
      asked > 3 ? { ...answer, items: answer.items.toReversed() } : answer,
    );
    const { api } = apiOf(url);
    expect(await idsOf(api, listAt(api, url, { proof: { by: "twoEqualReads" } }))).toEqual(all(30));
    let reads = 0;
    const shrinking = await listServer(30, (answer, skip) => {
      if (skip === 0) reads++;
      return skip === 20 ? { items: answer.items.slice(reads) } : answer;
    });
    const other = apiOf(shrinking.url).api;
    await expect(idsOf(other, listAt(other, shrinking.url, { proof: { by: "twoEqualReads" } }))).rejects.toThrow(
      /two reads differ: 27 records, then 26 \(read 2 times\)/,
    );
  });

  test("that comes in one answer keeps two records with one id, and is told from one that moves", async () => {
    const twice = [{ id: "1" }, { id: "2" }, { id: "1" }];
    const { url } = await serve((_, response) => json(response, { items: twice, total: 3 }));
    const { api } = apiOf(url);
    for (const proof of [{ by: "total", name: "total" }, { by: "twoEqualReads" }] as const)
      expect(await idsOf(api, listAt(api, url, { proof, paging: { by: "none" } }))).toEqual(["1", "2", "1"]);
    const paging = { by: "link" } as const;
    await expect(idsOf(api, listAt(api, url, { proof: { by: "twoEqualReads" }, paging }))).rejects.toThrow(
      /a record came twice/,
    );
  });

  test("that another list counts asks for the count anew before it fails, and says what to do", async () => {
    const { url } = await listServer(30);
    const { api, warnings } = apiOf(url);
    const proof = { by: "expected", count: 29, name: "usersCount", again: async () => 30 } as const;
    expect(await idsOf(api, listAt(api, url, { proof }))).toEqual(all(30));
    expect(warnings).toEqual([
      expect.stringMatching(/usersCount is 29, and there are 30; reading it again \(2 of 2\)/),
    ]);
    const reading = idsOf(api, listAt(api, url, { proof: { ...proof, again: undefined }, hint: "grant more" }));
    await expect(reading).rejects.toThrow(/usersCount is 29, and there are 30; grant more \(read 2 times\)/);
  });

  test.each([
    ["http://hr.example.com/people?page=2", "https://hr.example.com", "https://hr.example.com/people?page=2"],
    ["http://hr.example.com:8443/people", "https://hr.example.com:8443", "https://hr.example.com:8443/people"],
    ["http://hr.example.com/people", "https://hr.example.com:8443", "https://hr.example.com:8443/people"],
    ["http://hr.example.com//elsewhere.example.com/x", "https://hr.example.com", undefined],
    ["http://hr.example.com:8080/people", "https://hr.example.com", undefined],
    ["http://ada@hr.example.com/people", "https://hr.example.com", undefined],
    ["http://elsewhere.example.com/people", "https://hr.example.com", undefined],
  ])("leads from %s to %s where a proxy encrypts, and never elsewhere", (link, base, target) => {
    const { api } = apiOf(base);
    const follow = () => api.follow(link, new URL("/people", base)).href;
    if (target === undefined) expect(follow).toThrow(/where no credentials may go/);
    else expect(follow()).toBe(target);
  });

  test("leads to no other server, which would get the token", async () => {
    const elsewhere = await serve((_, response) => json(response, { items: [] }));
    const { url } = await listServer(30, (answer) => ({
      ...answer,
      next: `${elsewhere.url}/people?token=a-link-of-its-own`,
    }));
    const { api } = apiOf(url, { authorization: bearer("a-token-nobody-may-see") });
    const failure = await idsOf(api, listAt(api, url)).catch((error: unknown) => error);
    expect(String(failure)).toMatch(/the next page is at http:\/\/127\.0\.0\.1:\d+, where no credentials may go/);
    expect(String(failure)).not.toMatch(/nobody-may-see|of-its-own/);
    expect(elsewhere.requests).toEqual([]);
    const two = apiOf(url, { origins: [url, elsewhere.url] }).api;
    await expect(idsOf(two, listAt(two, url, { proof: { by: "end" } }))).resolves.toHaveLength(10);
  });
});

describe("a request", () => {
  test("is made again after 429, 503 and a lost connection, and no more than so often", async () => {
    let asked = 0;
    const faults = [429, 503, 0];
    const { url } = await serve((_, response) => {
      const status = faults[asked++];
      if (status === undefined) json(response, { items: [] });
      else if (status === 0) response.destroy();
      else response.writeHead(status, { "retry-after": "0" }).end("{}");
    });
    const { api, warnings } = apiOf(url);
    await expect(api.json(new URL("/people?page=3&key=secret", url))).resolves.toMatchObject({ value: { items: [] } });
    expect(warnings).toHaveLength(3);
    expect(warnings[0]).toMatch(
      /^source corp: GET http:\/\/127\.0\.0\.1:\d+\/people\?page=3 answered 429; attempt 2 of 4/,
    );
    asked = -100;
    faults.length = 0;
    const broken = await serve(
      (_, response) => void response.writeHead(500).end('{"error":{"code":"x","message":"no"}}'),
    );
    const failing = apiOf(broken.url, { attempts: 2 });
    await expect(failing.api.json(new URL(broken.url))).rejects.toThrow(/answered 500 \(x: no\) \(tried 2 times\)/);
    await expect(failing.api.json(new URL(broken.url))).rejects.toThrow(UnavailableError);
  });

  test.each([
    ["GET", undefined],
    ["POST", undefined],
    ["POST", "0"],
    ["POST", new Date(0).toUTCString()],
  ] as const)("waits after 429 where the server names no pause: %s, %s", async (method, pause) => {
    const { url } = await serve(
      (_, response) => void response.writeHead(429, pause === undefined ? {} : { "retry-after": pause }).end(),
    );
    const giveUp = new AbortController();
    const { api, warnings } = apiOf(url, { timeouts: { ...timeouts, pause: 60_000 } });
    const request = { url: new URL(url), signal: giveUp.signal, use: async () => 1 };
    const asked = method === "GET" ? api.get(request) : api.write({ ...request, method });
    await vi.waitFor(() => expect(warnings).toHaveLength(1));
    giveUp.abort(new Error("enough"));
    await expect(asked).rejects.toThrow("enough");
    expect(warnings[0]).toMatch(/answered 429; attempt 2 of 4 follows in 10 s$/);
  });

  test.each([
    [429, { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1" }],
    [403, { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1" }],
    [403, { "retry-after": "1" }],
  ])("needs no such pause where the server says when the next request may come: %i", async (status, headers) => {
    let asked = 0;
    const { url } = await serve((_, response) => {
      if (asked++ > 0) json(response, {});
      else response.writeHead(status, headers).end();
    });
    const { api, warnings } = apiOf(url);
    // It is no answer to what was asked.
    const refused = () => ({ value: { value: "refused", headers: {} } });
    await expect(api.json(new URL(url), { refused })).resolves.toMatchObject({ value: {} });
    expect(warnings).toEqual([expect.stringMatching(/attempt 2 of 4 follows in (\d+ ms|1 s)$/)]);
  });

  test("waits for nobody beyond the configured pause", async () => {
    const { url } = await serve((_, response) => void response.writeHead(503, { "retry-after": "60" }).end());
    await expect(apiOf(url).api.json(new URL(url))).rejects.toThrow(
      /answered 503\. It asks not to be called again for/,
    );
  });

  test("that is refused says so in the service's words, with advice", async () => {
    const { url } = await serve(
      (_, response) => void response.writeHead(403).end('{"errorSummary":"no admin a-token-nobody-may-see"}'),
    );
    const { api } = apiOf(url, {
      authorization: bearer("a-token-nobody-may-see"),
      advice: ({ status, said }) => (status === 403 ? `${said}: grant the role` : undefined),
    });
    const failure = await api.json(new URL(url)).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(RefusedError);
    expect(String(failure)).toMatch(/answered 403 \(no admin \*\*\*\): no admin \*\*\*: grant the role$/);
  });

  test.each<[answer: string, headers: Record<string, string>, body: string, message: RegExp]>([
    ["something else", {}, "<html>sign in</html>", /the answer is not JSON; is the url right\?/],
    ["half of it", {}, '{"items": [', /the answer ends before its JSON does \(tried 2 times\)/],
    ["a part", { status: "206" }, "{}", /answered 206.*expected 200/],
    [
      "another address",
      { status: "302", location: "https://login.example.com/sign-in?state=1" },
      "",
      /it points to https:\/\/login\.example\.com\/sign-in, which is not followed/,
    ],
  ])("that is answered with %s fails", async (_, { status = "200", ...headers }, body, message) => {
    const { url } = await serve((_, response) => void response.writeHead(Number(status), headers).end(body));
    await expect(apiOf(url, { attempts: 2 }).api.json(new URL(url))).rejects.toThrow(message);
  });

  test("is never sent in the open, but for this machine", () => {
    expect(() => apiOf("http://idp.example.com")).toThrow(
      /http:\/\/idp\.example\.com would get credentials unencrypted; use https/,
    );
    expect(() => apiOf("http://idp.example.com", { allowPlainHttp: true })).not.toThrow();
  });

  test("keeps to what the server allows", async () => {
    let asked = 0;
    const times: number[] = [];
    const { url } = await serve((_, response) => {
      times.push(performance.now());
      const reset = Math.ceil(Date.now() / 1_000) + 1;
      json(response, {}, asked++ === 0 ? { "x-rate-limit-remaining": "0", "x-rate-limit-reset": `${reset}` } : {});
    });
    const { api } = apiOf(url);
    await api.json(new URL(url));
    await api.json(new URL(url));
    // The header `date` has whole seconds.
    expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThan(900);
  });

  test("ends at once when the read is stopped, whatever it waits for", async () => {
    const { url } = await serve((_, response) => void response.writeHead(503, { "retry-after": "2" }).end());
    const stopping = new AbortController();
    const authorization = fixedHeaders({}, [], "nobody");
    const api = new DirectoryApi(
      { subject: "source corp", origins: [url], authorization, timeouts },
      { signal: stopping.signal, warn: () => stopping.abort("enough") },
    );
    await expect(api.json(new URL(url))).rejects.toBe("enough");
    await api.close();
  });

  test("goes on beside one whose answer still arrives, and no more of them than allowed", async () => {
    let running = 0;
    let most = 0;
    const { url } = await serve(async (_, response) => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve, 20));
      running--;
      json(response, {});
    });
    const { api } = apiOf(url, { concurrency: 3 });
    const found: number[] = [];
    for await (const each of inParallel([1, 2, 3, 4, 5, 6, 7], 5, async (each) => {
      await api.json(new URL(`/${each}`, url));
      return each;
    }))
      found.push(each);
    expect(found).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(most).toBe(3);
  });
});

test("streams are read several at a time, a piece of each, and all are ended with the reader", async () => {
  const log: string[] = [];
  const count = async function* count(name: string): AsyncGenerator<string> {
    try {
      for (let number = 1; number <= 3; number++) {
        log.push(`${name}${number}`);
        yield `${name}${number}`;
      }
    } finally {
      log.push(`${name} ended`);
    }
  };
  const found = await Array.fromAsync(merged(["a", "b", "c"], 2, count));
  expect(found.sort()).toEqual(["a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3"]);
  log.length = 0;
  for await (const first of merged(["a", "b", "c"], 2, count)) {
    expect(first).toBe("a1");
    break;
  }
  await expect.poll(() => log.filter((each) => each.endsWith("ended")).length).toBe(2);
  expect(log.length).toBeLessThan(6);
  const failing = async function* failing(name: string): AsyncGenerator<string> {
    yield name;
    throw new Error(`${name} broke`);
  };
  await expect(Array.fromAsync(merged(["a", "b"], 2, failing))).rejects.toThrow("a broke");
});

/** A token endpoint, and what it was sent. @param accept says whether it gives a token */
async function tokenServer(life = 3600): Promise<{
  readonly url: string;
  readonly asked: URLSearchParams[];
  readonly headers: (string | undefined)[];
  good: Set<string>;
}> {
  const asked: URLSearchParams[] = [];
  const headers: (string | undefined)[] = [];
  const good = new Set<string>();
  const { url } = await serve(async (request, response) => {
    if (request.path.pathname === "/token") {
      asked.push(new URLSearchParams((await buffer(request)).toString()));
      headers.push(request.headers.authorization);
      const token = `token-number-${asked.length}`;
      good.add(`Bearer ${token}`);
      return json(response, { access_token: token, token_type: "bearer", expires_in: life });
    }
    if (good.has(request.headers.authorization ?? "")) return json(response, { items: [] });
    response.writeHead(401).end('{"error":"invalid_token"}');
  });
  return { url, asked, headers, good };
}

describe("a token", () => {
  test("is asked for once by all that wait, and again when it is refused", async () => {
    const server = await tokenServer();
    const grant = secretGrant({
      tokenUrl: `${server.url}/token`,
      clientId: "a:b",
      clientSecret: "s&cret",
      send: "header",
      scope: "read",
    });
    const { api } = apiOf(server.url, { authorization: new TokenAuthorization(grant) });
    await Promise.all([1, 2, 3].map(() => api.json(new URL(server.url))));
    expect(server.asked.map(String)).toEqual(["grant_type=client_credentials&scope=read"]);
    expect(server.headers).toEqual([`Basic ${Buffer.from("a%3Ab:s%26cret").toString("base64")}`]);
    server.good.clear();
    await Promise.all([1, 2, 3].map(() => api.json(new URL(server.url))));
    expect(server.asked).toHaveLength(2);
  });

  test("is renewed before it ends", async () => {
    const server = await tokenServer(0.05);
    const grant = secretGrant({ tokenUrl: `${server.url}/token`, clientId: "a", clientSecret: "secret", send: "body" });
    const { api } = apiOf(server.url, { authorization: new TokenAuthorization(grant) });
    await api.json(new URL(server.url));
    await new Promise((resolve) => setTimeout(resolve, 60));
    await api.json(new URL(server.url));
    expect(server.asked.map((each) => each.get("client_secret"))).toEqual(["secret", "secret"]);
  });

  test.each(["RS256", "PS256", "ES256"] as const)(
    "is given for an assertion that is signed by %s",
    async (algorithm) => {
      const server = await tokenServer();
      const { key, cert } = await makeCertificate(
        { dns: ["rollcall"] },
        { keyType: algorithm === "ES256" ? "ec" : "rsa" },
      );
      const tokenUrl = `${server.url}/token`;
      const signing = { name: "key.pem", read: () => key, algorithm, kid: "k1", certificate: () => cert };
      const grant = assertionGrant({ tokenUrl, clientId: "app", scope: "read", key: signing });
      const authorization = new TokenAuthorization(grant);
      await apiOf(server.url, { authorization }).api.json(new URL(server.url));
      const [form] = server.asked;
      const assertion = form?.get("client_assertion") ?? "";
      const { payload, protectedHeader } = await jwtVerify(assertion, await importX509(cert, algorithm), {
        audience: tokenUrl,
      });
      expect(payload).toMatchObject({ iss: "app", sub: "app", jti: expect.any(String), exp: expect.any(Number) });
      expect(protectedHeader).toEqual({
        alg: algorithm,
        typ: "JWT",
        kid: "k1",
        "x5t#S256": expect.stringMatching(/^[\w-]{43}$/),
      });
      expect(Object.fromEntries(form ?? [])).toMatchObject({
        grant_type: "client_credentials",
        client_id: "app",
        scope: "read",
        client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
      });
      expect(authorization.secrets()).toContain(assertion);
    },
  );

  test("is given for a subject, for a JWK, and for a token from a file that is read each time", async () => {
    const server = await tokenServer();
    const tokenUrl = `${server.url}/token`;
    const jwk = {
      ...generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" }),
      kid: "own",
    };
    const key = { name: "key.json", read: () => JSON.stringify(jwk) };
    const subject = subjectGrant({
      tokenUrl,
      issuer: "robot@example.com",
      subject: "admin@example.com",
      scope: "users",
      key,
    });
    await apiOf(server.url, { authorization: new TokenAuthorization(subject) }).api.json(new URL(server.url));
    expect(server.asked[0]?.get("grant_type")).toBe("urn:ietf:params:oauth:grant-type:jwt-bearer");
    expect(decodeProtectedHeader(server.asked[0]?.get("assertion") ?? "")).toMatchObject({ alg: "ES256", kid: "own" });
    let number = 0;
    const federated = new TokenAuthorization(
      federatedGrant({ tokenUrl, clientId: "app", read: () => `assertion-${++number}\n` }),
    );
    for (let read = 1; read <= 2; read++) {
      await apiOf(server.url, { authorization: federated }).api.json(new URL(server.url));
      server.good.clear();
    }
    expect(server.asked.slice(1).map((form) => form.get("client_assertion"))).toEqual(["assertion-1", "assertion-2"]);
  });

  test("is not given for a key that is none, another's certificate, or one that has ended", async () => {
    const server = await tokenServer();
    const { key, cert } = await makeCertificate({ dns: ["rollcall"] });
    const other = await makeCertificate({ dns: ["rollcall"] });
    const old = await makeCertificate({ dns: ["rollcall"] }, { expired: true });
    for (const [read, certificate, message] of [
      [() => "-----BEGIN PRIVATE KEY-----\nhunter2-is-secret", undefined, /key\.pem: expected a private key/],
      [() => key, () => other.cert, /key\.pem: the key does not belong to the certificate/],
      [() => old.key, () => old.cert, /key\.pem: the certificate was valid until .*: renew it/],
      [() => key, () => "none", /key\.pem: expected a certificate in PEM form/],
    ] as const) {
      const grant = assertionGrant({
        tokenUrl: `${server.url}/token`,
        clientId: "app",
        key: { name: "key.pem", read, certificate },
      });
      const reading = apiOf(server.url, { authorization: new TokenAuthorization(grant) }).api.json(new URL(server.url));
      await expect(reading).rejects.toThrow(InputError);
      await expect(reading).rejects.toThrow(message);
      await expect(reading).rejects.not.toThrow(/hunter2/);
    }
    expect(cert).toContain("CERTIFICATE");
  });

  test("whose client is refused names the reason, and nothing secret", async () => {
    const { url } = await serve(
      (_, response) =>
        void response.writeHead(401).end('{"error":"invalid_client","error_description":"bad sekret-of-hers"}'),
    );
    const grant = secretGrant({
      tokenUrl: `${url}/token`,
      clientId: "app",
      clientSecret: "sekret-of-hers",
      send: "body",
    });
    await expect(apiOf(url, { authorization: new TokenAuthorization(grant) }).api.json(new URL(url))).rejects.toThrow(
      /^source corp: POST \S+\/token answered 401 \(invalid_client: bad \*\*\*\): the server rejects the credentials: check auth$/,
    );
  });

  test("that is not given says what to check", async () => {
    const { url } = await serve((_, response) => void response.writeHead(400).end('{"error":"invalid_scope"}'));
    const grant = secretGrant({ tokenUrl: `${url}/token`, clientId: "a", clientSecret: "secret", send: "body" });
    const { api } = apiOf(url, { authorization: new TokenAuthorization(grant) });
    await expect(api.json(new URL("/people", url))).rejects.toThrow(
      /token answered 400 \(invalid_scope\): the server gives no token: check auth \(the address, the client, its secret or key, the scope\)$/,
    );
  });
});

test("a client shows its certificate where one is configured", async () => {
  const authority = await makeAuthority();
  const server = await makeCertificate({ ip: ["127.0.0.1"] }, { issuer: authority });
  const client = await makeCertificate({ dns: ["rollcall"] }, { issuer: authority });
  const { url } = await serve((_, response) => json(response, {}), {
    ...server,
    ca: authority.cert,
    requestCert: true,
    rejectUnauthorized: true,
  });
  const ca = authority.cert;
  await expect(apiOf(url, { ca, certificate: client }).api.json(new URL(url))).resolves.toBeDefined();
  await expect(apiOf(url, { ca, attempts: 1 }).api.json(new URL(url))).rejects.toThrow(
    /client certificate|connection was (?:lost|closed)/,
  );
});

test("an API key that stands in for a user's name is a secret, and no name to show", () => {
  expect(basic("0123456789abcdef", "x")).toMatchObject({ who: "the holder of an API key" });
  expect(basic("0123456789abcdef", "x").secrets()).toContain("0123456789abcdef");
  expect(basic("ada", "correct horse").secrets()).not.toContain("ada");
});

test.each([
  ['<https://a.example/x?after=1>; rel="next"', "https://a.example/x?after=1"],
  [
    '<https://a.example/x>; rel="self", <https://a.example/y,z?limit=2>; title="a, b"; rel=next',
    "https://a.example/y,z?limit=2",
  ],
  ['<https://a.example/x>; rel="last prev Next"', "https://a.example/x"],
  ['<https://a.example/x>; rel="nextish"', undefined],
  ["", undefined],
])("the link to the next page of %s is %s", (header, target) => {
  expect(linkIn({ link: header })).toBe(target);
  expect(linkIn({ link: ['<https://a.example/self>; rel="self"', header] as never })).toBe(target);
});

import { brotliCompressSync, gzipSync } from "node:zlib";
import { dirname } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { RefusedError, UnavailableError } from "#errors.ts";
import { receivePrincipals } from "#plan/lists.ts";
import { answer, bomb, loggedIn } from "../../support/scripted-server.ts";
import type { Behaviour } from "../../support/scripted-server.ts";
import { openMemory } from "../../support/duckdb.ts";
import { bench, soon } from "./harness.ts";

const list = JSON.stringify([{ name: "ann", displayName: "Ann \uFEFF😀", groupNames: [] }]);

/** Sends a part of a body and breaks the connection. */
function broken(headers: Record<string, string>, part: string | Buffer): Behaviour {
  return (response) => {
    response.writeHead(200, { "content-type": "application/json", ...headers });
    response.write(part, () => response.destroy());
  };
}

test("a list is logged in for, asked for and written to the file", async () => {
  const { serve, client, destination, answer: written, files } = await bench();
  const server = await serve({ "user/list": answer(200, list) });
  await client(server.url, { prefix: "/callosum/v1/" }).list(destination, soon());
  expect(await written()).toBe(list);
  expect(await files()).toEqual(["answer.json"]);
  const [login, asked] = server.arrived;
  expect(server.arrived).toHaveLength(2);
  expect([login?.method, login?.path]).toEqual(["POST", "/callosum/v1/tspublic/v1/session/login"]);
  expect(login?.headers["content-type"]).toBe("application/x-www-form-urlencoded");
  expect(Object.fromEntries(new URLSearchParams(login?.body.toString()))).toEqual({
    username: "svc-rollcall",
    password: "s3cret-p4ssword",
  });
  expect([asked?.method, asked?.path]).toEqual(["GET", "/callosum/v1/tspublic/v1/user/list"]);
  expect(asked?.headers).toMatchObject({ cookie: "JSESSIONID=s3ss10n", accept: "application/json" });
});

test("a list comes with its entity tag, and whether it is still that one is asked without reading it", async () => {
  const { serve, client, destination } = await bench();
  const tagged = answer(200, list, { etag: 'W/"one"' });
  const server = await serve({ "user/list": [tagged, answer(304), tagged, answer(200, list), answer(403)] });
  const opened = client(server.url);
  expect(await opened.list(destination, soon())).toBe('W/"one"');
  expect(await opened.isStill('W/"one"', soon())).toBe(true);
  expect(await opened.isStill('W/"other"', soon())).toBe(false);
  expect(await opened.list(destination, soon())).toBeUndefined();
  await expect(opened.isStill('W/"one"', soon())).rejects.toThrow(RefusedError);
  expect(server.to("user/list").map(({ headers }) => headers["if-none-match"])).toEqual([
    undefined,
    'W/"one"',
    'W/"other"',
    undefined,
    'W/"one"',
  ]);
});

test("a list is replaced only by a complete one", async () => {
  const { serve, client, destination, answer: written } = await bench();
  const server = await serve({
    "user/list": [answer(200, list), broken({ "content-length": "900" }, "[{}"), answer(403)],
  });
  const opened = client(server.url);
  await opened.list(destination, soon());
  await expect(opened.list(destination, soon())).rejects.toThrow(RefusedError);
  expect(await written()).toBe(list);
});

test("a packed list is unpacked, and asked for from other machines only", async () => {
  const { serve, client, destination, answer: written } = await bench();
  const server = await serve({ "user/list": answer(200, gzipSync(list), { "content-encoding": "gzip" }) });
  await client(server.url).list(destination, soon());
  expect(await written()).toBe(list);
  await client(server.url.replace("127.0.0.1", "0.0.0.0")).list(destination, soon());
  expect(await written()).toBe(list);
  expect(server.to("user/list").map(({ headers }) => headers["accept-encoding"])).toEqual(["identity", "gzip"]);
});

const packed = gzipSync(list.repeat(50));
const damaged = Buffer.from(packed);
damaged.writeUInt8(damaged.readUInt8(40) ^ 0xff, 40);
const gzip = { "content-encoding": "gzip" };

test.each<[string, Behaviour]>([
  ["shorter than its Content-Length", broken({ "content-length": "100" }, '[{"name":"a"}]')],
  ["chunked without an end", broken({}, '[{"name":"a"}]')],
  ["packed and cut off", answer(200, packed.subarray(0, -9), gzip)],
  ["packed and cut off within its checksum", answer(200, packed.subarray(0, -2), gzip)],
  ["packed and damaged", answer(200, damaged, gzip)],
  [
    "cut off where only the end of the connection ends it",
    (response) => {
      response.socket?.end(
        'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n[{"name":"a"',
      );
    },
  ],
  [
    "cut off before its header",
    (response) => {
      response.socket?.end("HTTP/1.1 200 OK\r\nContent-Le");
    },
  ],
  [
    "no answer at all",
    (response) => {
      response.socket?.destroy();
    },
  ],
])("a list that is %s is asked for again, and is nothing until it is complete", async (_, behaviour) => {
  const { serve, client, destination, answer: written, failure, log } = await bench();
  const always = await serve({ "user/list": behaviour });
  const error = await failure(client(always.url).list(destination, soon()));
  expect(error).toBeInstanceOf(UnavailableError);
  expect(error.message).toMatch(/^target analytics: user\/list: .*(?:broke off|lost).* \(tried 4 times\)$/);
  expect(always.to("user/list")).toHaveLength(4);
  expect(log).toHaveLength(3);

  const once = await serve({ "user/list": [behaviour, answer(200, list)] });
  await client(once.url).list(destination, soon());
  expect(await written()).toBe(list);
});

test("a list that is read as it arrives and breaks off is read again from the beginning", async () => {
  const { serve, client, destination, failure } = await bench();
  const { connection, close } = await openMemory();
  onTestFinished(close);
  const listed = (size: number, first: string): string =>
    JSON.stringify(
      Array.from({ length: size }, (_, index) => ({ name: `${first}${index}`, principalTypeEnum: "LOCAL_USER" })),
    );
  // More pieces than the list has that comes whole.
  const broke = broken({}, listed(200_000, "before").slice(0, -20));
  const read = (url: string): Promise<unknown> =>
    client(url).readList(
      (bytes) => receivePrincipals(connection, bytes, { table: "actual", folder: dirname(destination) }),
      soon(),
    );

  const always = await serve({ "user/list": broke });
  expect(await failure(read(always.url))).toBeInstanceOf(UnavailableError);
  expect(always.to("user/list")).toHaveLength(4);

  const once = await serve({ "user/list": [broke, answer(200, listed(2, "after"))] });
  await read(once.url);
  expect(await connection.rows("SELECT name FROM actual ORDER BY name")).toEqual([
    { name: "after0" },
    { name: "after1" },
  ]);
});

test.each([500, 502, 503, 504])("%i is tried again, and given up in the end", async (status) => {
  const { serve, client, destination, answer: written, failure, log } = await bench();
  const failing = await serve({ "user/list": answer(status, "", { "x-service-incident-id": "0b2c-77" }) });
  const error = await failure(client(failing.url, { retries: { attempts: 3, pause: 1 } }).list(destination, soon()));
  expect(error).toBeInstanceOf(UnavailableError);
  expect(error.message).toBe(`target analytics: user/list was answered ${status} (incident 0b2c-77) (tried 3 times)`);
  expect(log[0]).toMatch(/was answered .*; attempt 2 of 3 follows in \d+ ms$/);

  const recovering = await serve({
    "session/login": [answer(status), loggedIn],
    "user/list": [answer(status), answer(status), answer(200, list)],
  });
  await client(recovering.url).list(destination, soon());
  expect(await written()).toBe(list);
});

test("0.8 429 is waited for as long as it asks, up to a bound", async () => {
  const { serve, client, destination, answer: written, failure } = await bench();
  const busy = await serve({ "user/list": [answer(429, "", { "retry-after": "1" }), answer(200, list)] });
  const started = performance.now();
  await client(busy.url).list(destination, soon());
  expect(performance.now() - started).toBeGreaterThan(950);
  expect(await written()).toBe(list);

  const locked = await serve({ "session/login": answer(429, "", { "retry-after": "300" }) });
  const error = await failure(client(locked.url).list(destination, soon()));
  expect(error).toBeInstanceOf(UnavailableError);
  expect(error.message).toBe(
    "target analytics: login as svc-rollcall was answered 429, too many requests. It asks not to be called again for 5 min",
  );
  expect(locked.arrived).toHaveLength(1);
});

test("a 429 of a proxy that does not say for how long is waited for at length", async () => {
  const { serve, client, destination, failure, log } = await bench();
  const proxy = await serve({ "user/list": answer(429) });
  const giveUp = new AbortController();
  const listing = client(proxy.url).list(destination, giveUp.signal);
  await vi.waitFor(() => expect(log).toHaveLength(1));
  giveUp.abort(new UnavailableError("target analytics: enough"));
  await failure(listing);
  expect(log[0]).toMatch(/answered 429, too many requests; attempt 2 of 4 follows in 10 s$/);
});

test("wrong credentials are refused once, and say what to check", async () => {
  const { serve, client, destination, failure } = await bench();
  const server = await serve({ "session/login": answer(401) });
  const error = await failure(client(server.url).list(destination, soon()));
  expect(error).toBeInstanceOf(RefusedError);
  expect(error.message).toBe("target analytics: login as svc-rollcall was refused (401): check username and password");
  expect(server.arrived).toHaveLength(1);
});

test("a session that has ended is opened again, once", async () => {
  const { serve, client, destination, answer: written, failure } = await bench();
  const server = await serve({ "user/list": [answer(401), answer(200, list)] });
  await client(server.url).list(destination, soon());
  expect(await written()).toBe(list);
  expect(server.to("session/login")).toHaveLength(2);

  const refusing = await serve({ "user/list": answer(401) });
  const error = await failure(client(refusing.url).list(destination, soon()));
  expect(error).toBeInstanceOf(RefusedError);
  expect(error.message).toContain("user/list was refused (401): the session just opened by logging in as svc-rollcall");
  expect(refusing.arrived.map(({ path }) => path.split("/").at(-1))).toEqual(["login", "list", "login", "list"]);
});

test("a session that was given is used, not replaced and not ended", async () => {
  const { serve, client, destination, failure } = await bench();
  const server = await serve({ "user/list": [answer(200, list), answer(401)] });
  const opened = client(server.url, { credentials: { session: "s3ss10n-given" } });
  await opened.list(destination, soon());
  await opened.logout(soon());
  const error = await failure(opened.list(destination, soon()));
  expect(error.message).toBe(
    "target analytics: user/list was refused (401): the session is no longer valid: the service was restarted or replaced; try again",
  );
  expect(server.arrived.map(({ headers }) => headers.cookie)).toEqual([
    "JSESSIONID=s3ss10n-given",
    "JSESSIONID=s3ss10n-given",
  ]);
});

test("the cookies of a load balancer come back with the session's; a login without one is refused", async () => {
  const { serve, client, destination, failure } = await bench();
  const server = await serve({
    "session/login": (response) => {
      const cookies = ["JSESSIONID=abc; Path=/", "route=node-2; Path=/; Secure", "old=; Max-Age=0"];
      response.writeHead(204, { "set-cookie": cookies }).end();
    },
    "user/list": answer(200, list),
  });
  await client(server.url).list(destination, soon());
  expect(server.arrived[1]?.headers.cookie).toBe("JSESSIONID=abc; route=node-2");

  const none = await serve({ "session/login": answer(204) });
  const error = await failure(client(none.url).list(destination, soon()));
  expect(error).toBeInstanceOf(RefusedError);
  expect(error.message).toContain("has no session cookie (JSESSIONID)");
});

const html = "<!doctype html><title>Sign in</title>";

test.each<[string, Behaviour, RegExp]>([
  ["403", answer(403, "{}"), /was refused \(403\): svc-rollcall lacks the administration privilege$/],
  [
    "404",
    answer(404, html),
    /was refused \(404\): there is no such operation at http:.*\/tspublic\/v1: check url and prefix$/,
  ],
  ["405", answer(405), /was refused \(405\): there is no such operation/],
  ["418", answer(418), /was refused \(418\): the service, or a proxy in front of it/],
  [
    "a redirect",
    answer(302, "", { location: "https://sso.example.com:8443/login?token=s3ss10n#s3ss10n" }),
    /was refused \(302\): it points to https:\/\/sso\.example\.com:8443\/login, which is not followed/,
  ],
  ["a redirect within", answer(301, "", { location: "/else?s3ss10n" }), /points to http:\/\/127\.0\.0\.1:\d+\/else,/],
  ["a redirect to nowhere", answer(307), /points to nowhere/],
  [
    "a page of HTML",
    answer(200, html, { "content-type": "text/html; charset=utf-8" }),
    /the answer is not JSON \(content type text\/html\): is it a proxy's or a login page\? Check url and prefix$/,
  ],
  ["a page that says it is JSON", answer(200, ` \n${html}`), /is not JSON \(content type application\/json\)/],
  ["another kind of JSON", answer(200, "{}"), /is not JSON/],
  ["nothing", answer(200, ""), /is not JSON/],
  ["blanks", answer(200, " \n"), /is not JSON/],
  [
    "a body that is packed otherwise",
    answer(200, brotliCompressSync(list), { "content-encoding": "br" }),
    /a compression that was not requested$/,
  ],
])("%s is refused at once and explained", async (_, behaviour, message) => {
  const { serve, client, destination, failure } = await bench();
  const server = await serve({ "user/list": behaviour });
  const error = await failure(client(server.url).list(destination, soon()));
  expect(error).toBeInstanceOf(RefusedError);
  expect(error.message).toMatch(message);
  expect(server.to("user/list")).toHaveLength(1);
});

test("a folder that cannot be written to is found before anything is asked", async () => {
  const { serve, client, destination } = await bench();
  const server = await serve({ "user/list": answer(200, list) });
  const nowhere = `${destination}/none/answer.json`;
  await expect(client(server.url).list(nowhere, soon())).rejects.toThrow(
    /^the file .* cannot be written: it does not exist \(ENOENT\)/,
  );
  expect(server.arrived).toHaveLength(0);
});

test("reach says what was reached and as whom, without reading the list", async () => {
  const { serve, client, failure } = await bench();
  const server = await serve({
    "user/list": (response) => {
      response.writeHead(200, { "content-type": "application/json" }).write("[");
    },
    "session/logout": answer(401),
  });
  const opened = client(server.url);
  expect(await opened.reach(soon())).toEqual([
    `${server.url}/tspublic/v1`,
    "not encrypted (http)",
    "logged in as svc-rollcall, with the administration privilege",
  ]);
  await opened.logout(soon());
  await opened.logout(soon());
  expect(server.arrived.map(({ path }) => path.split("/").at(-1))).toEqual(["login", "list", "logout"]);
  expect(server.arrived[2]?.headers.cookie).toBe("JSESSIONID=s3ss10n");

  const lacking = await serve({ "user/list": answer(403) });
  expect((await failure(client(lacking.url).reach(soon()))).message).toContain("lacks the administration privilege");
});

test.each<[string, Behaviour, RegExp]>([
  ["packed without end", bomb('{"name":"x"},', "["), /grows to more than 200 times its size when it is unpacked/],
  ["packed white space", bomb(" ", "["), /grows to more than 200 times|more than 64 MiB of white space in one place/],
  ["white space", answer(200, Buffer.alloc(80 * 2 ** 20, " ").fill("[", 0, 1)), /more than 64 MiB of white space/],
  ["deep", answer(200, "[".repeat(200_000)), /more than 100 arrays and objects inside each other/],
])("a list that is %s is refused, not asked for again, and leaves no file", async (_, list, message) => {
  const { serve, client, destination, failure } = await bench();
  const server = await serve({ "user/list": list });
  const error = await failure(client(server.url).list(destination, soon()));
  expect(error).toBeInstanceOf(RefusedError);
  expect(error.message).toMatch(message);
  expect(server.to("user/list")).toHaveLength(1);
});

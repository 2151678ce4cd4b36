import { createReadStream } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Loads } from "#client/loads.ts";
import type { LoadsOptions } from "#client/loads.ts";
import type { RollcallError } from "#errors.ts";
import { startProxy } from "../support/proxy.ts";
import type { Proxy } from "../support/proxy.ts";
import { answer, startScripted } from "../support/scripted-server.ts";
import { administrator } from "../support/rollcall/service.ts";
import { startLoadService } from "../e2e/interface/loading.ts";
import type { LoadService } from "../e2e/interface/loading.ts";

let service: LoadService;
let proxy: Proxy;
let folder: string;
let log: string[];
const ends: (() => Promise<unknown>)[] = [];
beforeEach(async () => {
  log = [];
  folder = await mkdtemp(join(tmpdir(), "rollcall-faults-"));
  ends.push(() => rm(folder, { recursive: true }));
});
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const into = { database: "d", table: "t" };
const signals = () => ({ signal: AbortSignal.timeout(100_000) });

async function serve(options: Parameters<typeof startLoadService>[0] = {}): Promise<void> {
  service = await startLoadService(options);
  ends.push(() => service.end());
  proxy = await startProxy(service.url);
  ends.push(() => proxy.close());
}

function open(url: string, options: Partial<LoadsOptions> = {}) {
  const { name: username, password } = administrator;
  const loads = new Loads({
    name: "analytics",
    url,
    credentials: { username, password },
    retries: { pause: 10, longest: 200 },
    log: (message) => log.push(message),
    ...options,
  });
  ends.push(() => loads.close());
  return loads;
}

/** A file with so many rows of 100 bytes. */
async function rows(count: number): Promise<{ name: string; path: string }> {
  const path = join(folder, "rows.csv");
  const lines = Array.from({ length: count }, (_, id) => `${String(id).padStart(8, "0")},${"x".repeat(90)}\n`);
  await writeFile(path, lines.join(""));
  return { name: "rows.csv", path };
}

async function failure(call: Promise<unknown>): Promise<RollcallError> {
  const error: unknown = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(Error);
  return error as RollcallError;
}

test("A.8 chunks whose connection breaks are sent again, and every row is loaded once", async () => {
  await serve();
  const file = await rows(40_000);
  proxy.breakAfter(300_000, 3);
  const loads = open(proxy.url, { fileChunk: 500_000 });
  const loaded = await loads.load({ into, sources: [file] }, signals());
  expect(loaded).toMatchObject({ code: "OK", written: 40_000, ignored: 0, chunks: 8, bytes: 4_000_000 });
  expect(proxy.broken).toBe(3);
  expect(log.join("\n")).toMatch(/upload of chunk \d into d\.t: the connection was lost .*; attempt 2 of 10 follows/);
  await service.stop();
  expect(await service.rows("SELECT count(*)::INT AS all, count(DISTINCT id)::INT AS ids FROM t")).toEqual([
    { all: 40_000, ids: 40_000 },
  ]);
});

test("A.8 so are the chunks of a stream, which are held until they have arrived", async () => {
  await serve();
  const file = await rows(40_000);
  proxy.breakAfter(300_000, 3);
  const stream = createReadStream(file.path);
  const loaded = await open(proxy.url, { streamChunk: 500_000 }).load(
    { into, sources: [{ name: "stream", stream }] },
    signals(),
  );
  expect(loaded).toMatchObject({ code: "OK", written: 40_000 });
  expect(proxy.broken).toBe(3);
});

test("a connection that breaks for good fails the load, and the cycle is cancelled", async () => {
  await serve();
  const file = await rows(10_000);
  proxy.breakAfter(300_000, 1_000);
  const error = await failure(
    open(proxy.url, { retries: { attempts: 2, pause: 1 } }).load({ into, sources: [file] }, signals()),
  );
  expect(error).toMatchObject({ name: "UnavailableError" });
  expect(error.message).toMatch(
    /^target analytics: upload of chunk 1 into d\.t: the connection was lost .*\(tried 2 times\)$/,
  );
  const [cycle] = JSON.parse((await service.call("GET", "/public/loads")).text);
  expect(cycle).toMatchObject({ internal_stage: "DONE", status: { code: "CANCELLED" } });
});

test("A.24 the service is killed while it loads and started again: the client polls on and gets the truth", async () => {
  await serve();
  const file = await rows(200_000);
  const committed = Promise.withResolvers<void>();
  const patient = { retries: { attempts: 1000, pause: 50, longest: 200 } };
  const loading = open(proxy.url, patient).load(
    {
      into,
      sources: [file],
      onProgress: ({ phase }) => {
        if (phase === "commit") committed.resolve();
      },
    },
    signals(),
  );
  await Promise.race([committed.promise, loading]);
  proxy.cut();
  service = await service.restart("kill");
  proxy.forward(service.url);
  expect(await loading).toMatchObject({ code: "OK", written: 200_000 });
  await service.stop();
  expect(await service.rows("SELECT count(*)::INT AS n FROM t")).toEqual([{ n: 200_000 }]);
});

test("A.9 a load that is stopped is cancelled at the service, whether it is being sent or committed", async () => {
  await serve();
  const file = await rows(200_000);
  for (const when of ["upload", "commit"] as const) {
    const stop = new AbortController();
    const loading = open(proxy.url).load(
      {
        into,
        sources: [file],
        onProgress: ({ phase }) => {
          if (phase === when) stop.abort(new Error("enough"));
        },
      },
      { signal: stop.signal },
    );
    const error = await failure(loading);
    expect(error.message).toMatch(/^target analytics: the load into d\.t was cancelled: the table is as it was$/);
  }
  const cycles: { status: { code: string } }[] = JSON.parse((await service.call("GET", "/public/loads")).text);
  expect(cycles.map(({ status }) => status.code)).toEqual(["CANCELLED", "CANCELLED"]);
  await service.stop();
  expect(await service.rows("SELECT count(*)::INT AS n FROM t")).toEqual([{ n: 0 }]);
});

test("a stream that stands still keeps nothing open once the load is stopped", async () => {
  await serve();
  const stream = new PassThrough();
  stream.write("1,a\n");
  const stop = new AbortController();
  const loading = open(proxy.url).load({ into, sources: [{ name: "slow", stream }] }, { signal: stop.signal });
  const failed = failure(loading);
  // The load has begun, and waits for what the stream does not give.
  const begun = async (): Promise<number> => JSON.parse((await service.call("GET", "/public/loads")).text).length;
  await expect.poll(begun).toBe(1);
  await expect.poll(() => stream.readableLength).toBe(0);
  stop.abort(new Error("enough"));
  expect((await failed).message).toContain("was cancelled: the table is as it was");
  expect(stream.destroyed).toBe(true);
});

test("a source that breaks fails the load with its name, and the cycle is cancelled", async () => {
  await serve();
  const broken = Readable.from(
    (function* pieces() {
      yield Buffer.from("1,a\n");
      throw new Error("the disk is gone");
    })(),
  );
  const error = await failure(open(proxy.url).load({ into, sources: [{ name: "tape", stream: broken }] }, signals()));
  expect(error).toMatchObject({ name: "InputError", message: "tape cannot be read: the disk is gone" });
  const [cycle] = JSON.parse((await service.call("GET", "/public/loads")).text);
  expect(cycle.status.code).toBe("CANCELLED");
});

test("specification 2.3: a node on another host or port is followed only when it is listed", async () => {
  await serve({ service: { nodeAddress: { host: "localhost", port: 1 } } });
  const file = await rows(10);
  const error = await failure(open(service.url).load({ into, sources: [file] }, signals()));
  expect(error.name).toBe("RefusedError");
  expect(error.message).toBe(
    "target analytics: the service says that the load is to be sent to localhost:1, another host than 127.0.0.1; " +
      'sessions and data go to other hosts and ports only where they are allowed: add "localhost" to the target\'s `nodes`',
  );
  expect(await open(service.url, { nodes: "stay" }).load({ into, sources: [file] }, signals())).toMatchObject({
    code: "OK",
  });
  const port = new URL(proxy.url).port;
  const followed = await startLoadService({ service: { nodeAddress: { host: "localhost", port: Number(port) } } });
  ends.push(() => followed.end());
  proxy.forward(followed.url);
  const loads = open(followed.url, { nodes: [`localhost:${port}`] });
  proxy.breakAfter(300, 1);
  expect(await loads.load({ into, sources: [file] }, signals())).toMatchObject({ code: "OK", written: 10 });
  expect(proxy.broken).toBe(1);
  const other = await failure(
    open(followed.url, { nodes: ["localhost:2"] }).load({ into, sources: [file] }, signals()),
  );
  expect(other.message).toContain(`is to be sent to localhost:${port}`);
  const samePort = await startLoadService({ service: { nodeAddress: { host: "127.0.0.1", port: Number(port) } } });
  ends.push(() => samePort.end());
  const refused = await failure(open(samePort.url).load({ into, sources: [file] }, signals()));
  expect(refused.message).toBe(
    `target analytics: the service says that the load is to be sent to 127.0.0.1:${port}, another port than ` +
      `${new URL(samePort.url).host}; sessions and data go to other hosts and ports only where they are allowed: add ` +
      `"127.0.0.1:${port}" to the target's \`nodes\``,
  );
  proxy.forward(samePort.url);
  const allowed = open(samePort.url, { nodes: [`127.0.0.1:${port}`] });
  expect(await allowed.load({ into, sources: [file] }, signals())).toMatchObject({ code: "OK", written: 10 });
});

test("a session that its service has forgotten is asked for anew from who gave it, each time that it is restarted", async () => {
  const forgotten = answer(401, "Unable to verify user. Please login again.");
  const scripted = await startScripted({
    "public/loads": [forgotten, forgotten, answer(403, "", {}), forgotten],
  });
  ends.push(() => scripted.close());
  const sessions = ["second", "third", "third"];
  const renew = async (): Promise<string> => sessions.shift() ?? "";
  const loads = open(scripted.url, { credentials: { session: "first", renew } });
  const error = await failure(loads.load({ into, sources: [] }, signals()));
  expect(error.message).toBe(
    "target analytics: start of the load was refused (403): the account lacks the privilege for data loads",
  );
  const cookies = ["first", "second", "third"].map((value) => `JSESSIONID=${value}`);
  expect(scripted.arrived.map(({ headers }) => headers.cookie)).toEqual(cookies);
  // The service that it was just got from does not take it: asking again would not end.
  expect((await failure(loads.load({ into, sources: [] }, signals()))).message).toContain("was refused (401)");
  expect(scripted.arrived).toHaveLength(4);
});

test("0.8 429 and 503 are waited for; a 507 is not, and says what the service says", async () => {
  const plain = { "content-type": "text/plain" };
  const started = (response: ServerResponse, request: IncomingMessage): void => {
    const { hostname, port } = new URL(`http://${request.headers.host}`);
    response
      .writeHead(202, plain)
      .end(JSON.stringify({ node_address: { host: hostname, port: Number(port) }, cycle_id: "c1" }));
  };
  const done = { internal_stage: "DONE", status: { code: "OK" }, rows_written: "1", ignored_row_count: "0" };
  const scripted = await startScripted({
    "public/session": [
      answer(429, "Too many failed logins.", { ...plain, "retry-after": "0" }),
      answer(200, "", { "set-cookie": "JSESSIONID=s1; Path=/" }),
    ],
    "public/loads": [answer(503, "The service is stopping.", plain), started],
    "loads/c1": [
      answer(503, "", plain),
      answer(202, "Upload Complete.", plain),
      answer(500, "error code = INTERNAL, message = Couldn't resolve the authentication service.", plain),
      answer(200, JSON.stringify(done), plain),
      answer(507, "There is not enough free disk space for the data.", plain),
      answer(200, "", plain),
    ],
    "c1/commit": [answer(500, "error code = INTERNAL, message = later", plain), answer(202, "made", plain)],
    "c1/cancel": answer(200, "", plain),
  });
  ends.push(() => scripted.close());
  const loads = open(scripted.url);
  const sources = [{ name: "a", stream: () => Readable.from([Buffer.from("1,a\n")]) }];
  expect(await loads.load({ into, sources }, signals())).toMatchObject({ code: "OK", written: 1 });
  expect(scripted.arrived.map(({ method, path }) => `${method} ${path.replace("/ts_dataservice/v1", "")}`)).toEqual([
    "POST /public/session",
    "POST /public/session",
    "POST /public/loads",
    "POST /public/loads",
    "POST /public/loads/c1",
    "POST /public/loads/c1",
    "POST /public/loads/c1/commit",
    "POST /public/loads/c1/commit",
    "GET /loads/c1",
    "GET /loads/c1",
  ]);
  const uploads = scripted.arrived.filter(({ path }) => path.endsWith("/loads/c1") && path.includes("public"));
  expect(uploads.map(({ headers }) => headers["x-ts-chunk-id"])).toEqual(["1", "1"]);
  expect(uploads[1]?.headers).toMatchObject({
    cookie: "JSESSIONID=s1",
    "content-length": String(uploads[1]?.body.length),
  });
  const full = await failure(loads.load({ into, sources }, signals()));
  expect(full.message).toBe(
    "target analytics: upload of chunk 1 into d.t was refused (507): the service has no room for the data\n" +
      "  There is not enough free disk space for the data.",
  );
  expect(scripted.to("c1/cancel")).toHaveLength(1);
});

import { once } from "node:events";
import { connect } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { Readable } from "node:stream";
import { connect as connectTls } from "node:tls";
import { setTimeout as delay } from "node:timers/promises";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import pino from "pino";
import { afterEach, describe, expect, test } from "vitest";
import { Throttle } from "#throttle.ts";
import { json } from "#http/answers.ts";
import { disconnectOf, readBody } from "#http/exchange.ts";
import { addHealthRoutes } from "#http/health-routes.ts";
import { Work } from "#http/server.ts";
import { addDataRoutes } from "#service/server/data-routes.ts";
import { createServiceServer } from "#service/server/families.ts";
import type { ServiceServerOptions } from "#service/server/families.ts";
import type { LoginContext } from "#service/session/login.ts";
import { makeCertificate } from "../../support/certificates.ts";

const root = "/tspublic/v1";
let app: FastifyInstance;
let written: string;

async function setUp(change: Partial<ServiceServerOptions> = {}): Promise<void> {
  written = "";
  const log = pino({}, { write: (line: string) => void (written += line) });
  app = await createServiceServer({ prefixes: [""], work: new Work(), log, ...change });
}

async function listen(): Promise<{ socket: Socket; ended: Promise<string> }> {
  await app.listen({ host: "127.0.0.1", port: 0 });
  const socket = connect((app.server.address() as AddressInfo).port, "127.0.0.1");
  await once(socket, "connect");
  let text = "";
  socket.on("data", (piece) => (text += String(piece))).on("error", () => undefined);
  return { socket, ended: once(socket, "close").then(() => text) };
}

afterEach(() => app.close());

describe("a failure inside", () => {
  test("A.25 of the session store is told as the specification says, with the cause in the log", async () => {
    await setUp();
    const login: LoginContext = {
      account: () => Promise.reject(new Error("the disk is gone")),
      verify: async () => true,
      nobodysHash: "",
      throttle: new Throttle({
        attempts: 1,
        window: 1,
        lockout: 1,
        isKnown: () => true,
        now: () => performance.now(),
      }),
      known: { add: async () => {} },
      sessions: { open: async () => "" },
      log: pino({ enabled: false }),
    };
    addDataRoutes(app, { login, remembered: 1, secure: false });
    const payload = { username: "ada", password: "a secret" };
    const answer = await app.inject({ method: "POST", url: "/ts_dataservice/v1/public/session", payload });
    expect(answer.statusCode).toBe(500);
    expect(answer.headers["content-type"]).toBe("text/plain; charset=utf-8");
    expect(answer.body).toBe("error code = INTERNAL, message = Couldn't resolve the authentication service.");
    expect(written).toContain("the disk is gone");
    expect(written).not.toContain("a secret");
  });

  test("B.1 is a 500 with code 10000 that says nothing but its number in the log", async () => {
    await setUp();
    app.get(`${root}/broken`, () => {
      throw new Error("table secrets is missing");
    });
    const answer = await app.inject({ url: `${root}/broken?password=hidden` });
    const body = JSON.parse(answer.body) as { code: number; incident_id_guid: string };
    expect([answer.statusCode, body.code]).toEqual([500, 10_000]);
    expect(answer.body).not.toContain("secrets");
    expect(written).toMatch(new RegExp(`${body.incident_id_guid}.*table secrets is missing`));
    expect(written).not.toContain("hidden");
  });

  test("for want of handles is a 503 that says so", async () => {
    await setUp();
    app.get(`${root}/opens`, () => {
      throw Object.assign(new Error("EMFILE: too many open files, open '/data/secret'"), { code: "EMFILE" });
    });
    const answer = await app.inject({ url: `${root}/opens` });
    expect([answer.statusCode, answer.body]).toEqual([
      503,
      expect.stringContaining("too many files and connections open"),
    ]);
    expect(answer.body).not.toContain("secret");
  });

  test.each(["gzip", "identity"])("in the middle of an answer breaks the connection (%s)", async (coding) => {
    await setUp();
    app.get(`${root}/broken`, (_request, reply) =>
      reply.type(json).send(
        Readable.from(
          (async function* body() {
            yield Buffer.alloc(1_000_000, "[1,");
            await delay(10);
            throw new Error("the file is gone");
          })(),
          { objectMode: false },
        ),
      ),
    );
    const { socket, ended } = await listen();
    socket.write(`GET ${root}/broken HTTP/1.1\r\nHost: x\r\nAccept-Encoding: ${coding}\r\n\r\n`);
    const answer = await ended;
    // The last chunk, of no bytes, would make it a whole answer.
    expect(answer.endsWith("\r\n0\r\n\r\n")).toBe(false);
    expect(written).toContain("the file is gone");
  });
});

test.each(["gzip", "identity"])("a client that goes away ends the stream it was reading (%s)", async (coding) => {
  await setUp();
  const body = Readable.from(
    (async function* endless() {
      for (;;) {
        yield Buffer.from(String(Math.random()).repeat(1000));
        await delay(0);
      }
    })(),
    { objectMode: false },
  );
  app.get(`${root}/endless`, (_request, reply) => reply.type(json).send(body));
  const { socket } = await listen();
  socket.write(`GET ${root}/endless HTTP/1.1\r\nHost: x\r\nAccept-Encoding: ${coding}\r\n\r\n`);
  await once(socket, "data");
  const closed = new Promise((resolve) => body.on("error", () => undefined).once("close", resolve));
  socket.destroy();
  await closed;
  expect(body.destroyed).toBe(true);
  expect(written).not.toContain("broke off:");
});

describe("0.9 a request that comes while the service stops", () => {
  test.each([
    ["/ts_dataservice/v1/public/ping", "This server is stopping."],
    [`${root}/user/list`, expect.stringContaining(String.raw`"debug":"[\"This server is stopping.\"]"`)],
    ["/elsewhere", '{"error":"This server is stopping."}'],
  ])("%s is a 503 that closes the connection", async (url, expected) => {
    const work = new Work();
    work.isStopping = true;
    await setUp({ work });
    const answer = await app.inject({ url });
    expect([answer.statusCode, answer.headers.connection, answer.body]).toEqual([503, "close", expected]);
  });
});

test("a body whose client went while its session was looked up is not waited for", async () => {
  await setUp();
  const outcome = Promise.withResolvers<unknown>();
  app.route({
    method: "POST",
    url: "/body",
    handler: async (request) => {
      const gone = new Promise((resolve) => request.raw.socket.once("close", resolve));
      socket.destroy();
      await gone;
      await delay(10);
      // Waiting would take the time limit of a body, 30 s.
      const started = performance.now();
      outcome.resolve(await readBody(request).catch(() => performance.now() - started < 20_000));
    },
  });
  const { socket } = await listen();
  socket.write("POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf");
  expect(await outcome.promise).toBe(true);
});

describe("as many connections as there may be", () => {
  const served = Promise.withResolvers<void>();

  test("a new one takes the place of one that is idle, and is told so when none is", async () => {
    await setUp({ connections: 3 });
    app.get("/slow", async () => {
      await served.promise;
      return "done";
    });
    addHealthRoutes(app, { isStopping: () => false, probe: async () => undefined, probes: [] });
    const idle = await listen();
    const open = async (path: string): Promise<{ socket: Socket; ended: Promise<string> }> => {
      const socket = connect((app.server.address() as AddressInfo).port, "127.0.0.1").on("error", () => undefined);
      let text = "";
      socket.on("data", (piece) => (text += String(piece)));
      socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
      return { socket, ended: once(socket, "close").then(() => text) };
    };
    const slow = [await open("/slow"), await open("/slow"), await open("/slow")];
    expect(await idle.ended).toBe("");
    const surplus = await open("/slow");
    const refused = await surplus.ended;
    expect(refused).toMatch(/^HTTP\/1\.1 503 /);
    expect(refused).toMatch(/^retry-after: 5\r$/im);
    expect(refused).toContain("This server has as many connections as its limit on open files allows: 3.");
    expect(await (await open("/healthz")).ended).toMatch(/^HTTP\/1\.1 200 /);
    served.resolve();
    for (const { ended } of slow) expect(await ended).toMatch(/^HTTP\/1\.1 200 .*done$/s);
    expect(await (await open("/slow")).ended).toMatch(/^HTTP\/1\.1 200 /);
  });
});

describe("a connection on which nothing moves", () => {
  test("is closed when a body is waited for", async () => {
    await setUp({ stall: 100 });
    app.route({ method: "POST", url: "/body", handler: (request) => readBody(request) });
    const { socket, ended } = await listen();
    socket.write("POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf");
    expect(await ended).toBe("");
  });

  test("is kept while the answer is worked out", async () => {
    await setUp({ stall: 100 });
    app.post("/slow", async (request, reply) => {
      await readBody(request);
      await delay(1000);
      return reply.header("connection", "close").send("done");
    });
    const { socket, ended } = await listen();
    socket.write("POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody");
    expect(await ended).toMatch(/done$/);
  });
});

test("a body that nobody read does not hold up the next request on the connection", async () => {
  await setUp();
  app.post("/refused", async (request, reply) => {
    await once(request.raw, "data");
    request.raw.pause();
    return reply.code(400).send("refused");
  });
  const { socket, ended } = await listen();
  const size = 20_000_000;
  socket.write(`POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: ${size}\r\n\r\n`);
  socket.write(Buffer.alloc(size));
  socket.write("GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  expect(await ended).toMatch(/^HTTP\/1\.1 400 .*HTTP\/1\.1 404 /s);
});

describe("a client that closes its side once it has sent everything", () => {
  async function halfClose(path: string, isTls = false): Promise<{ socket: Socket; text: Promise<string> }> {
    await app.listen({ host: "127.0.0.1", port: 0 });
    const { port } = app.server.address() as AddressInfo;
    const options = { port, host: "127.0.0.1", allowHalfOpen: true, rejectUnauthorized: false };
    const socket = isTls ? connectTls(options) : connect(options);
    let text = "";
    socket.on("data", (piece) => (text += String(piece)));
    const ended = once(socket, "end").then(() => text);
    socket.end(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody`);
    return { socket, text: ended };
  }

  test.each(["plain HTTP", "TLS"])("gets its answer, and the connection is closed after it (%s)", async (kind) => {
    await setUp(kind === "TLS" ? { tls: await makeCertificate({ ip: ["127.0.0.1"] }) } : {});
    const handler = async (request: FastifyRequest): Promise<string> => {
      const body = await readBody(request);
      await delay(300);
      return `${body} read`;
    };
    app.route({ method: "POST", url: "/slow", handler });
    const { text } = await halfClose("/slow", kind === "TLS");
    expect(await text).toMatch(/^HTTP\/1\.1 200 .*body read$/s);
  });

  test("is still told from one that has gone", async () => {
    await setUp();
    const gone = Promise.withResolvers<unknown>();
    const handler = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
      await readBody(request);
      const signal = disconnectOf(reply);
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      gone.resolve(signal.reason);
    };
    app.route({ method: "POST", url: "/endless", handler });
    const { socket, text } = await halfClose("/endless");
    text.catch(() => undefined);
    await once(socket, "finish");
    socket.on("error", () => undefined).destroy();
    expect(String(await gone.promise)).toContain("The client went away.");
  });
});

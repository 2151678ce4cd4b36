import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { InputError, RefusedError, UnavailableError } from "#errors.ts";
import { makeAuthority, makeCertificate } from "../../support/certificates.ts";
import { freePort } from "../../support/process.ts";
import { answer, loggedIn, stop, track, unread } from "../../support/scripted-server.ts";
import type { Behaviour } from "../../support/scripted-server.ts";
import { bench, soon } from "./harness.ts";

/** A server below HTTP. */
async function listen(onConnection: (socket: Socket) => void): Promise<{ port: number; open: ReadonlySet<Socket> }> {
  const server = createServer(onConnection);
  const open = track(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => stop(server, open));
  return { port: (server.address() as AddressInfo).port, open };
}

const list = answer(200, "[]");

test("a certificate that signs itself is refused, and `ca` is what helps", async () => {
  const { serve, client, destination, failure } = await bench();
  const certificate = await makeCertificate({ ip: ["127.0.0.1"] });
  const server = await serve({ "user/list": list }, certificate);
  const error = await failure(client(server.url).list(destination, soon()));
  expect(error).toBeInstanceOf(RefusedError);
  expect(error.message).toMatch(
    /^target analytics: login as svc-rollcall: the certificate of 127\.0\.0\.1:\d+ is not from an authority that is trusted here \(DEPTH_ZERO_SELF_SIGNED_CERT\): give its issuer's certificate as the target's `ca`$/,
  );
  expect(server.arrived).toHaveLength(0);
  await client(server.url, { ca: certificate.cert }).list(destination, soon());
});

test("a certificate of an authority needs that authority as `ca`", async () => {
  const { serve, client, destination, failure } = await bench();
  const authority = await makeAuthority();
  const server = await serve(
    { "user/list": list },
    await makeCertificate({ ip: ["127.0.0.1"] }, { issuer: authority }),
  );
  const opened = client(server.url, { ca: authority.cert });
  await opened.list(destination, soon());
  const [place, protection] = await opened.reach(soon());
  expect(place).toBe(`${server.url}/tspublic/v1`);
  expect(protection).toMatch(/^TLSv1\.3, certificate of CN=rollcall test, valid until .* GMT$/);
  const error = await failure(client(server.url).list(destination, soon()));
  expect(error.message).toContain("give its issuer's certificate as the target's `ca`");
});

test("a certificate for other names is refused and names them", async () => {
  const { serve, client, destination, failure } = await bench();
  const certificate = await makeCertificate({ dns: ["analytics.example.com"] });
  const server = await serve({ "user/list": list }, certificate);
  const error = await failure(client(server.url, { ca: certificate.cert }).list(destination, soon()));
  expect(error).toBeInstanceOf(RefusedError);
  expect(error.message).toContain("is for other names (DNS:analytics.example.com): use one of them in the url");
});

test("an expired certificate is refused", async () => {
  const { serve, client, destination, failure } = await bench();
  const certificate = await makeCertificate({ ip: ["127.0.0.1"] }, { expired: true });
  const server = await serve({ "user/list": list }, certificate);
  const error = await failure(client(server.url, { ca: certificate.cert }).list(destination, soon()));
  expect(error.message).toMatch(/is expired or not valid yet \(CERT_HAS_EXPIRED\): renew it/);
});

test("a pinned certificate is accepted whatever it says, and no other, even one of the same names", async () => {
  const { serve, client, destination, failure } = await bench();
  const names = { dns: ["elsewhere.example.com"] };
  const certificate = await makeCertificate(names, { expired: true });
  const other = await makeCertificate(names, { expired: true });
  const server = await serve({ "user/list": list }, certificate);
  await client(server.url, { ca: certificate.cert, pinned: true }).list(destination, soon());
  await client(server.url, { ca: `${certificate.cert}\n${other.cert}`, pinned: true }).list(destination, soon());
  const before = server.arrived.length;
  const error = await failure(client(server.url, { ca: other.cert, pinned: true }).list(destination, soon()));
  expect(error).toBeInstanceOf(RefusedError);
  expect(error.message).toContain("has a different certificate than expected");
  expect(server.arrived).toHaveLength(before);
});

test("https:// where there is only http:// and the other way round", async () => {
  const { serve, client, destination, failure } = await bench();
  const plain = await serve({ "user/list": list });
  const one = await failure(client(plain.url.replace("http:", "https:")).list(destination, soon()));
  expect(one).toBeInstanceOf(RefusedError);
  expect(one.message).toMatch(/: no TLS with 127\.0\.0\.1:\d+ \(.*\): is it http:\/\/ or another port/);
  const { port } = await listen((socket) => {
    socket.once("data", () => socket.end(Buffer.from([21, 3, 1, 0, 2, 2, 70]))); // a TLS alert
  });
  const other = await failure(client(`http://127.0.0.1:${port}`).list(destination, soon()));
  expect(other).toBeInstanceOf(RefusedError);
  expect(other.message).toMatch(/answered something that is not HTTP: is it https:\/\/ or another port\?$/);
});

test("an url or a `ca` that is none is the configuration's mistake", async () => {
  const { client } = await bench();
  expect(() => client("analytics.example.com")).toThrow(InputError);
  expect(() => client("ldap://analytics.example.com")).toThrow("must begin with http:// or https://");
  expect(() => client("https://a.example.com", { ca: "certificate" })).toThrow("`ca` holds no certificate in PEM form");
});

test("passwords that would go over a network unencrypted are mentioned", async () => {
  const { client, log } = await bench();
  client("http://127.0.0.1:1");
  client("http://localhost");
  client("http://[::1]:1");
  client("https://a.example.com");
  expect(log).toEqual([]);
  client("http://a.example.com");
  expect(log).toEqual([
    "target analytics: http://a.example.com is not encrypted: passwords and sessions can be read on the way",
  ]);
});

test("a port where nothing listens is tried again and named", async () => {
  const { client, destination, failure, log } = await bench();
  const port = await freePort();
  const error = await failure(client(`http://127.0.0.1:${port}`).list(destination, soon()));
  expect(error).toBeInstanceOf(UnavailableError);
  expect(error.message).toBe(
    `target analytics: login as svc-rollcall: nothing listens at 127.0.0.1:${port} (ECONNREFUSED): is the server running, is the port right? (tried 4 times)`,
  );
  expect(log).toHaveLength(3);
});

test("a host name that is not known is named", async () => {
  const { client, destination, failure } = await bench();
  const error = await failure(client("http://analytics.invalid").list(destination, soon()));
  expect(error).toBeInstanceOf(UnavailableError);
  expect(error.message).toMatch(/the host name analytics\.invalid is not known \(E\w+\): check the url and the DNS/);
});

test("a connection that does not come about in time is named", async () => {
  const { client, destination, failure } = await bench();
  const { port } = await listen(() => undefined); // accepts, and says nothing of TLS
  const options = { timeouts: { connect: 200 }, retries: { attempts: 2, pause: 1 } };
  const error = await failure(client(`https://127.0.0.1:${port}`, options).list(destination, soon()));
  expect(error).toBeInstanceOf(UnavailableError);
  expect(error.message).toMatch(/no connection to 127\.0\.0\.1:\d+ within 200 ms.*\(tried 2 times\)$/);
});

test("an answer that does not come in time is not asked for again; one that stands still is", async () => {
  const { serve, client, destination, failure } = await bench();
  const silent = await serve({ "user/list": () => undefined });
  const none = await failure(client(silent.url, { timeouts: { headers: 1000 } }).list(destination, soon()));
  expect(none).toBeInstanceOf(UnavailableError);
  expect(none.message).toBe("target analytics: user/list: no answer within 1 s");
  expect(silent.to("user/list")).toHaveLength(1);

  const standing = await serve({ "user/list": [standingStill, list] });
  await client(standing.url, { timeouts: { body: 1000 } }).list(destination, soon());
  expect(standing.to("user/list")).toHaveLength(2);
});

/** A body that begins and does not go on. */
const standingStill: Behaviour = (response) => {
  response.writeHead(200).write("[");
};

/** A body that never ends. */
const endless: Behaviour = (response) => {
  response.writeHead(200, { "content-type": "application/json" }).write("[");
  const write = (): void => {
    if (!response.destroyed) response.write(" ".repeat(65_536), () => setTimeout(write, 1));
  };
  write();
};

test.each<[string, Record<string, Behaviour>]>([
  ["waiting for the login", { "session/login": () => undefined }],
  ["waiting for an answer", { "user/list": () => undefined }],
  ["waiting for another attempt", { "user/list": answer(503, "", { "retry-after": "60" }) }],
  ["reading an answer", { "user/list": endless }],
])("an abort while %s ends the call at once, with the signal's reason", async (_, script) => {
  const { serve, client, destination, files } = await bench();
  const server = await serve({ "session/login": loggedIn, ...script });
  const controller = new AbortController();
  const reason = new Error("stopped by a person");
  const call = client(server.url).list(destination, controller.signal);
  const last = Object.keys(script)[0] ?? "";
  await expect.poll(() => server.to(last).length).toBe(1);
  await new Promise((resolve) => setTimeout(resolve, 50));
  controller.abort(reason);
  await expect(call).rejects.toBe(reason);
  expect(await files()).toEqual([]);
  await expect.poll(() => server.open.size).toBe(0);
});

test("an abort while a list is being sent ends the call at once", async () => {
  const { serve, client, destination, files, principals } = await bench();
  const slowly = unread((_, request) => {
    request.on("data", () => {
      request.pause();
      setTimeout(() => request.resume(), 20);
    });
  });
  const server = await serve({ "user/sync": slowly });
  const controller = new AbortController();
  const submission = {
    principals: await principals(Buffer.alloc(30_000_000, "[")),
    applyChanges: true,
    deleteOthers: true,
    defaultPassword: "",
  };
  const call = client(server.url).sync(submission, destination, controller.signal);
  await expect.poll(() => server.to("user/sync").length).toBe(1);
  controller.abort();
  await expect(call).rejects.toBe(controller.signal.reason);
  expect(await files()).toEqual([]);
  await expect.poll(() => server.open.size).toBe(0);
});

test("an abort while a connection is being opened ends the call at once, and nothing goes on opening", async () => {
  const { client, destination } = await bench();
  const { port, open } = await listen((socket) => void socket.resume()); // says nothing of TLS
  const controller = new AbortController();
  const options = { timeouts: { connect: 300_000 } };
  const call = client(`https://127.0.0.1:${port}`, options).list(destination, controller.signal);
  await expect.poll(() => open.size).toBe(1);
  controller.abort();
  await expect(call).rejects.toBe(controller.signal.reason);
  await expect.poll(() => open.size).toBe(0);
});

test("what was aborted before is not begun", async () => {
  const { serve, client, destination, files } = await bench();
  const server = await serve({ "user/list": list });
  const signal = AbortSignal.abort();
  await expect(client(server.url).list(destination, signal)).rejects.toBe(signal.reason);
  expect(server.open.size).toBe(0);
  expect(await files()).toEqual([]);
});

test("no connection is left open between calls", async () => {
  const { serve, client, destination } = await bench();
  const server = await serve({ "user/list": list });
  await client(server.url).list(destination, soon());
  await expect.poll(() => server.open.size).toBe(0);
});

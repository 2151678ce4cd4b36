import { cp, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { connect as connectTls } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { makeCertificate } from "../../support/certificates.ts";
import { call, failToStart, login, post, sessionOf, startService } from "../../support/rollcall/service.ts";
import type { TestService } from "../../support/rollcall/service.ts";
import type { LoadStarted } from "#wire/loads.ts";
import { testGolden } from "./golden.ts";
import { serviceOfFile } from "./service-of-file.ts";

const service = serviceOfFile();

await testGolden("transport", () => service);

describe("0.1", () => {
  test("listens on the loopback address alone", () => {
    expect(new URL(service.url).hostname).toBe("127.0.0.1");
  });

  test("plain HTTP on another address is refused", async () => {
    const { code, stderr, stdout } = await failToStart({ service: { listen: "0.0.0.0:0" } });
    expect(code).toBe(1);
    expect(stdout + stderr).toMatch(/service\.listen/);
    expect(stdout + stderr).toMatch(/allowPlainHttp/);
  });

  test("plain HTTP on another address is served where it is allowed, and 0.2 under the prefixes that are configured alone", async () => {
    const prefixes = ["/a/b", "/c"];
    await using open = await startService({ service: { listen: "0.0.0.0:0", allowPlainHttp: true, prefixes } });
    const outside = Object.values(networkInterfaces())
      .flatMap((addresses) => addresses ?? [])
      .find(({ family, internal }) => family === "IPv4" && !internal);
    const { port } = new URL(open.url);
    for (const host of ["127.0.0.1", ...(outside === undefined ? [] : [outside.address])]) {
      expect((await call(`http://${host}:${port}/healthz`)).status).toBe(200);
    }
    for (const prefix of prefixes) {
      expect((await call(`${open.url}${prefix}/tspublic/v1/user/list`)).status).toBe(401);
    }
    for (const prefix of ["", "/callosum/v1", "/a"]) {
      const answer = await call(`${open.url}${prefix}/tspublic/v1/user/list`);
      expect([answer.status, answer.headers["x-service-incident-id"]]).toEqual([404, undefined]);
    }
  });

  describe("TLS", () => {
    let folder: string;
    let tls: { cert: string; key: string };
    let secure: TestService;

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "rollcall-tls-"));
      const certificate = await makeCertificate({ ip: ["127.0.0.1"] }, { keyType: "rsa" });
      tls = { cert: join(folder, "cert.pem"), key: join(folder, "key.pem") };
      await writeFile(tls.cert, certificate.cert);
      await writeFile(tls.key, certificate.key);
      secure = await startService({ service: { listen: "0.0.0.0:0", tls } });
    });

    afterAll(async () => {
      await secure.stop();
      await rm(folder, { recursive: true });
    });

    test("both families are served over TLS, on another address too, and 0.4 the cookie is then Secure", async () => {
      expect(secure.url).toMatch(/^https:/);
      expect((await call(`${secure.url}/ts_dataservice/v1/public/ping`)).text).toBe("Ping Received.");
      const { name: username, password } = secure.administrator;
      const answer = await post(`${secure.url}/tspublic/v1/session/login`, { username, password });
      expect(answer.headers["set-cookie"]).toMatch(/^JSESSIONID=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Lax$/);
      const list = await call(`${secure.url}/tspublic/v1/user/list`, { session: sessionOf(answer) ?? "" });
      expect(list.status).toBe(200);
    });

    test("A.5 a client that named no port dialled 443", async () => {
      const session = await login(secure.url, secure.administrator);
      const start = async (host: string): Promise<unknown> => {
        const body = JSON.stringify({ target_database: "d", target_table: "t" });
        const url = `${secure.url}/ts_dataservice/v1/public/loads`;
        const { text: started } = await call(url, { method: "POST", session, headers: { host }, body });
        return (JSON.parse(started) as LoadStarted).node_address;
      };
      expect(await start("loads.example.com")).toEqual({ host: "loads.example.com", port: 443 });
      expect(await start("loads.example.com:80")).toEqual({ host: "loads.example.com", port: 80 });
      // Nobody can call these: it is where the connection arrived.
      for (const host of ["loads.example.com:0", "loads.example.com:99999"])
        expect(await start(host), host).toMatchObject({ port: Number(new URL(secure.url).port) });
    });

    test("TLS 1.2 is served with forward secrecy alone", async () => {
      const shake = async (ciphers: string): Promise<string> => {
        const { hostname: host, port } = new URL(secure.url);
        const options = {
          host,
          port: Number(port),
          ciphers,
          maxVersion: "TLSv1.2",
          rejectUnauthorized: false,
        } as const;
        const socket = connectTls(options);
        const shaken = await new Promise<string>((resolve) => {
          socket.once("secureConnect", () => resolve(socket.getCipher().name)).once("error", () => resolve("refused"));
        });
        socket.destroy();
        return shaken;
      };
      expect(await shake("ECDHE-RSA-AES128-GCM-SHA256")).toBe("ECDHE-RSA-AES128-GCM-SHA256");
      for (const cipher of ["AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-SHA256", "AES256-SHA"]) {
        expect(await shake(cipher), cipher).toBe("refused");
      }
    });

    test("a certificate that cannot be used is named", async () => {
      const missing = await failToStart({ service: { tls: { ...tls, cert: join(folder, "missing.pem") } } });
      expect(missing.code).toBe(1);
      expect(missing.stdout + missing.stderr).toMatch(/missing\.pem/);
      const swapped = await failToStart({ service: { tls: { cert: tls.key, key: tls.cert } } });
      expect(swapped.code).toBe(1);
      expect(swapped.stdout + swapped.stderr).toMatch(/key\.pem.*PEM form/s);
    });
  });

  test("a port that is taken is named", async () => {
    const { host } = new URL(service.url);
    const { code, stdout, stderr } = await failToStart({ service: { listen: host } });
    expect(code).toBe(1);
    expect(stdout + stderr).toContain(host);
  });

  test("a data folder that is in use is named, with the process that uses it", async () => {
    const { code, stdout, stderr } = await failToStart({ data: service.data });
    expect(code).toBe(1);
    expect(stdout + stderr).toContain(service.data);
    expect(stdout + stderr).toContain(String(service.running.process.pid));
    expect((await call(`${service.url}/readyz`)).status).toBe(200);
  });

  test("a data folder that is gone, or in whose place there is another, makes the service not ready", async () => {
    await using other = await startService();
    const ready = async (): Promise<unknown> => {
      const { status, text } = await call(`${other.url}/readyz`);
      return [status, JSON.parse(text)];
    };
    const aside = `${other.data}.aside`;
    const gone = {
      status: "failing",
      reasons: ["the data folder is gone, or another one is in its place: bring it back"],
    };
    await rename(other.data, aside);
    expect(await ready()).toEqual([503, gone]);
    await cp(aside, other.data, { recursive: true });
    expect(await ready()).toEqual([503, gone]);
    await rm(other.data, { recursive: true });
    await rename(aside, other.data);
    expect(await ready()).toEqual([200, { status: "ready" }]);
  });
});

test.each([
  ["HTTP/1.1", "Connection: close\r\n"],
  ["HTTP/1.0", ""],
])(
  "an answer that is there before the request is complete reaches a client of %s that wants no other",
  async (version, header) => {
    const body = Buffer.alloc(8 * 2 ** 20, "a");
    const socket = connect(Number(new URL(service.url).port), "127.0.0.1");
    const type = "Content-Type: application/x-www-form-urlencoded";
    socket.write(
      `POST /tspublic/v1/user/sync ${version}\r\nHost: x\r\n${type}\r\n${header}Content-Length: ${body.length}\r\n\r\n`,
    );
    // It sends all before it reads anything.
    await new Promise<void>((resolve, reject) => {
      socket.once("error", reject).write(body, () => {
        resolve();
      });
    });
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 401 [^]*"code":/);
  },
);

test.each([
  ["what is no HTTP", "this is not HTTP", "400 Bad Request", "This is not a valid HTTP/1.1 request."],
  [
    "a header without a colon",
    "GET /ts_dataservice/v1/public/ping HTTP/1.1\r\nHost: x\r\nBad Header",
    "400 Bad Request",
    "This is not a valid HTTP/1.1 request.",
  ],
  [
    "headers that are too large",
    `GET /ts_dataservice/v1/public/ping HTTP/1.1\r\nHost: x\r\nX: ${"x".repeat(20_000)}`,
    "431 Request Header Fields Too Large",
    "The headers of the request are larger than 16 KiB.",
  ],
])("A.25 %s: it is refused in plain text, and the service goes on", async (_, request, status, body) => {
  const { hostname, port } = new URL(service.url);
  const socket = connect(Number(port), hostname);
  socket.write(`${request}\r\n\r\n`);
  const [head, answered] = (await text(socket)).split("\r\n\r\n");
  expect(head).toMatch(new RegExp(`^HTTP/1\\.1 ${status}\r\ncontent-type: text/plain`));
  expect(answered).toBe(body);
  expect((await call(`${service.url}/healthz`)).status).toBe(200);
});

test("the absolute form of a request's target is understood", async () => {
  const { hostname, port } = new URL(service.url);
  const socket = connect(Number(port), hostname);
  socket.write(`GET http://${hostname}/ts_dataservice/v1/nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
  const pieces: Buffer[] = [];
  for await (const piece of socket) pieces.push(piece as Buffer);
  expect(Buffer.concat(pieces).toString()).toMatch(/^HTTP\/1\.1 404 .*text\/plain.*There is no GET \/ts_dataservice/s);
});

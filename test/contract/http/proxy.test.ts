import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { messageOf } from "#errors.ts";
import { bytesBody, HttpClient, textOf } from "#http/client.ts";
import type { HttpClientOptions } from "#http/client.ts";
import { makeCertificate } from "../../support/certificates.ts";
import { startHttpProxy, withCredentials } from "../../support/http-proxy.ts";
import type { HttpProxy, HttpProxyOptions } from "../../support/http-proxy.ts";
import { answer, startScripted } from "../../support/scripted-server.ts";
import type { Behaviour, ScriptedServer } from "../../support/scripted-server.ts";
import { soon } from "../target/harness.ts";

/** A name that no name server knows: only the proxy can reach it. */
const name = "analytics.test";
const credentials = "proxy-user:hunter2%2Fsecret";
const decoded = "proxy-user:hunter2/secret";
const certificate = makeCertificate({ dns: [name] });

async function proxy(options?: HttpProxyOptions): Promise<HttpProxy> {
  const started = await startHttpProxy(options);
  onTestFinished(() => started.close());
  return started;
}

/** A server that is known as `name`. */
async function serve(
  scheme: "http" | "https",
  behaviour: Behaviour = answer(200, "here"),
): Promise<ScriptedServer & { readonly named: string }> {
  const server = await startScripted({ "some/where": behaviour }, scheme === "https" ? await certificate : undefined);
  onTestFinished(() => server.close());
  return { ...server, named: `${server.url.replace("127.0.0.1", name)}/some/where` };
}

async function client(options: Partial<HttpClientOptions>): Promise<HttpClient> {
  const created = new HttpClient({ owner: "source", ca: (await certificate).cert, ...options });
  onTestFinished(() => created.close());
  return created;
}

const get = (http: HttpClient, url: string): Promise<string> =>
  http.exchange({ url: new URL(url) }, (received) => textOf(received), soon());

async function problemOf(options: Partial<HttpClientOptions>, url: string): Promise<Record<string, unknown>> {
  const error: unknown = await get(await client(options), url).catch((caught: unknown) => caught);
  expect(messageOf(error)).not.toMatch(/hunter2|proxy-user/);
  return { ...(error as object), message: messageOf(error) };
}

for (const variable of ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"])
  vi.stubEnv(variable, undefined);
afterEach(() => {
  vi.unstubAllEnvs();
});

describe.each(["http", "https"] as const)("a server by %s", (scheme) => {
  const seenFor = (url: string): string =>
    scheme === "https" ? `CONNECT ${new URL(url).host}` : `GET ${url.replace(/\?.*$/, "")}`;

  test("is reached through the proxy, which gets the credentials of its URL, and the server does not", async () => {
    const through = await proxy({ credentials: decoded });
    const { named, arrived } = await serve(scheme);
    expect(await get(await client({ proxy: withCredentials(through, credentials) }), named)).toBe("here");
    expect(through.seen).toEqual([seenFor(named)]);
    expect(arrived[0]?.headers).toMatchObject({ host: new URL(named).host, "user-agent": "rollcall" });
    expect(JSON.stringify(arrived)).not.toContain("roxy-");
  });

  test("wrong credentials are said to be that, without showing them", async () => {
    const through = await proxy({ credentials: "other:words" });
    const { named, arrived } = await serve(scheme);
    expect(await problemOf({ proxy: withCredentials(through, credentials) }, named)).toMatchObject({
      advice: "fix",
      message: expect.stringMatching(
        /^the proxy 127\.0\.0\.1:\d+ refused the user name and password, .*USER:PASSWORD@/,
      ),
    });
    expect(arrived).toEqual([]);
  });

  test("a proxy that is not there is named, and not the server", async () => {
    const through = await startHttpProxy();
    await through.close();
    expect(await problemOf({ proxy: withCredentials(through, credentials) }, `${scheme}://${name}/`)).toMatchObject({
      phase: "connect",
      advice: "repeat",
      message: expect.stringMatching(/^the proxy (127\.0\.0\.1:\d+): nothing listens at \1 \(ECONNREFUSED\)/),
    });
  });

  test("a connection that the proxy closes is one that may succeed later", async () => {
    const through = await proxy({ refuses: "break" });
    const problem = await problemOf({ proxy: through.url }, `${scheme}://${name}:1/`);
    expect(problem).toMatchObject({ advice: "repeat", message: expect.stringContaining("the proxy 127.0.0.1:") });
  });

  test("an abort ends a request that waits for the proxy", async () => {
    const through = await proxy({ refuses: "silent" });
    const stopped = new AbortController();
    const http = await client({ proxy: through.url });
    const asked = http.exchange({ url: new URL(`${scheme}://${name}:1/`) }, (got) => textOf(got), stopped.signal);
    await vi.waitUntil(() => through.seen.length > 0);
    stopped.abort(new Error("enough"));
    await expect(asked).rejects.toThrow("enough");
  });

  test("long bodies go both ways", async () => {
    const through = await proxy();
    const { named, arrived } = await serve(scheme, answer(200, "x".repeat(3_000_000)));
    const http = await client({ proxy: through.url });
    const body = bytesBody("y".repeat(2_000_000));
    const got = await http.exchange(
      { url: new URL(named), method: "POST", body },
      (answered) => textOf(answered, 1e7),
      soon(),
    );
    expect([got.length, arrived[0]?.body.length]).toEqual([3_000_000, 2_000_000]);
    expect(through.tunnelled > 2_000_000).toBe(scheme === "https");
  });

  test("an answer that breaks off is told as through the proxy", async () => {
    const through = await proxy();
    const { named } = await serve(scheme, (response) => {
      response.writeHead(200, { "content-length": "100" }).write("some", () => response.destroy());
    });
    expect(await problemOf({ proxy: through.url }, named)).toMatchObject({
      phase: "receive",
      advice: "repeat",
      message: expect.stringMatching(/^the answer broke off .*; through the proxy 127\.0\.0\.1:\d+$/),
    });
  });
});

test("one tunnel serves many requests where connections are kept open", async () => {
  const through = await proxy();
  const { named } = await serve("https");
  const http = await client({ proxy: through.url, keepAlive: true });
  for (let count = 0; count < 3; count += 1) expect(await get(http, named)).toBe("here");
  expect(through.seen).toEqual([`CONNECT ${new URL(named).host}`]);
});

test("the server's certificate is checked behind the proxy, too", async () => {
  const through = await proxy();
  const { named } = await serve("https");
  expect(await problemOf({ proxy: through.url, ca: undefined }, named)).toMatchObject({
    advice: "fix",
    message: expect.stringMatching(
      /^the certificate of analytics\.test:\d+ is not from an authority .* the source's `ca`; through the proxy/,
    ),
  });
  const elsewhere = named.replace(name, "other.test");
  expect(await problemOf({ proxy: through.url }, elsewhere)).toMatchObject({
    message: expect.stringMatching(/^the certificate of other\.test:\d+ is for other names \(DNS:analytics\.test\)/),
  });
});

test("a proxy by HTTPS has a certificate of its own", async () => {
  const own = await makeCertificate({ ip: ["127.0.0.1"] });
  const through = await proxy({ tls: own });
  expect(await problemOf({ proxy: through.url }, `https://${name}/`)).toMatchObject({
    advice: "fix",
    message: expect.stringMatching(/^the proxy .*: the certificate of 127.* as a file that NODE_EXTRA_CA_CERTS names$/),
  });
  const authorities = getCACertificates("default");
  setDefaultCACertificates([...authorities, own.cert]);
  onTestFinished(() => Promise.resolve(setDefaultCACertificates(authorities)));
  for (const { named } of [await serve("http"), await serve("https")])
    expect(await get(await client({ proxy: through.url }), named)).toBe("here");
});

test.each([
  [403, "fix", /opened no connection to analytics\.test:1 \(403\): allow it there, or set `proxy: none`/],
  [
    502,
    "repeat",
    /opened no connection to analytics\.test:1 \(502\): it cannot reach it; check the URL and the proxy$/,
  ],
] as const)("a proxy that answers %d: %s", async (refuses, advice, message) => {
  const { url } = await proxy({ refuses });
  expect(await problemOf({ proxy: url }, `https://${name}:1/`)).toMatchObject({
    advice,
    message: expect.stringMatching(message),
  });
});

test("a proxy that does not open a tunnel in time", async () => {
  const { url } = await proxy({ refuses: "silent" });
  expect(await problemOf({ proxy: url, timeouts: { connect: 1000 } }, `https://${name}:1/`)).toMatchObject({
    phase: "connect",
    advice: "repeat",
    message: expect.stringMatching(/^the proxy 127\.0\.0\.1:\d+ opened no connection to analytics\.test:1 within 1 s$/),
  });
});

describe("the environment", () => {
  test("names the proxy, in capitals or not, and the hosts that are reached without it", async () => {
    const through = await proxy({ credentials: decoded });
    const [plain, secure] = [await serve("http"), await serve("https")];
    vi.stubEnv("HTTPS_PROXY", withCredentials(through, credentials));
    vi.stubEnv("http_proxy", withCredentials(through, credentials).replace("http://", ""));
    for (const { named } of [plain, secure]) expect(await get(await client({}), named)).toBe("here");
    expect(through.seen).toEqual([`GET ${plain.named}`, `CONNECT ${new URL(secure.named).host}`]);
    vi.stubEnv("NO_PROXY", "example.com, .TEST");
    for (const { named } of [plain, secure])
      expect(await problemOf({}, named)).toMatchObject({
        message: expect.stringMatching(/^the host name \S+ is not known/),
      });
    expect(await get(await client({ proxy: withCredentials(through, credentials) }), secure.named)).toBe("here");
    expect(through.seen).toHaveLength(3);
  });

  test("is not asked with `proxy: none`, or for this machine", async () => {
    const through = await proxy({ refuses: 403 });
    const here = await serve("http");
    for (const variable of ["HTTP_PROXY", "HTTPS_PROXY"]) vi.stubEnv(variable, through.url);
    expect(await get(await client({}), `${here.url}/some/where`)).toBe("here");
    expect(await problemOf({ proxy: false }, here.named)).toMatchObject({
      message: expect.stringMatching(/^the host name \S+ is not known/),
    });
    expect(through.seen).toEqual([]);
  });

  test("with something else in it is an error that does not show it", async () => {
    vi.stubEnv("HTTPS_PROXY", `socks5://${credentials}@127.0.0.1:1080`);
    expect(await problemOf({ keepAlive: true }, `https://${name}/`)).toMatchObject({
      advice: "fix",
      message:
        "the environment variable HTTPS_PROXY is not the address of a proxy: expected one like http://proxy.example.com:3128",
    });
  });
});

import { gzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { InputError } from "#errors.ts";
import { bytesBody, HttpClient, jsonIn, textOf } from "#http/client.ts";
import type { HttpClientOptions } from "#http/client.ts";
import { answer, bomb, startScripted } from "../../support/scripted-server.ts";
import type { Behaviour, ScriptedServer } from "../../support/scripted-server.ts";
import { soon } from "../target/harness.ts";

async function serve(script: Record<string, Behaviour>): Promise<ScriptedServer> {
  const server = await startScripted(script);
  onTestFinished(() => server.close());
  return server;
}

function client(options: Partial<HttpClientOptions> = {}): HttpClient {
  const created = new HttpClient({ owner: "source", ...options });
  onTestFinished(() => created.close());
  return created;
}

const get = (http: HttpClient, url: string): Promise<string> =>
  http.exchange({ url: new URL(url) }, (received) => textOf(received), soon());

test.each([
  [true, 1],
  [false, 3],
])("keepAlive %s: three requests take %d connections", async (keepAlive, connections) => {
  const ports = new Set<number | undefined>();
  const server = await serve({
    "some/where": (response, request) => {
      ports.add(request.socket.remotePort);
      response.end("here");
    },
  });
  const http = client({ keepAlive });
  for (let count = 0; count < 3; count += 1) expect(await get(http, `${server.url}/some/where`)).toBe("here");
  expect(ports.size).toBe(connections);
});

test("an answer that is closed unread is not in the way of the next one", async () => {
  const server = await serve({ "some/where": answer(200, "x".repeat(1_000_000)) });
  const http = client({ keepAlive: true });
  const url = new URL(`${server.url}/some/where`);
  (await http.send({ url }, soon())).close();
  expect(await get(http, url.href)).toHaveLength(1_000_000);
});

test("a body, its type, and headers of the caller's own arrive", async () => {
  const server = await serve({ "some/where": answer(204) });
  const url = new URL(`${server.url}/some/where?a=%20b`);
  const body = bytesBody("täxt", "text/plain");
  await client().exchange(
    { url, method: "POST", headers: { "x-one": "1", "x-none": undefined }, body },
    async ({ status }) => expect(status).toBe(204),
    soon(),
  );
  const [{ path, headers, body: sent } = { path: "", headers: {}, body: Buffer.alloc(0) }] = server.arrived;
  expect({ path, sent: sent.toString() }).toEqual({ path: "/some/where?a=%20b", sent: "täxt" });
  expect(headers).toMatchObject({ "content-type": "text/plain", "content-length": "5", "x-one": "1" });
  expect(headers).not.toHaveProperty("x-none");
});

test("a packed answer is unpacked; one that breaks off or is packed in another way is an error", async () => {
  const packed = gzipSync("a long text ".repeat(100));
  const server = await serve({
    "packed/whole": answer(200, packed, { "content-encoding": "gzip" }),
    "packed/half": answer(200, packed.subarray(0, 20), { "content-encoding": "gzip" }),
    "packed/otherwise": answer(200, packed, { "content-encoding": "br" }),
  });
  expect(await get(client(), `${server.url}/packed/whole`)).toHaveLength(1200);
  await expect(get(client(), `${server.url}/packed/half`)).rejects.toMatchObject({
    phase: "receive",
    advice: "repeat",
    message: "the answer broke off or arrived damaged (Z_BUF_ERROR)",
  });
  await expect(get(client(), `${server.url}/packed/otherwise`)).rejects.toMatchObject({ advice: "fix" });
});

test("a packed answer that grows without end is not read to its end", async () => {
  const server = await serve({ "packed/bomb": bomb("x") });
  await expect(get(client(), `${server.url}/packed/bomb`)).resolves.toMatch(/^x+$/);
  const all = client().exchange(
    { url: new URL(`${server.url}/packed/bomb`) },
    (received) => textOf(received, Infinity),
    soon(),
  );
  const message = "the answer grows to more than 200 times its size when it is unpacked";
  await expect(all).rejects.toMatchObject({ phase: "receive", advice: "fix", message });
});

test.each([
  ["deep", "[".repeat(200_000), "the answer has more than 100 arrays and objects inside each other"],
  ["many", `[${"0,".repeat(8_000_001)}0]`, "the answer has more than 8 million values"],
  ["long", `"${"x".repeat(33 * 2 ** 20)}"`, "the answer has more than 32 MiB, which is too much"],
])("JSON of an answer that is too %s is refused", async (path, body, message) => {
  const server = await serve({ [`json/${path}`]: answer(200, body) });
  const read = client().exchange(
    { url: new URL(`${server.url}/json/${path}`) },
    (received) => jsonIn(received, 32 * 2 ** 20),
    soon(),
  );
  await expect(read).rejects.toMatchObject({ phase: "receive", advice: "fix", message });
});

test("a limit for the whole request holds, however often a server shows that it is alive", async () => {
  const server = await serve({ "some/where": () => undefined });
  await expect(get(client({ timeouts: { whole: 500 } }), `${server.url}/some/where`)).rejects.toMatchObject({
    phase: "wait",
    advice: "later",
    message: "no answer within 500 ms",
  });
});

test("an abort ends a request at once with its reason, also while the answer is read", async () => {
  const server = await serve({
    "never/answered": () => undefined,
    "never/ended": (response) => {
      response.write("some");
    },
  });
  for (const [path, keepAlive] of [
    ["never/answered", false],
    ["never/ended", false],
    ["never/answered", true],
    ["never/ended", true],
  ] as const) {
    const stopped = AbortSignal.timeout(30);
    const url = new URL(`${server.url}/${path}`);
    const asked = client({ keepAlive }).exchange({ url }, (received) => textOf(received), stopped);
    await expect(asked.catch((error: unknown) => error === stopped.reason)).resolves.toBe(true);
  }
});

test("nothing listens: whose fault it is, and that another attempt may help", async () => {
  const server = await startScripted({});
  await server.close();
  await expect(get(client(), `${server.url}/`)).rejects.toMatchObject({
    phase: "connect",
    advice: "repeat",
    message: expect.stringMatching(/^nothing listens at 127\.0\.0\.1:\d+ \(ECONNREFUSED\)/),
  });
});

test("a body that cannot be made: its own error", async () => {
  const server = await serve({ "some/where": answer(204) });
  const broken = new InputError("rows.csv cannot be read");
  const body = {
    chunks: async function* chunks() {
      yield Buffer.from("beginning");
      throw broken;
    },
  };
  const asked = client().exchange(
    { url: new URL(`${server.url}/some/where`), method: "POST", body },
    async () => "answered",
    soon(),
  );
  await expect(asked).rejects.toBe(broken);
});

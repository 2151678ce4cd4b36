import { once } from "node:events";
import { connect } from "node:net";
import { request as httpRequest } from "node:http";
import type { IncomingMessage, RequestOptions } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { administrator, startService } from "../support/rollcall/service.ts";
import type { TestService } from "../support/rollcall/service.ts";

/** Loaded before the program: on SIGUSR2, it writes how many objects of some classes there are, of which garbage is not counted. */
const counting = `data:text/javascript,${encodeURIComponent(`
  import { IncomingMessage, ServerResponse } from "node:http";
  import { Socket } from "node:net";
  import { queryObjects } from "node:v8";
  import { isMainThread } from "node:worker_threads";
  const count = () => {
    const all = [AbortSignal, IncomingMessage, ServerResponse, Socket].map((each) => [each.name, queryObjects(each)]);
    console.log(JSON.stringify({ counted: Object.fromEntries(all) }));
  };
  if (isMainThread) process.on("SIGUSR2", count);`)}`;

let service: TestService;
beforeAll(async () => {
  service = await startService({ isWhole: true, env: { NODE_OPTIONS: `--import ${counting}` } });
});
afterAll(() => service.stop());

const counts = (): readonly string[] => service.running.output().match(/^\{"counted":.*$/gm) ?? [];

async function count(): Promise<unknown> {
  const before = counts().length;
  service.running.process.kill("SIGUSR2");
  await expect.poll(() => counts().length, { timeout: 20_000 }).toBeGreaterThan(before);
  return JSON.parse(counts().at(-1) ?? "");
}

/** A request with a connection of its own. */
async function ask(path: string, options: RequestOptions = {}, body = ""): Promise<IncomingMessage> {
  const request = httpRequest(new URL(path, service.url), { agent: false, ...options }).end(body);
  const [answer] = (await once(request, "response")) as [IncomingMessage];
  return answer;
}

const form = { "content-type": "application/x-www-form-urlencoded" };

async function logIn(password: string): Promise<string> {
  const body = new URLSearchParams({ username: administrator.name, password }).toString();
  const answer = await ask("/tspublic/v1/session/login", { method: "POST", headers: form }, body);
  answer.resume();
  return String(answer.headers["set-cookie"]?.[0]).replace(/;.*/, "");
}

/** What visitors do in an hour: they log in, are refused, look at pages, leave them, and go away in the middle of something. */
async function visit(times: number, cookie: string): Promise<void> {
  const headers = { cookie };
  for (let nth = 0; nth < times; nth++) {
    for (const path of ["/", "/people", "/metrics", "/tspublic/v1/user/list"])
      await once((await ask(path, { headers })).resume(), "end");
    await ask("/tspublic/v1/user/list", {}).then((answer) => answer.resume());
    (await ask("/events", { headers })).destroy();
    const { port, hostname } = new URL(service.url);
    const began = `POST /tspublic/v1/user/sync HTTP/1.1\r\nhost: x\r\ncookie: ${cookie}\r\ncontent-length: 9999\r\n\r\nprincipals=`;
    for (const text of ["", "GET /", began]) {
      const socket = connect(Number(port), hostname);
      await once(socket, "connect");
      socket.end(text).destroy();
    }
  }
}

test("a process holds nothing of the requests that it has answered, nor of clients that have gone", async () => {
  const cookie = await logIn(administrator.password);
  const settled = { timeout: 60_000, interval: 1_000 };
  // What is loaded late is there then.
  await visit(3, cookie);
  await expect.poll(count, settled).toMatchObject({ counted: { IncomingMessage: 0 } });
  const before = await count();
  await visit(20, cookie);
  for (let nth = 0; nth < 10; nth++) await logIn("wrong");
  await expect.poll(count, settled).toEqual(before);
});

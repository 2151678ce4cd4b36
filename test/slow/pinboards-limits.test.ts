import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { request } from "node:http";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { errorBody } from "#wire/errors.ts";
import { call } from "../support/rollcall/service.ts";
import { pinboard, startPinboardService, visualization } from "../e2e/interface/pinboards.ts";
import type { PinboardService } from "../e2e/interface/pinboards.ts";

const queries = [
  // 190 MiB, each number another answer.
  ...[1, 2, 3].map((number) => `SELECT ${number} AS number, repeat('x', 2000) AS text FROM range(99600)`),
  "SELECT 1 AS one",
  "SELECT repeat('x', 1000000000) AS text",
];
const [small, greedy] = [3, 4] as const;

let service: PinboardService;
beforeAll(async () => {
  service = await startPinboardService(queries, {
    service: { memory: "512MiB", queries: { timeout: "6s" } },
  });
});
afterAll(() => service.end());

/** The most memory that the service's process has had, in MiB. */
async function peak(): Promise<number> {
  const status = await readFile(`/proc/${service.service.running.process.pid}/status`, "utf8");
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]) / 1024;
}

/** Asks, and reads nothing of the answer. */
async function askOnly(index: number): Promise<IncomingMessage> {
  const query = new URLSearchParams({ id: pinboard, vizid: visualization(index) });
  const asked = request(`${service.url}/tspublic/v1/pinboarddata?${query.toString()}`, {
    headers: { cookie: `JSESSIONID=${service.session}` },
    agent: false,
  });
  onTestFinished(() => {
    asked.destroy();
  });
  asked.end();
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  return answer;
}

const messageOf = (text: string): string => errorBody.parse(JSON.parse(text)).debug;

test("clients that ask for much and read nothing take no memory; who comes too many waits, then gets a 503", async () => {
  const answers = await Promise.all([0, 1].map(askOnly));
  expect(answers.map(({ statusCode }) => statusCode)).toEqual([200, 200]);
  const late = await service.ask(2);
  expect(late.status).toBe(503);
  expect(messageOf(late.text)).toContain("v2: results that are being sent take all the room there is");
  expect((await service.data(small)).rowCount).toBe(1);
  expect(await peak()).toBeLessThan(400);
  for (const answer of answers) answer.destroy();
  expect((await service.data(2)).rowCount).toBe(99_600);
  const folder = join(service.service.data, "service", "answers");
  await vi.waitFor(async () => expect(await readdir(folder)).toEqual([]));
});

test("a query that takes too much memory is a 503 with the reason, and the service goes on", async () => {
  const answers = await Promise.all([service.ask(greedy), service.ask(greedy)]);
  expect(answers.map(({ status }) => status)).toEqual([503, 503]);
  const reason = /v4: .*(took more than the 1280 MiB|too long to be sent|took longer than)/;
  const reasons = answers.map(({ text }) => messageOf(text));
  expect(reasons).toContainEqual(expect.stringMatching(reason));
  // The other one may have been at work beside it, and is not begun again.
  const again = /v4: it was stopped because it took too much memory or time/;
  for (const each of reasons) expect(reason.test(each) || again.test(each), each).toBe(true);
  expect((await service.data(small)).rowCount).toBe(1);
  expect((await call(`${service.url}/readyz`)).status).toBe(200);
  expect(await peak()).toBeLessThan(400);
});

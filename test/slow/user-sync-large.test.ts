import { readFile } from "node:fs/promises";
import { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { SyncResult } from "#wire/administration.ts";
import { call } from "../support/rollcall/service.ts";
import { group, user } from "../e2e/interface/principals.ts";
import { result, startAdministration } from "../e2e/interface/syncing.ts";
import type { Administration } from "../e2e/interface/syncing.ts";

const users = 100_000;
const groups = 2_000;
const megabyte = 1024 * 1024;

let it: Administration;

beforeAll(async () => {
  it = await startAdministration();
});

afterAll(() => it.service.stop());

/** The form with the large list, as it would come from elsewhere: never one text. `changed`: every how many users one differs, 0 for none. */
async function* form(parameters: string, changed: number): AsyncGenerator<string> {
  yield `${parameters}&principals=%5B`;
  for (let index = 0; index < groups; index++) {
    const principal = group(`group ${index}`, index === 0 ? [] : [`group ${index >> 1}`]);
    yield `${index === 0 ? "" : ","}${encodeURIComponent(JSON.stringify(principal))}`;
  }
  for (let index = 0; index < users; index++) {
    const memberOf = Array.from({ length: 5 }, (_, place) => `group ${(index * 7 + place * 31) % groups}`);
    const mail = `user${index}@${changed > 0 && index % changed === 0 ? "new.example.com" : "example.com"}`;
    const description = `Employee number ${index}`;
    const principal = { ...user(`user ${index}`, memberOf), password: undefined, mail, description };
    yield `,${encodeURIComponent(JSON.stringify(principal))}`;
    // Others get a turn.
    if (index % 1000 === 0) await delay(0);
  }
  yield "%5D";
}

async function sync(parameters: string, changed = 0): Promise<SyncResult> {
  const answer = await call(`${it.service.url}/tspublic/v1/user/sync`, {
    method: "POST",
    session: it.session,
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: Readable.from(form(parameters, changed)),
    bodyTimeout: 0,
    headersTimeout: 0,
  });
  expect(answer.status).toBe(200);
  return JSON.parse(answer.text) as SyncResult;
}

/** The most memory the process ever had, in bytes. */
async function peakMemory(): Promise<number> {
  const status = await readFile(`/proc/${it.service.running.process.pid}/status`, "utf8");
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
}

/** Asks for other things until it is told to stop; gives what was answered. */
async function askMeanwhile(done: AbortSignal): Promise<readonly number[]> {
  const statuses: number[] = [];
  while (!done.aborted) {
    statuses.push((await call(`${it.service.url}/readyz`)).status);
    const path = `${it.service.url}/tspublic/v1/user/sync`;
    statuses.push((await call(path, { session: it.session, method: "POST" })).status);
    await delay(10);
  }
  return statuses;
}

test("a sync of 100,000 users and 2,000 groups stays below 700 MB, and others are answered meanwhile", async () => {
  const done = new AbortController();
  const others = askMeanwhile(done.signal);
  others.catch(() => undefined);
  try {
    const created = await sync("applyChanges=true&defaultPassword=x");
    expect([created.usersAdded.length, created.groupsAdded.length]).toEqual([users, groups]);
    expect(await sync("applyChanges=true&defaultPassword=x")).toEqual(result());
    expect((await sync("applyChanges=false", 100)).usersUpdated).toHaveLength(users / 100);
    expect((await sync("applyChanges=true", 100)).usersUpdated).toHaveLength(users / 100);
    expect(await it.list()).toHaveLength(users + groups + 3);
    const gone = await it.apply([]);
    expect([gone.usersDeleted.length, gone.groupsDeleted.length]).toEqual([users, groups]);
  } finally {
    done.abort();
  }
  const statuses = await others;
  expect(new Set(statuses)).toEqual(new Set([200, 415]));
  expect(statuses.length).toBeGreaterThan(20);
  const peak = await peakMemory();
  console.log(`peak memory ${Math.round(peak / megabyte)} MB, ${statuses.length} other requests answered`);
  expect(peak).toBeLessThan(700 * megabyte);
}, 600_000);

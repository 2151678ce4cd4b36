import { createReadStream, createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Client } from "undici";
import { syncResult } from "#wire/administration.ts";
import { administrationRoutes, dataRoutes, familyA, familyB, loadRoutes, sessionCookie } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import { writeForm } from "./directory.ts";
import type { Delays } from "./event-loop.ts";
import type { HashingRequest, HashingTiming } from "./hashing.ts";
import { machine, runApart, seconds, table, wholeNumber } from "./measure.ts";
import type { Figure } from "./results.ts";
import { administrator, startService } from "./service.ts";
import type { BenchService } from "./service.ts";

/** DuckDB's memory limit in the service, in bytes. */
const memory = 1024 ** 3;

/** How many hashes are made with nothing beside them, at most; half of them before the first sync and half after it. */
const sample = 2000;

/** How often each of the other requests is sent, in milliseconds; a login, which is a hash itself, every tenth time. */
const every = 100;

/**
 * `npm run bench -- passwords [--n 100000] [--after 5]`: a first `user/sync` of so many users, each with a password of
 * its own, and what others wait meanwhile; beside it, the same hashes in a Node that does nothing else (of a sample). Before it, the same
 * list is given up twice, so many seconds after it was sent (0: not at all): its client hangs up, and the service is told to end.
 * Linux only.
 */
export async function passwords(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: { n: { type: "string", default: "100000" }, after: { type: "string", default: "5" } },
  });
  const users = wholeNumber(values.n);
  const after = Number(values.after) * 1000;
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-"));
  try {
    const [list, form] = [join(folder, "list.json"), join(folder, "sync.form")];
    await pipeline(listOf(users), createWriteStream(list));
    await writeForm(form, list, { applyChanges: "true" });
    const stops = after === 0 ? undefined : await giveUp(folder, form, after);
    const given =
      stops === undefined
        ? ""
        : ` Given up after ${values.after} s: the next call of user/sync waits ${seconds(stops.hungUp)}, the service ends in ` +
          `${seconds(stops.terminated)}; nothing has changed.`;
    console.error(given);
    const { sent, cpu, cost, others, quiet, alone } = await measure(folder, form, {
      users,
      watched: Math.max(1000, after * 2),
    });
    const name = `${users.toLocaleString("en")} users with passwords of their own`;
    console.log(`${machine()}.\n`);
    console.log(
      table(
        [name, "time", "CPU time", "p50", "p99", "max"],
        [
          ["first sync", seconds(sent), seconds(cpu), "", "", ""],
          ["the hashes alone", seconds(alone.milliseconds), seconds(alone.cpu), "", "", ""],
          ...Object.entries(others).flatMap(([what, times]) => [
            rowOf(what, times),
            rowOf(`${what} without a sync`, quiet[what] ?? []),
          ]),
          ["event loop", "", "", "", `${cost.eventLoop.p99.toFixed(1)} ms`, `${cost.eventLoop.max.toFixed(1)} ms`],
        ],
      ),
    );
    console.log(`The hashes alone are extrapolated from ${Math.min(sample, users).toLocaleString("en")}.${given}`);
    return [
      {
        what: name,
        value: sent,
        unit: "ms",
        limit: { by: "the hashes alone", value: alone.milliseconds },
        cpu,
        memory: cost.memory,
        eventLoop: cost.eventLoop.p99,
      },
      {
        what: `${name}: CPU time`,
        value: cpu,
        unit: "ms",
        limit: { by: "the hashes alone", value: alone.cpu },
      },
      ...Object.entries(others).flatMap(([what, times]): Figure[] => [
        {
          what: `${name}: p99 of ${what} meanwhile`,
          value: quantile(times, 0.99),
          unit: "ms",
          goal: what === login ? undefined : 50,
        },
        { what: `${name}: p99 of ${what} without a sync`, value: quantile(quiet[what] ?? [], 0.99), unit: "ms" },
      ]),
      ...(stops === undefined
        ? []
        : [
            { what: `${name}: its client hangs up, until the next begins`, value: stops.hungUp, unit: "ms" as const },
            {
              what: `${name}: SIGTERM, until the service has ended`,
              value: stops.terminated,
              unit: "ms" as const,
            },
          ]),
    ];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const login = "session/login";

function rowOf(what: string, times: readonly number[]): string[] {
  const quantiles = [0.5, 0.99, 1].map((share) => `${quantile(times, share).toFixed(1)} ms`);
  return [`${what}, ${times.length.toLocaleString("en")} times`, "", "", ...quantiles];
}

function* listOf(users: number): Iterable<string> {
  for (let index = 0; index < users; index++) {
    const name = `u${String(index).padStart(7, "0")}`;
    const principal = {
      name,
      displayName: `User ${index}`,
      principalTypeEnum: "LOCAL_USER",
      password: passwordOf(index),
    };
    yield `${index === 0 ? "[" : ",\n"}${JSON.stringify(principal)}`;
  }
  yield "]\n";
}

function passwordOf(index: number): string {
  return `the password of user ${index}`;
}

/** How long each of other requests took, in milliseconds. */
type Others = Readonly<Record<string, readonly number[]>>;

async function measure(
  folder: string,
  form: string,
  { users, watched }: { readonly users: number; readonly watched: number },
): Promise<{
  sent: number;
  cpu: number;
  cost: { memory: number; eventLoop: Delays };
  others: Others;
  quiet: Others;
  alone: HashingTiming;
}> {
  const hashes = (): Promise<HashingTiming> =>
    runApart("hashing.ts", { count: Math.ceil(Math.min(sample, users) / 2) } satisfies HashingRequest);
  const before = await hashes();
  const service = await startService(folder, { memory });
  try {
    const quiet = await besides(service, () => sleep(watched));
    const { result, cost } = await service.watch(() => besides(service, () => sync(service, form)));
    const answer = syncResult.parse(JSON.parse(result.result));
    if (answer.usersAdded.length !== users) throw new Error(`${answer.usersAdded.length} users were added`);
    await logIn(service, { username: `u${String(users - 1).padStart(7, "0")}`, password: passwordOf(users - 1) });
    const after = await hashes();
    const scale = users / (2 * Math.ceil(Math.min(sample, users) / 2));
    return {
      sent: result.milliseconds,
      cpu: cost.cpu,
      cost,
      others: result.times,
      quiet: quiet.times,
      alone: {
        milliseconds: (before.milliseconds + after.milliseconds) * scale,
        cpu: (before.cpu + after.cpu) * scale,
      },
    };
  } finally {
    await service.stop();
  }
}

/** The times of other requests, sent while `work` runs, in milliseconds. */
async function besides<Result>(
  service: BenchService,
  work: () => Promise<Result>,
): Promise<{ result: Result; milliseconds: number; times: Record<string, number[]> }> {
  const times: Record<string, number[]> = {};
  const over = new AbortController();
  const repeat = async (what: string, pause: number, send: () => Promise<unknown>): Promise<void> => {
    const all = (times[what] = [] as number[]);
    do {
      const started = performance.now();
      await send();
      all.push(performance.now() - started);
      await sleep(pause);
    } while (!over.signal.aborted);
  };
  const get =
    (path: string, { method }: Route) =>
    () =>
      request(service, method, path);
  const repeated = Promise.all([
    repeat("ping", every, get(familyA + dataRoutes.ping.path, dataRoutes.ping)),
    repeat("public/loads", every, get(familyA + loadRoutes.list.path, loadRoutes.list)),
    repeat("user/list", every, get(familyB + administrationRoutes.userList.path, administrationRoutes.userList)),
    repeat(login, 10 * every, () => logIn(service, { username: administrator.name, password: administrator.password })),
  ]);
  const started = performance.now();
  try {
    const result = await work();
    return { result, milliseconds: performance.now() - started, times };
  } finally {
    over.abort();
    await repeated;
  }
}

/** Gives a sync up, twice, and sees that it has changed nothing. Times in milliseconds. */
async function giveUp(folder: string, form: string, after: number): Promise<{ hungUp: number; terminated: number }> {
  const first = await startService(folder, { memory });
  const before = await listed(first);
  await given(first, form, after, (abort) => {
    abort.abort();
  });
  const asked = performance.now();
  await request(first, "POST", `${familyB}${administrationRoutes.userSync.path}`, {
    type: "application/x-www-form-urlencoded",
    body: "principals=%5B%5D&applyChanges=false",
  });
  const hungUp = performance.now() - asked;
  if ((await listed(first)) !== before) throw new Error("a sync whose client has hung up has changed something");
  let terminated = 0;
  await given(first, form, after, async () => {
    const told = performance.now();
    await first.stop();
    terminated = performance.now() - told;
  });
  const again = await startService(folder, { memory });
  try {
    if ((await listed(again)) !== before) throw new Error("a sync has changed something although the service ended");
  } finally {
    await again.stop();
  }
  return { hungUp, terminated };
}

/** Sends a sync, which must not be answered before it is stopped. */
async function given(
  service: BenchService,
  form: string,
  after: number,
  stop: (abort: AbortController) => Promise<void> | void,
): Promise<void> {
  const abort = new AbortController();
  const answered = sync(service, form, abort.signal).then(
    () => true,
    () => false,
  );
  await sleep(after);
  await stop(abort);
  if (await answered) throw new Error("the sync was answered before it was given up; use a smaller --after");
}

async function listed(service: BenchService): Promise<string> {
  return request(service, "GET", familyB + administrationRoutes.userList.path);
}

function sync(service: BenchService, form: string, signal?: AbortSignal): Promise<string> {
  const path = familyB + administrationRoutes.userSync.path;
  return request(service, "POST", path, {
    type: "application/x-www-form-urlencoded",
    body: createReadStream(form),
    signal,
  });
}

function logIn(service: BenchService, credentials: { username: string; password: string }): Promise<string> {
  const body = new URLSearchParams(credentials).toString();
  return request(service, "POST", familyB + administrationRoutes.login.path, {
    type: "application/x-www-form-urlencoded",
    body,
  });
}

/** The answer's body. @throws {Error} when it is no success */
async function request(
  { url, session }: BenchService,
  method: Route["method"],
  path: string,
  {
    type,
    body = null,
    signal,
  }: { type?: string; body?: string | NodeJS.ReadableStream | null; signal?: AbortSignal | undefined } = {},
): Promise<string> {
  const client = new Client(url, { headersTimeout: 0, bodyTimeout: 0 });
  try {
    const answer = await client.request({
      method,
      path,
      headers: {
        cookie: `${sessionCookie}=${session}`,
        accept: "application/json",
        ...(type === undefined ? {} : { "content-type": type }),
      },
      body: body as string | null,
      signal,
    });
    const text = await answer.body.text();
    if (answer.statusCode >= 300) throw new Error(`${path} was answered ${answer.statusCode}: ${text.slice(0, 500)}`);
    return text;
  } finally {
    await client.destroy();
  }
}

function quantile(times: readonly number[], share: number): number {
  const sorted = times.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, readdir, readlink, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Client } from "undici";
import { controlRoot, controlRoutes, ofControl } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import { startPostgres } from "../support/postgres.ts";
import { companySync, writeCompany } from "./company.ts";
import { roles } from "./crowd/roles.ts";
import type { ClientsRequest, Role, Told } from "./crowd/roles.ts";
import { createDirectory, differenceOf } from "./crowd/directory.ts";
import type { Directory } from "./crowd/directory.ts";
import { judge } from "./crowd/judge.ts";
import type { Observation, Version } from "./crowd/judge.ts";
import { now } from "./crowd/requests.ts";
import type { Report } from "./crowd/requests.ts";
import { pinboardFor, tablesFor } from "./crowd/tables.ts";
import { machine, mebibytes, table, wholeNumber } from "./measure.ts";
import type { Figure } from "./results.ts";
import { startService } from "./service.ts";
import type { BenchService, Cost } from "./service.ts";

/** Of fifty clients so many have each role. */
const shares: Readonly<Record<Role, number>> = {
  list: 8,
  preview: 6,
  previewAll: 2,
  load: 12,
  loadShared: 4,
  loadReplaced: 2,
  query: 6,
  sql: 2,
  member: 3,
  guess: 1,
  mistake: 2,
  hangUp: 2,
};

/** Processes for the clients: those whose answers are large are in the first. */
const processes = 2;

const password = "a-password-of-a-crowd";

/** What the clients of a phase did. */
interface Phase {
  readonly seconds: number;
  readonly requests: number;
  readonly times: Readonly<Record<string, readonly number[]>>;
  readonly refusals: Readonly<Record<string, number>>;
  readonly cost: Cost;
  /** The worst of the clients' own event loops, in milliseconds. */
  readonly late: number;
}

/**
 * `npm run bench -- crowd [--seconds 600] [--clients 50] [--users 20000] [--alone 60] [--engine postgres]`: clients that list,
 * preview, load, query, log in and hang up at a service while its daemon applies one version of a source after the other, each answer
 * compared with a model. Fails when one is wrong. Before that, one client alone does the same in turn for `--alone` seconds. Linux only.
 */
export async function crowd(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seconds: { type: "string", default: "600" },
      clients: { type: "string", default: "50" },
      users: { type: "string", default: "20000" },
      alone: { type: "string", default: "60" },
      engine: { type: "string", default: "duckdb" },
    },
  });
  const [seconds, clients, users, alone] = [values.seconds, values.clients, values.users, values.alone].map(
    wholeNumber,
  ) as [number, number, number, number];
  const engine = values.engine === "postgres" ? "postgres" : "duckdb";
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-crowd-"));
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const directory = createDirectory(users);
  const observations: Observation[] = [];
  const wrong: string[] = [];
  const service = await prepare(folder, clients + 1, engine, stack);
  const applying = await startApplying(folder, directory, service.url);

  const phase = async (given: ClientsRequest["clients"], forSeconds: number): Promise<Phase> => {
    const before = applying.versions.length;
    const { result, cost } = await service.watch(() =>
      runClients(
        { url: service.url, session: service.session, password, users },
        given,
        forSeconds,
        applying,
        (report) => {
          observations.push(...report.observations);
          wrong.push(...report.wrong);
          for (const each of report.wrong) console.error(`WRONG: ${each}`);
        },
      ),
    );
    console.error(
      `${given.length} clients: ${result.requests} requests, ${applying.versions.length - before} versions`,
    );
    return { ...result, cost };
  };
  const first = await phase([{ id: clients, roles }], alone);
  const aloneSyncs = applying.times.splice(0);
  const all = await phase(
    Array.from({ length: clients }, (_, id) => ({ id, roles: [roleOf(id, clients)] })),
    seconds,
  );
  const runs = applying.times.splice(0);
  await applying.end();
  wrong.push(...judge(observations, applying.versions), ...(await leftBehind(folder)));
  await service.stop();
  if (wrong.length > 0)
    throw new Error(
      `${wrong.length} wrong answers, such as:\n${wrong.slice(0, 20).join("\n")}\n${await lastOf(folder)}`,
    );

  const withRuns = (each: Phase, times: readonly number[]): Phase => ({
    ...each,
    times: { ...each.times, "a run of the sync": times },
  });
  const [one, many] = [withRuns(first, aloneSyncs), withRuns(all, runs)];
  console.log(
    `${machine()}; ${users.toLocaleString("en")} users, engine ${engine}, ${clients} clients for ${seconds} s. ` +
      `${observations.length.toLocaleString("en")} answers were compared with the states of ${applying.versions.length} versions, ` +
      "and every other one with what it had to be: none was wrong.\n",
  );
  console.log(table(header, rowsOf(one, many)));
  const refused = Object.entries(many.refusals).map(([what, count]) => `${what}, ${count} times`);
  const { eventLoop, memory, cpu, health } = many.cost;
  console.log(
    `${(many.requests / many.seconds).toFixed(0)} requests a second. Refused: ${refused.join("; ") || "none"}. ` +
      `Service and daemon: event loop p99 ${eventLoop.p99.toFixed(1)} (${eventLoop.max.toFixed(0)}) ms, ` +
      `peak ${mebibytes(memory)}, ${(cpu / 1000 / many.seconds).toFixed(2)} processors; /healthz p99 ${health.p99.toFixed(1)} (${health.max.toFixed(0)}) ms. ` +
      `The clients' event loops: p99 ${many.late.toFixed(0)} ms. ` +
      `One client alone: event loop p99 ${one.cost.eventLoop.p99.toFixed(1)} ms, peak ${mebibytes(one.cost.memory)}.`,
  );
  return figuresOf(one, many, clients, engine);
}

/** The roles in proportion to their shares, whatever the number of clients. */
function roleOf(id: number, clients: number): Role {
  const pattern = roles.flatMap((role) => Array.from({ length: shares[role] }, () => role));
  return pattern[Math.floor(((id + 0.5) * pattern.length) / clients)] ?? "list";
}

async function prepare(
  folder: string,
  clients: number,
  engine: "duckdb" | "postgres",
  stack: AsyncDisposableStack,
): Promise<BenchService> {
  await mkdir(join(folder, "pinboards"));
  await writeFile(join(folder, "tables.sql"), tablesFor(clients, engine));
  await writeFile(join(folder, "pinboards", "crowd.yaml"), pinboardFor(clients));
  const settings: Record<string, unknown> = {
    tables: join(folder, "tables.sql"),
    pinboards: join(folder, "pinboards"),
    // So that each client can have an address of its own.
    trustedProxies: ["127.0.0.1"],
  };
  if (engine === "postgres") {
    const server = await startPostgres({ isFast: false });
    stack.defer(() => server.stop());
    settings["engine"] = { postgres: await server.createDatabase() };
  }
  const daemon = companySync({ defaultPassword: password });
  const service = await startService(folder, { memory: 1024 ** 3, settings, daemon });
  stack.defer(() => service.stop());
  return service;
}

/** The daemon, which applies one version after the other. */
interface Applying {
  readonly versions: Version[];
  /** How long the runs took that have ended, in milliseconds. */
  readonly times: number[];
  /** Is told before a version may be applied. */
  tell: (version: number) => void;
  end(): Promise<void>;
}

async function startApplying(folder: string, directory: Directory, url: string): Promise<Applying> {
  const token = await tokenOf(folder);
  const client = new Client(url, { headersTimeout: 0, bodyTimeout: 0 });
  const control = async ({ method, path }: Route): Promise<{ status: number; run: Run }> => {
    const { statusCode, body } = await client.request({
      method,
      path: controlRoot + path,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: method === "POST" ? "{}" : null,
    });
    const text = await body.text();
    if (statusCode >= 300) throw new Error(`${path} was answered ${statusCode}: ${text}`);
    return { status: statusCode, run: JSON.parse(text) as Run };
  };
  const over = new AbortController();
  const self: Applying = {
    versions: [],
    times: [],
    tell: () => undefined,
    end: async () => {
      over.abort();
      await going;
      await client.close();
    },
  };
  const apply = async (version: number): Promise<void> => {
    await writeCompany(folder, directory.source(version));
    const began = now();
    self.tell(version);
    self.versions.push({ began, ended: Infinity });
    const { run } = await control(ofControl(controlRoutes.run, "all"));
    let end = await control(ofControl(controlRoutes.end, run.id));
    while (end.status === 202) {
      await sleep(20);
      end = await control(ofControl(controlRoutes.end, run.id));
    }
    const ended = now();
    self.versions[version] = { began, ended };
    self.times.push(ended - began);
    const expected = version === 0 ? undefined : countsOf(directory, version);
    const found = end.run.counts;
    const isExpected = expected === undefined || JSON.stringify(expected) === JSON.stringify(shortened(found));
    if (end.run.state !== "applied" || !isExpected)
      throw new Error(
        `the run of version ${version} has ended as ${JSON.stringify(end.run)}, not ${JSON.stringify(expected)}`,
      );
  };
  await apply(0);
  self.times.splice(0);
  const going = (async () => {
    for (let version = 1; !over.signal.aborted; version++) await apply(version);
  })();
  // It is looked at when it ends.
  going.catch((error: unknown) => {
    console.error(error);
  });
  return self;
}

/** The daemon's, once it is there. */
async function tokenOf(folder: string): Promise<string> {
  for (;;) {
    const text = await readFile(join(folder, "data", "daemon", "control.json"), "utf8").catch(() => "{}");
    const { token } = JSON.parse(text) as { token?: string };
    if (token !== undefined) return token;
    await sleep(20);
  }
}

interface Run {
  readonly id: string;
  readonly state: string;
  readonly counts?: Counts;
}

type Count = Readonly<Record<"create" | "update" | "delete", number>>;
type Counts = Readonly<Record<"users" | "groups", Count>>;

const shortened = (counts: Counts | undefined): readonly (readonly number[])[] =>
  (["users", "groups"] as const).map((kind) => {
    const { create = 0, update = 0, delete: deleted = 0 } = counts?.[kind] ?? {};
    return [create, update, deleted];
  });

function countsOf(directory: Directory, version: number): readonly (readonly number[])[] {
  const list = directory.state(version).principals.filter(({ created }) => created >= 0);
  const found = differenceOf(list, directory.state(version - 1), true);
  return (["users", "groups"] as const).map((kind) =>
    (["Added", "Updated", "Deleted"] as const).map((how) => found[`${kind}${how}`].length),
  );
}

async function runClients(
  common: Omit<ClientsRequest, "clients">,
  clients: ClientsRequest["clients"],
  seconds: number,
  applying: Applying,
  reported: (report: Report) => void,
): Promise<Omit<Phase, "cost">> {
  const times: Record<string, number[]> = {};
  const refusals: Record<string, number> = {};
  let [requests, late] = [0, 0];
  const count = Math.min(processes, clients.length);
  const large = new Set<Role>(["list", "preview", "previewAll", "hangUp"]);
  const parts = Array.from({ length: count }, (_, part) =>
    clients.filter(({ roles: [role] }) => count === 1 || large.has(role ?? "list") === (part === 0)),
  );
  const children = parts.map((part) => {
    const script = fileURLToPath(new URL("crowd/clients.ts", import.meta.url));
    return fork(script, [JSON.stringify({ ...common, clients: part } satisfies ClientsRequest)], {
      serialization: "advanced",
    });
  });
  const tell = (told: Told): void => {
    for (const child of children) if (child.connected) child.send(told);
  };
  const ended = Promise.all(children.map((child) => once(child, "exit")));
  const ready = Promise.all(children.map((child) => once(child, "message")));
  for (const child of children)
    child.on("message", (report: Report) => {
      for (const [what, all] of Object.entries(report.times)) (times[what] ??= []).push(...all);
      for (const [what, more] of Object.entries(report.refusals)) refusals[what] = (refusals[what] ?? 0) + more;
      requests += report.requests;
      late = Math.max(late, report.late);
      reported(report);
    });
  applying.tell = (version) => {
    tell({ version });
  };
  await Promise.race([ready, ended]);
  const began = now();
  tell({ version: applying.versions.length - 1 });
  await Promise.race([sleep(seconds * 1000), ended]);
  tell("end");
  for (const [code] of await ended) if (code !== 0) throw new Error(`a process of clients ended with ${code}`);
  applying.tell = () => undefined;
  return { seconds: (now() - began) / 1000, times, refusals, requests, late };
}

/** What requests have left behind a moment after the last of them: files, also those that are only open any more. */
async function leftBehind(folder: string): Promise<string[]> {
  const service = join(folder, "data", "service");
  const { pid } = JSON.parse(await readFile(join(folder, "data", "service.json"), "utf8")) as { pid: number };
  const found = async (): Promise<string[]> => {
    const there = ["answers", "uploads"].map(async (name) => {
      const files = await readdir(join(service, name)).catch(() => []);
      return files.map((file) => `${name}/${file} was left behind`);
    });
    const open = (await readdir(`/proc/${pid}/fd`)).map(async (fd) => {
      const file = await readlink(`/proc/${pid}/fd/${fd}`).catch(() => "");
      return file.endsWith(" (deleted)") && file.startsWith(service) ? [`${file} was left open`] : [];
    });
    return (await Promise.all([...there, ...open])).flat();
  };
  for (let attempt = 0; attempt < 50 && (await found()).length > 0; attempt++) await sleep(100);
  return found();
}

/** The end of the service's log, without what is only said of each request. */
async function lastOf(folder: string): Promise<string> {
  const lines = (await readFile(join(folder, "service.log"), "utf8")).split("\n");
  return lines
    .filter((line) => /"level":(?:40|50|60)|warn|error/i.test(line) && !/login of/.test(line))
    .slice(-20)
    .join("\n");
}

const header = [
  "what",
  "requests",
  "a second",
  "p50",
  "p99",
  "max",
  "alone, p50",
  "alone, p99",
  "ratio of p50",
  "ratio of p99",
];

function quantile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? Number.NaN;
}

function cell(value: number, digits: number, unit = ""): string {
  return Number.isNaN(value) ? "" : value.toFixed(digits) + unit;
}

/** Of each kind of request how long they took; what was broken off took no time. */
function measured({ times }: Phase): [what: string, times: readonly number[]][] {
  return Object.entries(times)
    .filter(([what, all]) => what !== "hang-up" && all.length > 0)
    .toSorted(([one], [other]) => (one < other ? -1 : 1));
}

function rowsOf(one: Phase, many: Phase): string[][] {
  return measured(many).map(([what, times]) => {
    const alone = one.times[what] ?? [];
    const [p50, p99] = [quantile(times, 0.5), quantile(times, 0.99)];
    const [alone50, alone99] = [quantile(alone, 0.5), quantile(alone, 0.99)];
    return [
      what,
      String(times.length),
      (times.length / many.seconds).toFixed(1),
      ...[p50, p99, quantile(times, 1), alone50, alone99].map((time) => cell(time, 0, " ms")),
      ...[p50 / alone50, p99 / alone99].map((ratio) => cell(ratio, 1)),
    ];
  });
}

function figuresOf(one: Phase, many: Phase, clients: number, engine: string): Figure[] {
  const { cpu, memory, eventLoop } = many.cost;
  const where = engine === "duckdb" ? "" : " on PostgreSQL";
  const crowded = `${clients} clients${where}`;
  return [
    {
      what: `${crowded}, all requests`,
      value: many.requests / many.seconds,
      unit: "a second",
      cpu,
      memory,
      eventLoop: eventLoop.p99,
    },
    { what: `${crowded}, event loop p99`, value: eventLoop.p99, unit: "ms", goal: 50 },
    ...measured(many).flatMap(([what, times]): Figure[] => {
      const alone = quantile(one.times[what] ?? [], 0.5);
      const limit = Number.isNaN(alone) ? undefined : { by: "one client, p50", value: alone };
      return [
        { what: `${crowded}, ${what}`, value: times.length / many.seconds, unit: "a second" },
        // Who waits for a turn of everybody else waits so long.
        { what: `${crowded}, ${what}, p99`, value: quantile(times, 0.99), unit: "ms", limit, goal: limit && clients },
      ];
    }),
  ];
}

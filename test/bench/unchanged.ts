import { fork, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, open, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { megabytes } from "./at-rest.ts";
import type { ClientRequest, Timing } from "./client.ts";
import type { Delays } from "./event-loop.ts";
import { machine, median, runApart, seconds, table, wholeNumber } from "./measure.ts";
import type { Figure } from "./results.ts";
import type { UnchangedLimitRequest, UnchangedLimitTiming } from "./unchanged-limit.ts";

const rollcall = fileURLToPath(new URL("../../bin/rollcall.js", import.meta.url));

/**
 * One run: its time and that of all processors together in milliseconds, the peak of the resident memory of its process
 * and that a moment later in bytes.
 */
interface Sample {
  readonly milliseconds: number;
  readonly cpu: number;
  readonly peak: number;
  readonly after?: number;
  readonly eventLoop?: Delays;
}

/**
 * `npm run bench -- unchanged [--n 100000,1000000] [--rounds 5] [--settle 10]`: a run that finds nothing to change in a directory of so
 * many users (of more than 300,000 in one round), in CSV files: by `rollcall apply` alone, which starts the service for itself, and by a service and daemon
 * that run. Where files are new, a column that no rule reads has changed, so that everything is read; in another order, everything is
 * planned, too; otherwise they are those of the run before. Before that the first run, which creates everybody. Beside them DuckDB
 * alone, which reads the same files and the same list and joins them; and, for the first, writes what it makes of the files. Linux only.
 */
export async function unchanged(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      n: { type: "string", default: "100000,1000000" },
      rounds: { type: "string", default: "5" },
      settle: { type: "string", default: "10" },
    },
  });
  const settle = wholeNumber(values.settle);
  const figures: Figure[] = [];
  for (const users of values.n.split(",").map(wholeNumber))
    figures.push(...(await measure(users, users > 300_000 ? 1 : wholeNumber(values.rounds), settle)));
  return figures;
}

async function measure(users: number, rounds: number, settle: number): Promise<Figure[]> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-"));
  try {
    const limit = await prepare(folder, users);
    const samples: Record<string, Sample[]> = {};
    const add = (name: string, sample: Sample): void => {
      (samples[name] ??= []).push(sample);
      console.error(
        `${name}: ${seconds(sample.milliseconds)} (CPU ${seconds(sample.cpu)}), ${megabytes(sample.peak)}` +
          (sample.eventLoop === undefined ? "" : `, event loop ${late(sample.eventLoop)}`),
      );
    };
    for (let round = 0; round < rounds; round++) {
      await rm(join(folder, "data"), { recursive: true, force: true });
      add(first, await apply(folder));
    }
    let exported = 0;
    const renew = (order: Order = "ascending"): Promise<void> => writeUsers(limit.users, users, ++exported, order);
    await renew();
    add(afterChange, await apply(folder));
    for (let round = 0; round < rounds; round++) {
      await renew();
      add("`rollcall apply` by itself, new files", await apply(folder));
      add("`rollcall apply` by itself, nothing new", await apply(folder));
      const samples = await inDaemon(folder, { settle, list: limit.list, renew });
      for (const [name, sample] of samples) add(`in a service and daemon, ${name}`, sample);
      for (const order of ["descending", "ascending"] as const) {
        await renew(order);
        add(inAnotherOrder, await apply(folder));
      }
      for (const [name, request] of [
        [alone, limit],
        [aloneWriting, { ...limit, written: join(folder, "written.json") }],
      ] as const) {
        const found = await runApart<UnchangedLimitTiming>("unchanged-limit.ts", request);
        if (found.differences !== 0) throw new Error(`DuckDB finds ${found.differences} differences`);
        add(name, found);
      }
    }
    console.log(`${machine()}, ${users.toLocaleString("en")} users.\n`);
    console.log(table(header, summary(samples)));
    console.log(
      `Medians of ${rounds}, peaks and delays the worst. \`rollcall apply\` counts from its start to its end.`,
    );
    return figuresOf(users, samples);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const first = "`rollcall apply` by itself, the first: plan, preview, apply and verification";
const afterChange = "`rollcall apply` by itself, new files, the first after a change";
const inAnotherOrder = "`rollcall apply` by itself, new files in another order";
const alone = "DuckDB alone";
const aloneWriting = "DuckDB alone, writing the list, too";

/** What a run is compared with. */
function limitOf(name: string): string {
  return name === first ? aloneWriting : alone;
}

/** How many times as long as that a run may take on two cores. */
function goalOf(name: string, users: number): number {
  if (name === first) return 6;
  if (name !== afterChange && name !== inAnotherOrder) return 3;
  return users < 1_000_000 ? 5 : 4;
}

const header = ["a run", "time", "ratio", "CPU", "ratio", "peak memory", "10 s later", "event loop p99 (max)"];

function summary(samples: Readonly<Record<string, readonly Sample[]>>): string[][] {
  const middle = (all: readonly Sample[] = [], of: (sample: Sample) => number | undefined): number =>
    median(all.map(of).filter((each) => each !== undefined));
  const ratio = (name: string, of: (sample: Sample) => number): string =>
    name === alone || name === aloneWriting
      ? ""
      : (middle(samples[name], of) / middle(samples[limitOf(name)], of)).toFixed(1);
  return Object.entries(samples).map(([name, all]) => {
    const delays = all.flatMap(({ eventLoop }) => eventLoop ?? []);
    const worst = (of: keyof Delays): number => Math.max(...delays.map((each) => each[of]));
    return [
      name,
      seconds(middle(all, ({ milliseconds }) => milliseconds)),
      ratio(name, ({ milliseconds }) => milliseconds),
      seconds(middle(all, ({ cpu }) => cpu)),
      ratio(name, ({ cpu }) => cpu),
      megabytes(Math.max(...all.map(({ peak }) => peak))),
      all.some(({ after }) => after !== undefined) ? megabytes(middle(all, ({ after }) => after)) : "",
      delays.length === 0 ? "" : late({ p99: worst("p99"), max: worst("max") }),
    ];
  });
}

/** The goals are those on two cores, in bytes. */
function figuresOf(users: number, samples: Readonly<Record<string, readonly Sample[]>>): Figure[] {
  const middle = (all: readonly Sample[] = [], of: (sample: Sample) => number): number => median(all.map(of));
  return Object.entries(samples)
    .filter(([name]) => name !== alone && name !== aloneWriting)
    .flatMap(([name, all]): Figure[] => {
      const memory = Math.max(...all.map(({ peak }) => peak));
      const delays = all.flatMap(({ eventLoop }) => eventLoop?.p99 ?? []);
      const value = middle(all, ({ milliseconds }) => milliseconds);
      const cpu = middle(all, (sample) => sample.cpu);
      const what = `${users.toLocaleString("en")} users, ${name}`;
      const by = limitOf(name);
      const limit = { by, value: middle(samples[by], ({ milliseconds }) => milliseconds) };
      return [
        { what, value, unit: "ms", limit, goal: goalOf(name, users), cpu, memory },
        {
          what: `${what}: peak memory`,
          value: memory,
          unit: "bytes",
          goal: name === first ? undefined : users < 1_000_000 ? 350e6 : 900e6,
        },
        ...delays
          .map((): Figure => ({ what: `${what}: event loop p99`, value: Math.max(...delays), unit: "ms", goal: 50 }))
          .slice(0, 1),
      ];
    });
}

function late({ p99, max }: Delays): string {
  return `${Math.round(p99)} (${Math.round(max)}) ms`;
}

type Order = "ascending" | "descending";

/** @param exported what the last column has, which no rule reads */
async function writeUsers(file: string, users: number, exported: number, order: Order = "ascending"): Promise<void> {
  const row = (i: number): string =>
    `e${i},u${String(i).padStart(7, "0")},Ada Lovelace ${i},u${i}@example.com,${exported}\n`;
  const rows = Array.from({ length: users }, (_, i) => row(order === "ascending" ? i : users - 1 - i)).join("");
  await writeFile(file, `employee,login,display_name,mail,exported\n${rows}`);
}

/** A company with a group for every 50 users, and five memberships each. */
async function prepare(folder: string, users: number): Promise<UnchangedLimitRequest> {
  const file = (name: string): string => join(folder, name);
  const groups = Math.max(10, Math.floor(users / 50));
  const rows = (count: number, row: (index: number) => string): string =>
    Array.from({ length: count }, (_, i) => row(i)).join("");
  await writeFile(file("groups.csv"), `unit,title\n${rows(groups, (i) => `g${i},Team ${i}\n`)}`);
  await writeUsers(file("users.csv"), users, 0);
  const unit = (user: number, nth: number): number => (user * 7 + nth * 13 * (1 + (user % 11))) % groups;
  const membershipsOf = (user: number): string =>
    [...new Set([0, 1, 2, 3, 4].map((nth) => unit(user, nth)))].map((each) => `g${each},e${user}\n`).join("");
  await writeFile(file("memberships.csv"), `unit,person\n${rows(users, membershipsOf)}`);
  // JSON is YAML.
  const configuration = {
    service: {
      listen: "127.0.0.1:0",
      data: "data",
      administrator: { name: "admin", password: "a-password-for-a-bench" },
    },
    targets: { here: "embedded" },
    sources: {
      company: {
        connector: "csv",
        users: { file: "users.csv", id: "employee" },
        groups: { file: "groups.csv", id: "unit" },
        memberships: { file: "memberships.csv", group: "unit", member: "person" },
      },
    },
    syncs: {
      all: {
        from: ["company"],
        to: "here",
        users: { name: "lower(entry.login)", displayName: "entry.display_name", mail: "entry.mail" },
        groups: { name: "entry.title", displayName: "entry.title" },
      },
    },
  };
  await writeFile(file("rollcall.yaml"), JSON.stringify(configuration));
  const [list, memory] = [file("list.json"), 1024 ** 3];
  return { users: file("users.csv"), groups: file("groups.csv"), memberships: file("memberships.csv"), list, memory };
}

async function apply(folder: string): Promise<Sample> {
  const started = performance.now();
  const child = spawn(process.execPath, [rollcall, "apply", "--yes", "--config", join(folder, "rollcall.yaml")], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  let [peak, cpu] = [0, 0];
  const exit = once(child, "exit");
  while (child.exitCode === null && child.signalCode === null) {
    peak = Math.max(peak, await memoryOf(child.pid, "VmHWM").catch(() => 0));
    cpu = Math.max(cpu, await cpuOf(child.pid).catch(() => 0));
    await sleep(20);
  }
  await exit;
  if (child.exitCode !== 0) throw new Error(`rollcall apply ended with ${child.exitCode ?? child.signalCode}`);
  return { milliseconds: performance.now() - started, cpu, peak };
}

/**
 * Runs in one process: the first finds nothing loaded.
 * @param options.settle how long after a run its memory is looked at, in seconds
 * @param options.list the file that the service's list is written to
 * @param options.renew makes the files new
 */
async function inDaemon(
  folder: string,
  { settle, list, renew }: { readonly settle: number; readonly list: string; renew(): Promise<void> },
): Promise<[name: string, sample: Sample][]> {
  await using log = await open(join(folder, "log"), "w");
  const config = join(folder, "rollcall.yaml");
  const child = fork(rollcall, ["start", "--config", config], {
    execArgv: [...process.execArgv, "--import", fileURLToPath(new URL("event-loop.ts", import.meta.url))],
    stdio: ["ignore", log.fd, log.fd, "ipc"],
  });
  const exit = once(child, "exit");
  try {
    await until(async () => (await present(folder)).pid === child.pid);
    const known = new Set((await runs(folder)).map(({ id }) => id));
    const { url, session } = await present(folder);
    await runApart<Timing>("client.ts", { url, session, answer: list } satisfies ClientRequest);
    const samples: [string, Sample][] = [];
    for (const name of ["nothing new", "new files", "new files", "nothing new"]) {
      if (name === "new files") await renew();
      await writeFile(`/proc/${child.pid}/clear_refs`, "5");
      await delaysOf(child);
      const before = await cpuOf(child.pid);
      child.kill("SIGUSR1");
      const found = await until(async () => (await runs(folder)).find(({ id, endedAt }) => !known.has(id) && endedAt));
      if (found.state !== "no change") throw new Error(`the run has ended as ${found.state}`);
      known.add(found.id);
      const milliseconds = Date.parse(found.endedAt ?? "") - Date.parse(found.startedAt);
      const cpu = (await cpuOf(child.pid)) - before;
      const peak = await memoryOf(child.pid, "VmHWM");
      const eventLoop = await delaysOf(child);
      await sleep(settle * 1000);
      samples.push([name, { milliseconds, cpu, peak, eventLoop, after: await memoryOf(child.pid, "VmRSS") }]);
    }
    return samples;
  } finally {
    child.kill("SIGTERM");
    await exit;
  }
}

interface Run {
  readonly id: string;
  readonly state: string;
  readonly startedAt: string;
  readonly endedAt?: string;
}

async function runs(folder: string): Promise<readonly Run[]> {
  const text = await readFile(join(folder, "data", "daemon", "journal.json"), "utf8");
  return (JSON.parse(text) as { runs: Run[] }).runs;
}

async function present(folder: string): Promise<{ pid?: number; url: string; session: string }> {
  const text = await readFile(join(folder, "data", "service.json"), "utf8").catch(() => "{}");
  return JSON.parse(text) as { pid?: number; url: string; session: string };
}

/** A line of the process's status, in bytes. @throws {Error} when the process has ended */
async function memoryOf(pid: number | undefined, what: "VmHWM" | "VmRSS"): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const [, kibibytes] = new RegExp(`^${what}:\\s+(\\d+) kB$`, "m").exec(status) ?? [];
  if (kibibytes === undefined) throw new Error(`process ${pid} has ended`);
  return Number(kibibytes) * 1024;
}

/** The time that the processors have spent on a process, in milliseconds. @throws {Error} when it has ended */
async function cpuOf(pid: number | undefined): Promise<number> {
  const [, fields = ""] = (await readFile(`/proc/${pid}/stat`, "utf8")).split(") ");
  const [user = Number.NaN, system = Number.NaN] = fields.split(" ").slice(11, 13).map(Number);
  return (user + system) * 10;
}

/** How late the timers of a process were since the last time. */
async function delaysOf(child: ChildProcess): Promise<Delays> {
  child.send("delays");
  const [delays] = (await once(child, "message")) as [Delays];
  return delays;
}

async function until<Value>(look: () => Promise<Value | undefined | false>): Promise<Value> {
  const end = performance.now() + 1_200_000;
  while (performance.now() < end) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    await sleep(50);
  }
  throw new Error("nothing came of it within twenty minutes");
}

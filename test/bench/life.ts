import { fork, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { appendFile, mkdir, mkdtemp, open, readFile, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Connection } from "#control/connection.ts";
import { readDaemonPresence } from "#control/presence.ts";
import type { RunList } from "#control/routes.ts";
import type { RunDocument, SyncStatus } from "#state/record.ts";
import { controlRoutes, ofControl } from "#wire/routes.ts";
import { configureCompany, ordinaryCompany, writeCompany } from "./company.ts";
import type { Inside } from "./life-inside.ts";
import { cpuOfAll, cpuTimes, machine, mebibytes, median, table, wholeNumber, withChildren } from "./measure.ts";
import type { Figure } from "./results.ts";

const pathOf = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));
const rollcall = pathOf("../../bin/rollcall.js");

/** How the process and its data folder are after so many runs. Sizes are in bytes, times in milliseconds. */
interface Sample extends Inside {
  /** Which process it is of: each piece of a life has one of its own. */
  readonly piece: number;
  readonly runs: number;
  readonly resident: number;
  /** What is open: files, sockets, pipes. */
  readonly handles: number;
  readonly threads: number;
  readonly files: number;
  readonly folder: number;
  /** The folder's size by its parts. */
  readonly parts: Readonly<Record<string, number>>;
  /** What a run took since the last sample, and what all processors together spent on it. */
  readonly milliseconds: number;
  readonly cpu: number;
}

/** What is known of a life so far, in `life.json` of its folder where it goes on later. */
interface Past {
  readonly seconds: number;
  readonly runs: number;
  readonly samples: readonly Sample[];
  /** How many runs ended how, and how many slots were skipped. */
  readonly outcomes: Readonly<Record<string, number>>;
}

interface Life extends Past {
  readonly name: string;
  /** Of `rollcall runs` at the end. */
  readonly command: { readonly milliseconds: number; readonly cpu: number };
}

interface LifeOptions {
  readonly users: number;
  readonly every: number;
  /** How long a process rests before it is looked at, in milliseconds: DuckDB gives back memory about ten seconds late. */
  readonly settle: number;
  /** How often `rollcall runs` is called at the end. */
  readonly rounds: number;
  /** A file that gets each sample as a line of JSON. */
  readonly samples: string | undefined;
  /** Where lives go on that an earlier call has begun, and stay for the next one. */
  readonly folder: string | undefined;
}

/**
 * The journal remembers so many runs, a tenth of what it does by default. Those without changes go first: where one run in ten has
 * changes, which take more room, it has grown once there were ten times as many runs.
 */
const journal = { runs: 100 };

/** After so many runs a process has what it remembers of runs: the metrics, of a thousand; and the journal. */
const settled = 1000;

/**
 * `npm run bench -- life [--runs 10000] [--minutes 600] [--scheduled 1800] [--users 1000] [--every 200]
 * [--settle 12] [--rounds 5] [--samples FILE] [--folder FOLDER]`: two processes of
 * `rollcall start`, each with a sync of its own that runs again and again: in one so many times as fast as it goes (or for so many minutes,
 * if that is less), each after a small change of its source; in the other for so many seconds by a schedule with a slot each second, with
 * a change every ten seconds. 0 leaves one of them out. Every so many runs a process is looked at, once it has rested for so many seconds
 * (unless it runs by a schedule) and its garbage has been collected: its memory, what it has open, its data folder. With `--folder`, lives go on
 * in the next call with the same folder, each piece in a process of its own, and the table is of all pieces so far. Linux only.
 */
export async function life(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      runs: { type: "string", default: "10000" },
      minutes: { type: "string", default: "600" },
      scheduled: { type: "string", default: "1800" },
      users: { type: "string", default: "1000" },
      every: { type: "string", default: "200" },
      settle: { type: "string", default: "12" },
      rounds: { type: "string", default: "5" },
      samples: { type: "string" },
      folder: { type: "string" },
    },
  });
  const [users, every, rounds] = [values.users, values.every, values.rounds].map(wholeNumber) as [
    number,
    number,
    number,
  ];
  const options = {
    users,
    every,
    settle: Number(values.settle) * 1000,
    rounds,
    samples: values.samples,
    folder: values.folder,
  };
  const most = { runs: Number(values.runs), seconds: wholeNumber(values.minutes) * 60 };
  const scheduled = Number(values.scheduled);
  const lives = await Promise.all([
    ...(most.runs > 0 ? [asFastAsItGoes(most, options)] : []),
    ...(scheduled > 0 ? [bySchedule(scheduled, { ...options, settle: 0 })] : []),
  ]);
  console.log(`${machine()}, ${users.toLocaleString("en")} users.\n`);
  console.log(table(header, lives.map(rowOf)));
  return lives.flatMap(figuresOf);
}

async function asFastAsItGoes(most: Most, options: LifeOptions): Promise<Life> {
  return live("as fast as it goes", options, {}, async ({ change, connection, ended, isOver }) => {
    while (!isOver(most)) {
      await change();
      const { signal } = new AbortController();
      const started = await connection.request(ofControl(controlRoutes.run, "all"), signal);
      const { id } = started.value as RunDocument;
      for (let isOver = false; !isOver; await sleep(20)) {
        const { status, value } = await connection.request(ofControl(controlRoutes.end, id), signal);
        isOver = status === 200;
        if (isOver) await ended(value as RunDocument);
      }
    }
  });
}

async function bySchedule(most: number, options: LifeOptions): Promise<Life> {
  const settings = { schedule: "* * * * * *" };
  return live("a slot each second", options, settings, async ({ change, connection, ended, isOver, skipped }) => {
    const { signal } = new AbortController();
    const seen = new Set<string>();
    const began = new Date().toISOString();
    let [changed, skippedBefore] = [performance.now(), began];
    while (!isOver({ seconds: most })) {
      await sleep(200);
      const recent = await connection.request(
        { ...controlRoutes.runs, path: `${controlRoutes.runs.path}?limit=20` },
        signal,
      );
      const { value } = await connection.request(controlRoutes.syncs, signal);
      for (const { at } of (value as { syncs: SyncStatus[] }).syncs.flatMap((each) => each.skipped))
        if (at > skippedBefore) {
          skippedBefore = at;
          skipped();
        }
      const { runs } = recent.value as RunList;
      for (const run of runs
        .toReversed()
        .filter(({ id, startedAt, endedAt }) => endedAt !== undefined && startedAt > began && !seen.has(id))) {
        seen.add(run.id);
        // Between two slots: a run that is reading the file then would rather fail.
        if (performance.now() - changed > 10_000) {
          changed = performance.now();
          await change();
        }
        await ended(run);
      }
    }
  });
}

/** One process from its start to its end, as whoever has it run sees it. */
interface Living {
  readonly connection: Connection;
  /** Changes the source a little. */
  change(): Promise<void>;
  /** Counts a run, and takes a sample when it is time. */
  ended(run: RunDocument): Promise<void>;
  skipped(): void;
  isOver(most: Most): boolean;
}

/** When a life, or its piece, ends: after so many runs in all, or so many seconds of this piece. */
interface Most {
  readonly runs?: number;
  readonly seconds?: number;
}

async function live(
  name: string,
  { users, every, settle, rounds, samples: file, folder: kept }: LifeOptions,
  settings: Readonly<Record<string, unknown>>,
  work: (living: Living) => Promise<void>,
): Promise<Life> {
  const folder =
    kept === undefined ? await mkdtemp(join(tmpdir(), "rollcall-bench-")) : join(kept, name.replaceAll(" ", "-"));
  try {
    const past = await pastOf(folder);
    const config = await configureCompany(folder, settings, { journal });
    if (past.runs === 0) await change(folder, users, 0);
    const log = await open(join(folder, "log"), "w");
    const child = fork(rollcall, ["start", "--config", config], {
      execArgv: [...process.execArgv, "--import", pathOf("life-inside.ts")],
      stdio: ["ignore", log.fd, log.fd, "ipc"],
    });
    await log.close();
    const exit = once(child, "exit");
    const samples: Sample[] = [...past.samples];
    const piece = (past.samples.at(-1)?.piece ?? 0) + 1;
    const outcomes: Record<string, number> = { ...past.outcomes };
    const count = (what: string): void => void (outcomes[what] = (outcomes[what] ?? 0) + 1);
    try {
      const connection = await connect(child, folder);
      const began = performance.now();
      let [runs, changes, times, cpu] = [past.runs, past.runs, [] as number[], await cpuOfAll(child.pid ?? 0)];
      const look = async (): Promise<void> => {
        const spent = ((await cpuOfAll(child.pid ?? 0)) - cpu) / times.length;
        await sleep(settle);
        const now = await lookAt(child, join(folder, "data"));
        const sample = { piece, runs, milliseconds: median(times), cpu: spent, ...now };
        samples.push(sample);
        if (file !== undefined) await appendFile(file, `${JSON.stringify({ name, ...sample })}\n`);
        if (samples.length % 10 === 1) console.error(`${name}: ${rowOfSample(sample)}`);
        [times, cpu] = [[], await cpuOfAll(child.pid ?? 0)];
      };
      await work({
        connection,
        change: () => change(folder, users, ++changes),
        ended: async ({ id, state, startedAt, endedAt, error }) => {
          if (state !== "applied" && state !== "no change")
            console.error(`${name}: ${id}: ${state}: ${error?.message}`);
          count(state);
          times.push(Date.parse(endedAt ?? "") - Date.parse(startedAt));
          runs++;
          if (runs % every === 0) await look();
        },
        skipped: () => count("skipped"),
        isOver: (most) =>
          runs >= (most.runs ?? Infinity) || performance.now() - began > (most.seconds ?? Infinity) * 1000,
      });
      // Of a piece that is shorter than that, none: its last run may be under way.
      if (samples.length === 0) await look();
      const seconds = past.seconds + (performance.now() - began) / 1000;
      await writeFile(join(folder, "life.json"), JSON.stringify({ seconds, runs, samples, outcomes } satisfies Past));
      return { name, seconds, runs, samples, outcomes, command: await timeCommand(config, rounds) };
    } catch (error) {
      throw new Error((await readFile(join(folder, "log"), "utf8")).slice(-5000), { cause: error });
    } finally {
      child.kill("SIGTERM");
      await exit;
    }
  } finally {
    if (kept === undefined) await rm(folder, { recursive: true, force: true });
  }
}

/** What earlier pieces of the life in a folder have found; of a new one nothing. */
async function pastOf(folder: string): Promise<Past> {
  await mkdir(folder, { recursive: true });
  const text = await readFile(join(folder, "life.json"), "utf8").catch(() => undefined);
  return text === undefined ? { seconds: 0, runs: 0, samples: [], outcomes: {} } : (JSON.parse(text) as Past);
}

/** Somebody has another address than before; in every second ten of runs, somebody is there who is not in the others. */
async function change(folder: string, users: number, nth: number): Promise<void> {
  const next = join(folder, "next");
  await mkdir(next, { recursive: true });
  const mail = (login: string, index: number): string => `${login}@${index === nth % users ? nth : 0}.example.com`;
  const { users: all, ...rest } = ordinaryCompany(users, { mail });
  const newcomer = ["newcomer", "newcomer", "Grace Hopper", "newcomer@example.com"] as const;
  await writeCompany(next, { ...rest, users: Math.floor(nth / 10) % 2 === 1 ? [...all, newcomer] : all });
  // What is not changed stays as it is. Whoever reads the file meanwhile has one that is whole.
  for (const name of await readdir(next))
    if (name === "users.csv" || nth === 0) await rename(join(next, name), join(folder, name));
}

async function connect(child: ChildProcess, folder: string): Promise<Connection> {
  while (child.exitCode === null && child.signalCode === null) {
    const presence = await readDaemonPresence(join(folder, "data")).catch(() => undefined);
    if (presence?.pid === child.pid && presence !== undefined) return new Connection(presence, "bench");
    await sleep(20);
  }
  throw new Error("the process did not start");
}

async function lookAt(
  child: ChildProcess,
  folder: string,
): Promise<Omit<Sample, "piece" | "runs" | "milliseconds" | "cpu">> {
  child.send("look");
  const [inside] = (await once(child, "message")) as [Inside];
  let [resident, handles, threads] = [0, 0, 0];
  for (const pid of await withChildren(child.pid ?? 0)) {
    const status = await readFile(`/proc/${pid}/status`, "utf8");
    const line = (what: string): number => Number(new RegExp(`^${what}:\\s+(\\d+)`, "m").exec(status)?.[1]);
    resident += line("VmRSS") * 1024;
    threads += line("Threads");
    handles += (await readdir(`/proc/${pid}/fd`)).length;
  }
  const parts: Record<string, number> = {};
  let files = 0;
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const part = path
      .slice(folder.length + 1)
      .split("/")
      .slice(0, 2)
      .join("/");
    const { size } = await stat(path).catch(() => ({ size: 0 }));
    parts[part] = (parts[part] ?? 0) + size;
    files++;
  }
  const size = Object.values(parts).reduce((sum, each) => sum + each, 0);
  return { ...inside, resident, handles, threads, files, folder: size, parts };
}

/** `rollcall runs`, the middle of some. */
async function timeCommand(config: string, rounds: number): Promise<Life["command"]> {
  const all: { milliseconds: number; cpu: number }[] = [];
  for (let times = 0; times < rounds; times++) {
    const [began, before] = [performance.now(), (await cpuTimes("self")).ended];
    const child = spawn(process.execPath, [rollcall, "runs", "--config", config], {
      stdio: ["ignore", "ignore", "inherit"],
    });
    const [code] = (await once(child, "exit")) as [number | null];
    if (code !== 0) throw new Error(`rollcall runs has ended with ${code}`);
    all.push({ milliseconds: performance.now() - began, cpu: (await cpuTimes("self")).ended - before });
  }
  return { milliseconds: median(all.map((each) => each.milliseconds)), cpu: median(all.map(({ cpu }) => cpu)) };
}

/** What a run adds: of the lines through every two samples of one process, the slope of the one in the middle (Theil and Sen). */
function slopeOf(samples: readonly Sample[], of: (sample: Sample) => number): number {
  const slopes = samples.flatMap((from, at) =>
    samples
      .slice(at + 1)
      .filter(({ piece }) => piece === from.piece)
      .map((to) => (of(to) - of(from)) / (to.runs - from.runs)),
  );
  return slopes.length === 0 ? 0 : median(slopes);
}

/** The same figure of the first and of the last fifth of samples. */
function ends(samples: readonly Sample[], of: (sample: Sample) => number): { first: number; last: number } {
  const some = Math.ceil(samples.length / 5);
  return { first: median(samples.slice(0, some).map(of)), last: median(samples.slice(-some).map(of)) };
}

/** What JavaScript's objects take, with their buffers. */
function objects({ heap, code, external }: Sample): number {
  return heap - code + external;
}

/** The data folder without logs: that of decisions is never shortened, that of DuckDB is emptied at 16 MiB. */
function bounded(sample: Sample): number {
  return sample.folder - auditLog(sample) - sizeOf(sample, (part) => part.endsWith(".wal"));
}

function auditLog(sample: Sample): number {
  return sizeOf(sample, (part) => part.startsWith("daemon/audit"));
}

function sizeOf({ parts }: Sample, isCounted: (part: string) => boolean): number {
  return Object.entries(parts).reduce((sum, [part, size]) => sum + (isCounted(part) ? size : 0), 0);
}

/** The samples of each process once it has settled; of a short piece, those of its second half. */
function settledSamples({ samples }: Life): readonly Sample[] {
  let before = 0;
  return [...Map.groupBy(samples, ({ piece }) => piece).values()].flatMap((piece) => {
    const last = piece.at(-1)?.runs ?? 0;
    const from = before + Math.min(settled, (last - before) / 2);
    before = last;
    return piece.filter(({ runs }) => runs >= from);
  });
}

function rowOfSample({ runs, resident, heap, handles, files, folder, milliseconds, cpu }: Sample): string {
  return (
    `${runs} runs, ${mebibytes(resident)} (heap ${mebibytes(heap)}), ${handles} handles, ${files} files of ${mebibytes(folder)}, ` +
    `${Math.round(milliseconds)} ms (CPU ${Math.round(cpu)} ms)`
  );
}

const header = [
  "a process that runs",
  "outcomes",
  "hours",
  "a run's CPU time, first → last",
  "memory",
  "a run more",
  "of it objects, code",
  "handles",
  "files",
  "data folder without logs",
  "audit log, a run",
  "event loop p99",
  "`rollcall runs` (CPU)",
];

function rowOf(life: Life): string[] {
  const samples = settledSamples(life);
  const arrow = (of: (sample: Sample) => number, show: (value: number) => string): string => {
    const { first, last } = ends(samples, of);
    return `${show(first)} → ${show(last)}`;
  };
  const slope = (of: (sample: Sample) => number): string => `${Math.round(slopeOf(samples, of))} bytes`;
  const milliseconds = (value: number): string => `${Math.round(value)} ms`;
  return [
    life.name,
    Object.entries(life.outcomes)
      .map(([what, count]) => `${count.toLocaleString("en")} ${what}`)
      .join(", "),
    (life.seconds / 3600).toFixed(2),
    arrow(({ cpu }) => cpu, milliseconds),
    arrow(({ resident }) => resident, mebibytes),
    slope(({ resident }) => resident),
    `${slope(objects)}, ${slope(({ code }) => code)}`,
    arrow(({ handles }) => handles, String),
    arrow(({ files }) => files, String),
    arrow(bounded, mebibytes),
    slope(auditLog),
    milliseconds(median(samples.map(({ eventLoop }) => eventLoop.p99))),
    `${milliseconds(life.command.milliseconds)} (${milliseconds(life.command.cpu)})`,
  ];
}

/** The goals of a process that lives for years: nothing of it grows with the number of its runs. */
function figuresOf(life: Life): Figure[] {
  const { name, command } = life;
  const samples = settledSamples(life);
  const what = `${name}, ${(life.samples.at(-1)?.runs ?? 0).toLocaleString("en")} runs`;
  const grows = (of: (sample: Sample) => number, { goal, ...rest }: Pick<Figure, "what" | "unit" | "goal">): Figure => {
    const { first, last } = ends(samples, of);
    return { ...rest, value: last, limit: { by: "earlier", value: first }, goal };
  };
  const memory = slopeOf(samples, ({ resident }) => resident);
  return [
    { what: `${what}: memory that a run adds`, value: memory, unit: "bytes a run", goal: 1024 },
    { what: `${what}: of it, in objects`, value: slopeOf(samples, objects), unit: "bytes a run", goal: 256 },
    grows(({ resident }) => resident, { what: `${what}: memory`, unit: "bytes", goal: undefined }),
    grows(({ handles }) => handles, { what: `${what}: open files and sockets`, unit: "count", goal: 1 }),
    grows(({ files }) => files, { what: `${what}: files in the data folder`, unit: "count", goal: 1 }),
    grows(bounded, { what: `${what}: data folder without logs`, unit: "bytes", goal: 1.1 }),
    grows(({ cpu }) => cpu, { what: `${what}: processor time of a run`, unit: "ms", goal: 1.1 }),
    { what: `${what}: event loop p99`, value: median(samples.map((each) => each.eventLoop.p99)), unit: "ms", goal: 50 },
    {
      what: `${what}: \`rollcall runs\` at the end`,
      value: command.milliseconds,
      unit: "ms",
      goal: 200,
      cpu: command.cpu,
    },
  ];
}

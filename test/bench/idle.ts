import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, open, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { megabytes } from "./at-rest.ts";
import { machine, median, seconds, table, wholeNumber } from "./measure.ts";
import type { Figure } from "./results.ts";

const pathOf = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));

/** One process with nothing to do: memory in bytes. */
interface Rest {
  readonly resident: number;
  /** The part of it that is pages of files (the programs of Node and DuckDB), which other processes share. */
  readonly ofFiles: number;
  /** Processor time of an hour, extrapolated, in milliseconds. */
  readonly hour: number;
}

interface Kind {
  /** Node's arguments. @param config the configuration's path */
  readonly command: (config: string) => readonly string[];
  /** Those of another process that it needs. */
  readonly beside?: Kind["command"];
  /** A run is asked for once it is ready. */
  readonly runs?: boolean;
}

const bareName = "Node with DuckDB";

/** What must be there whatever Rollcall does: Node with an instance of DuckDB. It says when it is ready. */
const bare = `
  const { DuckDBInstance } = await import("@duckdb/node-api");
  const connection = await (await DuckDBInstance.create(":memory:")).connect();
  await connection.run("SELECT 1");
  console.log("is ready");
  setInterval(() => connection, 2 ** 30);`;

const program = (config: string): string[] => [pathOf("../../bin/rollcall.js"), "start", "--config", config];
const service = (config: string): string[] => [...program(config), "--only", "service"];
const daemon: Kind = { command: (config) => [...program(config), "--only", "daemon"], beside: service };

const kinds: Readonly<Record<string, Kind>> = {
  "service and daemon": { command: program },
  "service and daemon, after a run": { command: program, runs: true },
  "service alone": { command: service },
  "daemon alone": daemon,
  "daemon alone, after a run": { ...daemon, runs: true },
  [bareName]: { command: () => ["--input-type=module", "--eval", bare] },
};

/**
 * `npm run bench -- idle [--rounds 5] [--settle 180] [--watch 60] [--brief]`: a process that has synced the sample company and has
 * nothing to do, as it is after a start and after a run, beside a bare Node with DuckDB. Starts are timed one after the other; then
 * all of them rest at the same time, each with a data folder of its own. Times of settling and watching are in seconds: V8 gives
 * back what a start has taken after 100 s. A slot of the sample's schedule (every quarter of an hour) that falls into the watched
 * time spoils it. `--brief`: no round before the first, and only the whole program and the bare Node. Linux only.
 */
export async function idle(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: "string", default: "5" },
      settle: { type: "string", default: "180" },
      watch: { type: "string", default: "60" },
      brief: { type: "boolean", default: false },
    },
  });
  const [rounds, settle, watch] = [values.rounds, values.settle, values.watch].map(wholeNumber) as [
    number,
    number,
    number,
  ];
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-"));
  try {
    const first = join(folder, "first");
    await cp(pathOf("../../config"), first, { recursive: true });
    const config = join(first, "rollcall.yaml");
    const shipped = await readFile(config, "utf8");
    await writeFile(config, shipped.replace("127.0.0.1:8442", "127.0.0.1:0").replace("data: ../data", "data: data"));
    const all = Object.entries(kinds);
    const chosen = values.brief ? [...all.slice(0, 1), ...all.slice(-1)] : all;
    const starts: Record<string, number[]> = {};
    // The first start makes the data folder and the cache of compiled files.
    for (let round = values.brief ? 1 : 0; round <= rounds; round++) {
      for (const [name, kind] of chosen) {
        await using started = await start(first, kind);
        if (round > 0) (starts[name] ??= []).push(started.ready);
        // Its first run has time to end.
        await sleep(2000);
      }
    }
    const rests = await Promise.all(
      chosen.map(async ([name, kind], index) => {
        const own = join(folder, String(index));
        await cp(first, own, { recursive: true });
        return { name, ready: median(starts[name] ?? []), ...(await rest(own, kind, { settle, watch })) };
      }),
    );
    const rows = rests.map(({ name, ready, resident, ofFiles, hour }) => [
      name,
      seconds(ready),
      megabytes(resident),
      megabytes(ofFiles),
      seconds(hour),
    ]);
    console.log(`${machine()}.\n`);
    console.log(
      table(
        ["nothing to do", "start to ready", "resident memory", "of it, pages of files", "processor time an hour"],
        rows,
      ),
    );
    console.log(`Starts are medians of ${rounds}; the hour is extrapolated from ${watch} s.`);
    const limit = { by: bareName, value: rests.find(({ name }) => name === bareName)?.resident ?? Number.NaN };
    return rests.flatMap(({ name, ready, resident, hour }): Figure[] => {
      const isBare = name === bareName;
      const goal = isBare ? undefined : name.startsWith("daemon alone") ? 700 : 1000;
      return [
        { what: `${name}: start to ready`, value: ready, unit: "ms", goal },
        { what: `${name}: processor time of an hour at rest`, value: hour, unit: "ms" },
        { what: `${name}: memory at rest`, value: resident, unit: "bytes", ...(isBare ? {} : { limit, goal: 1.5 }) },
      ];
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function rest(
  folder: string,
  kind: Kind,
  { settle, watch }: { readonly settle: number; readonly watch: number },
): Promise<Rest> {
  await using started = await start(folder, kind);
  const { pid } = started.child;
  if (kind.runs === true) started.child.kill("SIGUSR1");
  await sleep(settle * 1000);
  const before = await cpuTime(pid);
  await sleep(watch * 1000);
  const hour = (((await cpuTime(pid)) - before) * 3600) / watch;
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const line = (what: string): number => Number(new RegExp(`^${what}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]) * 1024;
  return { hour, resident: line("VmRSS"), ofFiles: line("RssFile") };
}

interface Started extends AsyncDisposable {
  readonly child: ChildProcess;
  /** How long it took to be ready, in milliseconds. */
  readonly ready: number;
}

/** Starts a process, and before it the one that it needs, which ends after it. */
async function start(folder: string, { command, beside }: Kind): Promise<Started> {
  const config = join(folder, "rollcall.yaml");
  await using opening = new AsyncDisposableStack();
  if (beside !== undefined) opening.use(await startProcess(join(folder, "log beside"), beside(config)));
  const { child, ready } = opening.use(await startProcess(join(folder, "log"), command(config)));
  const opened = opening.move();
  return { child, ready, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

async function startProcess(file: string, command: readonly string[]): Promise<Started> {
  await rm(file, { force: true });
  await using log = await open(file, "a");
  const started = performance.now();
  const child = spawn(process.execPath, command, {
    cwd: pathOf("../.."),
    stdio: ["ignore", log.fd, log.fd],
  });
  const ended = once(child, "exit");
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM");
    await ended;
  };
  try {
    return { child, ready: await isReady(file, started), [Symbol.asyncDispose]: stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Waits until the process says that it is ready, and the service answers so. */
async function isReady(file: string, started: number): Promise<number> {
  for (;;) {
    const text = await readFile(file, "utf8");
    const url = /the (?:service|daemon) is listening on (http:[^"\s]+)/.exec(text)?.[1];
    if (text.includes("is ready")) return performance.now() - started;
    if (url !== undefined && (await fetch(`${url}/readyz`)).ok) return performance.now() - started;
    if (performance.now() - started > 60_000) throw new Error(text);
    await sleep(10);
  }
}

/** In milliseconds; the kernel counts in hundredths of a second. */
async function cpuTime(pid: number | undefined): Promise<number> {
  const [, fields = ""] = (await readFile(`/proc/${pid}/stat`, "utf8")).split(") ");
  const [user, system] = fields.split(" ").slice(11, 13).map(Number);
  return ((user ?? 0) + (system ?? 0)) * 10;
}

import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, open, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { machine, median, mebibytes, seconds, table, wholeNumber } from "./measure.ts";

const pathOf = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));

/** One process with nothing to do: times in milliseconds, memory in bytes. */
interface Rest {
  readonly ready: number;
  readonly resident: number;
  /** Processor time of an hour, extrapolated. */
  readonly hour: number;
}

/** What must be there whatever Rollcall does: Node with an instance of DuckDB. It says when it is ready. */
const bare = `
  const { DuckDBInstance } = await import("@duckdb/node-api");
  const connection = await (await DuckDBInstance.create(":memory:")).connect();
  await connection.run("SELECT 1");
  console.log("is ready");
  setInterval(() => connection, 2 ** 30);`;

/**
 * `npm run bench -- idle [--rounds 5] [--settle 10] [--watch 60]`: a process that has synced the sample company and has
 * nothing to do, beside a bare Node with DuckDB. Times of settling and watching are in seconds. Linux only.
 */
export async function idle(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: "string", default: "5" },
      settle: { type: "string", default: "10" },
      watch: { type: "string", default: "60" },
    },
  });
  const [rounds, settle, watch] = [values.rounds, values.settle, values.watch].map(wholeNumber) as [
    number,
    number,
    number,
  ];
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-"));
  try {
    await cp(pathOf("../../config"), folder, { recursive: true });
    const config = join(folder, "rollcall.yaml");
    const shipped = await readFile(config, "utf8");
    await writeFile(config, shipped.replace("127.0.0.1:8442", "127.0.0.1:0").replace("data: ../data", "data: data"));
    const program = ["--max-semi-space-size=2", pathOf("../../bin/rollcall.js"), "start", "--config", config];
    const kinds: Record<string, readonly string[]> = {
      "service and daemon": program,
      "service alone": [...program, "--only", "service"],
      "Node with DuckDB": ["--input-type=module", "--eval", bare],
    };
    const rests: Record<string, Rest[]> = {};
    // The first start makes the data folder and the cache of compiled files.
    for (let round = 0; round <= rounds; round++) {
      for (const [kind, command] of Object.entries(kinds)) {
        const last = round === rounds;
        const rest = await measure(folder, command, { settle: last ? settle : 2, watch: last ? watch : 1 });
        if (round > 0) (rests[kind] ??= []).push(rest);
      }
    }
    const rows = Object.entries(rests).map(([kind, all]) => {
      const { resident, hour } = all.at(-1) ?? { resident: 0, hour: 0 };
      return [kind, seconds(median(all.map(({ ready }) => ready))), mebibytes(resident), seconds(hour)];
    });
    console.log(`${machine()}.\n`);
    console.log(table(["nothing to do", "start to ready", "resident memory", "processor time an hour"], rows));
    console.log(`Starts are medians of ${rounds}; the hour is extrapolated from ${watch} s.`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function measure(
  folder: string,
  command: readonly string[],
  { settle, watch }: { readonly settle: number; readonly watch: number },
): Promise<Rest> {
  const file = join(folder, "log");
  await rm(file, { force: true });
  await using log = await open(file, "a");
  const started = performance.now();
  const child = spawn(process.execPath, command, {
    cwd: pathOf("../.."),
    stdio: ["ignore", log.fd, log.fd],
    env: { ...process.env, MALLOC_MMAP_THRESHOLD_: "1048576" },
  });
  const ended = once(child, "exit");
  try {
    const ready = await isReady(file, started);
    await sleep(settle * 1000);
    const before = await cpuTime(child.pid);
    await sleep(watch * 1000);
    const hour = (((await cpuTime(child.pid)) - before) * 3600) / watch;
    const status = await readFile(`/proc/${child.pid}/status`, "utf8");
    return { ready, hour, resident: Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024 };
  } finally {
    child.kill("SIGTERM");
    await ended;
  }
}

/** Waits until the process says that it is ready, and the service answers so. */
async function isReady(file: string, started: number): Promise<number> {
  for (;;) {
    const text = await readFile(file, "utf8");
    const url = /the service is listening on (http:[^"\s]+)/.exec(text)?.[1];
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

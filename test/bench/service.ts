import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { open, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Client } from "undici";
import { healthRoutes } from "#wire/routes.ts";
import type { Delays } from "./event-loop.ts";
import { cpuOfAll, withChildren } from "./measure.ts";

/** The service as a process of its own, as `rollcall start --only service` runs it, or with the daemon. */
export interface BenchService {
  readonly url: string;
  /** The cookie value of a session of the administrator. */
  readonly session: string;
  /** Does some work and says what it cost the process meanwhile. */
  watch<Result>(work: () => Promise<Result>): Promise<{ result: Result; cost: Cost }>;
  stop(): Promise<void>;
}

/** What some work cost. */
export interface Cost {
  /** The time of all processors together, in milliseconds. */
  readonly cpu: number;
  /** The peak of the resident memory, in bytes. */
  readonly memory: number;
  readonly eventLoop: Delays;
  /** How long `GET /healthz` took from outside, once every 10 ms, in milliseconds. */
  readonly health: Delays;
}

const pathOf = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));

export const administrator = { name: "admin", password: "a-password-for-a-bench" };

/**
 * Starts the service on the data folder `data` below `folder`. Its log is `service.log` there.
 * @param options.settings further keys of `service:`
 * @param options.daemon the keys of the configuration beside `service:`, where the daemon is to run with it
 */
export async function startService(
  folder: string,
  options: {
    memory: number;
    settings?: Readonly<Record<string, unknown>>;
    daemon?: Readonly<Record<string, unknown>>;
  },
): Promise<BenchService> {
  const config = join(folder, "rollcall.yaml");
  const service = {
    listen: "127.0.0.1:0",
    data: "data",
    memory: `${options.memory / 1024 ** 2}MiB`,
    administrator,
    ...options.settings,
  };
  // JSON is YAML.
  await writeFile(config, JSON.stringify({ service, ...options.daemon }));
  await using log = await open(join(folder, "service.log"), "a");
  const only = options.daemon === undefined ? ["--only", "service"] : [];
  const child = fork(pathOf("../../bin/rollcall.js"), ["start", ...only, "--config", config], {
    execArgv: [...process.execArgv, "--import", pathOf("event-loop.ts")],
    stdio: ["ignore", log.fd, log.fd, "ipc"],
  });
  const ended = once(child, "exit");
  const presence = await present(join(folder, "data", "service.json"), child).catch(async (error: unknown) => {
    throw new Error(await readFile(join(folder, "service.log"), "utf8"), { cause: error });
  });
  const delays = async (): Promise<Delays> => {
    child.send("delays");
    const [answer] = (await once(child, "message")) as [Delays];
    return answer;
  };
  return {
    ...presence,
    watch: async (work) => {
      for (const pid of await withChildren(child.pid ?? 0)) await writeFile(`/proc/${pid}/clear_refs`, "5");
      await delays();
      const before = await cpuOfAll(child.pid ?? 0);
      const probing = probe(presence.url);
      try {
        const result = await work();
        const health = await probing.end();
        const cpu = (await cpuOfAll(child.pid ?? 0)) - before;
        return { result, cost: { cpu, memory: await peak(child.pid ?? 0), eventLoop: await delays(), health } };
      } finally {
        await probing.end();
      }
    },
    stop: async () => {
      child.kill("SIGTERM");
      await ended;
    },
  };
}

/** Where the service of this process is, once it says so. */
async function present(file: string, child: ChildProcess): Promise<{ url: string; session: string }> {
  while (child.exitCode === null && child.signalCode === null) {
    const text = await readFile(file, "utf8").catch(() => "{}");
    const presence = JSON.parse(text) as { pid?: number; url?: string; session?: string };
    const { url, session } = presence;
    if (presence.pid === child.pid && url !== undefined && session !== undefined) return { url, session };
    await sleep(20);
  }
  throw new Error("the service did not start");
}

/** The highest resident memory since `clear_refs`, of both processes, in bytes. */
async function peak(pid: number): Promise<number> {
  let sum = 0;
  for (const each of await withChildren(pid)) {
    const [, kibibytes] = /^VmHWM:\s+(\d+) kB$/m.exec(await readFile(`/proc/${each}/status`, "utf8")) ?? [];
    sum += Number(kibibytes) * 1024;
  }
  return sum;
}

/** Asks for the service's health, one request after the other, until `end`. */
function probe(url: string): { end(): Promise<Delays> } {
  const client = new Client(url, { headersTimeout: 0 });
  const times: number[] = [];
  const over = new AbortController();
  const probing = (async () => {
    while (!over.signal.aborted) {
      const started = performance.now();
      const { body } = await client.request(healthRoutes.alive);
      await body.dump();
      times.push(performance.now() - started);
      await sleep(10);
    }
    await client.close();
    times.sort((a, b) => a - b);
    return { p99: times[Math.floor(times.length * 0.99)] ?? 0, max: times.at(-1) ?? 0 };
  })();
  return {
    end: () => {
      over.abort();
      return probing;
    },
  };
}

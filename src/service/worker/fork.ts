import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { getCompileCacheDir } from "node:module";
import { fileURLToPath } from "node:url";
import { yieldProcessors } from "#priority.ts";

/** A process that is to hold the databases. It loads its libraries, and waits to be told what to open. */
export interface Forked {
  readonly child: ChildProcess;
  /** Resolves when it has ended, or could not be started. */
  readonly ended: Promise<Ending>;
}

/** How a process ended, for a message: `SIGKILL, out of memory`. */
export interface Ending {
  readonly how: string;
  readonly cause?: unknown;
}

/** How much of the end of what it writes to standard error is kept, in characters. */
const keptOutput = 2_000;

/** What it gets of the environment, which may hold the service's secrets. */
const environment = ["PATH", "HOME", "TMPDIR", "TZ", "LANG", "LC_ALL", "LD_LIBRARY_PATH"];
/** What its connections to PostgreSQL need besides, as those of the main process do. */
const connecting = ["PGPASSWORD", "PGPASSFILE", "NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA"];

/** Its DuckDB calls must not wait for each other: there are up to three queries, two loads, and their files. */
const threads = "12";

/**
 * Logins, session checks, lists and syncs go before loads and queries. At 5, a load beside fifty clients takes twice as long
 * as at 0; at 2, equally long.
 */
const niceness = 2;

/** Starts the process. */
export function forkWorker(): Forked {
  const kept = Object.fromEntries([...environment, ...connecting].map((name) => [name, process.env[name]]));
  const child = fork(fileURLToPath(import.meta.resolve("#service/worker/main.ts")), [], {
    env: {
      ...kept,
      NODE_COMPILE_CACHE: getCompileCacheDir() ?? process.env["NODE_COMPILE_CACHE"],
      UV_THREADPOOL_SIZE: threads,
      // With an arena for each thread, the allocator keeps twice as much of what large results took.
      MALLOC_ARENA_MAX: "2",
    },
    // DuckDB gives memory of results free when JavaScript collects its garbage, of which there is little.
    execArgv: ["--expose-gc"],
    serialization: "advanced",
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  // At once: its threads inherit it.
  if (child.pid !== undefined) yieldProcessors(niceness, child.pid);
  let output = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    output = (output + text).slice(-keptOutput);
  });
  const { promise: ended, resolve } = Promise.withResolvers<Ending>();
  child.once("error", (cause) => {
    resolve({ how: cause.message, cause });
  });
  child.once("close", (code, signal) => {
    resolve({ how: [signal ?? `code ${String(code)}`, output.trim()].filter((part) => part !== "").join(", ") });
  });
  return { child, ended };
}

import { spawn } from "node:child_process";
import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { fileURLToPath } from "node:url";

const main = fileURLToPath(new URL("../../../bin/rollcall.js", import.meta.url));

/** How a command ended, and everything it wrote. */
export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command running as a process of its own. */
export interface Running {
  readonly process: ChildProcessWithoutNullStreams;
  readonly ended: Promise<Ended>;
  /** What it has written so far. */
  output(): string;
  /** Resolves once standard output or standard error contains the text; rejects if the process ends without it. */
  wrote(text: string | RegExp): Promise<void>;
}

/** Starts `rollcall` with these arguments. */
export function startRollcall(
  args: readonly string[],
  options: {
    cwd?: string;
    env?: NodeJS.ProcessEnv;
    /** Its standard input; null: the test writes it. Default: empty. */
    stdin?: string | Buffer | null;
    /** Commands of the shell that come before it: `ulimit -n 256`, `umask 0`. */
    shell?: string | undefined;
  } = {},
): Running {
  const call = [process.execPath, main, ...args];
  const { shell } = options;
  const [file = "", ...rest] = shell === undefined ? call : ["sh", "-c", `${shell} && exec "$@"`, "sh", ...call];
  const child = spawn(file, rest, {
    cwd: options.cwd,
    env: { ...process.env, NO_COLOR: "1", ROLLCALL_CONFIG: undefined, ...options.env },
  });
  const running = watchOutput(child);
  if (options.stdin !== null) child.stdin.end(options.stdin);
  return running;
}

/** Collects what a process writes, until it ends. */
export function watchOutput(child: ChildProcessWithoutNullStreams): Running {
  // It may end without reading.
  child.stdin.on("error", () => undefined);
  const output = { stdout: "", stderr: "" };
  const waiting = new Set<() => void>();
  for (const stream of ["stdout", "stderr"] as const) {
    child[stream].setEncoding("utf8").on("data", (text: string) => {
      output[stream] += text;
      for (const look of waiting) look();
    });
  }
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => {
      resolve({ code, signal, ...output });
    });
  });
  const holds = (text: string | RegExp): boolean => {
    const all = output.stdout + output.stderr;
    return typeof text === "string" ? all.includes(text) : text.test(all);
  };
  return {
    process: child,
    ended,
    output: () => output.stdout + output.stderr,
    wrote: (text) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (!holds(text)) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        look();
        void ended.then((end) =>
          reject(new Error(`rollcall ended without writing ${String(text)}: ${JSON.stringify(end, undefined, 2)}`)),
        );
      }),
  };
}

/**
 * Ends it as an operator would.
 * @throws {Error} with its output if it fails
 */
export async function stopRollcall({ process, ended }: Running): Promise<Ended> {
  process.kill("SIGTERM");
  const end = await ended;
  if (end.code !== 0) throw new Error(`rollcall did not end well: ${JSON.stringify(end, undefined, 2)}`);
  return end;
}
